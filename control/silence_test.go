// SPDX-License-Identifier: Apache-2.0

package control

// While all Map-Resolvers are silent, and their return.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// asked are the EID-Prefixes of the Map-Requests that a node sent in Encapsulated Control Messages since so many messages.
func (d *testNode) asked(since int) (list []string) {
	d.net.t.Helper()
	for _, p := range d.sent[since:] {
		m, err := wire.Parse(p.Payload)
		ecm, ok := m.(*wire.EncapsulatedControlMessage)
		if err != nil || !ok {
			continue
		}
		if inner, err := wire.Parse(ecm.Inner.Message); err == nil {
			if r, ok := inner.(*wire.MapRequest); ok {
				asked, _ := r.Records[0].Prefix()
				list = append(list, asked.String())
			}
		}
	}
	return list
}

// mutedSites are two sites whose mapping system became silent, with so many EIDs that wait at x1.
func mutedSites(t *testing.T, waiting int) (n *testNetwork, x1, ms *testNode) {
	t.Helper()
	n, x1, _, ms = staleSites(t, nil)
	n.kill(ms)
	want := func() {
		for i := range waiting {
			x1.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)}).String())
		}
	}
	for range 3 {
		want()
		bothWays(n, x1, 10*time.Second)
	}
	if got := statesOf(x1); !slices.Equal(got, []MapResolverState{MapResolverSilent}) {
		t.Fatalf("the Map-Resolver is %v", got)
	}
	return n, x1, ms
}

// TestSilentMapResolverIsFoundWithin15s of its return, by an ITR with an EID of its own, though no host asks for anything. Where
// another one answers, it is asked every ten seconds.
func TestSilentMapResolverIsFoundWithin15s(t *testing.T) {
	for _, core := range []string{"192.0.2.", "2001:db8:f::"} {
		for _, other := range []bool{false, true} {
			silentMapResolverIsFound(t, core, other)
		}
	}
}

// silentMapResolverIsFound has its Map-Resolvers in the core with those addresses, the silent one at 100.
func silentMapResolverIsFound(t *testing.T, core string, other bool) {
	t.Helper()
	n, x1, _, ms := twoSites(t)
	silent := addrPort(core + "100")
	ask := func(resolvers ...netip.AddrPort) {
		c := x1.config
		itr := *c.ITR
		itr.MapResolvers = resolvers
		c.ITR = &itr
		x1.configure(c)
	}
	ask(silent)
	n.run(serverStart)
	n.kill(ms)
	for i := range byte(60) {
		x1.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 3, i, 1}).String())
		n.run(2 * time.Second)
	}
	if got := statesOf(x1)[0]; got != MapResolverSilent {
		t.Fatalf("%s, other %v: the Map-Resolver is %v", silent.Addr(), other, got)
	}
	if other {
		sites := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48")
		n.add("other", sites, core+"200")
		ask(silent, addrPort(core+"200"))
		n.run(10 * time.Second)
	}
	before := len(x1.sent)
	n.run(time.Minute)
	to := 0
	for _, p := range x1.sent[before:] {
		isECM := wire.MessageType(p.Payload[0]>>4) == wire.TypeEncapsulatedControlMessage
		if p.Remote.Addr() == silent.Addr() && isECM {
			to++
		}
	}
	if to < 5 || to > 61 || other && to > 7 {
		t.Errorf("%s, other %v: it was asked %d times in a minute", silent.Addr(), other, to)
	}
	n.lose = nil
	n.run(15 * time.Second)
	if got := statesOf(x1)[0]; got != MapResolverAnswers {
		t.Errorf("%s, other %v: the Map-Resolver that is back for 15 s is %v", silent.Addr(), other, got)
	}
}

// TestOneQuestionASecondWhileAllAreSilent: in turn for what waits, and an own EID; what waits uses up none of its tries.
func TestOneQuestionASecondWhileAllAreSilent(t *testing.T) {
	n, x1, _ := mutedSites(t, 5)
	counts := map[string]int{}
	for range 60 {
		for i := range byte(5) {
			x1.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 3, 0, i}).String())
		}
		before := len(x1.sent)
		bothWays(n, x1, time.Second)
		list := x1.asked(before)
		if len(list) != 1 {
			t.Errorf("in a second %v are asked for", list)
		}
		for _, p := range list {
			counts[p]++
		}
	}
	if own := counts["10.1.0.0/32"]; own < 28 || own > 32 {
		t.Errorf("an own EID is asked for %d times of 60: %v", own, counts)
	}
	for i := range 5 {
		if c := counts[fmt.Sprintf("10.3.0.%d/32", i)]; c < 3 {
			t.Errorf("10.3.0.%d is asked for %d times of 60: %v", i, c, counts)
		}
	}
	for p := range x1.pendings() {
		if q := x1.pendings()[p]; q.State == PendingHoldDown || q.Tries >= settings.MapRequestTries {
			t.Errorf("%s used up its tries: %+v", q.Prefix, q)
		}
	}
}

// TestReturnHasAllAskedForAtOnce, by the first answer, within the rate, and no EID-Prefix twice within a second.
func TestReturnHasAllAskedForAtOnce(t *testing.T) {
	n, x1, _ := mutedSites(t, 40)
	n.lose = nil
	before, last := len(x1.sent), map[string]time.Time{}
	for range 40 {
		at := len(x1.sent)
		n.run(100 * time.Millisecond)
		for _, p := range x1.asked(at) {
			if gap := n.now.Sub(last[p]); gap < 800*time.Millisecond {
				t.Errorf("%s is asked for again after %s", p, gap)
			}
			last[p] = n.now
		}
	}
	asked := x1.asked(before)
	for i := range 40 {
		if p := fmt.Sprintf("10.3.0.%d/32", i); !slices.Contains(asked, p) && x1.isWaiting(p) {
			t.Errorf("%s is not asked for within four seconds", p)
		}
	}
	if x1.isWaiting("10.3.0.7/32") {
		t.Error("10.3.0.7 waits for its answer")
	}
	for _, p := range []string{prefix4, prefix6} {
		if e, stale := x1.staleEntry(p); stale || e.Mapping.Prefix.IsZero() {
			t.Errorf("%s after the return: %+v", p, e)
		}
	}
}

// isWaiting reports whether an EID-Prefix is asked for, and no answer came.
func (d *testNode) isWaiting(p string) bool {
	return slices.ContainsFunc(d.pendings(), func(q PendingRequest) bool {
		return q.Prefix == lisp.MustParsePrefix(p) && q.State == PendingWaiting
	})
}

// TestReturnOfOneOfTwo lets nothing begin anew: the other one answered all the while.
func TestReturnOfOneOfTwo(t *testing.T) {
	n, x1, x2, ms := twoSites(t)
	n.add("other", mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48"), "192.0.2.200")
	c := x1.config
	itr := *c.ITR
	itr.MapResolvers = []netip.AddrPort{addrPort("192.0.2.100"), addrPort("192.0.2.200")}
	for _, x := range []*testNode{x1, x2} { // both know both sites
		config := x.config
		e := *config.ETR
		e.MapServers = append(slices.Clone(e.MapServers), e.MapServers[0])
		e.MapServers[1].Address = addrPort("192.0.2.200")
		config.ETR = &e
		x.configure(config)
	}
	c = x1.config
	c.ITR = &itr
	x1.configure(c)
	n.run(serverStart)
	n.lose = isDead(ms, x2) // a dead site: what is asked for of it stays unanswered
	for range 9 {
		x1.miss("10.1.0.1", "10.2.0.1")
		x1.miss("10.1.0.1", "10.3.0.1")
		n.run(10 * time.Second)
	}
	if got := statesOf(x1); got[0] != MapResolverSilent || got[1] != MapResolverAnswers {
		t.Fatalf("the Map-Resolvers are %v", got)
	}
	tries := func() (tries int) {
		for _, q := range x1.pendings() {
			tries = max(tries, q.Tries)
		}
		return tries
	}
	for range 70 { // a resolution that has been tried for long
		if x1.miss("10.1.0.1", "10.2.0.1"); tries() >= 6 {
			break
		}
		n.run(time.Second)
	}
	was := tries()
	n.lose = isDead(x2)
	n.run(15 * time.Second)
	if got := statesOf(x1); got[0] != MapResolverAnswers {
		t.Fatalf("the Map-Resolvers are %v", got)
	}
	if now := tries(); now < was {
		t.Errorf("%d tries after the return of one of two, %d before", now, was)
	}
}

// TestMapNotifyRaisesHope: an authenticated one from the Map-Resolver's address has all that waits asked for at once, before any
// Map-Reply came, and unacknowledged Map-Registers sent at once.
func TestMapNotifyRaisesHope(t *testing.T) {
	n, x1, ms := mutedSites(t, 10)
	bothWays(n, x1, 3*time.Minute) // Map-Registers are repeated once a minute by now
	for i := range byte(10) {
		x1.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 3, 0, i}).String())
	}
	returned := n.now
	n.lose = func(from *testNode, p SendPacket) bool { // Map-Replies do not come through as yet
		return from == ms && len(p.Payload) > 0 && wire.MessageType(p.Payload[0]>>4) != wire.TypeMapNotify ||
			p.Remote.Addr() == netip.MustParseAddr("192.0.2.100") && wire.MessageType(p.Payload[0]>>4) == wire.TypeEncapsulatedControlMessage
	}
	before := len(x1.sent)
	for len(x1.asked(before)) < 10 && n.now.Sub(returned) < 70*time.Second {
		before = len(x1.sent)
		bothWays(n, x1, time.Second)
	}
	if list := x1.asked(before); len(list) < 10 {
		t.Errorf("no Map-Notify had what waits asked for: %v", list)
	}
	if got := statesOf(x1); got[0] != MapResolverSilent {
		t.Errorf("the Map-Resolver is %v: no Map-Reply came", got)
	}
	// It was not the Map-Resolver: after that they go in turn again.
	bothWays(n, x1, 5*time.Second)
	before = len(x1.sent)
	bothWays(n, x1, 5*time.Second)
	if list := x1.asked(before); len(list) > 6 {
		t.Errorf("in five seconds %v are asked for", list)
	}
}

// TestAllPairsWithin8s: two sites whose mapping system was away for long, past their registrations, have fresh mappings
// of each other 8 s after its return: those that they used past their TTLs, those that ended, and those that they never
// had; also where the second one asks for nothing, and where the Map-Server has lost all that it knew.
func TestAllPairsWithin8s(t *testing.T) {
	absences := []time.Duration{30 * time.Second, 210 * time.Second, 20 * time.Minute, 70 * time.Minute}
	for _, serveStale := range []time.Duration{0, -1} {
		for _, away := range absences {
			for _, oneWay := range []bool{false, true} {
				for _, restarts := range []bool{false, true} {
					t.Run(fmt.Sprint(serveStale, away, oneWay, restarts), func(t *testing.T) {
						allPairsWithin8s(t, serveStale, away, oneWay, restarts)
					})
				}
			}
		}
	}
}

func allPairsWithin8s(t *testing.T, serveStale, away time.Duration, oneWay, restarts bool) {
	n, x1, x2, ms := staleSites(t, func(c *ITRConfig) { c.ServeStale = serveStale })
	n.kill(ms)
	wanted := map[*testNode][]string{x1: {prefix4, prefix6}, x2: {"10.1.0.0/16", "2001:db8:1::/48"}}
	if oneWay {
		delete(wanted, x2)
	}
	forward := func(seconds int) {
		for range seconds {
			n.run(time.Second)
			x1.miss("10.1.0.5", "10.2.0.9")
			x1.miss("2001:db8:1::5", "2001:db8:2::9")
			if !oneWay {
				x2.miss("10.2.0.9", "10.1.0.5")
				x2.miss("2001:db8:2::9", "2001:db8:1::5")
			}
			for x := range wanted {
				for _, p := range x.cachedPrefixes() {
					x.use(p)
				}
			}
		}
	}
	forward(int(away / time.Second))
	if serveStale < 0 && away > time.Minute && len(x1.cache)+len(x2.cache) > 0 {
		t.Fatalf("the map-caches have %v and %v", x1.cachedPrefixes(), x2.cachedPrefixes())
	}
	if restarts {
		ms.start()
	}
	n.lose = nil
	forward(8)
	for x, want := range wanted {
		for _, p := range want {
			if e, ok := x.cache[lisp.MustParsePrefix(p)]; !ok || e.Mapping.Negative() || e.Stale {
				t.Errorf("%s: %s 8 s after the return: %+v", x.name, p, e)
			}
		}
	}
}

// TestReturnAsksForNewOnesAgain: what has a negative Map-Reply soon after the return is asked for again after 1, 2, 4
// and 8 s, and then every 8 s, for a minute; it never had locators, so that nothing is lost. At any other time it waits
// for its TTL.
func TestReturnAsksForNewOnesAgain(t *testing.T) {
	use := func(n *testNetwork, x1 *testNode, seconds int) {
		for range seconds {
			x1.miss("10.1.0.1", "10.3.0.1")
			for _, p := range x1.cachedPrefixes() {
				x1.use(p)
			}
			n.run(time.Second)
			if list, count := x1.LostMappings(10); count > 0 || x1.Explain(0, eid("10.3.0.1")).Lost != nil {
				t.Fatalf("lost are %+v", list)
			}
		}
	}
	hole := func(x1 *testNode) string { return x1.Explain(0, eid("10.3.0.1")).Entry.Mapping.Prefix.String() }
	n, x1, _ := mutedSites(t, 1)
	n.lose = nil
	n.run(2 * time.Second)
	began := n.now.Add(-2 * time.Second)
	use(n, x1, 3*60)
	gaps := x1.askedAt(hole(x1), began)
	if len(gaps) < 9 || len(gaps) > 11 || gaps[len(gaps)-1] > 9*time.Second {
		t.Fatalf("asked for again after %v", gaps)
	}
	for i, want := range []time.Duration{2, 4, 8, 8, 8} {
		if gaps[i+1].Round(10*time.Millisecond) != want*time.Second {
			t.Errorf("asked for again after %v", gaps)
		}
	}
	x1.wantCounter(counter.MappingLost, 0)
	x1.wantCounter(counter.LostMapRequestSent, uint64(len(gaps)))

	n, x1, _, _ = twoSites(t)
	n.run(serverStart)
	use(n, x1, 60)
	if gaps := x1.askedAt(hole(x1), epoch); len(gaps) > 0 {
		t.Errorf("without a return it is asked for again after %v", gaps)
	}
}

// pureITR is an ITR without an EID-Prefix of its own, which sends to 10.2.0.9 of a site that answers, and to 10.3.0.9
// of one that is dead, whose registration lasts.
func pureITR(t *testing.T) (n *testNetwork, x, ms *testNode, send func(d time.Duration)) {
	t.Helper()
	n = newNetwork(t)
	server := mapServerConfig("10.2.0.0/16", "10.3.0.0/16")
	server.MapServer.RegistrationTimeout = 24 * time.Hour
	ms = n.add("ms", server, "192.0.2.100")
	config := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"})
	config.ETR = nil
	x = n.add("x", config, "192.0.2.1")
	n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/16"), "192.0.2.2")
	x3 := n.add("x3", xtrConfig(3, "192.0.2.100", []string{"192.0.2.3"}, "10.3.0.0/16"), "192.0.2.3")
	n.run(serverStart)
	n.kill(x3)
	send = func(d time.Duration) {
		for range int(d / time.Second) {
			x.miss("10.1.0.1", "10.3.0.9")
			if x.miss("10.1.0.1", "10.2.0.9"); len(x.cachedPrefixes()) > 0 {
				x.use(prefix4)
			}
			n.run(time.Second)
		}
	}
	return n, x, ms, send
}

// TestDeadSiteIsNoSilentMapResolverToAPureITR: an ITR without an EID of its own asks for one in use; the one that is
// dead is asked for ten times, and pauses.
func TestDeadSiteIsNoSilentMapResolverToAPureITR(t *testing.T) {
	n, x, _, send := pureITR(t)
	send(2 * time.Second)
	x.wantCached(prefix4, "192.0.2.2")
	began := n.now
	for range 300 {
		send(time.Second)
		if got := statesOf(x)[0]; got != MapResolverAnswers {
			t.Fatalf("the Map-Resolver is %v after %s", got, n.now.Sub(began))
		}
	}
	if x.counter(counter.MapRequestUnanswered) == 0 {
		t.Error("the dead site is asked for without an end")
	}
}

// TestITRWithoutOwnEIDNoticesTheReturn within 15 s, and before that asks for what waits, or is in use, one a second.
func TestITRWithoutOwnEIDNoticesTheReturn(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		n, x, ms, send := pureITR(t)
		if inUse {
			send(2 * time.Second)
		}
		n.lose = isDead(ms, n.nodes[3])
		send(90 * time.Second)
		if got := statesOf(x)[0]; got != MapResolverSilent {
			t.Fatalf("in use %v: the Map-Resolver is %v", inUse, got)
		}
		before := len(x.sent)
		send(time.Minute)
		if list := x.asked(before); len(list) < 58 || len(list) > 61 || !slices.Contains(list, "10.3.0.9/32") {
			t.Errorf("in use %v: in a minute %v are asked for", inUse, list)
		}
		for _, q := range x.pendings() {
			if q.State == PendingHoldDown {
				t.Errorf("in use %v: %s used up its tries", inUse, q.Prefix)
			}
		}
		n.lose = isDead(n.nodes[3])
		send(8 * time.Second)
		x.wantCached(prefix4, "192.0.2.2")
		send(7 * time.Second)
		if got := statesOf(x)[0]; got != MapResolverAnswers {
			t.Errorf("in use %v: the Map-Resolver is %v", inUse, got)
		}
	}
}
