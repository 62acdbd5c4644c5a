// SPDX-License-Identifier: Apache-2.0

package control

// NATs whose bindings change often, and those that do not.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// forgets has a NAT forget its bindings so often, and the node find out each time.
func (b *natBox) forgets(n *testNetwork, times int, every time.Duration) {
	for range times {
		b.flush()
		n.run(every)
	}
}

// wantChanging asserts whether a node and its RTR say that the binding changes often.
func wantChanging(t *testing.T, x, server *testNode, prefixes int, when string) {
	t.Helper()
	if s := x.NAT().RTRs[0]; s.OftenChangedSince.IsZero() != (prefixes == 0) {
		t.Errorf("%s: at the node since %v, lost %d times", when, s.OftenChangedSince, s.BindingsLost)
	}
	list := server.ChangingNATBindings()
	if len(list) != prefixes {
		t.Errorf("%s: at the RTR %v", when, list)
	}
	for _, b := range list {
		if age := server.net.now.Sub(b.OftenChangedSince); age <= 0 || age > 10*time.Minute {
			t.Errorf("%s: %s changes since %v", when, b.Prefix, b.OftenChangedSince)
		}
	}
}

// TestBindingsThatChangeOften: five times within ten minutes, at the node and at its RTR, and not those of another
// node; ten minutes after the first of them it is over.
func TestBindingsThatChangeOften(t *testing.T) {
	n, x1, x2, server, first, _ := natSites(t, rtrKeys())
	n.run(149 * time.Second)
	every := settings.DefaultKeepalive + 5*time.Second
	first.forgets(n, 4, every)
	wantChanging(t, x1, server, 0, "four times")
	first.forgets(n, 1, every)
	wantChanging(t, x1, server, 2, "five times")
	if s := x2.NAT().RTRs[0]; !s.OftenChangedSince.IsZero() {
		t.Errorf("at the other node since %v", s.OftenChangedSince)
	}
	if b := server.NATBindingsOf(lisp.MustParsePrefix("10.2.0.0/16")); len(b) != 1 ||
		!b[0].OftenChangedSince.IsZero() {
		t.Errorf("binding of the other node: %+v", b)
	}
	n.run(10*time.Minute - 5*every)
	wantChanging(t, x1, server, 2, "still")
	n.run(time.Minute)
	wantChanging(t, x1, server, 0, "later")
}

// TestBindingsThatChangeSeldom: the same changes, further apart, are no problem.
func TestBindingsThatChangeSeldom(t *testing.T) {
	n, x1, _, server, first, _ := natSites(t, nil)
	n.run(149 * time.Second)
	first.forgets(n, 12, 3*time.Minute)
	if lost := x1.NAT().RTRs[0].BindingsLost; lost < 10 {
		t.Fatalf("lost %d times", lost)
	}
	wantChanging(t, x1, server, 0, "seldom")
}

// TestMovesOfANodeAreNotItsNATs: a node that goes from network to network does not blame a NAT, nor does its RTR.
func TestMovesOfANodeAreNotItsNATs(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.lose = func(from *testNode, p SendPacket) bool { // from an address that its host has no more
		return from == x1 && p.Local.Addr().IsValid() && !slices.Contains(x1.addrs, p.Local.Addr())
	}
	for i := range 8 {
		n.nat([]string{fmt.Sprintf("203.0.113.%d", i+1)}, x1)
		local := fmt.Sprintf("172.16.0.%d", i+5)
		x1.addrs = []netip.Addr{netip.MustParseAddr(local)}
		x1.configure(natNode(1, natServer, local, "10.1.0.0/16", "2001:db8:1::/48"))
		n.run(20 * time.Second)
	}
	b := server.NATBindingsOf(lisp.MustParsePrefix("10.1.0.0/16"))[0]
	if b.Moves < 8 {
		t.Fatalf("moved %d times", b.Moves)
	}
	wantChanging(t, x1, server, 0, "moves")
}

// TestMoveEndsBindingsThatChangeOften: a node that leaves the network of such a NAT is warned of no more, nor is its RTR.
func TestMoveEndsBindingsThatChangeOften(t *testing.T) {
	n, x1, _, server, first, _ := natSites(t, nil)
	n.run(149 * time.Second)
	first.forgets(n, 5, settings.DefaultKeepalive+5*time.Second)
	wantChanging(t, x1, server, 2, "five times")
	n.nat([]string{"203.0.113.77"}, x1)
	const local = "172.16.0.77"
	x1.addrs = []netip.Addr{netip.MustParseAddr(local)}
	x1.configure(natNode(1, natServer, local, "10.1.0.0/16", "2001:db8:1::/48"))
	n.run(20 * time.Second)
	wantChanging(t, x1, server, 0, "after the move")
}

// TestNoBindingIsNoChange: an RTR that has no binding for a node says so at each keepalive. That is one change.
func TestNoBindingIsNoChange(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.run(149 * time.Second)
	n.lose = func(from *testNode, p SendPacket) bool { // no Map-Register arrives
		return from == x1 && p.Payload[0]>>4 == byte(wire.TypeEncapsulatedControlMessage)
	}
	n.boxes[0].flush()
	n.run(9 * time.Minute)
	if s := x1.NAT().RTRs[0]; s.BindingsLost < 5 {
		t.Fatalf("lost %d times", s.BindingsLost)
	}
	wantChanging(t, x1, server, 0, "no binding")
}

// TestChangingBindingsAreBounded: 64 are listed of more.
func TestChangingBindingsAreBounded(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	box := n.nat([]string{"198.51.100.1"}, x1)
	var prefixes []string
	for i := range 70 {
		prefixes = append(prefixes, fmt.Sprintf("10.1.%d.0/24", i))
	}
	x1.configure(natNode(1, natServer, "192.168.1.2", prefixes...))
	n.run(149 * time.Second)
	box.forgets(n, 6, settings.DefaultKeepalive+5*time.Second)
	if got := len(server.ChangingNATBindings()); got != 64 {
		t.Errorf("%d are listed", got)
	}
	n.run(11 * time.Minute)
	if got := server.ChangingNATBindings(); len(got) > 0 {
		t.Errorf("later: %v", got)
	}
}

// TestOctetsOfNATTraversal: all that a node behind a NAT sends while it is idle, with headers.
func TestOctetsOfNATTraversal(t *testing.T) {
	n, x1, _, _, _, _ := natSites(t, nil)
	n.run(10 * time.Minute)
	before := len(x1.sent)
	n.run(time.Hour)
	octets := 0
	for _, p := range x1.sent[before:] {
		octets += 20 + 8 + len(p.Payload)
	}
	if got := int(x1.NAT().SentLastHour); got > octets || got < octets*19/20 {
		t.Errorf("%d octets an hour, of %d", got, octets)
	}
}

// wantChangingSimply asserts whether a node of simple-nat and its RTR say that the binding changes often.
func wantChangingSimply(t *testing.T, x, server *testNode, often bool, when string) {
	t.Helper()
	if v := x.NAT().Views[0]; v.OftenChangedSince.IsZero() == often {
		t.Errorf("%s: at the node since %v", when, v.OftenChangedSince)
	}
	list := server.ChangingNATHosts()
	if (len(list) == 1) != often {
		t.Errorf("%s: at the RTR %v", when, list)
	}
	for _, h := range list {
		if age := server.net.now.Sub(h.OftenChangedSince); age <= 0 || age > 10*time.Minute || h.Mappings != 1 {
			t.Errorf("%s: %+v changes since %v", when, h, h.OftenChangedSince)
		}
	}
}

// TestBindingsOfSimpleNATThatChangeOften: as those of the other protocol, by what the Map-Server sees and by the port
// that the RTR sees.
func TestBindingsOfSimpleNATThatChangeOften(t *testing.T) {
	n, x, server, box := simpleNATNode(t, NATSimple)
	server.miss("10.2.0.1", "10.1.0.1")
	n.run(time.Minute)
	every := settings.DefaultKeepalive + 5*time.Second
	box.forgets(n, 4, every)
	wantChangingSimply(t, x, server, false, "four times")
	box.forgets(n, 1, every)
	wantChangingSimply(t, x, server, true, "five times")
	n.run(11 * time.Minute)
	wantChangingSimply(t, x, server, false, "later")
	box.forgets(n, 8, 3*time.Minute)
	wantChangingSimply(t, x, server, false, "seldom")
}

// TestMadeUpHostsAreNotReported: that a host changes its port often is said only where a mapping names it.
func TestMadeUpHostsAreNotReported(t *testing.T) {
	n, server, _ := simpleNATSites(t)
	for i := range 20 {
		server.inData(fmt.Sprintf("203.0.113.66:%d", 50000+i), natProbe("made up"))
		n.run(2 * time.Second)
	}
	if list := server.ChangingNATHosts(); len(list) != 0 {
		t.Errorf("reported: %+v", list)
	}
}
