// SPDX-License-Identifier: Apache-2.0

package control

// A node of simple-nat with several RLOCs behind NATs.

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

const natOutside2 = "203.0.113.5"

// simpleNATLinks is a node of simple-nat that has RLOCs behind NATs of these addresses, "" for one without a NAT, and
// its server.
func simpleNATLinks(t *testing.T, rlocs, outside []string) (n *testNetwork, x, server *testNode,
	boxes map[string]*natBox) {
	t.Helper()
	n = newNetwork(t)
	server = n.add("server", simpleNATServer("10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	x = n.add("x", Config{}, rlocs...)
	x.links, boxes = map[netip.Addr]*natBox{}, map[string]*natBox{}
	for i, r := range rlocs {
		if outside[i] != "" && boxes[outside[i]] == nil {
			boxes[outside[i]] = n.nat([]string{outside[i]})
		}
		x.links[netip.MustParseAddr(r)] = boxes[outside[i]]
	}
	x.configure(simpleNATLinksConfig(rlocs...))
	n.run(5 * time.Second)
	return n, x, server, boxes
}

func simpleNATLinksConfig(rlocs ...string) Config {
	c := xtrConfig(1, natServer, rlocs, "10.1.0.0/16")
	c.ETR.NAT = &NATTraversal{Protocol: NATSimple}
	return c
}

// wantNamed asserts how an EID-Prefix is registered: each locator that may be used, and whether it has a name.
func (d *testNode) wantNamed(when string, want ...string) {
	d.net.t.Helper()
	var got []string
	for _, l := range d.registered()[0].Mapping.Locators {
		text := l.RLOC.String()
		if l.Address != "" {
			text = "named " + text
		}
		if l.Priority != lisp.PriorityUnused {
			got = append(got, text)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		d.net.t.Errorf("%s: registered %v, want %v", when, got, want)
	}
}

// wantPorts asserts to which addresses an RTR sends packets of 10.1.0.0/16, each by a port that the NAT lets in.
func (d *testNode) wantPorts(when string, boxes map[string]*natBox, want ...string) {
	d.net.t.Helper()
	var got []string
	for _, l := range d.cache[lisp.MustParsePrefix("10.1.0.0/16")].Mapping.Locators {
		flow := boxes[l.RLOC.Addr().String()]
		isIn := flow != nil && flow.byPort[netip.AddrPortFrom(l.RLOC.Addr(),
			l.RLOC.Port())].inside.Port() == wire.DataPort
		if l.Usable() && (isIn || flow == nil) {
			got = append(got, l.RLOC.Addr().String())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		d.net.t.Errorf("%s: the RTR sends to %v, want %v", when, got, want)
	}
}

// TestSeveralRLOCsOfSimpleNAT: each that is behind a NAT is registered with its translated address and a name of its
// own, one without a NAT as it is. The RTR sends to all; what one NAT forgot is made again.
func TestSeveralRLOCsOfSimpleNAT(t *testing.T) {
	n, x, server, boxes := simpleNATLinks(t, []string{"192.168.1.2", "192.168.2.2", "192.0.2.9"},
		[]string{natOutside, natOutside2, ""})
	server.wantNamed("at first", "192.0.2.100", "192.0.2.9", "named "+natOutside, "named "+natOutside2)
	x.wantByRTR(natServer)
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantPorts("at first", boxes, "192.0.2.9", natOutside, natOutside2)
	if server.NATHostCount() != 2 || len(x.NAT().Views) != 3 || len(x.NAT().RTRs) != 2 {
		t.Errorf("%d hosts are known; the node shows %+v", server.NATHostCount(), x.NAT())
	}
	boxes[natOutside2].flush()
	n.run(26 * time.Second)
	server.wantPorts("forgot", boxes, "192.0.2.9", natOutside, natOutside2)
	if x.counter(counter.RefusedControlInData)+x.counter(counter.RefusedInfoReply) != 0 {
		t.Error("answers are refused")
	}
}

// TestDeadRLOCOfSimpleNAT: an RLOC from which no RTR answers any more is not to be used while another one has one that
// does, until it answers again; one that is removed is forgotten, by the RTR three minutes later.
func TestDeadRLOCOfSimpleNAT(t *testing.T) {
	n, x, server, boxes := simpleNATLinks(t, []string{"192.168.1.2", "192.168.2.2"},
		[]string{natOutside, natOutside2})
	server.miss("10.2.0.1", "10.1.0.1")
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == x && p.Local.Addr().String() == "192.168.1.2" && p.Local.Port() == wire.DataPort
	}
	n.run(80 * time.Second)
	server.wantNamed("silent", "192.0.2.100", "named "+natOutside2)
	n.lose = nil
	n.run(30 * time.Second)
	server.wantNamed("back", "192.0.2.100", "named "+natOutside, "named "+natOutside2)
	x.configure(simpleNATLinksConfig("192.168.2.2"))
	n.run(5 * time.Second)
	server.wantNamed("removed", "192.0.2.100", "named "+natOutside2)
	n.run(3*time.Minute + time.Second) // the RTR knows a host for so long
	server.wantPorts("removed", boxes, natOutside2)
	x.configure(simpleNATLinksConfig("192.168.1.2", "192.168.2.2"))
	n.run(time.Minute)
	server.wantNamed("added again", "192.0.2.100", "named "+natOutside, "named "+natOutside2)
}

// TestRLOCsBehindOneAddress: a locator-set has an address once, so one of the RLOCs behind it is registered.
func TestRLOCsBehindOneAddress(t *testing.T) {
	n, _, server, boxes := simpleNATLinks(t, []string{"192.168.1.2", "192.168.1.3"},
		[]string{natOutside, natOutside})
	server.wantNamed("at first", "192.0.2.100", "named "+natOutside)
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantPorts("at first", boxes, natOutside)
}

// TestDeadRLOCBehindOneAddress: of two RLOCs behind one address the one from which an RTR answers is registered.
func TestDeadRLOCBehindOneAddress(t *testing.T) {
	n, x, server, boxes := simpleNATLinks(t, []string{"192.168.1.2", "192.168.1.3"},
		[]string{natOutside, natOutside})
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == x && p.Local.Addr().String() == "192.168.1.2" && p.Local.Port() == wire.DataPort
	}
	n.run(80 * time.Second)
	server.wantNamed("silent", "192.0.2.100", "named "+natOutside)
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Second)
	server.wantPorts("silent", boxes, natOutside)
}
