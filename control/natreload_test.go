// SPDX-License-Identifier: Apache-2.0

package control

// Reloads of a node behind a NAT.

import (
	"fmt"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapregister"
	"loci/lisp"
	"loci/wire"
)

// natReloaded is a node of natSites, and its configuration, which no other shares.
func natReloaded(t *testing.T) (n *testNetwork, x1, server *testNode, c Config) {
	t.Helper()
	n, x1, _, server, _, _ = natSites(t, rtrKeys())
	n.run(time.Minute)
	return n, x1, server, natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "2001:db8:1::/48")
}

// inInstance is an EID-Prefix in an Instance-ID.
func inInstance(instance lisp.InstanceID, text string) lisp.Prefix {
	p := lisp.MustParsePrefix(text)
	in, err := lisp.PrefixFrom(instance, p.EID(), p.Bits())
	if err != nil {
		panic(err)
	}
	return in
}

// wantDefaults asserts whether everything of an Instance-ID is sent to the RTR.
func (d *testNode) wantDefaults(instance lisp.InstanceID, want bool) {
	d.net.t.Helper()
	for _, text := range []string{"0.0.0.0/0", "::/0"} {
		all := inInstance(instance, text)
		if e, ok := d.cache[all]; ok != want || ok && e.Mapping.Locators[0].RLOC != rloc(natServer) {
			d.net.t.Errorf("%s: %s: in the map-cache %t, want %t: %v", d.name, all, ok, want, e.Mapping)
		}
	}
}

// TestDefaultsOfInstanceIDs: an Instance-ID that a reload brings is sent to the RTR at once, one that goes is not any
// more.
func TestDefaultsOfInstanceIDs(t *testing.T) {
	n, x1, _, c := natReloaded(t)
	d := c.ETR.Database[0]
	d.Prefix = inInstance(7, "10.1.0.0/16")
	two := *c.ETR
	two.Database = append([]DatabaseMapping{d}, c.ETR.Database...)
	more := c
	more.ETR = &two
	x1.wantDefaults(7, false)
	x1.configure(more)
	x1.wantDefaults(7, true)
	x1.wantDefaults(0, true)
	n.run(time.Minute)
	x1.configure(c)
	x1.wantDefaults(7, false)
	x1.wantDefaults(0, true)
	c.ETR.NAT = nil
	x1.configure(c)
	x1.wantDefaults(0, false)
}

// TestDefaultsAfterITR: an ITR that was off sends to the RTR again at once.
func TestDefaultsAfterITR(t *testing.T) {
	n, x1, _, c := natReloaded(t)
	without := c
	without.ITR = nil
	x1.configure(without)
	n.run(time.Minute)
	x1.wantDefaults(0, false)
	x1.configure(c)
	x1.wantDefaults(0, true)
}

// TestDefaultsAfterStaticMappings: a static mapping of everything goes before, however many others are with it, and
// what it displaced is back when it is gone. At the RTR the same holds for a node's EID-Prefix.
func TestDefaultsAfterStaticMappings(t *testing.T) {
	const other = "192.0.2.77"
	static := func(prefix string) lisp.Mapping {
		return lisp.Mapping{
			Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: lisp.TTLUnlimited, Locators: locators(other),
		}
	}
	for _, others := range []int{0, 3000} {
		n, x1, server, c := natReloaded(t)
		for d, p := range map[*testNode]string{x1: "0.0.0.0/0", server: "10.1.0.0/16"} {
			before := c
			if d == server {
				before = server.config
			}
			itr := *before.ITR
			for i := range others {
				itr.StaticMappings = append(itr.StaticMappings, static(fmt.Sprintf("172.16.%d.%d/32", i/256, i%256)))
			}
			itr.StaticMappings = append(itr.StaticMappings, static(p))
			with := before
			with.ITR = &itr
			d.configure(with)
			n.run(time.Second)
			d.wantCached(p, other)
			d.configure(before)
			n.run(time.Second)
		}
		x1.wantByRTR(natServer)
		server.wantForwarded("10.1.0.0/16", x1)
	}
}

// keepalives is how many a node sends within a time.
func (d *testNode) keepalives(during time.Duration) uint64 {
	before := d.counter(counter.NATKeepaliveSent)
	d.net.run(during)
	return d.counter(counter.NATKeepaliveSent) - before
}

// TestKeepaliveByReload: another interval holds at once, also that of a keepalive on its way; without one none is
// sent.
func TestKeepaliveByReload(t *testing.T) {
	for _, onTheWay := range []bool{false, true} {
		n, x1, _, c := natReloaded(t)
		if onTheWay {
			for before := x1.counter(counter.NATKeepaliveSent); x1.counter(counter.NATKeepaliveSent) == before; {
				n.run(time.Millisecond)
			}
		}
		with := func(keepalive time.Duration) {
			c.ETR.NAT = &NATTraversal{Keepalive: keepalive}
			x1.configure(c)
		}
		with(-1)
		if got := x1.keepalives(5 * time.Minute); got != 0 {
			t.Errorf("%d keepalives after they were turned off", got)
		}
		with(2 * time.Second)
		if got := x1.keepalives(21 * time.Second); got < 7 || got > 11 { // a Map-Register stands for some
			t.Errorf("%d keepalives of 2s in 21s", got)
		}
		with(time.Minute)
		n.run(time.Minute)
		with(2 * time.Second)
		if got := x1.keepalives(21 * time.Second); got < 7 || got > 11 {
			t.Errorf("%d keepalives of 2s, after such of a minute, in 21s", got)
		}
		x1.wantByRTR(natServer)
	}
}

// TestKeepaliveOff: from the start none is sent.
func TestKeepaliveOff(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
	c.ETR.NAT.Keepalive = -1
	x1.configure(c)
	if got := x1.keepalives(5 * time.Minute); got != 0 {
		t.Errorf("%d keepalives", got)
	}
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestWithdrawalByRTREnds: an RTR that leaves keepalives unanswered does not have an EID-Prefix withdrawn without
// end.
func TestWithdrawalByRTREnds(t *testing.T) {
	n, x1, _, c := natReloaded(t)
	c.ETR.NAT.Keepalive = 2 * time.Second
	x1.configure(c)
	n.run(time.Minute)
	less := *c.ETR
	less.Database = less.Database[:1]
	c.ETR = &less
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	x1.configure(c)
	n.run(5 * time.Minute)
	sent := 0
	for _, p := range x1.sent {
		m, err := wire.Parse(p.Payload)
		ecm, ok := m.(*wire.EncapsulatedControlMessage)
		if err != nil || !ok || !ecm.ForRTR {
			continue
		}
		if m, err := wire.Parse(ecm.Inner.Message); err == nil && m.(*wire.MapRegister).Records[0].TTLMinutes == 0 {
			sent++
		}
	}
	if sent != mapregister.WithdrawTries {
		t.Errorf("withdrawn %d times, want %d", sent, mapregister.WithdrawTries)
	}
}

// TestTwoRoutersWithoutXTRID: two routers of one site and one configuration, without xTR-IDs, are two to an RTR. One
// is known by its own after a restart.
func TestTwoRoutersWithoutXTRID(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16"), natServer, natServer6)
	c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
	c.XTRID = [16]byte{}
	var nodes []*testNode
	for i := range 2 {
		d := n.add(fmt.Sprintf("x%d", i+1), Config{}, "192.168.1.2")
		n.nat([]string{fmt.Sprintf("198.51.100.%d", i+1)}, d)
		d.SetXTRID([16]byte{15: byte(i)}) // the second has one of an earlier run
		d.configure(c)
		n.run(10 * time.Second)
		nodes = append(nodes, d)
	}
	n.run(5 * time.Minute)
	server.wantForwarded("10.1.0.0/16", nodes[0])
	server.wantCounter(counter.NATBindingMoved, 0)
	bindings, _, _ := server.NATBindingsPage(0, 8)
	if len(bindings) != 1 || bindings[0].XTRID == [16]byte{} || server.counter(counter.RefusedNATClaim) == 0 {
		t.Errorf("bindings %+v, %d claims refused", bindings, server.counter(counter.RefusedNATClaim))
	}
	if got := nodes[1].nat.XTRID; got != [16]byte{15: 1} {
		t.Errorf("the second registers with %x", got)
	}
	restarted := nodes[0].nat.XTRID
	nodes[0].start()
	nodes[0].SetXTRID(restarted)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", nodes[0])
}

// TestBindingsOfInstanceIDs: without `eid-prefixes` an RTR relays for all that is acknowledged, in whichever
// Instance-ID, and for no other EID; with an Instance-ID of its own in that only.
func TestBindingsOfInstanceIDs(t *testing.T) {
	one := lisp.InstanceID(1)
	for _, only := range []*lisp.InstanceID{nil, &one} {
		n := newNetwork(t)
		c := natServerConfig(nil, "10.1.0.0/16 [7]10.1.0.0/16")
		c.NATRelay.EIDs, c.NATRelay.Instance = nil, only
		server := n.add("server", c, natServer, natServer6)
		x1 := n.add("x1", Config{}, "192.168.1.2")
		n.nat([]string{"198.51.100.1"}, x1)
		x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "[7]10.1.0.0/16"))
		n.run(time.Second)
		if only != nil {
			server.wantNotCached("10.1.0.0/16")
			server.wantNotCached("[7]10.1.0.0/16")
			continue
		}
		server.wantForwarded("10.1.0.0/16", x1)
		server.wantForwarded("[7]10.1.0.0/16", x1)
		for _, p := range []string{"10.1.0.0/16", "[7]10.1.0.0/16"} {
			if e := server.cache[lisp.MustParsePrefix(p)]; !e.Registered || !e.ByNAT {
				t.Errorf("%s: %+v", p, e)
			}
		}
		server.miss("10.9.0.1", "10.2.0.1") // of an EID that has no binding
		server.wantCounter(counter.RefusedPolicy, 1)
		server.miss("10.1.0.1", "10.2.0.1")
		server.wantCounter(counter.RefusedPolicy, 1)
		server.wantCounter(counter.MapRequestSent, 1)
	}
}

// TestLinkComesUpBehindNAT: a node that asked while its link was away asks at once when that comes up, once.
func TestLinkComesUpBehindNAT(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	configure := func(up bool) {
		c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
		c.ETR.Database[0].Locators[0].Reachable = up
		x1.configure(c)
	}
	configure(false)
	n.run(4 * time.Second)
	n.lose = nil
	asked := x1.counter(counter.InfoRequestSent)
	for range 2 {
		configure(true)
		n.run(500 * time.Millisecond)
		if sent := x1.counter(counter.InfoRequestSent) - asked; sent != 1 {
			t.Errorf("%d Info-Requests when the link came up", sent)
		}
		server.wantForwarded("10.1.0.0/16", x1)
	}
}
