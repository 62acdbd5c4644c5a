// SPDX-License-Identifier: Apache-2.0

package answers

// What is said of locators that are paths, and of those that cannot be used.

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
	"loci/wire"
)

// pathLocator is a path with bits.
func pathLocator(t *testing.T, bits []lisp.HopBits, hops ...string) lisp.Locator {
	t.Helper()
	var rlocs []lisp.RLOC
	for _, h := range hops {
		rlocs = append(rlocs, lisp.RLOCFromAddr(netip.MustParseAddr(h)))
	}
	p, err := lisp.NewPath(rlocs...)
	if err != nil {
		t.Fatal(err)
	}
	l := lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true}
	for i := range rlocs {
		l.Bits[i] = lisp.HopExplicit
		if i < len(bits) {
			l.Bits[i] |= bits[i]
		}
	}
	return l
}

// static adds a static mapping of these locators.
func (x *explained) static(prefix string, locators ...lisp.Locator) {
	x.t.Helper()
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		x.t.Fatal(err)
	}
	itr := *x.cfg.ITR
	itr.StaticMappings = append(slices.Clone(itr.StaticMappings), lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: set, TTLMinutes: lisp.TTLUnlimited})
	x.cfg.ITR = &itr
	if err := x.node.Configure(time.Now(), x.cfg); err != nil {
		x.t.Fatal(err)
	}
	x.drain()
}

// TestExplainUnusableLocators: each reason has words of its own, beside the name that counters and JSON have.
func TestExplainLocatorsThatNobodyTakes(t *testing.T) {
	const l, s = lisp.HopLookup, lisp.HopStrict
	own := []string{"203.0.113.8", "192.0.2.1"}
	for name, c := range map[string]struct {
		locators []lisp.Locator
		outcome  api.Outcome
		whyNot   string
		why      string
	}{
		"path that ends here": {[]lisp.Locator{pathLocator(t, nil, own...)}, api.OutcomeNoLocator,
			"no packet can take it: it ends at this router (own-next-hop)", "packets are dropped, and counted as own-next-hop"},
		"own RLOC": {testLocators(t, "192.0.2.1"), api.OutcomeNoLocator,
			"no packet can take it: it ends at this router (own-next-hop)", "packets are dropped, and counted as own-next-hop"},
		"path that ends here, and another": {append(testLocators(t, "203.0.113.1"), pathLocator(t, nil, own...)), api.OutcomeEncapsulate,
			"no packet can take it: it ends at this router (own-next-hop)", "1 of 2 locators take them"},
		"all hops are EIDs": {[]lisp.Locator{pathLocator(t, []lisp.HopBits{l, l}, "203.0.113.8", "203.0.113.9")}, api.OutcomeNoLocator,
			"no packet can take it: every hop is an EID to be looked up (all-hops-lookup)", "packets are dropped, and counted as no-locator"},
		"strict hop of IPv6": {[]lisp.Locator{pathLocator(t, []lisp.HopBits{s}, "2001:db8::8", "203.0.113.9")}, api.OutcomeNoLocator,
			"no packet can take it: a strict hop is of a family without an RLOC of this router", "counted as no-locator"},
		"strict hop is an EID": {[]lisp.Locator{pathLocator(t, []lisp.HopBits{l | s}, "203.0.113.8", "203.0.113.9")}, api.OutcomeNoLocator,
			"packets get one layer (datapath.recursion-depth) (strict-hop-unusable)", "counted as no-locator"},
		"hops of IPv6 alone": {[]lisp.Locator{pathLocator(t, nil, "2001:db8::8", "2001:db8::9")}, api.OutcomeNoLocator,
			"(no-usable-hop)", "counted as no-locator"},
	} {
		x := newExplained(t)
		var addresses []wire.Address
		for _, l := range c.locators {
			addresses = append(addresses, wire.LocatorAddress(&l))
		}
		x.answer("172.16.0.0/16", "10.1.0.1", addresses...)
		e := x.ask("eid=172.16.0.1")
		text := strings.Join(e.Why, "\n")
		if e.Outcome != c.outcome || !strings.Contains(text, c.why) {
			t.Errorf("%s: %s\n%s\nwant %s, %q", name, e.Outcome, text, c.outcome, c.why)
		}
		if !slices.ContainsFunc(e.Locators, func(l api.ExplainedLocator) bool { return strings.Contains(l.WhyNot, c.whyNot) && !l.Used }) {
			t.Errorf("%s: %+v, want %q", name, e.Locators, c.whyNot)
		}
	}
}

// TestExplainStrictHopThatIsDown: the path is down, for a reason that is said in words; JSON has the hops, their bits and the next hop.
func TestExplainStrictHopThatIsDown(t *testing.T) {
	x := newExplained(t)
	x.static("10.6.0.0/16", pathLocator(t, []lisp.HopBits{lisp.HopStrict, lisp.HopProbe}, "203.0.113.8", "203.0.113.9"))
	e := x.ask("eid=10.6.0.1")
	if e.Outcome != api.OutcomeEncapsulate || len(e.Locators) != 1 || !e.Locators[0].Used {
		t.Fatalf("%s, %+v", e.Outcome, e.Locators)
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"explicit_locator_path":[{"rloc":"203.0.113.8","lrs_bits":["strict"]},{"rloc":"203.0.113.9","lrs_bits":["rloc-probe"]}]`, `"next_hop":"203.0.113.8"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	x.plane.Apply(dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.8")), Behind: x.node.Explain(0, e.EID).Told.Locators[0].Behind, State: dataplane.LocatorDown})
	if e := x.ask("eid=10.6.0.1"); e.Outcome != api.OutcomeNoLocator || !strings.Contains(e.Locators[0].WhyNot, "down") {
		t.Errorf("when it is down: %s, %+v", e.Outcome, e.Locators)
	}
}

// TestExplainSkippedHops: which hop packets are sent to, and why not to those before it.
func TestExplainSkippedHops(t *testing.T) {
	x := newExplained(t)
	x.static("10.6.0.0/16", pathLocator(t, []lisp.HopBits{lisp.HopLookup}, "203.0.113.7", "2001:db8::8", "203.0.113.9"))
	e := x.ask("eid=10.6.0.1")
	for _, words := range []string{
		"packets of the path 203.0.113.7(L) -> 2001:db8::8 -> 203.0.113.9 are sent to its hop 203.0.113.9",
		"its hop 203.0.113.7 is skipped: it is an EID to be looked up, and packets get one layer (datapath.recursion-depth)",
		"its hop 2001:db8::8 is skipped: it is of a family without an RLOC of this router",
	} {
		if !slices.Contains(e.Why, words) {
			t.Errorf("no %q in %q", words, e.Why)
		}
	}
	b, err := json.Marshal(e)
	if want := `"skipped_hops":[{"address":"203.0.113.7","reason":"lookup-hop"},{"address":"2001:db8::8","reason":"no-rloc-of-family"}]`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("no %s in %s", want, b)
	}
}

// answer gives the Node a Map-Reply to all Map-Requests that it has sent.
func (x *explained) answer(prefix, source string, addresses ...wire.Address) {
	x.t.Helper()
	source1, _ := lisp.ParseEID(source)
	p := lisp.MustParsePrefix(prefix)
	now := time.Now()
	x.node.HandleMiss(now, control.Miss{Source: source1, Destination: p.EID()})
	record := wire.RecordOf(lisp.Mapping{Prefix: p, TTLMinutes: 10})
	for _, a := range addresses {
		record.Locators = append(record.Locators, wire.LocatorRecord{Priority: 1, Weight: 1, Reachable: true, Address: a})
	}
	var replies [][]byte
	for e, ok := x.node.Poll(); ok; e, ok = x.node.Poll() {
		sent, is := e.(control.SendPacket)
		if !is {
			x.worker.Change(e)
			continue
		}
		m, err := wire.Parse(sent.Payload)
		if ecm, is := m.(*wire.EncapsulatedControlMessage); is && err == nil {
			m, err = wire.Parse(ecm.Inner.Message)
		}
		request, is := m.(*wire.MapRequest)
		if err != nil || !is {
			continue
		}
		b, err := (&wire.MapReply{Nonce: request.Nonce, Records: []wire.Record{record}}).AppendTo(nil)
		if err != nil {
			x.t.Fatal(err)
		}
		replies = append(replies, b)
	}
	for _, b := range replies {
		x.node.HandlePacket(now, netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("203.0.113.100:4342"), b)
	}
	x.drain()
}

// TestExplainSkippedLocators: what a Map-Reply says beside what can be used, in words and in JSON; where nothing is left, packets are dropped
// for that reason and not because the mapping is negative.
func TestExplainSkippedLocators(t *testing.T) {
	x := newExplained(t)
	x.answer("172.16.0.0/16", "10.1.0.1", wire.IPv4{203, 0, 113, 5}, &wire.ExplicitLocatorPathLCAF{})
	e := x.ask("eid=172.16.0.0")
	const words = "locator elp() is skipped: path of 0 hops: want 1 to 8"
	if e.Outcome != api.OutcomeEncapsulate || len(e.Skipped) != 1 || !slices.Contains(e.Why, words) {
		t.Errorf("%s, %+v, %q", e.Outcome, e.Skipped, e.Why)
	}
	b, err := json.Marshal(e)
	if want := `"skipped_locators":[{"address":"elp()","reason":"path of 0 hops: want 1 to 8"}]`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("no %s in %s", want, b)
	}
	x.answer("172.17.0.0/16", "10.1.0.1", wire.DistinguishedName("rtr"))
	e = x.ask("eid=172.17.0.0")
	if text := strings.Join(e.Why, "\n"); e.Outcome != api.OutcomeNoLocator ||
		!strings.Contains(text, "none of its locators can be sent packets to: packets are dropped, and counted as no-action") {
		t.Errorf("with nothing left: %s\n%s", e.Outcome, text)
	}
}

// TestExplainPathsOfOthersAtAnRTR: with nothing else left, relayed packets are dropped as not-on-path. That is said, and the data plane
// counts it; at a router with EIDs of its own, the site's packets take the path.
func TestExplainPathsOfOthersAtAnRTR(t *testing.T) {
	for _, alone := range []bool{true, false} {
		x := newExplained(t)
		if alone {
			x.cfg.ETR = nil
		}
		x.cfg.Roles = []control.RolePolicy{{Role: control.RoleRTR, EIDs: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16")}}}
		s := x.plane.Settings()
		s.Roles = []dataplane.RolePolicy{{Role: dataplane.RoleRTR, EIDs: x.cfg.Roles[0].EIDs}}
		x.plane.Apply(dataplane.SetSettings{Settings: s})
		if err := x.node.Configure(time.Now(), x.cfg); err != nil {
			t.Fatal(err)
		}
		x.drain()
		off := pathLocator(t, nil, "203.0.113.8", "203.0.113.9")
		x.answer("172.16.0.0/16", "203.0.113.77", wire.LocatorAddress(&off))
		e := x.ask("eid=172.16.0.1")
		text := strings.Join(e.Why, "\n")
		const words = "this router does not stand on the path 203.0.113.8 -> 203.0.113.9: packets that it relays are dropped, and counted as not-on-path"
		if !strings.Contains(text, words) || (e.Outcome == api.OutcomeNoLocator) != alone {
			t.Errorf("alone %t: %s\n%s\nwant %q", alone, e.Outcome, text, words)
		}
	}
}

// TestExplainPathsThatAreTold: by what an RTR tells which path a packet is on, and what packets by a path carry.
func TestExplainPathsThatAreTold(t *testing.T) {
	const first, second = "192.0.2.1 -> 203.0.113.8 -> 203.0.113.9", "203.0.113.7 -> 192.0.2.1 -> 203.0.113.6 -> 203.0.113.9"
	for by, words := range map[dataplane.PathIdentification][]string{
		dataplane.PathsUnidentified: {},
		dataplane.PathsNumbered:     {"packets by the path " + first + " carry its number, 1,", "packets by the path " + second + " carry its number, 2,"},
		dataplane.PathsByNumber: {
			"packets by the path " + first + " carry its number, 1,", "packets by the path " + second + " carry its number, 2,",
			"that are relayed take the path " + first + " if they carry its number, 1", "that are relayed take the path " + second + " if they carry its number, 2",
		},
		dataplane.PathsBySource: {
			"that are relayed take the path " + first + " if they come from no hop before this router of another path",
			"that are relayed take the path " + second + " if they come from 203.0.113.7",
		},
	} {
		x := newExplained(t)
		x.cfg.ETR = nil
		x.cfg.Roles = []control.RolePolicy{{Role: control.RoleRTR, EIDs: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16")}}}
		s := x.plane.Settings()
		s.PathIdentification, s.Roles = by, []dataplane.RolePolicy{{Role: dataplane.RoleRTR, EIDs: x.cfg.Roles[0].EIDs}}
		x.plane.Apply(dataplane.SetSettings{Settings: s})
		if err := x.node.Configure(time.Now(), x.cfg); err != nil {
			t.Fatal(err)
		}
		x.drain()
		a, b := pathLocator(t, nil, strings.Split(first, " -> ")...), pathLocator(t, nil, strings.Split(second, " -> ")...)
		x.answer("172.16.0.0/16", "203.0.113.77", wire.LocatorAddress(&a), wire.LocatorAddress(&b))
		text := strings.Join(x.ask("eid=172.16.0.1").Why, "\n")
		for _, want := range words {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", by, want, text)
			}
		}
		if got := strings.Count(text, " its number, ") + strings.Count(text, " if they come from "); got != len(words) {
			t.Errorf("%s: %d sentences, want %d:\n%s", by, got, len(words), text)
		}
	}
}
