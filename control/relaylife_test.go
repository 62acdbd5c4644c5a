// SPDX-License-Identifier: Apache-2.0

package control

// Paths and relays over time: SMRs, withdrawal, refresh, hints, own RLOCs that change, restarts.

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// relayedSites is pathSites in which every router of the path has the mapping.
func relayedSites(t *testing.T, bits ...lisp.HopBits) (n *testNetwork, x1, r1, r2, x2 *testNode) {
	t.Helper()
	n, x1, r1, r2, x2 = pathSites(t, bits...)
	r1.miss("10.1.0.5", pathEID)
	r2.miss("10.1.0.5", pathEID)
	x2.miss("10.2.0.5", "10.1.0.5") // the way back
	n.run(3 * time.Second)
	x1.wantNext(0, LocatorUp)
	r1.wantNext(1, LocatorUp)
	r2.wantNext(2, LocatorUp)
	return n, x1, r1, r2, x2
}

// registers gives a node another locator-set of 10.2.0.0/16, and other RLOCs; the next packets find the mapping at work.
func (d *testNode) registers(set lisp.LocatorSet, own ...string) {
	d.net.t.Helper()
	c := d.config
	etr := *c.ETR
	etr.Database = nil
	if set != nil {
		etr.Database = []DatabaseMapping{{Prefix: pathPrefix, Locators: set}}
	}
	c.ETR = &etr
	if own != nil {
		c.LocalRLOCs = nil
		for _, a := range own {
			c.LocalRLOCs = append(c.LocalRLOCs, rloc(a))
			if at := netip.MustParseAddr(a); !slices.Contains(d.addrs, at) {
				d.addrs = append(d.addrs, at)
			}
		}
	}
	d.configure(c)
}

// pathOf is the path by which a node sends to 10.2.0.5, with the hop.
func (d *testNode) pathOf() (path string, next uint8) {
	if set := d.cache[pathPrefix].Mapping.Locators; len(set) == 1 {
		return set[0].Path().String(), set[0].Next
	}
	return "", 0
}

// TestChangedPathReachesItsRouters: the ETR tells by SMRs, and every router of the old path has the new one in seconds: also the RTRs,
// which only asked for the mapping.
func TestChangedPathReachesItsRouters(t *testing.T) {
	n, x1, r1, r2, x2 := relayedSites(t)
	for _, d := range []*testNode{x1, r1, r2} {
		d.use(pathPrefix.String())
	}
	x2.use("10.1.0.0/16")
	x2.registers(lisp.LocatorSet{testPath(nil, rtr2, "192.0.2.2")})
	n.run(10 * time.Second)
	for _, c := range []struct {
		node *testNode
		next uint8
	}{{x1, 0}, {r1, 0}, {r2, 1}} {
		if path, next := c.node.pathOf(); path != rtr2+" -> 192.0.2.2" || next != c.next {
			t.Errorf("%s sends to hop %d of %s, want hop %d of the new path", c.node.name, next, path, c.next)
		}
		if c.node.counter(counter.SMRReceived) == 0 || c.node.counter(counter.SMRInvokedMapRequestSent) == 0 {
			t.Errorf("%s: %d SMRs, %d Map-Requests for them", c.node.name, c.node.counter(counter.SMRReceived), c.node.counter(counter.SMRInvokedMapRequestSent))
		}
	}
	n.run(time.Minute)
	x1.wantNoRemains("x1", rtr2+" -> 192.0.2.2")
	r2.wantNoRemains("r2", rtr2+" -> 192.0.2.2")
}

// TestWithdrawnPathLeavesNothing: what an ETR gives up leaves the map-caches of ITR and RTRs, with the states of its path.
func TestWithdrawnPathLeavesNothing(t *testing.T) {
	n, x1, r1, r2, x2 := relayedSites(t)
	for _, d := range []*testNode{x1, r1, r2} {
		d.use(pathPrefix.String())
	}
	x2.use("10.1.0.0/16")
	n.dead(r1) // so that a state of the path is told
	n.run(25 * time.Second)
	n.dead(nil)
	x2.registers(nil)
	n.run(time.Minute)
	for _, d := range []*testNode{x1, r1, r2} {
		for _, e := range d.cache {
			if e.Mapping.Prefix.Covers(pathPrefix) && !e.Mapping.Negative() {
				t.Errorf("%s still has %s", d.name, e.Mapping)
			}
		}
	}
	x1.wantNoRemains("x1", "")
	r1.wantNoRemains("r1", "")
}

// TestWithdrawnRecordOfAPath: a Map-Reply of TTL 0 removes the mapping at once (RFC 9301 s.5.4).
func TestWithdrawnRecordOfAPath(t *testing.T) {
	_, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", pathEID)
	path := lisp.Mapping{Prefix: pathPrefix, TTLMinutes: 10, Locators: lisp.LocatorSet{testPath(nil, rtr1, "192.0.2.2")}}
	answerAll(x, path)
	if path, _ := x.pathOf(); path != rtr1+" -> 192.0.2.2" {
		t.Fatalf("path %q", path)
	}
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", solicitation(t, pathPrefix.String(), 3))
	path.TTLMinutes = 0
	answerAll(x, path)
	x.wantNotCached(pathPrefix.String())
	x.wantNoRemains("x", "")
}

// TestPathsAreRefreshed: a path in use is asked for again before its TTL ends, at the ITR and at the RTRs, and packets do not move.
func TestPathsAreRefreshed(t *testing.T) {
	n, x1, r1, r2, x2 := relayedSites(t)
	c := x2.config
	etr := *c.ETR
	etr.Database = []DatabaseMapping{{Prefix: pathPrefix, TTLMinutes: 3, Locators: lisp.LocatorSet{testPath(nil, rtr1, rtr2, "192.0.2.2")}}}
	c.ETR = &etr
	x2.use("10.1.0.0/16")
	x2.configure(c)
	n.run(10 * time.Second)
	for _, d := range []*testNode{x1, r1, r2} { // whose mapping is the long one
		d.inject(d.addrs[0].String()+":4342", "192.0.2.2:4342", solicitation(t, pathPrefix.String(), 3))
	}
	n.run(5 * time.Second)
	nodes := map[*testNode]uint8{x1: 0, r1: 1, r2: 2}
	for range 60 {
		n.run(10 * time.Second)
		for d, next := range nodes {
			d.use(pathPrefix.String())
			d.wantNext(next, LocatorUp)
		}
	}
	for d := range nodes {
		if refreshed := d.counter(counter.MappingRefreshed); refreshed < 3 || refreshed > 8 || d.counter(counter.MappingExpired) != 0 || d.counter(counter.LocatorCameUp) != 0 {
			t.Errorf("%s: refreshed %d times, expired %d times in ten minutes", d.name, refreshed, d.counter(counter.MappingExpired))
		}
		if moves := d.itr.Prober.Table.Paths.Moves; moves != 0 {
			t.Errorf("%s: packets went to another hop %d times", d.name, moves)
		}
	}
}

// TestUnreachableHop: an ICMP message about the next hop is believed where the hop behind it is known to answer, which its P bit
// lets us find out; else it is asked, and nothing moves before the answer is missing.
func TestUnreachableHop(t *testing.T) {
	for _, c := range []struct {
		bits []lisp.HopBits
		next uint8
	}{{nil, 0}, {[]lisp.HopBits{0, lisp.HopProbe}, 1}} {
		n, x1, r1, _, _ := relayedSites(t, c.bits...)
		sent := x1.counter(counter.RLOCProbeSent)
		x1.unreachable(rtr1) // forged: it answers
		n.run(oneWay)
		x1.wantNext(c.next, LocatorUp)
		if n.run(time.Second); x1.counter(counter.RLOCProbeSent) == sent {
			t.Error("the hop is not asked")
		}
		n.run(2 * time.Minute)
		x1.wantNext(0, LocatorUp)
		n.dead(r1)
		x1.unreachable(rtr1)
		n.run(25 * time.Second)
		x1.wantNext(1, LocatorUp)
	}
}

// TestUnreachableStrictHop: a strict hop is not skipped; without another locator nothing that is forged stops packets.
func TestUnreachableStrictHop(t *testing.T) {
	n, x1, _, _, _ := relayedSites(t, lisp.HopStrict, lisp.HopProbe)
	x1.unreachable(rtr1)
	n.run(oneWay)
	x1.wantNext(0, LocatorUp)
}

// TestStatusBitsOfPaths: the bit of a path is the path's: another path by the same hop, and the hop, stay as they are. RFC 9300 s.10:
// packets leave the path until its bit returns.
func TestStatusBitsOfPaths(t *testing.T) {
	n, x1, _, _, x2 := relayedSites(t)
	x2.use("10.1.0.0/16")
	x1.use(pathPrefix.String())
	short, long := testPath(nil, rtr1, "192.0.2.2"), testPath(nil, rtr1, rtr2, "192.0.2.2")
	set, err := lisp.NewLocatorSet(short, long)
	if err != nil {
		t.Fatal(err)
	}
	x2.registers(set)
	n.run(20 * time.Second)
	if len(x1.cache[pathPrefix].Mapping.Locators) != 2 {
		t.Fatalf("mapping %s", x1.cache[pathPrefix].Mapping)
	}
	at := slices.IndexFunc(set, func(l lisp.Locator) bool { return l.Path() == long.Path() })
	x1.bits(0b11&^(1<<at), 32)
	if x1.paths[long.Path()] != LocatorDown || len(x1.paths) != 1 || len(x1.states) != 0 {
		t.Errorf("told %v and %v, want %s down alone", x1.paths, x1.states, long.Path())
	}
	for _, l := range x1.Explain(0, eid(pathEID)).Locators {
		if isLong := l.Said.Path() == long.Path(); (l.State.Reason == LocatorStatusBit) != isLong {
			t.Errorf("%s: %s", l.Said.Path(), l.State.Reason)
		}
	}
	n.run(time.Minute)
	if x1.paths[long.Path()] != LocatorDown {
		t.Error("it came back without its bit")
	}
	x1.bits(0b11, 32)
	if len(x1.paths) != 0 {
		t.Errorf("told %v after the bit returned", x1.paths)
	}
}

// TestAnRTRThatLeavesThePath: an RTR whose RLOC changes is on its path no more, and is sent to as by any other router; when the ETR
// registers the new RLOC, it is on the path again.
func TestAnRTRThatLeavesThePath(t *testing.T) {
	n, x1, r1, _, x2 := relayedSites(t)
	x2.use("10.1.0.0/16")
	const moved = "192.0.2.21"
	c := r1.config
	c.LocalRLOCs = []lisp.RLOC{rloc(moved)}
	r1.addrs = []netip.Addr{netip.MustParseAddr(moved)}
	r1.configure(c)
	n.run(time.Second)
	r1.wantNext(0, LocatorUp)
	n.run(25 * time.Second)
	x1.wantNext(1, LocatorUp) // the old RLOC answers no more
	for _, d := range []*testNode{x1, r1} {
		d.use(pathPrefix.String())
	}
	x2.registers(lisp.LocatorSet{testPath(nil, moved, rtr2, "192.0.2.2")})
	n.run(20 * time.Second)
	r1.wantNext(1, LocatorUp)
	x1.wantNext(0, LocatorUp)
	x1.wantNoRemains("x1", moved+" -> "+rtr2+" -> 192.0.2.2")
}

// TestOwnRLOCsInMappings: a plain RLOC that becomes ours gets no packets and no RLOC-probes beside others; one that is ours no more gets
// them.
func TestOwnRLOCsInMappings(t *testing.T) {
	n := newNetwork(t)
	c := relayConfig(RoleRTR, rtr1, "10.0.0.0/8")
	c.ITR.StaticMappings = []lisp.Mapping{{Prefix: pathPrefix, Locators: locators(rtr1, rtr2, "192.0.2.13")}}
	r := n.add("r", c, rtr1)
	wantLeft := func(own string) {
		t.Helper()
		r.sent = nil
		n.run(3 * time.Minute)
		for _, l := range r.cache[pathPrefix].Mapping.Locators {
			is := l.RLOC.String() == own
			if (l.Priority == lisp.PriorityUnused) != is {
				t.Errorf("own %s: %s has priority %d", own, l.RLOC, l.Priority)
			}
			probed := slices.ContainsFunc(r.sent, func(p SendPacket) bool { return p.Remote.Addr() == l.RLOC.Addr() })
			if probed == is {
				t.Errorf("own %s: %s probed: %t", own, l.RLOC, probed)
			}
		}
		if e := r.Explain(0, eid(pathEID)); slices.ContainsFunc(e.Locators, func(l ExplainedLocator) bool {
			return (l.NotUsable == PathOwnNextHop) != (l.Locator.RLOC.String() == own)
		}) {
			t.Errorf("own %s: explained as %+v", own, e.Locators)
		}
	}
	wantLeft(rtr1)
	for _, own := range []string{rtr2, "192.0.2.99", rtr1} {
		c.LocalRLOCs = []lisp.RLOC{rloc(own)}
		r.addrs = []netip.Addr{netip.MustParseAddr(own)}
		r.configure(c)
		wantLeft(own)
	}
}

// TestPITRAndHoles: a PITR keeps a negative mapping as one that says natively-forward, for its TTL; a site that registers later is
// found when that ends, and a proxy ETR takes such packets where one is configured. Shows RFC 6832
// s.5.2 (1).
func TestPITRAndHoles(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("10.2.0.0/16"), "192.0.2.100")
	p := n.add("p", relayConfig(RolePITR, rtr1, "10.0.0.0/8"), rtr1)
	n.run(serverStart)
	p.miss("198.51.100.1", "10.3.0.5") // of no site
	p.miss("198.51.100.1", pathEID)    // not registered as yet
	n.run(time.Second)
	for e := range p.MapCache() {
		if !e.Mapping.Negative() || e.Mapping.Action != lisp.ActionNativelyForward || e.State != MapCacheNegative {
			t.Errorf("%s is %s", e.Mapping, e.State)
		}
	}
	if len(p.cache) != 2 {
		t.Fatalf("map-cache %v", p.cachedPrefixes())
	}
	x2 := n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/16"), "192.0.2.2")
	n.run(61 * time.Second) // one minute (RFC 9301 s.8.3)
	p.wantNotCached(pathPrefix.String())
	p.miss("198.51.100.1", pathEID)
	n.run(time.Second)
	p.wantCached(pathPrefix.String(), "192.0.2.2")
	for _, m := range sentMessages[*wire.MapRequest](p) {
		if !m.Probe && (!m.PITR || m.SourceEID != (wire.NoAddress{})) {
			t.Errorf("asked by %+v, want the p bit and no source EID", m)
		}
	}
	if got := x2.counter(counter.MapReplySent); got == 0 {
		t.Error("the ETR was not asked")
	}
	p.configure(withProxies(p.config, "203.0.113.1"))
	n.run(time.Second)
	for prefix, e := range p.cache {
		if prefix != pathPrefix && !ByProxyETR(e.Mapping) {
			t.Errorf("the data plane has %s, want the proxy ETR", e.Mapping)
		}
	}
}

// TestEventsNameThePath: what happens to a hop names the path that it is of, and a path whose packets go to another hop is told.
func TestEventsNameThePath(t *testing.T) {
	n, x1, r1, _, _ := relayedSites(t)
	const path = rtr1 + " -> " + rtr2 + " -> 192.0.2.2"
	told := func(kind NoticeKind, rloc, reason, detail string) {
		t.Helper()
		if !slices.ContainsFunc(x1.notices, func(n Notice) bool {
			return n.Kind == kind && n.RLOC == rloc && n.Reason == reason && n.Detail == detail && n.Prefix == pathPrefix
		}) {
			t.Errorf("no %s of %s with %q in %+v", kind, rloc, detail, x1.notices)
		}
		x1.notices = nil
	}
	x1.notices = nil
	n.dead(r1)
	n.run(25 * time.Second)
	notices := x1.notices
	told(NoticeLocatorUnconfirmed, rtr1, "probes-unanswered", "a hop of "+path)
	x1.notices = notices
	told(NoticePathMoved, path, "", "packets go to "+rtr2+", no longer to "+rtr1)
	n.dead(nil)
	n.run(2 * time.Minute)
	notices = x1.notices
	told(NoticeLocatorUp, rtr1, "probe-answered", "a hop of "+path)
	x1.notices = notices
	told(NoticePathMoved, path, "", "packets go to "+rtr1+", no longer to "+rtr2)
}

// TestEventsAboutAHopOfSeveralPaths name one, and how many others there are.
func TestEventsAboutAHopOfSeveralPaths(t *testing.T) {
	n, x := pathLimitsNode(t, Limits{})
	r1 := n.add("r1", relayConfig(RoleRTR, rtr1, "0.0.0.0/0"), rtr1)
	x.installs(3, func(i int) lisp.Locator {
		return testPath(nil, rtr1, "198.18.0.1", "198.18.1.9", "198.18.2."+string(rune('1'+i)))
	})
	n.run(20 * time.Second)
	n.dead(r1)
	x.notices = nil
	n.run(2 * time.Minute)
	if !slices.ContainsFunc(x.notices, func(n Notice) bool {
		return n.Kind == NoticeLocatorUnconfirmed && n.RLOC == rtr1 && n.Reason == "probes-unanswered" && strings.HasPrefix(n.Detail, "a hop of "+rtr1+" -> ") && strings.HasSuffix(n.Detail, " and 2 other paths")
	}) {
		t.Errorf("told %+v", x.notices)
	}
}

// TestAdoptedLocatorsThatWereLeftOut: what kept a locator out before a restart may be gone after it, and the data plane has only its own
// priority: the mapping is asked for again at once.
func TestAdoptedLocatorsThatWereLeftOut(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("10.2.0.0/16"), "192.0.2.100")
	x2 := n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/16"), "192.0.2.2")
	strict := withPriority(testPath([]lisp.HopBits{lisp.HopStrict}, "2001:db8:f::9", "192.0.2.2"), 1)
	n.add("r2", relayConfig(RoleRTR, rtr2, "10.0.0.0/8"), rtr2)
	x2.registers(lisp.LocatorSet{withPriority(testPath(nil, rtr2, "192.0.2.2"), 3), strict})
	x := n.add("x", relayConfig(RolePITR, rtr1, "10.0.0.0/8"), rtr1, "2001:db8:f::11")
	n.run(serverStart)
	x.miss("198.51.100.1", pathEID)
	n.run(time.Second)
	priority := func() uint8 {
		for _, l := range x.cache[pathPrefix].Mapping.Locators {
			if l.Path() == strict.Path() {
				return l.Priority
			}
		}
		t.Fatalf("mapping %s", x.cache[pathPrefix].Mapping)
		return 0
	}
	if got := priority(); got != lisp.PriorityUnused {
		t.Fatalf("without an IPv6 RLOC: priority %d", got)
	}
	kept := slices.Collect(maps.Values(x.cache))
	x.config.LocalRLOCs = append(x.config.LocalRLOCs, rloc("2001:db8:f::11"))
	x.start()
	x.AdoptMapCache(n.now, kept)
	x.AdoptLocatorStates(n.now, nil)
	x.drain()
	n.run(3 * time.Second)
	if got := priority(); got != 1 {
		t.Errorf("priority %d after the restart, want what the site says", got)
	}
	asked := x.counter(counter.MapRequestSent)
	x.start() // nothing was left out: nothing is asked for
	x.AdoptMapCache(n.now, slices.Collect(maps.Values(x.cache)))
	x.drain()
	if got := x.counter(counter.MapRequestSent); asked == 0 || got != 0 {
		t.Errorf("%d Map-Requests at the first restart, %d at the second", asked, got)
	}
}

// TestAnETRThatMovesAtTheEndOfAPath: its new RLOC is the last hop of the path that it registers; ITR and RTRs have it in seconds, and the
// old one is probed no more.
func TestAnETRThatMovesAtTheEndOfAPath(t *testing.T) {
	n, x1, r1, r2, x2 := relayedSites(t)
	for _, d := range []*testNode{x1, r1, r2} {
		d.use(pathPrefix.String())
	}
	x2.use("10.1.0.0/16")
	const moved = "192.0.2.22"
	x2.addrs = []netip.Addr{netip.MustParseAddr(moved), netip.MustParseAddr("2001:db8:f::2")}
	x2.registers(lisp.LocatorSet{testPath(nil, rtr1, rtr2, moved)}, moved)
	n.run(15 * time.Second)
	for d, next := range map[*testNode]uint8{x1: 0, r1: 1, r2: 2} {
		d.wantNext(next, LocatorUp)
		if path, _ := d.pathOf(); path != rtr1+" -> "+rtr2+" -> "+moved {
			t.Errorf("%s sends by %s", d.name, path)
		}
	}
	for _, d := range []*testNode{x1, r1, r2} {
		d.sent = nil
	}
	n.run(3 * time.Minute)
	for _, d := range []*testNode{x1, r1, r2} {
		if slices.ContainsFunc(d.sent, func(p SendPacket) bool { return p.Remote.Addr() == netip.MustParseAddr("192.0.2.2") }) {
			t.Errorf("%s still sends to the old RLOC", d.name)
		}
	}
}

// TestTheBestPathIsLeftForAnother: of two paths the one whose strict hop dies is left for the other within the time of a locator, and
// taken again.
func TestTheBestPathIsLeftForAnother(t *testing.T) {
	n, x1, r1, _, x2 := relayedSites(t)
	x2.use("10.1.0.0/16")
	x1.use(pathPrefix.String())
	best, other := testPath([]lisp.HopBits{lisp.HopStrict}, rtr1, "192.0.2.2"), withPriority(testPath(nil, rtr2, "192.0.2.2"), 5)
	set, err := lisp.NewLocatorSet(best, other)
	if err != nil {
		t.Fatal(err)
	}
	x2.registers(set)
	n.run(20 * time.Second)
	n.dead(r1)
	n.run(25 * time.Second)
	if x1.paths[best.Path()] != LocatorDown || x1.paths[other.Path()] != "" {
		t.Errorf("with the strict hop dead: %v", x1.paths)
	}
	n.dead(nil)
	n.run(2 * time.Minute)
	if len(x1.paths) != 0 {
		t.Errorf("after it returned: %v", x1.paths)
	}
}

// TestSMRsToTheHopsOfAPath: where the Map-Server answers for the site, its ETR never hears who asks; the hops of its own paths are told of
// a change all the same.
func TestSMRsToTheHopsOfAPath(t *testing.T) {
	for _, withdrawn := range []bool{false, true} {
		n, x1, x2, _ := twoSites(t)
		r1 := n.add("r1", relayConfig(RoleRTR, rtr1, "10.0.0.0/8"), rtr1)
		r2 := n.add("r2", relayConfig(RoleRTR, rtr2, "10.0.0.0/8"), rtr2)
		c := x2.config
		etr := *c.ETR
		etr.MapServers = slices.Clone(etr.MapServers)
		etr.MapServers[0].ProxyReply = true
		c.ETR = &etr
		x2.configure(c)
		x2.registers(lisp.LocatorSet{testPath(nil, rtr1, rtr2, "192.0.2.2")})
		n.run(serverStart)
		for _, d := range []*testNode{x1, r1, r2} {
			d.miss("10.1.0.5", pathEID)
		}
		n.run(3 * time.Second)
		if asked := x2.counter(counter.MapReplySent); asked != 0 {
			t.Fatalf("the ETR was asked %d times", asked)
		}
		r1.wantNext(1, LocatorUp)
		x2.registers(map[bool]lisp.LocatorSet{false: {testPath(nil, rtr2, "192.0.2.2")}}[withdrawn])
		n.run(10 * time.Second)
		for _, d := range []*testNode{r1, r2} {
			path, _ := d.pathOf()
			if want := map[bool]string{false: rtr2 + " -> 192.0.2.2"}[withdrawn]; path != want {
				t.Errorf("withdrawn %t: %s sends by %q, want %q", withdrawn, d.name, path, want)
			}
			if d.counter(counter.SMRReceived) == 0 {
				t.Errorf("withdrawn %t: %s got no SMR", withdrawn, d.name)
			}
		}
	}
}
