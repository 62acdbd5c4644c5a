// SPDX-License-Identifier: Apache-2.0

package control

// Several Map-Resolvers (RFC 9301 s.8.1): which one is asked, by whether and how soon they
// answer.

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/wire"
)

// resolverITR is an ITR with three Map-Resolvers that exist on paper: the test answers.
func resolverITR(t *testing.T) (*testNetwork, *testNode) {
	n, x := loneITR(t, Limits{})
	c := x.config
	c.ITR = &ITRConfig{
		MapResolvers: []netip.AddrPort{addrPort("192.0.2.101"), addrPort("192.0.2.102"), addrPort("192.0.2.103")},
		RLOCProbing:  ProbingConfig{Off: true},
	}
	x.configure(c)
	return n, x
}

// resolve asks for a new EID and answers after so long, if who was asked is one of those;
// it returns who was asked, in order.
func resolve(n *testNetwork, x *testNode, i byte, after map[string]time.Duration) []string {
	x.sent, x.sentAt = nil, nil
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, i, 1}), 32).String()
	x.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 2, i, 1}).String())
	var asked []string
	for range settings.MapRequestTries {
		at := x.sent[len(asked)].Remote.Addr().String()
		asked = append(asked, at)
		if delay, answers := after[at]; answers {
			n.run(delay)
			requests := sentMessages[*wire.MapRequest](x)
			b, _ := (&wire.MapReply{Nonce: requests[len(asked)-1].Nonce, Records: []wire.Record{wire.RecordOf(positive(prefix, 10))}}).AppendTo(nil)
			x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
			return asked
		}
		for wait := 0; len(x.sent) == len(asked) && wait < 100; wait++ {
			n.run(100 * time.Millisecond)
		}
		if len(x.sent) == len(asked) {
			return asked
		}
	}
	return asked
}

func TestMapResolversByReachability(t *testing.T) {
	n, x := resolverITR(t)
	answers := map[string]time.Duration{"192.0.2.102": 30 * time.Millisecond, "192.0.2.103": 20 * time.Millisecond}
	if got := resolve(n, x, 1, answers); !slices.Equal(got, []string{"192.0.2.101", "192.0.2.102"}) {
		t.Errorf("asked %v: want the configured order while nothing is known", got)
	}
	if got := resolve(n, x, 2, answers); !slices.Equal(got, []string{"192.0.2.102"}) {
		t.Errorf("asked %v: want the one that answers", got)
	}
	// The one in use dies: the next ones are asked, those unknown in the configured order.
	delete(answers, "192.0.2.102")
	if got := resolve(n, x, 3, answers); !slices.Equal(got, []string{"192.0.2.102", "192.0.2.101", "192.0.2.103"}) {
		t.Errorf("asked %v", got)
	}
	for i := byte(4); i < 8; i++ { // it has an average yet, but soon counts as silent
		resolve(n, x, i, answers)
	}
	if got := resolve(n, x, 9, answers); !slices.Equal(got, []string{"192.0.2.103"}) {
		t.Errorf("asked %v: want the one that answers", got)
	}
	states := map[string]MapResolverState{}
	for s := range x.MapResolvers() {
		states[s.Address.Addr().String()] = s.State
	}
	want := map[string]MapResolverState{"192.0.2.101": MapResolverUnknown, "192.0.2.102": MapResolverAnswers, "192.0.2.103": MapResolverAnswers}
	if states["192.0.2.103"] != want["192.0.2.103"] || states["192.0.2.101"] == MapResolverAnswers {
		t.Errorf("states %v, want %v", states, want)
	}
}

func TestSilentMapResolverIsAskedLastAndTold(t *testing.T) {
	n, x := resolverITR(t)
	silent := map[string]time.Duration{}
	resolve(n, x, 1, silent) // ten tries: each of the three was silent three times
	x.wantCounter(counter.MapResolverWentSilent, 3)
	told := 0
	for _, notice := range x.notices {
		if notice.Kind == NoticeMapResolverSilent {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d notices of silence, want 3", told)
	}
	x.sent = nil
	for range 40 { // they are asked in turn
		n.run(100 * time.Millisecond)
		for i, m := range sentMessages[*wire.MapRequest](x) {
			if x.sent[i].Remote.Addr().String() == "192.0.2.103" {
				b, _ := (&wire.MapReply{Nonce: m.Nonce, Records: []wire.Record{wire.RecordOf(positive("10.2.1.1/32", 10))}}).AppendTo(nil)
				x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
			}
		}
		x.sent = nil
	}
	n.run(2 * time.Second)
	if last := x.notices[len(x.notices)-1]; !slices.ContainsFunc(x.notices, func(n Notice) bool { return n.Kind == NoticeMapResolverAnswers }) {
		t.Errorf("no notice says that 192.0.2.103 answers again: %v", last)
	}
	if got := resolve(n, x, 3, map[string]time.Duration{"192.0.2.103": time.Millisecond}); got[0] != "192.0.2.103" {
		t.Errorf("asked %v first", got)
	}
}

func TestMapResolversByRoundTripTime(t *testing.T) {
	_, x := resolverITR(t)
	table := &x.itr.Requester.Resolvers
	first := func() string { return table.Next(nil, false).Addr().String() }
	answer := func(address string, ms timing.Instant) {
		table.Answered(addrPortOf(address), ms*timing.Instant(time.Millisecond))
	}
	answer("192.0.2.101", 80)
	answer("192.0.2.103", 70)
	if got := first(); got != "192.0.2.101" {
		t.Errorf("asked %s: two that are alike take turns", got)
	}
	answer("192.0.2.102", 10)
	if got := first(); got != "192.0.2.102" {
		t.Errorf("asked %s: want the quickest", got)
	}
	for range 40 {
		answer("192.0.2.102", 200)
	}
	if got := first(); got != "192.0.2.103" {
		t.Errorf("asked %s: want the quickest now", got)
	}
}

// TestRefreshesTakeTurns: no packet waits for a refresh, so refreshes keep the times of all Map-Resolvers known.
func TestRefreshesTakeTurns(t *testing.T) {
	n, x := resolverITR(t)
	asked := map[string]int{}
	for range 9 {
		n.run(time.Second)
		a := x.itr.Requester.Resolvers.Next(nil, true)
		x.itr.Requester.Resolvers.H.Advance(n.now)
		x.itr.Requester.Resolvers.Sent(a)
		x.itr.Requester.Resolvers.Answered(a, timing.Instant(len(asked)+1))
		asked[a.Addr().String()]++
	}
	for a, times := range asked {
		if len(asked) != 3 || times != 3 {
			t.Errorf("%s was asked %d times of 9, by %v", a, times, asked)
		}
	}
}

func addrPortOf(s string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(s), 4342) }

func TestMapResolversKeepWhatIsKnownOverAReload(t *testing.T) {
	n, x := resolverITR(t)
	answers := map[string]time.Duration{"192.0.2.103": 20 * time.Millisecond}
	resolve(n, x, 1, answers)
	c := x.config
	itr := *c.ITR
	itr.MapResolvers = []netip.AddrPort{addrPort("192.0.2.104"), addrPort("192.0.2.103")}
	c.ITR = &itr
	x.configure(c)
	if got := resolve(n, x, 2, answers); !slices.Equal(got, []string{"192.0.2.103"}) {
		t.Errorf("asked %v after a reload", got)
	}
}

// statesOf are the states of the Map-Resolvers, in the order of the configuration.
func statesOf(x *testNode) (states []MapResolverState) {
	for s := range x.MapResolvers() {
		states = append(states, s.State)
	}
	return states
}

// isDead makes a network lose all that comes from some nodes and goes to them.
func isDead(dead ...*testNode) func(*testNode, SendPacket) bool {
	return func(from *testNode, p SendPacket) bool {
		return slices.ContainsFunc(dead, func(d *testNode) bool { return d == from || slices.Contains(d.addrs, p.Remote.Addr()) })
	}
}

// TestDeadSiteIsNoSilentMapResolver: however many of a dead site's EIDs are asked for. A dead Map-Resolver becomes silent. Once it is
// back it is not silent any more, although hosts ask for the dead site's EIDs alone.
func TestDeadSiteIsNoSilentMapResolver(t *testing.T) {
	for _, resolver := range []string{"192.0.2.100", "2001:db8:f::100"} {
		n, x1, x2, ms := twoSites(t)
		c := x1.config
		itr := *c.ITR
		itr.MapResolvers = []netip.AddrPort{addrPort(resolver)}
		c.ITR = &itr
		x1.configure(c)
		ask := func() {
			for range 5 {
				x1.miss("10.1.0.1", "10.2.0.1")
				x1.miss("10.1.0.1", "10.2.0.2")
				x1.miss("2001:db8:1::1", "2001:db8:2::1")
				n.run(10 * time.Second)
			}
		}
		n.run(time.Second)
		n.lose = isDead(x2)
		ask()
		x1.wantCounter(counter.MapResolverWentSilent, 0)
		if got := statesOf(x1); !slices.Equal(got, []MapResolverState{MapResolverAnswers}) {
			t.Errorf("%s: the Map-Resolver is %v", resolver, got)
		}
		if len(x1.cache) > 0 {
			t.Errorf("%s: the map-cache has %v", resolver, x1.cachedPrefixes())
		}
		n.lose = isDead(x2, ms)
		ask()
		x1.wantCounter(counter.MapResolverWentSilent, 1)
		if got := statesOf(x1); !slices.Equal(got, []MapResolverState{MapResolverSilent}) {
			t.Errorf("%s: the dead Map-Resolver is %v", resolver, got)
		}
		n.lose = isDead(x2)
		ask()
		if got := statesOf(x1); !slices.Equal(got, []MapResolverState{MapResolverAnswers}) {
			t.Errorf("%s: the Map-Resolver that is back is %v", resolver, got)
		}
		x1.wantCounter(counter.MapResolverWentSilent, 1)
		x1.wantCounter(counter.RefusedNonce, 0)
	}
}

// TestReloadDuringACheck: an answer that comes after the Map-Resolvers were configured anew counts as before. One that never
// comes makes no other Map-Resolver silent.
func TestReloadDuringACheck(t *testing.T) {
	n, x1, x2, ms := twoSites(t)
	n.run(time.Second)
	n.lose = isDead(x2, ms)
	for range 4 {
		x1.miss("10.1.0.1", "10.2.0.1")
		x1.miss("10.1.0.1", "10.2.0.2")
		x1.miss("10.1.0.1", "10.2.0.3")
	}
	n.run(1100 * time.Millisecond) // three are unanswered: the Map-Resolver is asked for our own EID
	c := x1.config
	itr := *c.ITR
	itr.MapResolvers = []netip.AddrPort{addrPort("192.0.2.200"), addrPort("192.0.2.100")}
	c.ITR = &itr
	x1.configure(c)
	n.run(1500 * time.Millisecond)
	x1.wantCounter(counter.MapResolverWentSilent, 0)
	if got := statesOf(x1); !slices.Equal(got, []MapResolverState{MapResolverUnknown, MapResolverUnknown}) {
		t.Errorf("the Map-Resolvers are %v", got)
	}
}

// TestChecksTakeTurns: our own EID is asked for once a second, however many Map-Resolvers are in doubt; all of them are found
// to be silent.
func TestChecksTakeTurns(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	c := x1.config
	itr := *c.ITR
	itr.MapResolvers = []netip.AddrPort{addrPort("192.0.2.201"), addrPort("192.0.2.202"), addrPort("192.0.2.203")}
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	for i := range byte(12) {
		x1.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 2, 0, i}).String())
	}
	var last time.Time
	for range 100 {
		sent := len(x1.sent)
		n.run(100 * time.Millisecond)
		for _, p := range x1.sent[sent:] {
			m, _ := wire.Parse(p.Payload)
			ecm, ok := m.(*wire.EncapsulatedControlMessage)
			if !ok {
				continue
			}
			inner, _ := wire.Parse(ecm.Inner.Message)
			if asked, _ := inner.(*wire.MapRequest).Records[0].Prefix(); asked.String() != "10.1.0.0/32" {
				continue
			}
			if n.now.Sub(last) < 900*time.Millisecond {
				t.Errorf("our own EID is asked for after %s", n.now.Sub(last))
			}
			last = n.now
		}
	}
	if want := []MapResolverState{MapResolverSilent, MapResolverSilent, MapResolverSilent}; !slices.Equal(statesOf(x1), want) {
		t.Errorf("the Map-Resolvers are %v", statesOf(x1))
	}
}
