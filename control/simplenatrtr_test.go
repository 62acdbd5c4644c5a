// SPDX-License-Identifier: Apache-2.0

package control

// The RTR of simple-nat: what it learns from Info-Requests to its data port, and what others cannot make it do.

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

const natOutside = "198.51.100.1"

// simpleNATServer is Map-Server, Map-Resolver and RTR of simple-nat at one address.
func simpleNATServer(sites ...string) Config {
	c := natServerConfig(nil, sites...)
	c.NATRelay.SimpleNAT = true
	c.ITR.RLOCProbing.Off = true
	c.Roles = []RolePolicy{{Role: RoleRTR, EIDs: c.NATRelay.EIDs}}
	return c
}

// simpleNATSites are a node of lispers.net behind a NAT, as it registers, its server, and a site elsewhere.
func simpleNATSites(t *testing.T) (n *testNetwork, server, node *testNode) {
	t.Helper()
	n = newNetwork(t)
	server = n.add("server", simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16"), natServer, natServer6)
	node = n.add("node", Config{}, "192.168.1.2")
	node.configure(lispersNode(natOutside, "home-eth0"))
	n.run(time.Second)
	return n, server, node
}

// lispersNode registers its translated address with its name, and the RTR.
func lispersNode(outside, name string) Config {
	c := xtrConfig(1, natServer, []string{"192.168.1.2"}, "10.1.0.0/16", "2001:db8:1::/48")
	c.ETR.MapServers[0].ProxyReply = true
	rtr := lisp.NewLocator(rloc(natServer))
	rtr.Priority, rtr.Weight = 254, 0
	set, err := lisp.NewLocatorSet(namedLocator(outside, name, 1), namedLocator("192.168.1.2", name, 1), rtr)
	if err != nil {
		panic(err)
	}
	for i := range c.ETR.Database {
		c.ETR.Database[i].Locators = set
	}
	return c
}

// inData gives a node what stands behind the LISP header of a data packet.
func (d *testNode) inData(from string, packet []byte) {
	own := netip.AddrPortFrom(d.addrs[0], wire.DataPort)
	d.HandleControlPacket(d.net.now, ControlPacket{Local: own, From: netip.MustParseAddrPort(from), Packet: packet})
	d.drain()
}

// natProbe is the Info-Request of a host to the RTR's data port, in the form of lispers.net's code.
func natProbe(name string) []byte {
	b, err := (&wire.InfoRequest{Nonce: 7, EID: wire.NoAddress{}, HostName: wire.DistinguishedName(name)}).AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// wantTo asserts where an RTR sends packets of an EID-Prefix: to a NAT's address and port, from the data port, or nowhere.
func (d *testNode) wantTo(when, prefix, want string) {
	d.net.t.Helper()
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	got := "nowhere"
	if ok && len(e.Mapping.Locators) == 1 && e.Mapping.Locators[0].Usable() {
		l := e.Mapping.Locators[0]
		got = l.RLOC.String()
		if (l.SourcePort == wire.DataPort) != strings.Contains(want, ":") {
			got += fmt.Sprintf(" from port %d", l.SourcePort)
		}
	}
	if got != want {
		d.net.t.Errorf("%s, %s: %s goes to %s, want %s", when, d.name, prefix, got, want)
	}
}

// TestRTROfSimpleNAT sends to the port that the NAT has for the host, of both families of EIDs: before the mapping is
// known and after, when the port is another one, until the host sends no more.
func TestRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.notices = nil
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantTo("known before", "10.1.0.0/16", natOutside+":40007")
	server.miss("2001:db8:2::1", "2001:db8:1::1")
	n.run(time.Second)
	server.wantTo("known before", "2001:db8:1::/48", natOutside+":40007")
	server.wantSteps("at first", "nat-binding-made none")

	n.run(20 * time.Second)
	server.inData(natOutside+":50000", natProbe("home-eth0"))
	n.run(time.Second)
	server.wantTo("another port", "10.1.0.0/16", natOutside+":50000")
	server.wantTo("another port", "2001:db8:1::/48", natOutside+":50000")
	server.wantSteps("another port", "nat-binding-moved none")
	server.inData(natOutside+":50000", natProbe("home-eth0"))
	n.run(20 * time.Second)
	server.inData(natOutside+":4341", natProbe("home-eth0"))
	n.run(time.Second)
	if e := server.cache[lisp.MustParsePrefix("10.1.0.0/16")]; e.Mapping.Locators[0].RLOC.Port() != 0 || e.Mapping.Locators[0].SourcePort != wire.DataPort {
		t.Errorf("a NAT that keeps ports: %v", e.Mapping)
	}
	server.notices = nil
	page, _, _ := server.NATHostsPage(0, 10)
	if len(page) != 1 || page[0].Name != "home-eth0" || page[0].Seen.String() != natOutside+":4341" || page[0].Moves != 2 || page[0].Mappings != 2 {
		t.Errorf("known: %+v", page)
	}
	n.run(3*time.Minute + time.Second)
	server.wantTo("expired", "10.1.0.0/16", "nowhere")
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantTo("expired, and asked for again", "10.1.0.0/16", "nowhere")
	server.wantSteps("expired", "nat-binding-removed none expired")
	if server.NATHostCount() != 0 {
		t.Errorf("%d hosts are known", server.NATHostCount())
	}
	server.inData(natOutside+":40008", natProbe("home-eth0"))
	n.run(time.Second)
	if e := server.cache[lisp.MustParsePrefix("10.1.0.0/16")]; e.Mapping.Locators[0].Priority != 1 {
		t.Errorf("back: %v", e.Mapping)
	}
	server.wantTo("back", "10.1.0.0/16", natOutside+":40008")
	server.wantCounter(counter.NATBindingAdded, 2)
	server.wantCounter(counter.NATBindingMoved, 2)
	server.wantCounter(counter.NATBindingExpired, 1)
	server.wantCounter(counter.NATProbeReceived, 5)
}

// TestUnknownHostOfSimpleNAT: an RTR that has not heard of a host sends it nothing, for the NAT's data port may be the
// binding of another node. That is so after a restart, and where the host's name is another one.
func TestUnknownHostOfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.inData(natOutside+":4341", natProbe("office"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantTo("not heard of", "10.1.0.0/16", "nowhere")
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	n.run(time.Second)
	server.wantTo("heard of", "10.1.0.0/16", natOutside+":40007")
}

// TestHostOfSimpleNATMoves: at another NAT it has another address, which the RTR learns from the mapping system when
// the host sends from there.
func TestHostOfSimpleNATMoves(t *testing.T) {
	n, server, node := simpleNATSites(t)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(10 * time.Second)
	server.inData("203.0.113.5:1024", natProbe("home-eth0"))
	n.run(time.Second)
	server.wantTo("before it registered", "10.1.0.0/16", natOutside+":40007")
	node.configure(lispersNode("203.0.113.5", "home-eth0"))
	n.run(time.Second)
	server.inData("203.0.113.5:1024", natProbe("home-eth0"))
	n.run(2 * time.Second)
	server.wantTo("after it registered", "10.1.0.0/16", "203.0.113.5:1024")
}

// TestOthersAtAnRTROfSimpleNAT: nothing changes by what comes from another address, or too often, or is something
// else; each is counted, and nothing is answered.
func TestOthersAtAnRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(2 * time.Second)
	server.sent = nil
	authenticated := encoded(t, &wire.InfoRequest{Nonce: 7, KeyID: 1, AlgorithmID: 2, Authentication: make([]byte, 32), EID: wire.NoAddress{}, HostName: "home-eth0"})
	withEID := encoded(t, &wire.InfoRequest{Nonce: 7, MaskLen: 16, EID: wire.IPv4{10, 1, 0, 0}})
	reply := encoded(t, &wire.InfoReply{InfoRequest: wire.InfoRequest{Nonce: 7, EID: wire.NoAddress{}}, NAT: &wire.NATTraversalLCAF{
		GlobalETR: wire.NoAddress{}, MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{}, RTRs: []wire.Address{wire.NoAddress{}}}})
	for _, c := range []struct {
		what, from string
		packet     []byte
		counter    Counter
	}{
		{"another name", natOutside + ":50000", natProbe("office"), counter.NATProbeReceived},
		{"without a name", natOutside + ":50000", natProbe(""), counter.RefusedNATHost},
		{"authenticated", natOutside + ":50000", authenticated, counter.RefusedNATHost},
		{"with an EID-Prefix", natOutside + ":50000", withEID, counter.RefusedNATHost},
		{"an Info-Reply", natOutside + ":50000", reply, counter.RefusedControlInData},
		{"from us", natServer + ":50000", natProbe("home-eth0"), counter.RefusedNATHost},
		{"from loopback", "127.0.0.1:50000", natProbe("home-eth0"), counter.RefusedNATHost},
		{"from a group", "224.0.0.1:50000", natProbe("home-eth0"), counter.RefusedNATHost},
		{"from port 0", natOutside + ":0", natProbe("home-eth0"), counter.RefusedNATHost},
		{"cut short", natOutside + ":50000", natProbe("home-eth0")[:20], counter.OfParse(wire.ReasonTruncated)},
		{"nothing", natOutside + ":50000", nil, counter.RefusedControlInData},
		{"a packet", natOutside + ":50000", []byte{0x45, 0, 0, 20}, counter.RefusedControlInData},
	} {
		before := server.counter(c.counter)
		server.inData(c.from, c.packet)
		n.run(2 * time.Second)
		if got := server.counter(c.counter); got != before+1 {
			t.Errorf("%s: %d are counted, want %d", c.what, got, before+1)
		}
		server.wantTo(c.what, "10.1.0.0/16", natOutside+":40007")
	}
	own := netip.AddrPortFrom(server.addrs[1], wire.DataPort)
	server.HandleControlPacket(n.now, ControlPacket{Local: own, From: netip.MustParseAddrPort("[2001:db8:9::9]:50000"), Packet: natProbe("home-eth0")})
	server.wantCounter(counter.RefusedControlInData, 4)
	if len(server.sent) != 0 {
		t.Errorf("answered: %v", server.sent)
	}
}

// TestClaimsAtAnRTROfSimpleNAT: who sends from another address by a host's name gets none of its packets; from the same
// address the port changes once a second at most, and each change is reported.
func TestClaimsAtAnRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(2 * time.Second)
	sent := server.counter(counter.MapRequestSent)
	for i := range 1000 {
		server.inData(fmt.Sprintf("203.0.%d.%d:50000", 113+i/250, i%250+1), natProbe("home-eth0"))
		n.run(10 * time.Millisecond)
	}
	server.wantTo("other addresses", "10.1.0.0/16", natOutside+":40007")
	if asked := server.counter(counter.MapRequestSent) - sent; asked == 0 || asked > 12 {
		t.Errorf("%d Map-Requests within 10 seconds", asked)
	}
	for i := range 100 {
		server.inData(fmt.Sprintf("%s:%d", natOutside, 50000+i), natProbe("home-eth0"))
	}
	n.run(time.Millisecond)
	server.wantTo("the same address", "10.1.0.0/16", natOutside+":50000")
	server.wantCounter(counter.RefusedNATClaim, 99)
	server.wantCounter(counter.NATBindingMoved, 1)
}

// TestFullTableOfAnRTROfSimpleNAT: no address takes all places, unnamed hosts take none of those that mappings name,
// and one sender keeps no new host of its address out.
func TestFullTableOfAnRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	probe := natProbe("x")
	for i := range settings.NATHostsPerAddress + 10 {
		server.inData("203.0.113.5:50000", natProbe(fmt.Sprint("host", i)))
	}
	if got := server.NATHostCount(); got != settings.NATHostsPerAddress+1 {
		t.Errorf("%d hosts are known, want %d", got, settings.NATHostsPerAddress+1)
	}
	for i := range settings.NATHostsPerAddress {
		server.inData(natOutside+":50000", natProbe(fmt.Sprint("host", i)))
	}
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	n.run(2 * time.Second)
	server.wantTo("a full address", "10.1.0.0/16", natOutside+":40007")
	for i := range settings.NATHosts {
		server.inData(fmt.Sprintf("100.64.%d.%d:50000", i>>8, i&255), probe)
	}
	if got := server.NATHostCount(); got != settings.NATHosts {
		t.Errorf("%d hosts are known, want %d", got, settings.NATHosts)
	}
	server.inData(natOutside+":40008", natProbe("home-eth0"))
	n.run(2 * time.Second)
	server.wantTo("a full table", "10.1.0.0/16", natOutside+":40008")
	server.wantCounter(counter.RefusedNATTable, 0)
}

// TestReloadOfAnRTROfSimpleNAT: where it takes such nodes no more, it forgets them at once, and sends their packets
// nowhere; where it takes EID-Prefixes no more, likewise.
func TestReloadOfAnRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	other := simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")
	other.NATRelay.EIDs = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}
	server.configure(other)
	n.run(time.Second)
	server.wantTo("other EID-Prefixes", "10.1.0.0/16", "nowhere")
	server.configure(simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16"))
	n.run(time.Second)
	server.wantTo("as before", "10.1.0.0/16", natOutside+":40007")
	off := simpleNATServer("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")
	off.NATRelay.SimpleNAT = false
	server.configure(off)
	n.run(time.Second)
	server.wantTo("off", "10.1.0.0/16", "nowhere")
	server.inData(natOutside+":40007", natProbe("home-eth0"))
	server.wantCounter(counter.RefusedControlInData, 1)
	if server.NATHostCount() != 0 {
		t.Errorf("%d hosts are known", server.NATHostCount())
	}
}

// probeInData is what stands behind the LISP header of an RLOC-probe about a /16.
func probeInData(t *testing.T, nonce uint64, about wire.IPv4) []byte {
	t.Helper()
	probe := encoded(t, &wire.MapRequest{
		Probe: true, Nonce: nonce, SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{wire.IPv4{192, 168, 1, 2}},
		Records: []wire.RequestRecord{{MaskLen: 16, EID: about}},
	})
	packet, err := wire.AppendControlInData(nil, netip.MustParseAddrPort("192.168.1.2:4342"), netip.MustParseAddrPort(natServer+":4342"), probe)
	if err != nil {
		t.Fatal(err)
	}
	return packet[wire.DataHeaderOctets:]
}

// TestAnswersOfAnRTROfSimpleNAT: an Info-Request of the draft's form is answered by the ports that it came by, one of
// the code's is not, and an RLOC-probe in a data packet is; all within the rates of such answers.
func TestAnswersOfAnRTROfSimpleNAT(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	server.sent = nil
	server.inData(natOutside+":40007", encoded(t, &wire.InfoRequest{Nonce: 9, EID: wire.DistinguishedName("home-eth0")}))
	if len(server.sent) != 1 || server.sent[0].Local.String() != natServer+":4341" || server.sent[0].Remote.String() != natOutside+":40007" {
		t.Fatalf("sent %v", server.sent)
	}
	h, rest, err := wire.ParseDataHeader(server.sent[0].Payload)
	m, wrong := wire.Parse(rest)
	reply, is := m.(*wire.InfoReply)
	if err != nil || wrong != nil || !is || h.InstanceID != lisp.ControlInstanceID || reply.Nonce != 9 {
		t.Fatalf("answered %v %v: %v, %v", h, m, err, wrong)
	}
	if nat := reply.NAT.(*wire.NATTraversalLCAF); nat.ETRPort != 40007 || nat.GlobalETR != (wire.IPv4{198, 51, 100, 1}) || len(nat.RTRs) != 0 {
		t.Errorf("answered %v", nat)
	}
	for range 1000 {
		server.inData(natOutside+":40007", encoded(t, &wire.InfoRequest{Nonce: 9, EID: wire.DistinguishedName("home-eth0")}))
	}
	server.wantCounter(counter.RefusedInfoLimit, 801)

	server.sent = nil
	server.inData(natOutside+":40007", probeInData(t, 11, wire.IPv4{172, 31, 0, 0})) // not among those that it relays
	if len(server.sent) != 0 || server.counter(counter.RefusedControlInData) != 1 {
		t.Errorf("sent %v about EIDs of others", server.sent)
	}
	inside := probeInData(t, 11, wire.IPv4{10, 1, 0, 0})
	for range 1000 {
		server.inData(natOutside+":40007", inside)
	}
	if sent := server.counter(counter.RLOCProbeReplySent); sent == 0 || sent > 100 || len(server.sent) != int(sent) {
		t.Fatalf("%d answers to 1,000 RLOC-probes, %d packets", sent, len(server.sent))
	}
	if server.sent[0].Local.String() != natServer+":4341" || server.sent[0].Remote.String() != natOutside+":40007" {
		t.Errorf("answered from %s to %s", server.sent[0].Local, server.sent[0].Remote)
	}
	_, rest, _ = wire.ParseDataHeader(server.sent[0].Payload)
	inner, err := wire.Parser{}.ParseInner(rest)
	answer, wrong := wire.Parse(inner.Message)
	if got, is := answer.(*wire.MapReply); err != nil || wrong != nil || !is || got.Nonce != 11 || !got.Probe || inner.Destination.String() != "192.168.1.2:4342" {
		t.Errorf("answered %v to %s: %v, %v", answer, inner.Destination, err, wrong)
	}
	n.run(time.Second)
}
