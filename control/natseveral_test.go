// SPDX-License-Identifier: Apache-2.0

package control

// NAT traversal with several RTRs: a node registers by all of them, and does without those that are silent.

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

const rtrOne, rtrTwo = "192.0.2.101", "192.0.2.102"

// rtrConfig is an RTR of the Map-Server.
func rtrConfig(address string, keys []Key) Config {
	return Config{
		LocalRLOCs: []lisp.RLOC{rloc(address)},
		ITR:        &ITRConfig{MapResolvers: []netip.AddrPort{addrPort(natServer)}},
		NATRelay:   &NATRelay{MapServers: []NATMapServer{{Address: netip.MustParseAddr(natServer), Keys: keys}}},
	}
}

// severalRTRs are a node behind a NAT, its Map-Server, and RTRs at addresses of their own.
func severalRTRs(t *testing.T, addresses ...string) (n *testNetwork, x1, ms *testNode, rtrs []*testNode, box *natBox) {
	t.Helper()
	n = newNetwork(t)
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")
	c.LocalRLOCs = []lisp.RLOC{rloc(natServer)}
	for i, a := range addresses {
		keys := []Key{{ID: 9, Algorithm: 2, Secret: fmt.Appendf(nil, "between Map-Server and RTR %d", i)}}
		c.MapServer.RTRs = append(c.MapServer.RTRs, RTRPeer{Address: netip.MustParseAddr(a), Keys: keys})
		rtrs = append(rtrs, n.add("rtr"+a, rtrConfig(a, keys), a))
	}
	ms = n.add("ms", c, natServer)
	x1 = n.add("x1", Config{}, "192.168.1.2")
	box = n.nat([]string{"198.51.100.1"}, x1)
	return n, x1, ms, rtrs, box
}

// away is for a node that nothing reaches, and that sends nothing.
func away(nodes ...*testNode) func(*testNode, SendPacket) bool {
	return func(from *testNode, p SendPacket) bool {
		return slices.ContainsFunc(nodes, func(d *testNode) bool {
			return d == from || slices.Contains(d.addrs, p.Remote.Addr())
		})
	}
}

// wantByRTRs asserts that a node sends everything to these RTRs, from the data port.
func (d *testNode) wantByRTRs(rtrs ...string) {
	d.net.t.Helper()
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		d.wantCached(all, rtrs...)
		for _, l := range d.cache[lisp.MustParsePrefix(all)].Mapping.Locators {
			if l.SourcePort != wire.DataPort {
				d.net.t.Errorf("%s: %s is sent from port %d to %s", d.name, all, l.SourcePort, l.RLOC)
			}
		}
	}
}

// wantReached asserts by which locators others reach an EID-Prefix.
func (d *testNode) wantReached(prefix string, want ...string) {
	d.net.t.Helper()
	found := false
	for _, r := range d.registered() {
		if r.Prefix != lisp.MustParsePrefix(prefix) {
			continue
		}
		var got []string
		for _, l := range r.Mapping.Locators {
			if l.Reachable {
				got = append(got, l.RLOC.String())
			}
		}
		if found = true; !slices.Equal(got, want) {
			d.net.t.Errorf("%s is reached by %v, want %v", prefix, got, want)
		}
	}
	if !found {
		d.net.t.Errorf("%s is not registered", prefix)
	}
}

// TestSeveralRTRs: both forward to the node, others are told of both, it sends to both, and no Map-Register overtakes
// another one.
func TestSeveralRTRs(t *testing.T) {
	n, x1, ms, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48"))
	for range 2 {
		n.run(time.Second)
		for _, r := range rtrs {
			r.wantForwarded("10.1.0.0/16", x1)
			r.wantForwarded("2001:db8:1::/48", x1)
		}
		ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
		x1.wantByRTRs(rtrOne, rtrTwo)
		if s := x1.NAT(); len(s.RTRs) != 2 || s.RTRs[0].Silent || s.RTRs[1].Silent || s.RTRs[1].ConfirmedAt.IsZero() {
			t.Errorf("%+v", s)
		}
		n.run(20 * time.Minute)
	}
	ms.wantCounter(counter.RefusedReplay, 0)
	x1.wantCounter(counter.NATBindingLost, 0)
	x1.wantCounter(counter.NATKeepaliveUnanswered, 0)
}

// TestOneOfSeveralRTRsDies: the others carry on, and it is used again when it is back.
func TestOneOfSeveralRTRsDies(t *testing.T) {
	for _, keepalive := range []time.Duration{0, -1} {
		for dead := range 2 {
			n, x1, ms, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
			c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
			c.ETR.NAT.Keepalive = keepalive
			x1.configure(c)
			n.run(100 * time.Second)
			alive, other := rtrs[1-dead], rtrs[1-dead].addrs[0].String()
			n.lose = away(rtrs[dead])
			if n.run(settings.DefaultKeepalive + 4*time.Second); keepalive < 0 {
				n.run(4 * time.Minute)
			}
			x1.wantByRTRs(other)
			ms.wantReached("10.1.0.0/16", other)
			if s := x1.NAT(); s.RTRs[1-dead].Silent || !s.RTRs[dead].Silent {
				t.Errorf("keepalive %s: %+v", keepalive, s.RTRs)
			}
			n.run(10 * time.Minute)
			alive.wantForwarded("10.1.0.0/16", x1)
			rtrs[dead].wantNotCached("10.1.0.0/16")
			x1.wantByRTRs(other)
			n.lose = nil
			if n.run(settings.DefaultKeepalive + time.Second); keepalive < 0 {
				n.run(time.Minute)
			}
			x1.wantByRTRs(rtrOne, rtrTwo)
			ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
			rtrs[dead].wantForwarded("10.1.0.0/16", x1)
			ms.wantCounter(counter.RefusedReplay, 0)
		}
	}
}

// TestDeadRTRAtStart: it delays nothing for long, and leaves the locators after a few seconds.
func TestDeadRTRAtStart(t *testing.T) {
	n, x1, ms, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	n.lose = away(rtrs[0])
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(500 * time.Millisecond)
	rtrs[1].wantForwarded("10.1.0.0/16", x1)
	x1.wantByRTRs(rtrTwo)
	n.run(7 * time.Second)
	ms.wantReached("10.1.0.0/16", rtrTwo)
	if sent := len(x1.sent); sent > 30 {
		t.Errorf("%d packets in eight seconds", sent)
	}
	before := len(x1.sent)
	n.run(time.Hour)
	if d := len(x1.sent) - before; d > int(time.Hour/settings.DefaultKeepalive)*5 {
		t.Errorf("%d packets in an hour", d)
	}
}

// TestAllRTRsSilent: none is left then: who asks is told all, and packets go on to them.
func TestAllRTRsSilent(t *testing.T) {
	n, x1, ms, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(10 * time.Second)
	n.lose = away(rtrs...)
	n.run(10 * time.Minute)
	x1.wantByRTRs(rtrOne, rtrTwo)
	n.lose = away(rtrs[0])
	n.run(settings.DefaultKeepalive + time.Second)
	x1.wantByRTRs(rtrTwo)
	ms.wantReached("10.1.0.0/16", rtrTwo)
	n.lose = nil
	n.run(settings.DefaultKeepalive + time.Second)
	ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
}

// TestBindingsOfSeveralRTRs: each makes its binding again where the NAT forgot; one that restarts has it back by the
// next keepalive.
func TestBindingsOfSeveralRTRs(t *testing.T) {
	n, x1, _, rtrs, box := severalRTRs(t, rtrOne, rtrTwo)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(100 * time.Second)
	box.flush()
	n.run(settings.DefaultKeepalive + time.Second)
	for _, r := range rtrs {
		r.wantForwarded("10.1.0.0/16", x1)
	}
	clear(rtrs[1].cache)
	rtrs[1].start()
	n.run(settings.DefaultKeepalive + time.Second)
	rtrs[1].wantForwarded("10.1.0.0/16", x1)
}

// TestLossOnTheWayToOneRTR: a Map-Register that one RTR does not get is sent by it again, though another one had it
// acknowledged.
func TestLossOnTheWayToOneRTR(t *testing.T) {
	n, x1, _, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	lost := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		if from == x1 && p.Remote.Addr().String() == rtrTwo && lost < 1 {
			lost++
			return true
		}
		return false
	}
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(1500 * time.Millisecond) // before the first keepalive
	rtrs[0].wantForwarded("10.1.0.0/16", x1)
	rtrs[1].wantForwarded("10.1.0.0/16", x1)
}

// TestWithdrawalBySeveralRTRs: all of them end their binding.
func TestWithdrawalBySeveralRTRs(t *testing.T) {
	n, x1, ms, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48"))
	n.run(time.Second)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	for _, r := range rtrs {
		r.wantNotCached("2001:db8:1::/48")
		r.wantForwarded("10.1.0.0/16", x1)
	}
	if r := ms.registered(); len(r) != 1 {
		t.Errorf("%d registrations", len(r))
	}
}

// TestRTRThatIsOfferedNoMore is left, and another one is taken beside those that stay.
func TestRTRThatIsOfferedNoMore(t *testing.T) {
	n, x1, ms, _, _ := severalRTRs(t, rtrOne, rtrTwo, "192.0.2.103")
	three := ms.config
	few := *three.MapServer
	few.RTRs = few.RTRs[:2]
	c := three
	c.MapServer = &few
	ms.configure(c)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
	other := *three.MapServer
	other.RTRs = other.RTRs[1:]
	c.MapServer = &other
	ms.configure(c)
	n.run(11 * time.Minute)
	ms.wantReached("10.1.0.0/16", rtrTwo, "192.0.2.103")
	x1.wantByRTRs(rtrTwo, "192.0.2.103")
}

// TestManyRTRs: sixteen of them register a node within a few seconds, with few packets.
func TestManyRTRs(t *testing.T) {
	var addresses []string
	for i := range settings.MaxRTRs {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", 120+i))
	}
	n, x1, ms, rtrs, _ := severalRTRs(t, addresses...)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48"))
	n.run(2 * time.Second)
	for _, r := range rtrs {
		r.wantForwarded("10.1.0.0/16", x1)
	}
	ms.wantReached("10.1.0.0/16", addresses...)
	x1.wantByRTRs(addresses...)
	if sent := len(x1.sent); sent > 2*settings.MaxRTRs+2 { // both EID-Prefixes do not fit one message
		t.Errorf("%d packets", sent)
	}
}

// TestReplayByAnotherRTR: what went by one RTR moves no binding of another one that has not seen it, also while the
// Map-Server acknowledges duplicates.
func TestReplayByAnotherRTR(t *testing.T) {
	n, x1, _, rtrs, _ := severalRTRs(t, rtrOne, rtrTwo)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	rtrs[1].wantForwarded("10.1.0.0/16", x1)
	last := natRegister(t, x1) // by the second one
	for _, later := range []time.Duration{time.Second, 8 * time.Second, time.Minute} {
		rtrs[0].inject(rtrOne+":4342", outsider, last)
		n.run(later)
		rtrs[0].wantForwarded("10.1.0.0/16", x1)
		rtrs[0].wantCounter(counter.NATBindingMoved, 0)
	}
}

// severalRLOCs are a node with RLOCs of which some are behind NATs, and its RTRs.
func severalRLOCs(t *testing.T, nats map[string]string, rlocs ...string) (n *testNetwork, x1, ms *testNode, rtrs []*testNode) {
	t.Helper()
	return rlocsBehind(t, nats, []string{rtrOne, rtrTwo}, rlocs...)
}

// rlocsBehind are those, with these RTRs.
func rlocsBehind(t *testing.T, nats map[string]string, by []string, rlocs ...string) (n *testNetwork, x1, ms *testNode, rtrs []*testNode) {
	t.Helper()
	n, x1, ms, rtrs, _ = severalRTRs(t, by...)
	x1.behind, x1.addrs = nil, nil
	x1.links = map[netip.Addr]*natBox{}
	for _, r := range rlocs {
		x1.addrs = append(x1.addrs, netip.MustParseAddr(r))
		if outside := nats[r]; outside != "" {
			x1.links[netip.MustParseAddr(r)] = n.nat([]string{outside})
		}
	}
	c := xtrConfig(1, natServer, rlocs, "10.1.0.0/16")
	c.ETR.NAT = &NATTraversal{}
	x1.configure(c)
	n.run(2 * time.Second)
	return n, x1, ms, rtrs
}

// TestManyRTRsOfSeveralRLOCs: each RLOC behind a NAT gets its part of the paths, and none is registered as reachable.
func TestManyRTRsOfSeveralRLOCs(t *testing.T) {
	var addresses []string
	for i := range settings.MaxRTRs {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", 120+i))
	}
	for _, few := range []int{9, settings.MaxRTRs} {
		nats := map[string]string{"192.168.1.2": "198.51.100.11", "192.168.2.2": "198.51.100.12"}
		n, x1, ms, rtrs := rlocsBehind(t, nats, addresses[:few], "192.168.1.2", "192.168.2.2")
		n.run(5 * time.Second)
		paths := map[netip.Addr]int{}
		for _, r := range x1.NAT().RTRs {
			paths[r.Local]++
		}
		for private := range nats {
			if paths[netip.MustParseAddr(private)] < few/2 {
				t.Errorf("%d RTRs: %v", few, paths)
			}
		}
		rtrs[0].wantTranslated("10.1.0.0/16", "198.51.100.11 1", "198.51.100.12 1")
		ms.wantReached("10.1.0.0/16", addresses[:min(few, settings.MaxRTRs/2)]...)
	}
}

// wantTranslated asserts to which NATs an RTR sends packets of an EID-Prefix, with priorities.
func (d *testNode) wantTranslated(prefix string, want ...string) {
	d.net.t.Helper()
	var got []string
	for _, l := range d.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators {
		got = append(got, fmt.Sprintf("%s %d", l.RLOC.Addr(), l.Priority))
		if l.SourcePort != wire.ControlPort {
			d.net.t.Errorf("%s is sent to from port %d", l.RLOC, l.SourcePort)
		}
	}
	if !slices.Equal(got, want) {
		d.net.t.Errorf("%s: %s goes to %v, want %v", d.name, prefix, got, want)
	}
}

// TestRTRsBesidePublicRLOC: others are told of the RTRs and of the RLOC that no NAT is before, in whichever order the
// node has them; of that alone where no RTR answers.
func TestRTRsBesidePublicRLOC(t *testing.T) {
	for _, rlocs := range [][]string{{"192.168.1.2", "203.0.113.7"}, {"203.0.113.7", "192.168.1.2"}} {
		n, x1, ms, rtrs := severalRLOCs(t, map[string]string{"192.168.1.2": "198.51.100.11"}, rlocs...)
		ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo, "203.0.113.7")
		rtrs[0].wantTranslated("10.1.0.0/16", "198.51.100.11 1")
		x1.wantByRTRs(rtrOne, rtrTwo)
		n.lose = away(rtrs...)
		n.run(5 * time.Minute)
		ms.wantReached("10.1.0.0/16", "203.0.113.7")
		x1.wantNotCached("0.0.0.0/0")
		n.lose = nil
		n.run(settings.DefaultKeepalive + 2*time.Second)
		ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo, "203.0.113.7")
		x1.wantByRTRs(rtrOne, rtrTwo)
	}
}

// TestSeveralRLOCsBehindNATs: each RTR sends to both, and to one alone where the NAT before the other one lets nothing
// through.
func TestSeveralRLOCsBehindNATs(t *testing.T) {
	n, x1, ms, rtrs := severalRLOCs(t, map[string]string{"192.168.1.2": "198.51.100.11", "192.168.2.2": "198.51.100.12"},
		"192.168.1.2", "192.168.2.2")
	for range 2 {
		ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
		for _, r := range rtrs {
			r.wantTranslated("10.1.0.0/16", "198.51.100.11 1", "198.51.100.12 1")
			r.wantCounter(counter.NATBindingMoved, 0)
			r.wantCounter(counter.RefusedNATReplay, 0)
		}
		if s := x1.NAT(); len(s.RTRs) != 4 || len(s.Views) != 2 {
			t.Errorf("%+v", s)
		}
		n.run(20 * time.Minute)
	}
	ms.wantCounter(counter.RefusedReplay, 0)
	second := netip.MustParseAddr("192.168.2.2")
	n.lose = func(from *testNode, p SendPacket) bool { return from == x1 && p.Local.Addr() == second }
	n.run(settings.DefaultKeepalive + 5*time.Second)
	for _, r := range rtrs {
		r.wantTranslated("10.1.0.0/16", "198.51.100.11 1", "198.51.100.12 255")
	}
	ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
	n.run(10 * time.Minute)
	rtrs[0].wantTranslated("10.1.0.0/16", "198.51.100.11 1")
	n.lose = nil
	n.run(settings.DefaultKeepalive + 5*time.Second)
	rtrs[0].wantTranslated("10.1.0.0/16", "198.51.100.11 1", "198.51.100.12 1")
}

// TestRLOCThatLeaves: an RTR sends to it no more from the next Map-Register on.
func TestRLOCThatLeaves(t *testing.T) {
	n, x1, _, rtrs := severalRLOCs(t, map[string]string{"192.168.1.2": "198.51.100.11", "192.168.2.2": "198.51.100.12"},
		"192.168.1.2", "192.168.2.2")
	c := xtrConfig(1, natServer, []string{"192.168.2.2"}, "10.1.0.0/16")
	c.ETR.NAT = &NATTraversal{}
	x1.configure(c)
	n.run(time.Second)
	for _, r := range rtrs {
		r.wantTranslated("10.1.0.0/16", "198.51.100.12 1")
	}
}

// TestMoreRLOCsThanAnRTRKeeps: those beyond are not asked about, nor registered as reachable, and it is told. The RTR's
// binding stays as it is.
func TestMoreRLOCsThanAnRTRKeeps(t *testing.T) {
	nats, list := map[string]string{}, []string{}
	for i := range settings.NATRLOCs + 2 {
		list = append(list, fmt.Sprintf("192.168.%d.2", i+1))
		nats[list[i]] = fmt.Sprintf("198.51.100.%d", i+11)
	}
	n, x1, ms, rtrs := severalRLOCs(t, nats, list...)
	n.run(5 * time.Second)
	ms.wantReached("10.1.0.0/16", rtrOne, rtrTwo)
	var want []string
	for i := range settings.NATRLOCs {
		want = append(want, fmt.Sprintf("198.51.100.%d 1", i+11))
	}
	rtrs[0].wantTranslated("10.1.0.0/16", want...)
	if s := x1.NAT(); !slices.Equal(s.Unasked, []lisp.RLOC{rloc(list[8]), rloc(list[9])}) {
		t.Errorf("%v are not asked about", s.Unasked)
	}
	n.run(20 * time.Minute)
	rtrs[0].wantCounter(counter.NATBindingMoved, 0)
	rtrs[0].wantCounter(counter.NATRLOCExpired, 0)
	x1.configure(natNode(1, natServer, list[0], "10.1.0.0/16"))
	if s := x1.NAT(); len(s.Unasked) > 0 {
		t.Errorf("%v are not asked about", s.Unasked)
	}
}

// TestMovesFromNATToNAT: where an RLOC behind a NAT takes the place of one whose link is lost, the first Map-Register
// leaves from it, whichever of them comes first, and the RTR sends to it alone. The node keeps the RLOC that it lost in
// mind.
func TestMovesFromNATToNAT(t *testing.T) {
	const one, two = "192.168.1.2", "192.168.2.2"
	nats := map[string]string{one: "198.51.100.11", two: "198.51.100.12"}
	n, x1, _, rtrs := rlocsBehind(t, nats, []string{rtrOne}, one)
	x1.addrs, x1.links[netip.MustParseAddr(two)] = append(x1.addrs, netip.MustParseAddr(two)), n.nat([]string{nats[two]})
	for move := range 6 {
		up, want := two, []string{"198.51.100.11 255", "198.51.100.12 1"}
		if move%2 == 1 {
			up, want = one, []string{"198.51.100.11 1", "198.51.100.12 255"}
		}
		x1.configure(natNodeWithOneUp("", one, two))
		n.lose = func(from *testNode, p SendPacket) bool { return from == x1 }
		n.run(4 * time.Second)
		n.lose = func(from *testNode, p SendPacket) bool {
			return from == x1 && p.Local.Addr() != netip.MustParseAddr(up)
		}
		x1.configure(natNodeWithOneUp(up, one, two))
		n.run(8 * oneWay) // less than an RTR is waited for
		rtrs[0].wantTranslated("10.1.0.0/16", want...)
		n.run(3 * time.Second)
	}
}

// natNodeWithOneUp is a node with RLOCs behind NATs, of which the others are down.
func natNodeWithOneUp(up string, rlocs ...string) Config {
	c := xtrConfig(1, natServer, rlocs, "10.1.0.0/16")
	c.ETR.NAT = &NATTraversal{}
	set := slices.Clone(c.ETR.Database[0].Locators)
	for i := range set {
		set[i].Reachable = set[i].RLOC.String() == up
	}
	c.ETR.Database[0].Locators = set
	return c
}

// TestSeveralRTRsOfIPv6: both forward to a node that has RLOCs of IPv6 alone; one dies, and comes back; a NAT forgets
// the bindings of both.
func TestSeveralRTRsOfIPv6(t *testing.T) {
	const one, two, private = "2001:db8:f::101", "2001:db8:f::102", "fd00::2"
	n := newNetwork(t)
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48")
	c.LocalRLOCs = []lisp.RLOC{rloc(natServer6)}
	var rtrs []*testNode
	for i, a := range []string{one, two} {
		keys := []Key{{ID: 9, Algorithm: 2, Secret: fmt.Appendf(nil, "between Map-Server and RTR %d", i)}}
		c.MapServer.RTRs = append(c.MapServer.RTRs, RTRPeer{Address: netip.MustParseAddr(a), Keys: keys})
		relay := rtrConfig(a, keys)
		relay.ITR.MapResolvers = []netip.AddrPort{addrPort(natServer6)}
		relay.NATRelay.MapServers[0].Address = netip.MustParseAddr(natServer6)
		rtrs = append(rtrs, n.add("rtr"+a, relay, a))
	}
	ms := n.add("ms", c, natServer6)
	x1 := n.add("x1", Config{}, private)
	box := n.nat([]string{"2001:db8:e::1"}, x1)
	x1.configure(natNode(1, natServer6, private, "10.1.0.0/16", "2001:db8:1::/48"))
	wantBoth := func() {
		t.Helper()
		for _, r := range rtrs {
			r.wantForwarded("10.1.0.0/16", x1)
			r.wantForwarded("2001:db8:1::/48", x1)
		}
		ms.wantReached("10.1.0.0/16", one, two)
		x1.wantByRTRs(one, two)
	}
	n.run(time.Second)
	wantBoth()
	n.lose = away(rtrs[0])
	n.run(settings.DefaultKeepalive + 5*time.Minute)
	x1.wantByRTRs(two)
	ms.wantReached("2001:db8:1::/48", two)
	rtrs[1].wantForwarded("10.1.0.0/16", x1)
	n.lose = nil
	n.run(settings.DefaultKeepalive + time.Second)
	wantBoth()
	box.flush()
	n.run(settings.DefaultKeepalive + time.Second)
	wantBoth()
	ms.wantCounter(counter.RefusedReplay, 0)
}
