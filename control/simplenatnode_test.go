// SPDX-License-Identifier: Apache-2.0

package control

// A node of simple-nat behind a NAT, with our RTR and Map-Server.

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// simpleNATNode is a node behind a NAT that speaks a protocol, and its server.
func simpleNATNode(t *testing.T, protocol NATProtocol) (n *testNetwork, x, server *testNode, box *natBox) {
	t.Helper()
	return simpleNATNodeOf(t, protocol, simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16"))
}

func simpleNATNodeOf(t *testing.T, protocol NATProtocol, servers Config) (n *testNetwork, x, server *testNode, box *natBox) {
	t.Helper()
	n = newNetwork(t)
	server = n.add("server", servers, natServer, natServer6)
	x = n.add("x", Config{}, "192.168.1.2")
	box = n.nat([]string{natOutside}, x)
	n.lose = func(from *testNode, p SendPacket) bool { // lispers.net's Map-Server ignores those of the other protocol
		m, err := wire.Parse(p.Payload)
		ask, is := m.(*wire.InfoRequest)
		return protocol == NATAuto && err == nil && is && ask.KeyID+ask.AlgorithmID != 0
	}
	c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48")
	c.ETR.NAT = &NATTraversal{Protocol: protocol}
	x.configure(c)
	n.run(map[NATProtocol]time.Duration{NATSimple: 5 * time.Second, NATAuto: 35 * time.Second}[protocol])
	return n, x, server, box
}

// wantLetIn asserts that the RTR sends packets of an EID-Prefix to where the NAT lets them in, to the node's data port.
func (d *testNode) wantLetIn(when, prefix string, box *natBox) {
	d.net.t.Helper()
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	if !ok || len(e.Mapping.Locators) != 1 {
		d.net.t.Errorf("%s: %s: %s", when, prefix, e.Mapping)
		return
	}
	l := e.Mapping.Locators[0]
	flow := box.byPort[netip.AddrPortFrom(l.RLOC.Addr(), l.RLOC.Port())]
	if l.SourcePort != wire.DataPort || flow.inside.Port() != wire.DataPort || flow.remote != netip.MustParseAddrPort(natServer+":4341") {
		d.net.t.Errorf("%s: %s goes to %s from port %d, where the NAT has %v", when, prefix, l.RLOC, l.SourcePort, flow)
	}
}

// TestNodeOfSimpleNAT behind a NAT: it registers its translated address and the RTRs, sends all to the RTRs, and is
// reached by them, in both families of EIDs; also where the protocol is the one that is answered. What the NAT forgot
// the next keepalive makes again.
func TestNodeOfSimpleNAT(t *testing.T) {
	for name, protocol := range map[string]NATProtocol{"simple": NATSimple, "auto": NATAuto} {
		t.Run(name, func(t *testing.T) {
			n, x, server, box := simpleNATNode(t, protocol)
			for _, r := range server.registered() {
				if len(r.Mapping.Locators) != 2 || r.Mapping.Locators[0].RLOC != rloc(natServer) || r.Mapping.Locators[0].Priority != 254 ||
					r.Mapping.Locators[1].RLOC != rloc(natOutside) || r.Mapping.Locators[1].Address == "" {
					t.Errorf("registered: %s", r.Mapping)
				}
			}
			if got := len(server.registered()); got != 2 {
				t.Errorf("%d EID-Prefixes are registered", got)
			}
			x.wantByRTR(natServer)
			server.miss("10.2.0.1", "10.1.0.1")
			server.miss("10.2.0.1", "10.1.0.2")
			n.run(time.Second)
			server.wantLetIn("at first", "10.1.0.0/16", box)
			if x.counter(counter.RefusedControlInData) != 0 || x.counter(counter.RefusedInfoReply) != 0 {
				t.Error("answers of the RTR or the Map-Server are refused")
			}
			box.flush()
			n.run(26 * time.Second)
			server.wantLetIn("forgot", "10.1.0.0/16", box)
			server.wantCounter(counter.NATBindingMoved, 1)
			box.public[0] = netip.MustParseAddr("203.0.113.5")
			box.flush()
			n.run(2 * 26 * time.Second)
			server.wantLetIn("another address", "10.1.0.0/16", box)
		})
	}
}

// TestWithdrawalBySimpleNAT is acknowledged through the NAT, also where the first Map-Notify is lost and nothing is
// registered any more.
func TestWithdrawalBySimpleNAT(t *testing.T) {
	for _, lost := range []int{0, 1} {
		n, x, server, _ := simpleNATNode(t, NATSimple)
		left := lost
		n.lose = func(from *testNode, p SendPacket) bool {
			if from != server || wire.MessageType(p.Payload[0]>>4) != wire.TypeMapNotify || left == 0 {
				return false
			}
			left--
			return true
		}
		c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
		c.ETR.NAT = &NATTraversal{Protocol: NATSimple}
		x.sent, x.sentAt = nil, nil
		x.configure(c)
		n.run(30 * time.Second)
		if got := x.withdrawals(); got != 1+lost {
			t.Errorf("%d Map-Notifies lost: %d withdrawals are sent", lost, got)
		}
		if got := server.registered(); len(got) != 1 {
			t.Errorf("registered: %v", got)
		}
	}
}

// withdrawals is how many Map-Registers with a TTL of 0 a node sent.
func (d *testNode) withdrawals() (count int) {
	for _, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		if r, is := m.(*wire.MapRegister); err == nil && is && r.Records[0].TTLMinutes == 0 {
			count++
		}
	}
	return count
}

// TestNodeOfTheOtherProtocol: where both are answered, authenticated Info-Replies count; where no NAT is on the way,
// or the protocol is another one, nothing of simple-nat is done.
func TestNodeOfTheOtherProtocol(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", simpleNATServer("10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{natOutside}, x1)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	c := natNode(2, natServer, "192.0.2.2", "10.2.0.0/16")
	c.ETR.NAT = &NATTraversal{Protocol: NATSimple}
	x2 := n.add("x2", c, "192.0.2.2")
	n.run(time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
	x2.wantNotCached("0.0.0.0/0")
	if server.NATHostCount() != 0 || x2.counter(counter.InfoReplyReceived) == 0 {
		t.Errorf("%d hosts are known, %d answers", server.NATHostCount(), x2.counter(counter.InfoReplyReceived))
	}
}

// TestAutoWantsAnRTRThatAnswers: a Map-Server may speak simple-nat, and offer an RTR that does not.
func TestAutoWantsAnRTRThatAnswers(t *testing.T) {
	servers := simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")
	servers.NATRelay.SimpleNAT = false
	n, x, server, _ := simpleNATNodeOf(t, NATAuto, servers)
	n.run(5 * time.Minute)
	x.wantNotCached("0.0.0.0/0")
	for _, r := range server.registered() {
		if len(r.Mapping.Locators) != 1 || r.Mapping.Locators[0].RLOC != rloc("192.168.1.2") {
			t.Errorf("registered: %s", r.Mapping)
		}
	}
	if x.counter(counter.NATKeepaliveUnanswered) == 0 || len(server.registered()) != 2 {
		t.Errorf("%d EID-Prefixes are registered, %d RLOC-probes unanswered", len(server.registered()), x.counter(counter.NATKeepaliveUnanswered))
	}
	n.lose = nil // the other protocol is answered now
	n.run(11 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x)
}

// TestRLOCChangesBehindSimpleNAT: until the Map-Servers say how the node looks from its other RLOC it counts as behind a
// NAT, and is registered with the RTRs; afterwards as they say.
func TestRLOCChangesBehindSimpleNAT(t *testing.T) {
	n, x, server, box := simpleNATNode(t, NATSimple)
	lost := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		_, is := m.(*wire.InfoReply)
		if from == server && err == nil && is {
			lost++
			return true
		}
		return false
	}
	x.addrs = append(x.addrs, netip.MustParseAddr("192.168.1.3"))
	c := natNode(1, natServer, "192.168.1.3", "10.1.0.0/16", "2001:db8:1::/48")
	c.ETR.NAT = &NATTraversal{Protocol: NATSimple}
	x.configure(c)
	for range 20 {
		n.run(time.Second)
		for _, r := range server.registered() {
			if len(r.Mapping.Locators) != 2 || r.Mapping.Locators[0].Priority != 254 {
				t.Fatalf("registered without the RTR: %s", r.Mapping)
			}
		}
	}
	if lost == 0 {
		t.Error("it asks no Map-Server from its other RLOC")
	}
	n.lose = nil
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Minute)
	x.wantByRTR(natServer)
	server.miss("10.2.0.1", "10.1.0.2")
	n.run(time.Second)
	server.wantLetIn("from its other RLOC", "10.1.0.0/16", box)
}

// TestForgedInfoRepliesOfSimpleNAT change nothing: of another nonce, from another address, or that name this router
// as RTR.
func TestForgedInfoRepliesOfSimpleNAT(t *testing.T) {
	n, x, _, _ := simpleNATNode(t, NATSimple)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x }
	x.sent = nil
	n.run(30 * time.Second)
	var nonce uint64
	for _, p := range x.sent {
		m, err := wire.Parse(p.Payload)
		if ask, is := m.(*wire.InfoRequest); err == nil && is {
			nonce = ask.Nonce
		}
	}
	forged := func(nonce uint64, seen wire.IPv4, rtr wire.IPv4) []byte {
		return encoded(t, &wire.InfoReply{InfoRequest: wire.InfoRequest{Nonce: nonce, EID: wire.NoAddress{}}, NAT: &wire.NATTraversalLCAF{
			ETRPort: 9, GlobalETR: seen, MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{}, RTRs: []wire.Address{rtr}}})
	}
	before := x.counter(counter.RefusedInfoReply)
	x.inject("192.168.1.2:4342", natServer+":4342", forged(nonce+1, wire.IPv4{203, 0, 113, 66}, wire.IPv4{203, 0, 113, 66}))
	x.inject("192.168.1.2:4342", "203.0.113.66:4342", forged(nonce, wire.IPv4{203, 0, 113, 66}, wire.IPv4{203, 0, 113, 66}))
	x.inject("192.168.1.2:4342", natServer+":4342", forged(nonce, wire.IPv4{203, 0, 113, 66}, wire.IPv4{192, 168, 1, 2}))
	x.inject("192.168.1.2:4342", natServer+":4342", forged(nonce, wire.IPv4{127, 0, 0, 1}, wire.IPv4{203, 0, 113, 66}))
	if got := x.counter(counter.RefusedInfoReply) - before; got != 4 {
		t.Errorf("%d are refused, want 4", got)
	}
	x.wantByRTR(natServer)
}

// TestSilentRTRsOfSimpleNAT: one that answered and is silent is neither registered nor used while another answers; one
// that never answered is, for lispers.net's need not.
func TestSilentRTRsOfSimpleNAT(t *testing.T) {
	n := newNetwork(t)
	c := simpleNATServer("10.1.0.0/16", "10.2.0.0/16")
	for _, a := range []string{"192.0.2.50", "192.0.2.51"} {
		c.MapServer.RTRs = append(c.MapServer.RTRs, RTRPeer{Address: netip.MustParseAddr(a)})
	}
	server := n.add("server", c, natServer, natServer6)
	other := simpleNATServer()
	other.MapServer, other.MapResolver, other.LocalRLOCs = nil, nil, []lisp.RLOC{rloc("192.0.2.50")}
	rtr := n.add("rtr", other, "192.0.2.50")
	x := n.add("x", Config{}, "192.168.1.2")
	n.nat([]string{natOutside}, x)
	node := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
	node.ETR.NAT = &NATTraversal{Protocol: NATSimple, Keepalive: 10 * time.Second}
	x.configure(node)
	n.run(5 * time.Second)
	x.wantCached("0.0.0.0/0", "192.0.2.50", "192.0.2.51", natServer)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == rtr }
	n.run(30 * time.Second)
	x.wantCached("0.0.0.0/0", "192.0.2.51", natServer)
	if r := server.registered(); len(r) != 1 || len(r[0].Mapping.Locators) != 3 {
		t.Errorf("registered: %+v", r)
	}
	s := x.NAT()
	if len(s.Views) != 1 || !s.Views[0].Behind || len(s.RTRs) != 3 || !s.RTRs[1].Silent || s.RTRs[2].Silent || s.RTRs[0].ConfirmedAt.IsZero() {
		t.Errorf("shown: %+v", s)
	}
	n.lose = nil
	n.run(11 * time.Second)
	x.wantCached("0.0.0.0/0", "192.0.2.50", "192.0.2.51", natServer)
}

// TestProbesOfAnRTROfSimpleNAT: lispers.net's RTR sends to a node only while that answers RLOC-probes by the NAT's
// binding for data. Those from others, or about EIDs of others, are not answered.
func TestProbesOfAnRTROfSimpleNAT(t *testing.T) {
	_, x, _, _ := simpleNATNode(t, NATSimple)
	probe := func(eid wire.IPv4) []byte {
		b, err := wire.AppendControlInData(nil, netip.MustParseAddrPort(natServer+":4342"), netip.MustParseAddrPort(natOutside+":4342"), encoded(t, &wire.MapRequest{
			Probe: true, Nonce: 11, SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 100}},
			Records: []wire.RequestRecord{{MaskLen: 16, EID: eid}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return b[8:]
	}
	x.sent = nil
	x.inData("203.0.113.66:4341", probe(wire.IPv4{10, 1, 0, 0}))
	x.inData(natServer+":4342", probe(wire.IPv4{10, 1, 0, 0}))
	x.inData(natServer+":4341", probe(wire.IPv4{10, 2, 0, 0}))
	if len(x.sent) != 0 {
		t.Fatalf("answered: %v", x.sent)
	}
	x.wantCounter(counter.RefusedControlInData, 3)
	x.inData(natServer+":4341", probe(wire.IPv4{10, 1, 0, 0}))
	if len(x.sent) != 1 || x.sent[0].Local.Port() != wire.DataPort || x.sent[0].Remote.String() != natServer+":4341" {
		t.Fatalf("sent %v", x.sent)
	}
}

// TestOnlyAcknowledgedRegistrationsReachRTRs: a Map-Notify that a Map-Server sends unasked, or that acknowledges
// an earlier Map-Register, says nothing of what is registered since. The one that acknowledges it does.
func TestOnlyAcknowledgedRegistrationsReachRTRs(t *testing.T) {
	n, x, server, box := simpleNATNode(t, NATSimple)
	var notify []byte
	hold := false
	n.lose = func(from *testNode, p SendPacket) bool {
		if from != server || wire.MessageType(p.Payload[0]>>4) != wire.TypeMapNotify {
			return false
		}
		notify = p.Payload
		return hold
	}
	n.run(2 * time.Minute)
	earlier := notify
	if earlier == nil {
		t.Fatal("no Map-Notify")
	}
	hold = true
	box.public[0] = netip.MustParseAddr("203.0.113.5")
	box.flush()
	for before := x.NAT().Views[0].Seen; x.NAT().Views[0].Seen.Addr() == before.Addr(); {
		n.run(100 * time.Millisecond)
	}
	n.run(2 * time.Second)
	sent := x.counter(counter.NATKeepaliveSent)
	x.inject("192.168.1.2:4342", natServer+":4342", earlier)
	if got := x.counter(counter.NATKeepaliveSent); got != sent {
		t.Errorf("%d keepalives after a Map-Notify that acknowledges nothing", got-sent)
	}
	x.inject("192.168.1.2:4342", natServer+":4342", notify)
	if got := x.counter(counter.NATKeepaliveSent); got != sent+1 {
		t.Errorf("%d keepalives after the Map-Notify that acknowledges it", got-sent)
	}
}
