// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapserver"
	"loci/lisp"
	"loci/wire"
)

// forwardedTo has an ITR ask the Map-Server for an EID, so many times a second apart, and returns where that was forwarded to.
func forwardedTo(t *testing.T, n *testNetwork, ms *testNode, itr string, times int) (to []string) {
	t.Helper()
	for i := range times {
		ms.sent, ms.sentAt = nil, nil
		b := encapsulated(t, wire.MapRequest{Nonce: uint64(i)}, "10.1.0.9/32", itr)
		ms.inject("192.0.2.100:4342", "192.0.2.200:4342", b)
		for _, p := range ms.sent {
			to = append(to, p.Remote.Addr().String())
		}
		n.now = n.now.Add(time.Second)
	}
	return to
}

// TestWhoIsForwardedTo: a Map-Request goes to an ETR that last registered the EID-Prefix. An ITR that asks again meets the
// next one, even if other ITRs ask in between. An older registration, such as the same xTR's under a former address, is left out.
func TestWhoIsForwardedTo(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	nameless := func(name, address, locator string) {
		c := xtrConfig(1, "192.0.2.100", []string{locator}, "10.1.0.0/16")
		c.XTRID, c.SiteID = [16]byte{}, 0
		n.add(name, c, address)
		n.run(time.Second)
	}
	asker := 0
	expect := func(want ...string) {
		t.Helper()
		asker++
		one, other := netip.AddrFrom4([4]byte{198, 51, 100, byte(asker)}).String(), netip.AddrFrom4([4]byte{203, 0, 113, byte(asker)}).String()
		var got, beside []string
		for range len(want) {
			got = append(got, forwardedTo(t, n, ms, one, 1)...)
			beside = append(beside, forwardedTo(t, n, ms, other, 1)...)
		}
		if !slices.Equal(got, want) || !slices.Equal(beside, want) {
			t.Errorf("Map-Requests of two ITRs go to %v and %v, want %v", got, beside, want)
		}
	}
	nameless("x1", "192.0.2.1", "192.0.2.1")
	expect("192.0.2.1", "192.0.2.1")
	nameless("x1 elsewhere", "192.0.2.11", "192.0.2.11")
	expect("192.0.2.11", "192.0.2.11")
	nameless("its sibling", "192.0.2.12", "192.0.2.11")
	expect("192.0.2.12", "192.0.2.11", "192.0.2.12", "192.0.2.11")
	if len(ms.registered()) != 3 {
		t.Errorf("%d registrations", len(ms.registered()))
	}
}

// TestRepetitionsAreForgotten: after a while, and when an ETR has registered since.
func TestRepetitionsAreForgotten(t *testing.T) {
	n, ms, xtrs := sameSet(t, false, "192.0.2.1", "192.0.2.2")
	n.run(5 * time.Second)
	if got := forwardedTo(t, n, ms, "198.51.100.1", 2); !slices.Equal(got, []string{"192.0.2.2", "192.0.2.1"}) {
		t.Errorf("forwarded to %v", got)
	}
	n.now = n.now.Add(mapserver.AskedAgainWithin)
	if got := forwardedTo(t, n, ms, "198.51.100.1", 1); !slices.Equal(got, []string{"192.0.2.2"}) {
		t.Errorf("forwarded to %v after a while", got)
	}
	c := xtrs[1].config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	etr.Database[0].TTLMinutes = 7
	c.ETR = &etr
	xtrs[1].configure(c)
	n.run(100 * time.Millisecond)
	if got := forwardedTo(t, n, ms, "198.51.100.1", 1); !slices.Equal(got, []string{"192.0.2.2"}) {
		t.Errorf("forwarded to %v after it registered again", got)
	}
}

// TestMapRequestsAvoidWhoIsCutOff: of two ETRs the one whose locator is reachable is asked, also when the other one registered
// last; where neither is, both are.
func TestMapRequestsAvoidWhoIsCutOff(t *testing.T) {
	for _, merge := range []bool{false, true} {
		for _, down := range [][]string{{"192.0.2.1"}, {"192.0.2.2"}, {"192.0.2.1", "192.0.2.2"}} {
			n, ms, xtrs := sameSet(t, merge, "192.0.2.1", "192.0.2.2")
			for _, x := range xtrs {
				c := x.config
				etr := *c.ETR
				etr.Database = slices.Clone(etr.Database)
				for i := range etr.Database {
					set := slices.Clone(etr.Database[i].Locators)
					for j := range set {
						set[j].Reachable = !slices.Contains(down, set[j].RLOC.String())
					}
					etr.Database[i].Locators = lisp.LocatorSet(set)
				}
				c.ETR = &etr
				x.configure(c)
				n.run(time.Second)
			}
			got := forwardedTo(t, n, ms, "198.51.100.1", 4)
			for _, a := range []string{"192.0.2.1", "192.0.2.2"} {
				if asked := slices.Contains(got, a); asked == (slices.Contains(down, a) && len(down) == 1) {
					t.Errorf("merge %v, unreachable %v: forwarded to %v", merge, down, got)
				}
			}
		}
	}
}

// TestSMRAfterAnUnplug: the ETR that is left registers and sends SMRs; the Map-Requests that follow are answered at once.
func TestSMRAfterAnUnplug(t *testing.T) {
	for _, merge := range []bool{false, true} {
		n, _, xtrs := sameSet(t, merge, "192.0.2.1", "192.0.2.2")
		var itrs []*testNode
		for _, a := range []string{"192.0.2.91", "192.0.2.92"} {
			x := n.add(a, xtrConfig(a[len(a)-1], "192.0.2.100", []string{a}), a)
			x.miss("10.9.0.1", "10.1.0.9")
			itrs = append(itrs, x)
		}
		n.run(2 * time.Second)
		n.lose = func(from *testNode, p SendPacket) bool {
			return from == xtrs[0] || p.Remote.Addr().String() == "192.0.2.1"
		}
		c := xtrs[1].config
		etr := *c.ETR
		etr.Database = slices.Clone(etr.Database)
		for i := range etr.Database {
			set := slices.Clone(etr.Database[i].Locators)
			set[0].Reachable = false
			etr.Database[i].Locators = set
		}
		c.ETR = &etr
		xtrs[1].configure(c)
		n.run(5 * time.Second)
		for i, x := range itrs {
			x.wantCounter(counter.MapRequestSent, 3) // of a repeated SMR too: the first answer may be older
			if e := x.cache[lisp.MustParsePrefix("10.1.0.0/16")]; len(e.Mapping.Locators) != 2 || e.Mapping.Locators[0].Reachable {
				t.Errorf("merge %v: ITR %d has %s", merge, i+1, e.Mapping)
			}
			x.wantCounter(counter.MapResolverWentSilent, 0)
		}
	}
}
