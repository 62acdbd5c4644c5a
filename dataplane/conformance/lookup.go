// SPDX-License-Identifier: Apache-2.0

package conformance

// Which entry a packet finds, seen by where it goes.

import (
	"fmt"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

func longestMatch(b *bench) {
	b.apply(
		b.to("0.0.0.0/0", "192.0.2.2"), b.to("10.2.0.0/16", "192.0.2.3"), b.to("10.2.3.0/24", "2001:db8:ff00::2"), b.to("10.2.3.4/32", "2001:db8:ff00::3"),
		b.to("::/0", "192.0.2.2"), b.to("2001:db8:2::/48", "192.0.2.3"), b.to("2001:db8:2:8000::/49", "2001:db8:ff00::2"),
		b.to("2001:db8:2:8000::1/128", "2001:db8:ff00::3"),
	)
	for destination, rloc := range map[string]string{
		"203.0.113.1": "192.0.2.2", "10.2.200.1": "192.0.2.3", "10.2.3.1": "2001:db8:ff00::2", "10.2.3.4": "2001:db8:ff00::3", "10.2.3.5": "2001:db8:ff00::2",
	} {
		b.expectTo(rloc, from4(destination))
	}
	for destination, rloc := range map[string]string{
		"2001:db8:99::1": "192.0.2.2", "2001:db8:2:1::1": "192.0.2.3", "2001:db8:2:8000::2": "2001:db8:ff00::2", "2001:db8:2:8000::1": "2001:db8:ff00::3",
	} {
		b.expectTo(rloc, from6(destination))
	}
}

// nested are prefixes within each other, one RLOC for each; probes[i] is covered by
// the first i+1 of them.
type nested struct {
	prefixes, probes []string
	packet           func(string) packet
}

var nestedRLOCs = []string{"192.0.2.2", "192.0.2.3", "2001:db8:ff00::2", "2001:db8:ff00::3"}

// Lengths within one octet and across octets: tries treat them differently.
var nestedPrefixes = []nested{
	{[]string{"10.32.0.0/11", "10.32.0.0/14", "10.33.128.0/17", "10.33.130.0/23"}, []string{"10.40.0.1", "10.32.0.1", "10.33.140.1", "10.33.131.1"}, from4},
	{
		[]string{"2001:db8:4000::/35", "2001:db8:4000::/40", "2001:db8:4001::/48", "2001:db8:4001:2::/64"},
		[]string{"2001:db8:5000::1", "2001:db8:4002::1", "2001:db8:4001:1::1", "2001:db8:4001:2::1"}, from6,
	},
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, append(append(append([]int{}, p[:at]...), n-1), p[at:]...))
		}
	}
	return all
}

// prefixesInAllOrders adds overlapping prefixes in every order and takes them away
// in the same, and asks after each step which one decides.
func prefixesInAllOrders(b *bench) {
	for _, n := range nestedPrefixes {
		// Something always covers the probes, so that none of them waits.
		base := negative(n.prefixes[0], lisp.ActionDrop)
		base.Entry.Mapping.Prefix = lisp.MustParsePrefix(map[bool]string{true: "0.0.0.0/0", false: "::/0"}[base.Entry.Mapping.Prefix.EID().Addr().Is4()])
		b.apply(base)
		for _, order := range permutations(len(n.prefixes)) {
			present := map[int]bool{}
			for _, i := range order {
				b.apply(b.to(n.prefixes[i], nestedRLOCs[i]))
				present[i] = true
				b.expectNested(n, present)
			}
			for _, i := range order {
				b.apply(remove(n.prefixes[i]))
				delete(present, i)
				b.expectNested(n, present)
			}
		}
	}
}

// expectNested sends to each probe that an RLOC is due to.
func (b *bench) expectNested(n nested, present map[int]bool) {
	b.Helper()
	for i, probe := range n.probes {
		longest := -1
		for at := range i + 1 {
			if present[at] {
				longest = at
			}
		}
		if longest >= 0 {
			b.expectTo(nestedRLOCs[longest], n.packet(probe))
		}
	}
}

func instancesAreApart(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"), b.to("[7]10.2.0.0/24", "192.0.2.3"), b.database("[7]10.1.0.0/24"), b.to("[7]2001:db8:2::/64", "192.0.2.3"))
	if s := b.expectTo("192.0.2.2", from4("10.2.0.1")); s.instance != 0 {
		b.Errorf("Instance-ID %d, want none", s.instance)
	}
	b.settings(func(s *dataplane.Settings) {
		for i := range s.Interfaces {
			s.Interfaces[i].Instance = 7
		}
	})
	if s := b.expectTo("192.0.2.3", from4("10.2.0.1")); s.instance != 7 {
		b.Errorf("Instance-ID %d, want 7", s.instance)
	}
	// 2001:db8:1::/64 is in the Database of instance 0 alone.
	b.expectNative(from6("2001:db8:2::1"))
}

func familyPairs(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"), b.to("10.3.0.0/24", "2001:db8:ff00::2"), b.to("2001:db8:2::/64", "192.0.2.2"), b.to("2001:db8:3::/64", "2001:db8:ff00::2"))
	for i, p := range []packet{from4("10.2.0.1"), from4("10.3.0.1"), from6("2001:db8:2::1"), from6("2001:db8:3::1")} {
		rloc := []string{"192.0.2.2", "2001:db8:ff00::2"}[i%2]
		s := b.expectTo(rloc, p.numbered(i))
		if from, _ := addresses(s.inner); from != p.from || s.ttl() != 63 || s.octets != len(p.bytes()) {
			b.Errorf("packet %d: from %s with TTL %d and %d octets, want %s, 63, %d", i, from, s.ttl(), s.octets, p.from, len(p.bytes()))
		}
	}
}

func sourceDecides(b *bench) {
	b.apply(b.to("0.0.0.0/0", "192.0.2.2"), b.to("::/0", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1"))
	b.expectNative(from4("10.2.0.1").withSource("10.99.0.1"))
	b.expectNative(from6("2001:db8:2::1").withSource("2001:db8:99::1"))
	b.apply(dataplane.DeleteDatabase{Prefix: lisp.MustParsePrefix(siteDatabase4)})
	b.expectNative(from4("10.2.0.1"))
	b.expectTo("192.0.2.2", from6("2001:db8:2::1"))
	b.apply(b.database(siteDatabase4))
	b.expectTo("192.0.2.2", from4("10.2.0.1"))
}

func deletedMappingMisses(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1"))
	b.drainEvents()
	b.apply(remove("10.2.0.0/24"))
	b.send(from4("10.2.0.1"))
	b.expectMiss("10.2.0.1")
}

// weightsShareFlows sends many flows and demands the shares of RFC 9301 s.5.4.
func weightsShareFlows(b *bench) {
	for _, weights := range [][2]uint8{{10, 15}, {0, 0}, {1, 0}, {200, 50}} {
		b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1, weights[0]), locator("192.0.2.3", 1, weights[1]), locator("2001:db8:ff00::2", 2, 100)))
		first := 0
		for _, rloc := range b.flows() {
			switch rloc {
			case "192.0.2.2":
				first++
			case "192.0.2.3":
			default:
				b.Fatalf("weights %v: a flow takes %s, which has a worse priority", weights, rloc)
			}
		}
		want := flowCount / 2
		if sum := int(weights[0]) + int(weights[1]); sum > 0 {
			want = flowCount * int(weights[0]) / sum
		}
		if off := max(first-want, want-first); off > flowCount/12 || (want == flowCount && off > 0) {
			b.Errorf("weights %v: %d of %d flows take the first, want about %d", weights, first, flowCount, want)
		}
	}
}

const flowCount = 240

// flows sends a packet of each flow and returns the RLOC that each took.
func (b *bench) flows() []string {
	b.Helper()
	took := make([]string, flowCount)
	for i := range took {
		b.send(from4("10.2.0.1").flow(uint16(2000 + i)))
		s := b.receive()
		if port, _ := s.flow(); !s.encapsulated || port != uint16(2000+i) {
			b.Fatalf("%s, want flow %d", s, 2000+i)
		}
		took[i] = s.rloc.String()
	}
	return took
}

func state(rloc string, s dataplane.LocatorState) dataplane.PutLocatorState {
	return dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), State: s}
}

func locatorStateMovesItsFlowsAlone(b *bench) {
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1, 30), locator("192.0.2.3", 1, 30), locator("2001:db8:ff00::2", 1, 30), locator("2001:db8:ff00::3", 2, 1)))
	before := b.flows()
	b.apply(state("192.0.2.3", dataplane.LocatorDown))
	during := b.flows()
	shares := map[string]int{}
	for i := range before {
		switch {
		case during[i] == "192.0.2.3":
			b.Fatalf("flow %d takes a locator that is down", i)
		case before[i] != "192.0.2.3" && during[i] != before[i]:
			b.Fatalf("flow %d moved from %s to %s for another locator's sake", i, before[i], during[i])
		case before[i] == "192.0.2.3":
			shares[during[i]]++
		}
	}
	if shares["192.0.2.2"] == 0 || shares["2001:db8:ff00::2"] == 0 || shares["2001:db8:ff00::3"] > 0 {
		b.Errorf("the lost locator's flows went to %v, want both others of its priority", shares)
	}
	b.apply(state("192.0.2.3", dataplane.LocatorUp))
	for i, rloc := range b.flows() {
		if rloc != before[i] {
			b.Fatalf("flow %d takes %s after all, %s before", i, rloc, before[i])
		}
	}
}

func noLocatorIsUp(b *bench) {
	b.apply(b.mapping("10.2.0.0/24", locator("192.0.2.2", 1, 30), locator("192.0.2.3", 2, 30), locator("2001:db8:ff00::2", lisp.PriorityUnused, 1)))
	b.apply(state("192.0.2.2", dataplane.LocatorDown))
	b.expectTo("192.0.2.3", from4("10.2.0.1"))
	b.apply(state("192.0.2.3", dataplane.LocatorDown))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("no-locator", 1)
	// A state holds for mappings that come later, too.
	b.apply(b.to("10.3.0.0/24", "192.0.2.2"))
	b.send(from4("10.3.0.1"))
	b.eventuallyDropped("no-locator", 2)
	b.apply(state("192.0.2.2", dataplane.LocatorUp))
	b.expectTo("192.0.2.2", from4("10.3.0.1"))
	b.expectTo("192.0.2.2", from4("10.2.0.1"))
}

// unconfirmedLocators: of the states of a set's locators the best decides, before priority
// and weight; a locator that is down is never used.
func unconfirmedLocators(b *bench) {
	const first, second, third = "192.0.2.2", "192.0.2.3", "2001:db8:ff00::2"
	b.apply(b.mapping("10.2.0.0/24", locator(first, 1, 30), locator(second, 2, 30), locator(third, 3, 30)),
		b.mapping("2001:db8:2::/64", locator(first, 1, 30), locator(second, 2, 30), locator(third, 3, 30)))
	to := func(rloc string) {
		b.Helper()
		b.expectTo(rloc, from4("10.2.0.1"))
		b.expectTo(rloc, from6("2001:db8:2::1"))
	}
	for _, step := range []struct {
		rloc  string
		state dataplane.LocatorState
		to    string
	}{
		{first, dataplane.LocatorUnconfirmed, second},
		{second, dataplane.LocatorHeard, third},
		{third, dataplane.LocatorUnconfirmed, second}, // the only one that was heard from
		{second, dataplane.LocatorUnconfirmed, first}, // all are alike: priority decides
		{first, dataplane.LocatorDown, second},
		{third, dataplane.LocatorHeard, third},
		{third, dataplane.LocatorDown, second},
		{first, dataplane.LocatorUp, first},
	} {
		b.apply(state(step.rloc, step.state))
		to(step.to)
	}
	// It holds for mappings that come later, too.
	b.apply(b.mapping("10.3.0.0/24", locator(second, 1, 1), locator(third, 1, 1)))
	b.expectTo(second, from4("10.3.0.1"))
}

func actions(b *bench) {
	for i, c := range []struct {
		action lisp.Action
		reason string
	}{
		{lisp.ActionNoAction, "no-action"}, {lisp.ActionDrop, "action-drop"}, {lisp.ActionDropPolicyDenied, "policy-denied"},
		{lisp.ActionDropAuthFailure, "authentication-failure"},
	} {
		b.apply(negative(fmt.Sprintf("10.2.%d.0/24", i), c.action), negative(fmt.Sprintf("2001:db8:2:%d::/64", i), c.action))
		b.send(from4(fmt.Sprintf("10.2.%d.1", i)), from6(fmt.Sprintf("2001:db8:2:%d::1", i)))
		b.eventuallyDropped(c.reason, 2)
	}
	b.apply(negative("10.3.0.0/24", lisp.ActionNativelyForward))
	b.expectNative(from4("10.3.0.1"))
	b.apply(negative("10.3.0.0/24", lisp.ActionSendMapRequest))
	b.drainEvents()
	b.send(from4("10.3.0.1"))
	b.expectMiss("10.3.0.1")
}
