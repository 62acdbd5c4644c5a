// SPDX-License-Identifier: Apache-2.0

package control

// NAT traversal (draft-ermagan-lisp-nat-traversal): nodes behind NATs, their RTR and their Map-Server.

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

const natServer, natServer6 = "192.0.2.100", "2001:db8:f::100"

// natServerConfig is one server on the Internet: Map-Server, Map-Resolver and RTR at one address.
func natServerConfig(keys []Key, sites ...string) Config {
	c := mapServerConfig(sites...)
	c.LocalRLOCs = []lisp.RLOC{rloc(natServer), rloc(natServer6)}
	c.ITR = &ITRConfig{MapResolvers: []netip.AddrPort{addrPort(natServer)}}
	c.NATRelay = &NATRelay{EIDs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}
	for _, a := range []string{natServer, natServer6} {
		c.MapServer.RTRs = append(c.MapServer.RTRs, RTRPeer{Address: netip.MustParseAddr(a), Keys: keys})
		c.NATRelay.MapServers = append(c.NATRelay.MapServers, NATMapServer{Address: netip.MustParseAddr(a), Keys: keys})
	}
	return c
}

// natNode is a node that looks for NATs.
func natNode(id byte, ms, local string, prefixes ...string) Config {
	c := xtrConfig(id, ms, []string{local}, prefixes...)
	c.ETR.NAT = &NATTraversal{}
	return c
}

func rtrKeys() []Key {
	return []Key{{ID: 9, Algorithm: 2, Secret: []byte("between Map-Server and RTR")}}
}

// natSites are two nodes of one private address behind two NATs, and their server.
func natSites(t *testing.T, keys []Key) (n *testNetwork, x1, x2, server *testNode, first, second *natBox) {
	t.Helper()
	n = newNetwork(t)
	server = n.add("server", natServerConfig(keys, "10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48"), natServer, natServer6)
	x1 = n.add("x1", Config{}, "192.168.1.2")
	x2 = n.add("x2", Config{}, "192.168.1.2")
	first, second = n.nat([]string{"198.51.100.1"}, x1), n.nat([]string{"198.51.100.2"}, x2)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48"))
	x2.configure(natNode(2, natServer, "192.168.1.2", "10.2.0.0/16"))
	n.run(time.Second)
	return n, x1, x2, server, first, second
}

// wantForwarded asserts that the RTR sends packets of an EID-Prefix to where a NAT lets them in from its control
// port, and to which node.
func (d *testNode) wantForwarded(prefix string, to *testNode) {
	d.net.t.Helper()
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	if !ok || len(e.Mapping.Locators) != 1 {
		d.net.t.Errorf("%s: %s is not forwarded: %v", d.name, prefix, e.Mapping)
		return
	}
	l := e.Mapping.Locators[0]
	outside := netip.AddrPortFrom(l.RLOC.Addr(), l.RLOC.Port())
	flow, known := to.behind.byPort[outside]
	if !known || l.SourcePort != wire.ControlPort || flow.inside.Port() != wire.DataPort || to.behind.inside[flow.inside] != to || flow.remote.Port() != wire.ControlPort {
		d.net.t.Errorf("%s: %s goes to %s from port %d; the NAT has %v there", d.name, prefix, outside, l.SourcePort, flow)
	}
}

// wantByRTR asserts that a node sends everything to the RTR, from the data port.
func (d *testNode) wantByRTR(rtr string) {
	d.net.t.Helper()
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		d.wantCached(all, rtr)
		if e := d.cache[lisp.MustParsePrefix(all)]; len(e.Mapping.Locators) > 0 && e.Mapping.Locators[0].SourcePort != wire.DataPort {
			d.net.t.Errorf("%s: %s is sent from port %d", d.name, all, e.Mapping.Locators[0].SourcePort)
		}
	}
}

// TestNodeBehindNAT: registered by the RTR, which forwards to it; others find the RTR, and not the private RLOC.
func TestNodeBehindNAT(t *testing.T) {
	for _, keys := range [][]Key{nil, rtrKeys()} {
		n, x1, x2, server, _, _ := natSites(t, keys)
		server.wantForwarded("10.1.0.0/16", x1)
		server.wantForwarded("2001:db8:1::/48", x1)
		server.wantForwarded("10.2.0.0/16", x2)
		x1.wantByRTR(natServer)
		for s := range x1.MapServers() {
			if s.State != MapServerRegistered {
				t.Errorf("state %s", s.State)
			}
		}
		x3 := n.add("x3", xtrConfig(3, natServer, []string{"192.0.2.3"}, "10.3.0.0/16"), "192.0.2.3")
		x3.miss("10.3.0.1", "10.1.0.1")
		n.run(time.Second)
		for _, r := range server.registered() {
			if direct := r.From.Addr() == netip.MustParseAddr("192.0.2.3"); r.ByRTR == direct {
				t.Errorf("%s from %s: by an RTR: %t", r.Prefix, r.From, r.ByRTR)
			}
		}
		e := x3.cache[lisp.MustParsePrefix("10.1.0.0/16")]
		usable := slices.DeleteFunc(slices.Clone(e.Mapping.Locators), func(l lisp.Locator) bool { return !l.Usable() })
		if len(usable) != 1 || usable[0].RLOC != rloc(natServer) {
			t.Errorf("others find %s", e.Mapping)
		}
	}
}

// TestNodeBehindNATOfIPv6 is the same with IPv6 RLOCs.
func TestNodeBehindNATOfIPv6(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "fd00::2")
	n.nat([]string{"2001:db8:e::1"}, x1)
	x1.configure(natNode(1, natServer6, "fd00::2", "10.1.0.0/16"))
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	x1.wantByRTR(natServer6)
}

// TestNoNATChangesNothing: without a NAT, and where no one answers Info-Requests, a node registers as ever; with
// `rtr: always` by the RTR all the same.
func TestNoNATChangesNothing(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", natNode(1, natServer, "192.0.2.1", "10.1.0.0/16"), "192.0.2.1")
	always := natNode(2, natServer, "192.0.2.2", "10.2.0.0/16")
	always.ETR.NAT.Always = true
	x2 := n.add("x2", always, "192.0.2.2")
	n.lose = func(from *testNode, p SendPacket) bool {
		return from.name == "x3" && p.Payload[0]>>4 == byte(wire.TypeInfo)
	}
	x3 := n.add("x3", natNode(3, natServer, "192.0.2.3", "10.3.0.0/16"), "192.0.2.3")
	n.run(10 * time.Minute)
	for _, d := range []*testNode{x1, x3} {
		d.wantNotCached("0.0.0.0/0")
		d.wantCounter(counter.NATKeepaliveSent, 0)
		if s := d.NAT(); s == nil || len(s.RTRs) > 0 {
			t.Errorf("%s: %+v", d.name, s)
		}
	}
	if r := server.registered(); len(r) != 3 || r[0].From.Addr() != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("registered: %v", r)
	}
	if sent := x3.counter(counter.InfoRequestSent); sent > 9 { // of both protocols
		t.Errorf("%d Info-Requests in ten minutes that no one answers", sent)
	}
	x2.wantCached("0.0.0.0/0", natServer)
	server.wantCached("10.2.0.0/16", "192.0.2.2")
}

// TestInfoRequestDelaysNothing: the first Map-Register goes in the same moment, whatever becomes of the Info-Request.
func TestInfoRequestDelaysNothing(t *testing.T) {
	n := newNetwork(t)
	x1 := n.add("x1", natNode(1, natServer, "192.0.2.1", "10.1.0.0/16"), "192.0.2.1")
	registers, infos := sentMessages[*wire.MapRegister](x1), sentMessages[*wire.InfoRequest](x1)
	if len(registers) != 1 || len(infos) != 1 || !x1.sentAt[0].Equal(n.now) || !x1.sentAt[1].Equal(n.now) {
		t.Errorf("%d Map-Registers and %d Info-Requests at once", len(registers), len(infos))
	}
	if p := x1.sent[1]; p.Local.Port() != wire.ControlPort || p.Remote.Port() != wire.ControlPort {
		t.Errorf("Info-Request from %s to %s", p.Local, p.Remote)
	}
}

// TestBindingIsMadeAgain: after the NAT forgot, with another address or port, the next keepalive finds out.
func TestBindingIsMadeAgain(t *testing.T) {
	n, x1, x2, server, first, second := natSites(t, rtrKeys())
	n.run(149 * time.Second) // Map-Registers went a second ago: the next thing is a keepalive
	for _, d := range []*testNode{x1, x2} {
		d.wantCounter(counter.NATBindingLost, 0)
	}
	first.flush()
	second.public = []netip.Addr{netip.MustParseAddr("198.51.100.77")}
	second.flush()
	n.run(settings.DefaultKeepalive + time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantForwarded("2001:db8:1::/48", x1)
	server.wantForwarded("10.2.0.0/16", x2)
	if server.counter(counter.NATBindingMoved) == 0 {
		t.Error("no binding moved")
	}
}

// TestKeepalivesAreFew: an idle node sends and gets at most 1.2 datagrams for each keepalive.
func TestKeepalivesAreFew(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.run(10 * time.Minute)
	sent, got := len(x1.sent), len(server.sent)
	n.run(time.Hour)
	most := int(time.Hour / settings.DefaultKeepalive * 6 / 5)
	if d := len(x1.sent) - sent; d > most+6 { // and six Info-Requests
		t.Errorf("%d datagrams an hour, want at most %d", d, most)
	}
	both := 0
	for _, p := range server.sent[got:] {
		if p.Remote.Addr() == netip.MustParseAddr("198.51.100.1") {
			both++
		}
	}
	if both > most+6 {
		t.Errorf("%d datagrams an hour to the node, want at most %d", both, most)
	}
	x1.wantCounter(counter.NATBindingLost, 0)
}

// TestSilentRTR: a node goes on registering by it, reports that it is silent, and is back when it is; also where it
// sends no keepalives. A keepalive without an answer is no lost binding.
func TestSilentRTR(t *testing.T) {
	for _, keepalive := range []time.Duration{0, -1} {
		n, x1, _, server, _, _ := natSites(t, nil)
		c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48")
		c.ETR.NAT.Keepalive = keepalive
		x1.configure(c)
		for range 300 {
			if n.run(time.Second); x1.NAT().RTRs[0].Silent {
				t.Fatalf("keepalive %s: silent though it answers", keepalive)
			}
		}
		n.lose = func(from *testNode, p SendPacket) bool { return p.Remote.Addr() == netip.MustParseAddr(natServer) }
		n.run(5 * time.Minute)
		if !x1.NAT().RTRs[0].Silent {
			t.Errorf("keepalive %s: not silent after five minutes", keepalive)
		}
		if unanswered := x1.counter(counter.NATKeepaliveUnanswered) > 0; unanswered != (keepalive == 0) {
			t.Errorf("keepalive %s: %d unanswered", keepalive, x1.counter(counter.NATKeepaliveUnanswered))
		}
		server.wantNotCached("10.1.0.0/16") // expired
		n.lose = nil
		n.run(15 * time.Second)
		server.wantForwarded("10.1.0.0/16", x1)
		if x1.NAT().RTRs[0].Silent {
			t.Errorf("keepalive %s: silent though it answers again", keepalive)
		}
		x1.wantCounter(counter.NATBindingLost, 0)
	}
}

// TestRestartOfTheServer: a server that forgot all knows its nodes again after a keepalive.
func TestRestartOfTheServer(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, rtrKeys())
	n.run(30 * time.Second)
	clear(server.cache)
	server.start()
	n.run(settings.DefaultKeepalive + time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	if len(server.registered()) != 3 {
		t.Errorf("%d registrations", len(server.registered()))
	}
}

// TestRestartsKeepMappings: what NAT traversal made and the data plane kept is used until it is made again, or for a
// minute.
func TestRestartsKeepMappings(t *testing.T) {
	for _, answered := range []bool{true, false} {
		n, x1, _, server, _, _ := natSites(t, nil)
		if !answered {
			n.lose = func(*testNode, SendPacket) bool { return true }
		}
		for _, d := range []*testNode{x1, server} {
			var kept []MapCacheEntry
			for _, e := range d.cache {
				kept = append(kept, e)
			}
			d.start()
			d.AdoptMapCache(n.now, kept)
			d.drain()
		}
		x1.wantByRTR(natServer)
		server.wantForwarded("10.1.0.0/16", x1)
		n.run(2 * time.Minute)
		if answered {
			x1.wantByRTR(natServer)
			server.wantForwarded("10.1.0.0/16", x1)
			continue
		}
		x1.wantNotCached("0.0.0.0/0")
		server.wantNotCached("10.1.0.0/16")
	}
}

// TestMoveBehindNAT: a node that comes to another network registers by the same RTR at once, and packets go there at
// once.
func TestMoveBehindNAT(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.nat([]string{"203.0.113.9"}, x1)
	x1.addrs = []netip.Addr{netip.MustParseAddr("172.16.0.5")}
	x1.configure(natNode(1, natServer, "172.16.0.5", "10.1.0.0/16", "2001:db8:1::/48"))
	x1.wantByRTR(natServer)
	n.run(2*oneWay + 2*oneWay + oneWay)
	server.wantForwarded("10.1.0.0/16", x1)
	x1.behind = nil
	x1.addrs = []netip.Addr{netip.MustParseAddr("192.0.2.44")}
	x1.configure(natNode(1, natServer, "192.0.2.44", "10.1.0.0/16", "2001:db8:1::/48"))
	n.run(time.Second)
	x1.wantNotCached("0.0.0.0/0")
	if from := server.registered()[0].From.Addr(); from != netip.MustParseAddr("192.0.2.44") {
		t.Errorf("registered from %s", from)
	}
}

// natRegister is the last ECM with a Map-Register that a node sent.
func natRegister(t *testing.T, d *testNode) []byte {
	t.Helper()
	for _, p := range slices.Backward(d.sent) {
		if m, err := wire.Parse(p.Payload); err == nil {
			if ecm, ok := m.(*wire.EncapsulatedControlMessage); ok && ecm.ForRTR {
				return bytes.Clone(p.Payload)
			}
		}
	}
	t.Fatal("no ECM for an RTR was sent")
	return nil
}

const outsider = "203.0.113.66:4341"

// TestReplayMovesNothing: from another address, early, late, or of an older message, also where the Map-Server takes
// any nonce.
func TestReplayMovesNothing(t *testing.T) {
	for _, anyNonce := range []bool{false, true} {
		n, x1, _, server, _, _ := natSites(t, nil)
		c := server.config
		ms := *c.MapServer
		ms.Sites = slices.Clone(ms.Sites)
		ms.Sites[0].AcceptAnyNonce = anyNonce
		c.MapServer = &ms
		server.configure(c)
		old := natRegister(t, x1)
		server.inject(natServer+":4342", outsider, old)
		n.run(time.Second)
		server.wantForwarded("10.1.0.0/16", x1)
		n.run(2 * time.Minute)
		server.inject(natServer+":4342", outsider, old)
		server.inject(natServer+":4342", outsider, natRegister(t, x1))
		n.run(time.Second)
		server.wantForwarded("10.1.0.0/16", x1)
		server.wantCounter(counter.RefusedNATReplay, 3)
		server.wantCounter(counter.NATBindingMoved, 0)
	}
}

// forge is a Map-Register for an RTR to relay, under a key that is not the site's.
func forge(t *testing.T, to, prefix string, nonce uint64) []byte {
	t.Helper()
	m := &wire.MapRegister{ProxyReply: true, WantMapNotify: true, XTRIDPresent: true, Nonce: nonce, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32),
		Records: []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 3, Locators: locators(natServer)})}}
	return forRTR(t, m, to, []byte("not the site's key"))
}

// forRTR is a Map-Register in an ECM for an RTR to relay.
func forRTR(t *testing.T, m *wire.MapRegister, to string, key []byte) []byte {
	t.Helper()
	inner, err := wire.AppendSigned(nil, m, key)
	if err != nil {
		t.Fatal(err)
	}
	ecm := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{Source: netip.MustParseAddrPort("10.9.9.9:4342"), Destination: netip.MustParseAddrPort(to), Message: inner}}
	b, err := ecm.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestForgedRegisters: what the RTR relays and the Map-Server does not acknowledge is never forwarded; what it need
// not relay is not.
func TestForgedRegisters(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	server.inject(natServer+":4342", outsider, forge(t, natServer+":4342", "10.1.0.0/16", 1))
	n.run(time.Second)
	server.wantNotCached("10.1.0.0/16")
	server.wantCounter(counter.RefusedAuthentication, 1)
	server.inject(natServer+":4342", outsider, forge(t, "192.0.2.9:4342", "10.1.0.0/16", 2))
	server.inject(natServer+":4342", outsider, forge(t, natServer+":53", "10.1.0.0/16", 3))
	server.wantCounter(counter.RefusedNATMapServer, 2)
	server.inject(natServer+":4342", outsider, forge(t, natServer+":4342", "172.20.0.0/16", 4))
	server.wantCounter(counter.RefusedNATPrefix, 1)
	relayed := server.counter(counter.NATRegisterRelayed)
	for i := range uint64(2 * settings.NATPendingPerSource) {
		server.inject(natServer+":4342", outsider, forge(t, natServer+":4342", "10.1.0.0/16", 100+i))
	}
	if got := server.counter(counter.NATRegisterRelayed) - relayed; got > settings.NATPendingPerSource {
		t.Errorf("%d Map-Registers of one address are relayed", got)
	}
	if server.counter(counter.RefusedNATPending) < settings.NATPendingPerSource {
		t.Errorf("%d are refused", server.counter(counter.RefusedNATPending))
	}
	n.run(settings.NATPendingLast + time.Second)
	if bindings, waiting := server.rtr.Size(); bindings+waiting != 0 {
		t.Errorf("%d bindings, %d waiting", bindings, waiting)
	}
}

// TestForgedNotifies: without MS-RTR authentication, or a wrong one, from a outsider, or with another nonce, none
// verifies anything.
func TestForgedNotifies(t *testing.T) {
	for _, c := range []struct {
		what     string
		from     string
		keys     []Key // of the Map-Server
		nonce    uint64
		refused  counter.Counter
		verifies bool
	}{
		{"right", natServer, rtrKeys(), 0, counter.RefusedRTRAuthentication, true},
		{"without authentication", natServer, nil, 0, counter.RefusedRTRAuthentication, false},
		{"wrong key", natServer, []Key{{ID: 9, Algorithm: 2, Secret: []byte("another one")}}, 0, counter.RefusedRTRAuthentication, false},
		{"wrong key ID", natServer, []Key{{ID: 8, Algorithm: 2, Secret: rtrKeys()[0].Secret}}, 0, counter.RefusedRTRAuthentication, false},
		{"wrong algorithm", natServer, []Key{{ID: 9, Algorithm: 1, Secret: rtrKeys()[0].Secret}}, 0, counter.RefusedRTRAuthentication, false},
		{"another router", "203.0.113.66", rtrKeys(), 0, counter.RefusedNATMapServer, false},
		{"another nonce", natServer, rtrKeys(), 1, counter.RefusedNATNonce, false},
	} {
		n := newNetwork(t)
		server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16"), natServer, natServer6)
		x1 := n.add("x1", Config{}, "192.168.1.2")
		n.nat([]string{"198.51.100.1"}, x1)
		n.lose = func(from *testNode, p SendPacket) bool { // the Map-Server's own answer
			return from == server && p.Remote == netip.MustParseAddrPort(natServer+":4342")
		}
		x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
		n.run(100 * time.Millisecond)
		ecm, err := wire.Parse(natRegister(t, x1))
		if err != nil {
			t.Fatal(err)
		}
		register, err := wire.Parse(ecm.(*wire.EncapsulatedControlMessage).Inner.Message)
		if err != nil {
			t.Fatal(err)
		}
		notify, err := (&wire.MapNotify{Nonce: register.(*wire.MapRegister).Nonce + c.nonce, AlgorithmID: 2, Authentication: make([]byte, 32)}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
			Source: netip.MustParseAddrPort(natServer + ":4342"), Destination: netip.MustParseAddrPort("192.168.1.2:4342"), Message: notify}}
		if len(c.keys) > 0 {
			k := c.keys[0]
			answer.Security = true
			if answer.AuthData, err = wire.AppendRTRAuthentication(nil, wire.RTRKey{ID: k.ID, Algorithm: k.Algorithm, Secret: k.Secret}, wire.FullMACOctets(k.Algorithm), notify); err != nil {
				t.Fatal(err)
			}
		}
		b, err := answer.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		server.inject(natServer+":4342", c.from+":4342", b)
		if c.verifies {
			server.wantForwarded("10.1.0.0/16", x1)
			continue
		}
		server.wantNotCached("10.1.0.0/16")
		if server.counter(c.refused) != 1 {
			t.Errorf("%s: %s is %d", c.what, c.refused, server.counter(c.refused))
		}
	}
}

// TestControlInDataOfOthers: what no RTR of the node sent changes nothing, and from the RTR only what it may send.
func TestControlInDataOfOthers(t *testing.T) {
	n, x1, _, _, _, _ := natSites(t, nil)
	notify := func(from string, packet []byte) {
		x1.HandleControlPacket(n.now, ControlPacket{Local: netip.MustParseAddrPort("192.168.1.2:4341"), From: netip.MustParseAddrPort(from), Packet: packet})
		x1.drain()
	}
	good, err := wire.AppendControlInData(nil, netip.MustParseAddrPort(natServer+":4342"), netip.MustParseAddrPort("192.168.1.2:4342"),
		x1.net.nodes[0].lastNotify(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, from := range []string{outsider, natServer + ":4341", natServer + ":53"} {
		notify(from, good[8:])
		x1.wantCounter(counter.RefusedControlInData, uint64(i+1))
	}
	for i, packet := range [][]byte{nil, {0x45}, make([]byte, 60), good} {
		notify(natServer+":4342", packet)
		x1.wantCounter(counter.RefusedControlInData, uint64(i+4))
	}
	request, err := (&wire.MapRequest{SMR: true, Nonce: 5, SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 1}}, Records: []wire.RequestRecord{{MaskLen: 32, EID: wire.IPv4{10, 1, 0, 1}}}}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := wire.AppendControlInData(nil, netip.MustParseAddrPort(natServer+":4342"), netip.MustParseAddrPort("192.168.1.2:4342"), request)
	if err != nil {
		t.Fatal(err)
	}
	notify(natServer+":4342", other[8:])
	x1.wantCounter(counter.RefusedControlInData, 8)
	plain := newNetwork(t).add("plain", xtrConfig(1, natServer, []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
	plain.HandleControlPacket(plain.net.now, ControlPacket{From: netip.MustParseAddrPort(natServer + ":4342"), Packet: good[8:]})
	plain.wantCounter(counter.RefusedControlInData, 1)
}

// lastNotify is the last Map-Notify that a node sent.
func (d *testNode) lastNotify(t *testing.T) []byte {
	t.Helper()
	for _, p := range slices.Backward(d.sent) {
		m, err := wire.Parse(p.Payload)
		if ecm, ok := m.(*wire.EncapsulatedControlMessage); err == nil && ok && ecm.Inner.MessageType() == wire.TypeMapNotify {
			return ecm.Inner.Message
		}
	}
	t.Fatal("no Map-Notify was sent")
	return nil
}

// TestForgedInfoReplies: unasked, under a wrong key, naming addresses of no other host or too many RTRs, none is
// believed.
func TestForgedInfoReplies(t *testing.T) {
	many := make([]wire.Address, settings.MaxRTRs+1)
	for i := range many {
		many[i] = wire.IPv4{192, 0, 2, byte(i + 1)}
	}
	for _, c := range []struct {
		what  string
		nonce uint64
		key   string
		seen  wire.Address
		port  uint16
		rtrs  []wire.Address
		taken bool
	}{
		{"right", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{192, 0, 2, 100}}, true},
		{"unasked", 1, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{192, 0, 2, 100}}, false},
		{"wrong key", 0, "another", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{192, 0, 2, 100}}, false},
		{"own address as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{192, 168, 1, 2}}, false},
		{"loopback as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{127, 0, 0, 1}}, false},
		{"multicast as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{224, 0, 0, 1}}, false},
		{"any address as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{}}, false},
		{"broadcast as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.IPv4{255, 255, 255, 255}}, false},
		{"no address as RTR", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, []wire.Address{wire.NoAddress{}}, false},
		{"too many RTRs", 0, "", wire.IPv4{198, 51, 100, 1}, 5000, many, false},
		{"seen at a multicast address", 0, "", wire.IPv4{224, 0, 0, 5}, 5000, []wire.Address{wire.IPv4{192, 0, 2, 100}}, false},
		{"seen at no address", 0, "", wire.NoAddress{}, 5000, []wire.Address{wire.IPv4{192, 0, 2, 100}}, false},
		{"seen at port 0", 0, "", wire.IPv4{198, 51, 100, 1}, 0, []wire.Address{wire.IPv4{192, 0, 2, 100}}, false},
	} {
		x1 := newNetwork(t).add("x1", natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"), "192.168.1.2")
		asked := sentMessages[*wire.InfoRequest](x1)[0]
		reply := &wire.InfoReply{InfoRequest: *asked, NAT: &wire.NATTraversalLCAF{MapServerPort: 4342, ETRPort: c.port,
			GlobalETR: c.seen, MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{}, RTRs: c.rtrs}}
		reply.Nonce += c.nonce
		b, err := wire.AppendSigned(nil, reply, append(slices.Clone(secret(1).Secret), c.key...))
		if err != nil {
			t.Fatal(err)
		}
		x1.inject("192.168.1.2:4342", natServer+":4342", b)
		if got := len(x1.NAT().RTRs) > 0; got != c.taken {
			t.Errorf("%s: believed %t", c.what, got)
		}
		if refused := x1.counter(counter.RefusedInfoReply) + x1.counter(counter.RefusedAuthentication); !c.taken && refused != 1 {
			t.Errorf("%s: %d are counted as refused", c.what, refused)
		}
	}
}

// TestFloodOfInfoRequests: answers are bounded by source and in total, and only those under a key of the site are
// answered.
func TestFloodOfInfoRequests(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	ask := func(from string, key []byte) {
		m := &wire.InfoRequest{Nonce: 1, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32), TTLMinutes: 1, MaskLen: 16, EID: wire.IPv4{10, 1, 0, 0}}
		b, err := wire.AppendSigned(nil, m, key)
		if err != nil {
			t.Fatal(err)
		}
		server.inject(natServer+":4342", from, b)
	}
	ask("198.51.100.1:4000", []byte("another key"))
	server.wantCounter(counter.InfoReplySent, 0)
	for range 2 * settings.InfoReplies().Burst {
		ask("198.51.100.1:4000", secret(1).Secret)
	}
	server.wantCounter(counter.InfoReplySent, uint64(settings.InfoReplies().Burst))
	for i := range 2 * settings.InfoRepliesTotal().Burst {
		ask(netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 4000).String(), secret(1).Secret)
	}
	server.wantCounter(counter.InfoReplySent, uint64(settings.InfoRepliesTotal().Burst))
	if server.counter(counter.RefusedInfoLimit) == 0 {
		t.Error("none is refused")
	}
	n.run(time.Second)
	ask("203.0.113.1:4000", secret(1).Secret)
	server.wantCounter(counter.InfoReplySent, uint64(settings.InfoRepliesTotal().Burst)+1)
}

// TestTwoNodesClaimOneEID: the second one gets nothing while the first is alive, and all when it is gone.
func TestTwoNodesClaimOneEID(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	x4 := n.add("x4", Config{}, "192.168.1.4")
	n.nat([]string{"198.51.100.4"}, x4)
	x4.configure(natNode(4, natServer, "192.168.1.4", "10.1.0.0/16"))
	n.run(5 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
	if server.counter(counter.RefusedNATClaim) == 0 {
		t.Error("the claim is not counted")
	}
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	n.run(3 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x4)
}

// TestBindingTableIsBounded: a site has no more EID-Prefixes than it may, and others find room.
func TestBindingTableIsBounded(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	c := natNode(1, natServer, "192.168.1.2")
	for i := range settings.NATBindingsPerSite + 100 {
		p, err := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})), 32)
		if err != nil {
			t.Fatal(err)
		}
		c.ETR.Database = append(c.ETR.Database, DatabaseMapping{Prefix: p, Locators: locators("192.168.1.2")})
	}
	x1.configure(c)
	n.run(20 * time.Second)
	if bindings, _ := server.rtr.Size(); bindings != settings.NATBindingsPerSite {
		t.Errorf("%d bindings", bindings)
	}
	if server.counter(counter.RefusedNATTable) == 0 {
		t.Error("none is refused")
	}
	x2 := n.add("x2", Config{}, "192.168.1.3")
	n.nat([]string{"198.51.100.2"}, x2)
	other := natNode(2, natServer, "192.168.1.3", "10.2.0.0/16")
	other.SiteID = 8
	x2.configure(other)
	n.run(time.Second)
	server.wantForwarded("10.2.0.0/16", x2)
}

// TestWithdrawalEndsBinding: an EID-Prefix that leaves the Database is forwarded no more; one that is not renewed
// either.
func TestWithdrawalEndsBinding(t *testing.T) {
	n, x1, x2, server, _, _ := natSites(t, nil)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	server.wantNotCached("2001:db8:1::/48")
	server.wantForwarded("10.1.0.0/16", x1)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	n.run(settings.DefaultRegistrationTimeout + time.Minute)
	server.wantNotCached("10.1.0.0/16")
	server.wantForwarded("10.2.0.0/16", x2)
}

// TestRouterWithoutXTRID: what it registered from its address is replaced by what it registers by the RTR, and back
// again: there is one registration for each EID-Prefix at any time.
func TestRouterWithoutXTRID(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	plain := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
	plain.XTRID, plain.SiteID = [16]byte{}, 0
	x1.configure(plain)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	if r := server.registered(); len(r) != 1 || r[0].From.Addr() != netip.MustParseAddr(natServer) {
		t.Errorf("behind a NAT: %+v", r)
	}
	x1.behind, x1.addrs = nil, []netip.Addr{netip.MustParseAddr("192.0.2.44")}
	plain.LocalRLOCs = []lisp.RLOC{rloc("192.0.2.44")}
	plain.ETR.Database = []DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), Locators: locators("192.0.2.44")}}
	x1.configure(plain)
	n.run(time.Second)
	if r := server.registered(); len(r) != 1 || r[0].From.Addr() != netip.MustParseAddr("192.0.2.44") {
		t.Errorf("without one: %+v", r)
	}
}

// TestOneNATOfTwoNodes: two nodes behind one NAT, which has two addresses and takes another one for each flow, are
// both forwarded to.
func TestOneNATOfTwoNodes(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	x1, x2 := n.add("x1", Config{}, "192.168.1.2"), n.add("x2", Config{}, "192.168.1.3")
	n.nat([]string{"198.51.100.1", "198.51.100.2"}, x1, x2)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	x2.configure(natNode(2, natServer, "192.168.1.3", "10.2.0.0/16"))
	n.run(10 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantForwarded("10.2.0.0/16", x2)
	server.wantCounter(counter.NATBindingMoved, 0)
	x1.wantByRTR(natServer)
	x2.wantByRTR(natServer)
}

// TestNoRTROffered: a node behind a NAT whose Map-Server has no RTRs goes on as without NAT traversal, and tells that
// it is behind one.
func TestNoRTROffered(t *testing.T) {
	n := newNetwork(t)
	c := natServerConfig(nil, "10.1.0.0/16")
	ms := *c.MapServer
	ms.RTRs = nil
	c.MapServer = &ms
	server := n.add("server", c, natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Minute)
	x1.wantNotCached("0.0.0.0/0")
	if s := x1.NAT(); len(s.RTRs) > 0 || len(s.Views) != 1 || !s.Views[0].Behind {
		t.Errorf("%+v", s)
	}
	if r := server.registered(); len(r) != 1 || r[0].From.Addr() != netip.MustParseAddr("198.51.100.1") {
		t.Errorf("registered: %+v", r)
	}
}
