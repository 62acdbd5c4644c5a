// SPDX-License-Identifier: Apache-2.0

package control

// Peers: RLOCs that are probed though no mapping names them.

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

func withPeers(c Config, addresses ...string) Config {
	itr := *c.ITR
	itr.RLOCProbing, itr.ProbedPeers = ProbingConfig{}, nil
	for _, a := range addresses {
		itr.ProbedPeers = append(itr.ProbedPeers, rloc(a))
	}
	c.ITR = &itr
	return c
}

// overlay is two sites and an RTR; x1 probes x2 and the RTR in both families, and has no mapping of either.
func overlay(t *testing.T) (n *testNetwork, x1, x2, rtr *testNode) {
	t.Helper()
	n, x1, x2, _ = twoSites(t)
	rtr = n.add("rtr", Config{
		LocalRLOCs: []lisp.RLOC{rloc("192.0.2.7"), rloc("2001:db8:f::7")},
		Roles:      []RolePolicy{{Role: RoleRTR, EIDs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		ITR:        &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}},
	}, "192.0.2.7", "2001:db8:f::7")
	x1.configure(withPeers(x1.config, overlayPeers...))
	return n, x1, x2, rtr
}

var overlayPeers = []string{"192.0.2.2", "192.0.2.7", "2001:db8:f::2", "2001:db8:f::7"}

// TestPeersAreMeasured: ETR and RTR answer RLOC-probes without an EID, in both families; the data plane and the
// map-cache know nothing.
func TestPeersAreMeasured(t *testing.T) {
	n, x1, x2, rtr := overlay(t)
	n.run(time.Minute)
	for _, peer := range overlayPeers {
		s := x1.locator(peer)
		if !s.Peer || s.State != LocatorUp || s.Mappings != 0 || !s.Prefix.IsZero() || s.ProbesAnswered < 5 ||
			s.RoundTrip.Average != 2*oneWay || s.LastReplyAt.IsZero() {
			t.Errorf("%s is %+v", peer, s)
		}
	}
	if len(x1.states) > 0 || len(x1.cache) > 0 {
		t.Errorf("the data plane was told %v, %v", x1.states, x1.cachedPrefixes())
	}
	if sent := x1.counter(counter.RLOCProbeToPeer); sent < 20 || sent != x1.counter(counter.RLOCProbeSent) ||
		sent != x1.counter(counter.RLOCProbeAnswered) {
		t.Errorf("%d RLOC-probes to peers, %d in all", sent, x1.counter(counter.RLOCProbeSent))
	}
	x1.itr.Prober.Peers(0, func(r lisp.RLOC) { t.Errorf("%s would get SMRs, though no packet went there", r) })
	for _, d := range []*testNode{x2, rtr} {
		if d.counter(counter.RLOCProbeReplySent) < 10 {
			t.Errorf("%s answered %d RLOC-probes", d.name, d.counter(counter.RLOCProbeReplySent))
		}
	}
	for name, count := range x1.Counters() {
		if count > 0 && strings.HasPrefix(name, "refused") {
			t.Errorf("%s is %d", name, count)
		}
	}
}

// TestLostPeerIsSeenAndComesBack: with the hysteresis of locators, and at no cost for packets.
func TestLostPeerIsSeenAndComesBack(t *testing.T) {
	n, x1, _, rtr := overlay(t)
	n.run(time.Minute)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == rtr }
	n.run(20 * time.Second)
	for _, peer := range []string{"192.0.2.7", "2001:db8:f::7"} {
		if s := x1.locator(peer); s.State != LocatorUnconfirmed || s.Reason != LocatorUnanswered {
			t.Errorf("the lost peer is %+v", s)
		}
	}
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
	if live := x1.itr.Prober.Table.Liveness(); live.Down || live.Unanswered || live.Answers == nil {
		t.Errorf("a lost peer says of the core: %+v", live)
	}
	sent := x1.counter(counter.RLOCProbeToPeer)
	n.run(10 * time.Minute)
	if sent = x1.counter(counter.RLOCProbeToPeer) - sent; sent > 200 {
		t.Errorf("%d RLOC-probes in ten minutes, want those to a dead peer to be few", sent)
	}
	n.lose = nil
	n.run(2 * time.Minute)
	for _, peer := range overlayPeers {
		x1.wantLocator(peer, LocatorUp, LocatorAnswered)
	}
	if len(x1.states) > 0 {
		t.Errorf("the data plane was told %v", x1.states)
	}
}

// TestOnlyLostPeersAreNoLostCore: where nothing but peers is probed.
func TestOnlyLostPeersAreNoLostCore(t *testing.T) {
	n, x1, x2, rtr := overlay(t)
	n.run(time.Minute)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == rtr || from == x2 }
	n.run(time.Minute)
	if live := x1.itr.Prober.Table.Liveness(); live.Down || live.Unanswered || live.Answers != nil {
		t.Errorf("lost peers say of the core: %+v", live)
	}
}

// TestPeerThatAMappingNames is probed by its EID-Prefix then, as its locators are, and without one afterwards.
func TestPeerThatAMappingNames(t *testing.T) {
	n, x1, _, _ := overlay(t)
	n.run(time.Minute)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	if s := x1.locator("192.0.2.2"); !s.Peer || s.Mappings != 1 || s.Prefix.String() != "10.2.0.0/16" ||
		s.State != LocatorUp {
		t.Errorf("the peer is %+v", s)
	}
	probes := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		if r, is := m.(*wire.MapRequest); err == nil && is && r.Probe && from == x1 &&
			p.Remote.Addr() == netip.MustParseAddr("192.0.2.2") {
			if asked, _ := r.Records[0].Prefix(); asked.String() != "10.2.0.0/16" {
				t.Errorf("an RLOC-probe about %s", asked)
			}
			probes++
		}
		return false
	}
	n.run(time.Minute)
	if n.lose = nil; probes < 4 {
		t.Errorf("%d RLOC-probes about the mapping", probes)
	}
	n.run(2 * time.Hour) // nothing is sent there: the mapping goes
	if s := x1.locator("192.0.2.2"); len(x1.cache) > 0 || !s.Peer || s.Mappings != 0 || !s.Prefix.IsZero() ||
		s.State != LocatorUp {
		t.Errorf("the peer is %+v with %v", s, x1.cachedPrefixes())
	}
	sent := x1.counter(counter.RLOCProbeToPeer)
	n.run(time.Minute)
	if x1.counter(counter.RLOCProbeToPeer) < sent+16 {
		t.Errorf("%d RLOC-probes to peers in a minute", x1.counter(counter.RLOCProbeToPeer)-sent)
	}
}

// TestPeersAreReloaded: those that go have no row, unless a mapping names them; those that stay keep what is known.
func TestPeersAreReloaded(t *testing.T) {
	n, x1, _, _ := overlay(t)
	n.run(time.Minute)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	answered := x1.locator("192.0.2.7").ProbesAnswered
	x1.configure(withPeers(x1.config, "192.0.2.7", "192.0.2.99"))
	n.run(30 * time.Second)
	if s := x1.locator("192.0.2.2"); s.Peer || s.Mappings != 1 {
		t.Errorf("the peer that is left to its mapping is %+v", s)
	}
	if s := x1.locator("192.0.2.7"); !s.Peer || s.ProbesAnswered < answered+2 {
		t.Errorf("the peer that stays is %+v", s)
	}
	if s := x1.locator("192.0.2.99"); s.State != LocatorUnconfirmed || s.ProbesAnswered != 0 {
		t.Errorf("the peer that does not exist is %+v", s)
	}
	if _, _, known := x1.itr.Prober.Table.Get(rloc("2001:db8:f::7")); known {
		t.Error("a peer that is left has a row")
	}
	off := withPeers(x1.config, "192.0.2.7")
	off.ITR.RLOCProbing.Off = true
	x1.configure(off)
	sent := x1.counter(counter.RLOCProbeSent)
	n.run(time.Minute)
	x1.wantCounter(counter.RLOCProbeSent, sent)
	x1.wantLocator("192.0.2.7", LocatorUnknown, LocatorNotProbed)
	x1.configure(withPeers(x1.config))
	n.run(time.Second)
	for s := range x1.Locators() {
		if s.Peer {
			t.Errorf("a peer without configuration: %+v", s)
		}
	}
}

// TestPeersSurviveARestart, on a data plane that knows nothing of them, and on one that knows such a locator as down.
func TestPeersSurviveARestart(t *testing.T) {
	n, x1, _, _ := overlay(t)
	n.run(time.Minute)
	x1.start()
	x1.AdoptMapCache(n.now, nil)
	x1.AdoptLocatorStates(n.now, []SetLocatorState{{RLOC: rloc("192.0.2.7"), State: LocatorDown}})
	x1.drain()
	n.run(20 * time.Second)
	for _, peer := range overlayPeers {
		x1.wantLocator(peer, LocatorUp, LocatorAnswered)
	}
	for r, state := range x1.states {
		if state != LocatorUp {
			t.Errorf("the data plane has %s as %s", r, state)
		}
	}
}

// TestPeersThatAreNotProbed: own RLOCs, and those of a family without one.
func TestPeersThatAreNotProbed(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.configure(withPeers(x.config, "192.0.2.1", "2001:db8:f::7"))
	n.run(time.Minute)
	x.wantCounter(counter.RLOCProbeSent, 0)
	for _, peer := range []string{"192.0.2.1", "2001:db8:f::7"} {
		x.wantLocator(peer, LocatorUnknown, LocatorNotProbed)
	}
}

// TestPeersTakeNoPlace of others' locators, nor lose theirs where the table is full; all of them are bounded.
func TestPeersTakeNoPlace(t *testing.T) {
	n, x := loneITR(t, Limits{Locators: 1})
	c := withPeers(x.config, "192.0.2.7")
	c.ITR.StaticMappings = []lisp.Mapping{positive("10.9.0.0/16", 10)}
	x.configure(c)
	x.configure(withPeers(x.config, "192.0.2.7", "192.0.2.8"))
	n.run(20 * time.Second)
	for _, peer := range []string{"192.0.2.7", "192.0.2.8"} {
		if s := x.locator(peer); !s.Peer || s.ProbesSent < 4 {
			t.Errorf("%s is %+v", peer, s)
		}
	}
	var many []string
	for i := range settings.MaxProbedPeers + 1 {
		many = append(many, fmt.Sprintf("198.51.100.%d", i))
	}
	for _, wrong := range [][]string{many, {"224.0.0.5"}, {"0.0.0.0"}, {"192.0.2.7", "192.0.2.7"}} {
		if c := withPeers(x.config, wrong...); c.Validate() == nil {
			t.Errorf("peers %v are taken", wrong)
		}
	}
	if c := withPeers(x.config, many[1:]...); c.Validate() != nil {
		t.Error("the limit itself is refused")
	}
}

// TestPeerAnswersWithItsNonce: any record does, or none; a forged answer does not count, and no answer makes a mapping.
func TestPeerAnswersWithItsNonce(t *testing.T) {
	for _, record := range [][]lisp.Mapping{nil, {positive("10.66.0.0/16", 10)}, {{Prefix: lisp.MustParsePrefix("10.0.0.0/8"), TTLMinutes: 60, Action: lisp.ActionDrop}}} {
		n, x := loneITR(t, Limits{})
		x.configure(withPeers(x.config, "192.0.2.7"))
		n.run(1500 * time.Millisecond)
		requests := sentMessages[*wire.MapRequest](x)
		if len(requests) == 0 || !requests[0].Probe {
			t.Fatalf("%d RLOC-probes", len(requests))
		}
		if asked, err := requests[0].Records[0].Prefix(); err != nil || !asked.IsZero() {
			t.Errorf("the RLOC-probe is about %s, %v", asked, err)
		}
		reply := wire.MapReply{Probe: true, Nonce: requests[0].Nonce + 1}
		for _, m := range record {
			reply.Records = append(reply.Records, wire.RecordOf(m))
		}
		for _, answered := range []uint64{0, 1} {
			b, err := reply.AppendTo(nil)
			if err != nil {
				t.Fatal(err)
			}
			x.inject("192.0.2.1:4342", "192.0.2.7:4342", b)
			x.wantCounter(counter.RLOCProbeAnswered, answered)
			reply.Nonce--
		}
		x.wantLocator("192.0.2.7", LocatorUp, LocatorAnswered)
		if len(x.cache) > 0 {
			t.Errorf("an answer made %v", x.cachedPrefixes())
		}
	}
}

// TestPeersOfANodeBehindANAT: its forwarding stays as it is; a peer answers to the RLOC in the RLOC-probe, which it
// does not reach.
func TestPeersOfANodeBehindANAT(t *testing.T) {
	n, x1, x2, server, _, _ := natSites(t, nil)
	n.add("x3", xtrConfig(3, natServer, []string{"192.0.2.3"}, "10.3.0.0/16"), "192.0.2.3")
	// the Internet has no route
	n.lose = func(from *testNode, p SendPacket) bool { return from.behind == nil && p.Remote.Addr().IsPrivate() }
	x1.configure(withPeers(x1.config, "192.0.2.3", natServer))
	n.run(10 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantForwarded("10.2.0.0/16", x2)
	x1.wantByRTR(natServer)
	for s := range x1.MapServers() {
		if s.State != MapServerRegistered {
			t.Errorf("state %s", s.State)
		}
	}
	if s := x1.locator("192.0.2.3"); !s.Peer || s.State != LocatorUnconfirmed || s.ProbesAnswered != 0 {
		t.Errorf("the peer is %+v", s)
	}
}
