// SPDX-License-Identifier: Apache-2.0

package control

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

const (
	rtr1, rtr2 = "192.0.2.11", "192.0.2.12"
	pathEID    = "10.2.0.5"
)

var pathPrefix = lisp.MustParsePrefix("10.2.0.0/16")

// relayConfig is a relay that resolves by the test's Map-Resolver.
func relayConfig(role Role, rloc1 string, eids ...string) Config {
	c := Config{LocalRLOCs: []lisp.RLOC{rloc(rloc1)}, ITR: &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}}}
	policy := RolePolicy{Role: role}
	for _, p := range eids {
		policy.EIDs = append(policy.EIDs, netip.MustParsePrefix(p))
	}
	c.Roles = []RolePolicy{policy}
	return c
}

func testPath(bits []lisp.HopBits, hops ...string) lisp.Locator {
	list := make([]lisp.RLOC, len(hops))
	for i, hop := range hops {
		list[i] = rloc(hop)
	}
	p, err := lisp.NewPath(list...)
	if err != nil {
		panic(err)
	}
	l := lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true}
	for i := range list {
		l.Bits[i] = lisp.HopExplicit
		if i < len(bits) {
			l.Bits[i] |= bits[i]
		}
	}
	return l
}

// pathSites are an ITR, two RTRs, and an ETR that registers a path over both.
func pathSites(t *testing.T, bits ...lisp.HopBits) (n *testNetwork, x1, r1, r2, x2 *testNode) {
	t.Helper()
	n, x1, x2, _ = twoSites(t)
	r1 = n.add("r1", relayConfig(RoleRTR, rtr1, "10.0.0.0/8"), rtr1)
	r2 = n.add("r2", relayConfig(RoleRTR, rtr2, "10.0.0.0/8"), rtr2)
	etr := x2.config
	database := *etr.ETR
	database.Database = []DatabaseMapping{{Prefix: pathPrefix, Locators: lisp.LocatorSet{testPath(bits, rtr1, rtr2, "192.0.2.2")}}}
	etr.ETR = &database
	x2.configure(etr)
	itr := x1.config
	probing := *itr.ITR
	probing.RLOCProbing = ProbingConfig{}
	itr.ITR = &probing
	x1.configure(itr)
	n.run(5 * time.Second)
	x1.miss("10.1.0.5", pathEID)
	n.run(3 * time.Second)
	return n, x1, r1, r2, x2
}

func (d *testNode) wantNext(next uint8, state LocatorState) {
	d.net.t.Helper()
	set := d.cache[pathPrefix].Mapping.Locators
	if len(set) != 1 || set[0].Path().Len() != 3 {
		d.net.t.Fatalf("%s has the locators %v; refusals %v", d.name, set, refusals(d))
	}
	told := LocatorUp
	if s, is := d.paths[set[0].Path()]; is {
		told = s
	}
	if set[0].Next != next || told != state {
		d.net.t.Errorf("%s sends to hop %d, the path is %s; want hop %d, %s", d.name, set[0].Next, told, next, state)
	}
}

// wantSkipped compares the hops that are left out of the one path, as `loci explain` gets them.
func (d *testNode) wantSkipped(want ...string) {
	d.net.t.Helper()
	var got []string
	for _, hop := range d.Explain(0, eid(pathEID)).Locators[0].SkippedHops {
		got = append(got, hop.RLOC.String()+" "+string(hop.Reason))
	}
	if !slices.Equal(got, want) {
		d.net.t.Errorf("%s skips %q, want %q", d.name, got, want)
	}
}

// dead loses all control messages of a node.
func (n *testNetwork) dead(node *testNode) {
	n.lose = func(from *testNode, p SendPacket) bool {
		return node != nil && (from == node || slices.Contains(node.addrs, p.Remote.Addr()))
	}
}

// Shows RFC 8060 s.4.6 (6): a registered path is followed hop by hop. A hop that does not answer is skipped, and used again when it does.
func TestPathsAreFollowed(t *testing.T) {
	n, x1, r1, r2, _ := pathSites(t)
	x1.wantNext(0, LocatorUp)
	for _, c := range []struct {
		rtr  *testNode
		next uint8
	}{{r1, 1}, {r2, 2}} {
		c.rtr.miss("10.1.0.5", pathEID)
		n.run(3 * time.Second)
		c.rtr.wantNext(c.next, LocatorUp)
	}
	n.dead(r1)
	n.run(25 * time.Second)
	x1.wantNext(1, LocatorUp)
	if entry := slices.Collect(x1.MapCache()); entry[0].Mapping.Locators[0].Next != 1 {
		t.Errorf("shown: %v", entry[0].Mapping)
	}
	x1.wantSkipped(rtr1 + " probes-unanswered")
	n.dead(nil)
	n.run(2 * time.Minute)
	x1.wantNext(0, LocatorUp)
	x1.wantSkipped()
	r2.wantSkipped()
	if len(x1.states) != 0 {
		t.Errorf("hops have states of their own in the data plane: %v", x1.states)
	}
}

// Shows RFC 8060 s.4.6 (5): a strict hop is not skipped, whether it is the next one or, with the P bit, a later one.
func TestStrictHops(t *testing.T) {
	n, x1, r1, r2, _ := pathSites(t, lisp.HopStrict, lisp.HopStrict|lisp.HopProbe)
	x1.wantNext(0, LocatorUp)
	n.dead(r2)
	n.run(25 * time.Second)
	x1.wantNext(0, LocatorDown)
	e := x1.Explain(0, eid(pathEID))
	if len(e.Locators) != 1 || e.Locators[0].State == nil || e.Locators[0].NotUsable != PathStrictHopDown {
		t.Errorf("explained as %+v", e.Locators)
	}
	n.dead(nil)
	n.run(2 * time.Minute)
	x1.wantNext(0, LocatorUp)
	n.dead(r1)
	n.run(25 * time.Second)
	x1.wantNext(0, LocatorDown)
}

// After a restart packets go on to the hop that they were sent to, until the first one answers again.
func TestPathsAreAdopted(t *testing.T) {
	n, x1, r1, _, _ := pathSites(t)
	n.dead(r1)
	n.run(25 * time.Second)
	x1.wantNext(1, LocatorUp)
	kept := slices.Collect(maps.Values(x1.cache))
	x1.start()
	x1.AdoptMapCache(n.now, kept)
	x1.AdoptLocatorStates(n.now, nil)
	x1.drain()
	x1.wantNext(1, LocatorUp)
	n.dead(nil)
	n.run(2 * time.Minute)
	x1.wantNext(0, LocatorUp)
}

// A path that ends at this router, and one whose hops are all to be looked up, are not used, whatever their priority.
func TestPathsOfNoUse(t *testing.T) {
	n := newNetwork(t)
	c := relayConfig(RoleRTR, rtr1, "10.0.0.0/8")
	lookup := testPath([]lisp.HopBits{lisp.HopLookup, lisp.HopStrict}, "192.0.2.40", "192.0.2.41")
	set, err := lisp.NewLocatorSet(testPath(nil, rtr2, rtr1), testPath([]lisp.HopBits{lisp.HopLookup | lisp.HopStrict}, "192.0.2.30", "192.0.2.31"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	c.ITR.StaticMappings = []lisp.Mapping{{Prefix: pathPrefix, Locators: set}}
	r := n.add("r", c, rtr1)
	n.run(time.Second)
	want := map[string]LocatorReason{"192.0.2.12 -> 192.0.2.11": PathOwnNextHop, "192.0.2.30 -> 192.0.2.31": PathHopNotUsable, "192.0.2.40 -> 192.0.2.41": ""}
	for _, l := range r.Explain(0, eid(pathEID)).Locators {
		reason := want[l.Said.Path().String()]
		if l.NotUsable != reason || (l.Locator.Priority == lisp.PriorityUnused) != (reason != "") {
			t.Errorf("%s: %q, priority %d; want %q", l.Said.Path(), l.NotUsable, l.Locator.Priority, reason)
		}
	}
	if hops := r.Explain(0, eid(pathEID)).Locators[2].SkippedHops; len(hops) != 1 || hops[0].Reason != PathHopLookup {
		t.Errorf("skipped: %v", hops)
	}
	if r.cache[pathPrefix].Mapping.Locators[2].Next != 1 {
		t.Errorf("a hop that is looked up was not skipped: %+v", r.cache[pathPrefix].Mapping.Locators[2])
	}
}

// Shows RFC 6832 s.5.2 (1): a PITR resolves the EIDs that its policy names alone, with the p bit and without a source EID.
func TestProxyITRResolvesItsPolicy(t *testing.T) {
	n := newNetwork(t)
	p := n.add("p", relayConfig(RolePITR, rtr1, "10.2.0.0/16"), rtr1)
	p.miss("203.0.113.5", "10.3.0.5")
	p.wantCounter(counter.RefusedPolicy, 1)
	p.wantCounter(counter.MapRequestSent, 0)
	p.miss("203.0.113.5", pathEID)
	p.wantCounter(counter.MapRequestSent, 1)
	m, err := wire.Parse(n.stray[len(n.stray)-1].Payload)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := wire.Parse(m.(*wire.EncapsulatedControlMessage).Inner.Message)
	request, ok := inner.(*wire.MapRequest)
	if err != nil || !ok || !request.PITR || request.SourceEID != (wire.NoAddress{}) {
		t.Errorf("asks by %+v, %v", request, err)
	}
}

// A path is shown as its next hop is, from the first answer on.
func TestPathsAreUpWhenTheirHopAnswers(t *testing.T) {
	_, x1, _, _, _ := pathSites(t)
	if s := x1.Explain(0, eid(pathEID)).Locators[0].State; s == nil || s.State != LocatorUp || s.Reason != LocatorAnswered {
		t.Errorf("its next hop answered an RLOC-probe, but it is shown as %+v", s)
	}
}

// A path that was down before a restart is used again when its hop answers.
func TestDownPathsAreUsedAgainAfterARestart(t *testing.T) {
	n, x1, r1, _, _ := pathSites(t, lisp.HopStrict)
	n.dead(r1)
	n.run(25 * time.Second)
	x1.wantNext(0, LocatorDown)
	kept, path := slices.Collect(maps.Values(x1.cache)), testPath(nil, rtr1, rtr2, "192.0.2.2")
	n.dead(nil)
	x1.start()
	x1.AdoptMapCache(n.now, kept)
	x1.AdoptLocatorStates(n.now, []SetLocatorState{{RLOC: path.RLOC, Behind: path.Behind, State: LocatorDown}})
	x1.drain()
	x1.wantNext(0, LocatorDown)
	n.run(10 * time.Second)
	x1.wantNext(0, LocatorUp)
}

// What is explained is what packets meet: a strict hop that packets came from lately is sent to until the next probe tells the data
// plane otherwise.
func TestExplainedPathsAreThoseOfTheDataPlane(t *testing.T) {
	n, x1, r1, _, _ := pathSites(t, lisp.HopStrict)
	n.dead(r1)
	n.run(25 * time.Second)
	last := n.now
	x1.heard(rtr1, 0)
	n.run(10 * time.Millisecond)
	x1.wantNext(0, LocatorHeard)
	for n.now.Sub(last) < 3*time.Minute {
		n.run(100 * time.Millisecond)
		x1.HandleHeard(n.now, nil) // something else: the clock goes on
		told := x1.paths[x1.cache[pathPrefix].Mapping.Locators[0].Path()]
		if e := x1.Explain(0, eid(pathEID)).Locators[0]; (e.NotUsable != "") != (told == LocatorDown) {
			t.Fatalf("%s after the hop was heard from the path is %q, but the data plane has it as %s", n.now.Sub(last), e.NotUsable, told)
		}
	}
	x1.wantNext(0, LocatorDown)
}
