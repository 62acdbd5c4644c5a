// SPDX-License-Identifier: Apache-2.0

package control

// Replays at an RTR whose Map-Server takes any nonce, and what the RTR does under floods.

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// acceptAnyNonce lets a Map-Server take old nonces of its sites.
func (d *testNode) acceptAnyNonce() {
	c := d.config
	ms := *c.MapServer
	ms.Sites = slices.Clone(ms.Sites)
	for i := range ms.Sites {
		ms.Sites[i].AcceptAnyNonce = true
	}
	c.MapServer = &ms
	d.configure(c)
}

// outside is where an RTR sends the packets of an EID-Prefix.
func (d *testNode) outside(prefix string) string {
	r := d.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators[0].RLOC
	return netip.AddrPortFrom(r.Addr(), r.Port()).String()
}

// TestReplayFromTheNodesAddress: the oldest Map-Register from the node's own address, forged, does not let a later
// one move the binding.
func TestReplayFromTheNodesAddress(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	server.acceptAnyNonce()
	first := natRegister(t, x1)
	n.run(time.Minute)
	middle := natRegister(t, x1)
	n.run(time.Minute)
	server.inject(natServer+":4342", server.outside("10.1.0.0/16"), first)
	n.run(time.Second)
	server.inject(natServer+":4342", outsider, middle)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantCounter(counter.RefusedNATReplay, 1)
	server.wantCounter(counter.NATBindingMoved, 0)
}

// TestReplayLongAfter: when the RTR knows the first nonces no more they still are less than the last one.
func TestReplayLongAfter(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	server.acceptAnyNonce()
	first := natRegister(t, x1)
	n.run(time.Minute)
	second := natRegister(t, x1)
	n.run(90 * time.Minute)
	server.inject(natServer+":4342", server.outside("10.1.0.0/16"), first)
	n.run(time.Second)
	server.inject(natServer+":4342", outsider, second)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantCounter(counter.NATBindingMoved, 0)
}

// TestReplayAfterTheEnd: the Map-Register of a node that is gone makes no binding for another address; the node
// itself comes back.
func TestReplayAfterTheEnd(t *testing.T) {
	n, x1, _, server, first, _ := natSites(t, nil)
	server.acceptAnyNonce()
	old := natRegister(t, x1)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	n.run(settings.DefaultRegistrationTimeout + time.Minute)
	server.wantNotCached("10.1.0.0/16")
	server.inject(natServer+":4342", outsider, old)
	n.run(time.Second)
	server.wantNotCached("10.1.0.0/16")
	server.wantCounter(counter.RefusedNATReplay, 1)
	n.lose = nil
	first.flush()
	n.run(time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestFloodKeepsBindings: forged Map-Registers of many addresses fill their places; who is forwarded to renews.
func TestFloodKeepsBindings(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.run(30 * time.Second)
	verified := func() time.Time {
		page, _, _ := server.NATBindingsPage(0, 512)
		for _, b := range page {
			if b.Prefix == lisp.MustParsePrefix("10.1.0.0/16") {
				return b.VerifiedAt
			}
		}
		return time.Time{}
	}
	before := verified()
	for i := range settings.NATPending + 100 {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 4341).String()
		server.inject(natServer+":4342", from, forge(t, natServer+":4342", "10.9.0.0/16", uint64(i)+1))
	}
	if server.counter(counter.RefusedNATPending) < 100 {
		t.Errorf("the places of others are not full: %d", server.counter(counter.RefusedNATPending))
	}
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")) // registers at once
	n.run(time.Second)
	if !verified().After(before) {
		t.Error("the binding is not renewed")
	}
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestRenewalsAreBounded: from the address and port of a router, and under its xTR-ID, so many Map-Registers wait,
// and no place of another router is taken by them.
func TestRenewalsAreBounded(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	ecm, err := wire.Parse(natRegister(t, x1))
	if err != nil {
		t.Fatal(err)
	}
	forged := ecm.(*wire.EncapsulatedControlMessage)
	parsed, err := wire.Parse(forged.Inner.Message)
	if err != nil {
		t.Fatal(err)
	}
	m := parsed.(*wire.MapRegister)
	relayed, from := server.counter(counter.NATRegisterRelayed), server.outside("10.1.0.0/16")
	for range settings.NATRenewalsPerRouter + 50 {
		m.Nonce++
		if forged.Inner.Message, err = wire.AppendSigned(nil, m, []byte("not the site's key")); err != nil {
			t.Fatal(err)
		}
		b, err := forged.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		server.inject(natServer+":4342", from, b)
	}
	if got := server.counter(counter.NATRegisterRelayed) - relayed; got != settings.NATRenewalsPerRouter {
		t.Errorf("%d are relayed", got)
	}
	server.wantCounter(counter.RefusedNATPending, 50)
	n.run(settings.NATPendingLast + time.Second)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestSourcesOfIPv6: one /64 has the places of one source, and another has its own.
func TestSourcesOfIPv6(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	send := func(from string, nonce uint64) {
		server.inject("["+natServer6+"]:4342", from, forge(t, natServer+":4342", "10.1.0.0/16", nonce))
	}
	for i := range uint64(settings.NATPendingPerSource) + 50 {
		send(fmt.Sprintf("[2001:db8:e::%x]:4341", i+1), 100+i)
	}
	server.wantCounter(counter.NATRegisterRelayed, settings.NATPendingPerSource)
	server.wantCounter(counter.RefusedNATPending, 50)
	send("[2001:db8:e:1::1]:4341", 1)
	server.wantCounter(counter.NATRegisterRelayed, settings.NATPendingPerSource+1)
	n.run(time.Second)
}

// TestLongTablesOfAnRTR: no iteration is long at a full table, neither for a list nor for a reload that ends it.
func TestLongTablesOfAnRTR(t *testing.T) {
	server := newNetwork(t).add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	ms := netip.MustParseAddrPort(natServer + ":4342")
	for i := range settings.NATBindings {
		prefix, err := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(i), byte(i >> 8), 0})), 24)
		if err != nil {
			t.Fatal(err)
		}
		nonce, from := uint64(i+1), netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), 4341)
		server.rtr.HandleMapRegister(&message.NATRegister{
			Arrival: message.Arrival{Local: ms, From: from}, MapServer: ms, MapRegister: &wire.MapRegister{Nonce: nonce, XTRIDPresent: true, SiteID: nonce},
			Inner:    wire.InnerPacket{TTL: 9, Source: netip.MustParseAddrPort("192.168.0.1:4342"), Destination: ms, Message: []byte{1}},
			Mappings: []lisp.Mapping{{Prefix: prefix, TTLMinutes: 3}},
		})
		server.rtr.HandleMapNotify(&message.NATNotify{
			Arrival: message.Arrival{From: ms}, MapNotify: &wire.MapNotify{Nonce: nonce, XTRIDPresent: true, SiteID: nonce},
			Inner: wire.InnerPacket{Source: ms, Message: []byte{1}},
		})
		for more := true; more; {
			_, more = server.Poll()
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	short := func(what string, do func() bool) {
		t.Helper()
		for more := true; more; {
			began := threadTime()
			more = do()
			if took := threadTime() - began; took > 20*longestIteration { // its own collector included; all at once took longer
				t.Errorf("%s: an iteration took %v", what, took)
			}
		}
	}
	listed, from := map[lisp.Prefix]bool{}, uint32(0)
	short("a list", func() bool {
		page, next, more := server.NATBindingsPage(from, 512)
		for _, b := range page {
			listed[b.Prefix] = true
		}
		from = next
		if len(page) > 512 {
			t.Errorf("a page of %d", len(page))
		}
		return more
	})
	if len(listed) != settings.NATBindings || server.NATBindingCount() != settings.NATBindings {
		t.Errorf("%d are listed of %d", len(listed), server.NATBindingCount())
	}
	c := server.config
	c.NATRelay = nil
	short("a reload that ends it", func() bool {
		server.configure(c)
		return false
	})
	short("what follows", func() bool {
		server.net.now = server.net.now.Add(time.Microsecond)
		server.HandleTimeout(server.net.now)
		server.drain()
		return server.NATBindingCount() > 0
	})
	if bindings, _, _ := server.NATBindingsPage(0, 1); len(bindings) > 0 {
		t.Error("a binding is left")
	}
}

// TestReloadEndsBindings: those of a Map-Server that is removed or has other keys, and no others; one that goes and
// comes back makes them anew.
func TestReloadEndsBindings(t *testing.T) {
	other := []Key{{ID: 10, Algorithm: 2, Secret: []byte("another")}}
	for _, c := range []struct {
		what  string
		keys  []Key
		relay func(*NATRelay)
		kept  bool
	}{
		{"nothing changes", rtrKeys(), func(*NATRelay) {}, true},
		{"a new key beside", rtrKeys(), func(r *NATRelay) { r.MapServers[0].Keys = append(slices.Clone(other), rtrKeys()...) }, true},
		{"a new key instead", rtrKeys(), func(r *NATRelay) { r.MapServers[0].Keys = other }, false},
		{"another secret", rtrKeys(), func(r *NATRelay) {
			r.MapServers[0].Keys = []Key{{ID: 9, Algorithm: 2, Secret: []byte("another")}}
		}, false},
		{"a first key", nil, func(r *NATRelay) { r.MapServers[0].Keys = other }, false},
		{"no key any more", rtrKeys(), func(r *NATRelay) { r.MapServers[0].Keys = nil }, true},
		{"its Map-Server removed", rtrKeys(), func(r *NATRelay) { r.MapServers = r.MapServers[1:] }, false},
	} {
		n, x1, _, server, _, _ := natSites(t, c.keys)
		conf := server.config
		relay := *conf.NATRelay
		relay.MapServers = slices.Clone(relay.MapServers)
		c.relay(&relay)
		conf.NATRelay = &relay
		server.configure(conf)
		n.run(time.Second)
		if c.kept {
			server.wantForwarded("10.1.0.0/16", x1)
		} else if server.wantNotCached("10.1.0.0/16"); t.Failed() {
			t.Fatal(c.what)
		}
	}
	n, x1, _, server, _, _ := natSites(t, nil)
	conf, without := server.config, server.config
	without.NATRelay, without.ITR, without.Roles = nil, nil, nil
	server.configure(without)
	server.configure(conf)
	n.run(2 * time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestOneForeignPrefix: a Map-Register that has EID-Prefixes of others as well is relayed, and those that the RTR is
// for are forwarded; the others are registered, and counted.
func TestOneForeignPrefix(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16 172.20.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16", "172.20.0.0/16"))
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantNotCached("172.20.0.0/16")
	server.wantCounter(counter.RefusedNATPrefix, 1)
	if registered := server.registered(); len(registered) != 2 {
		t.Errorf("%d are registered", len(registered))
	}
}

// TestInnerTTL: a Map-Register that may not be relayed takes no place.
func TestInnerTTL(t *testing.T) {
	server := newNetwork(t).add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	ms := netip.MustParseAddrPort(natServer + ":4342")
	for ttl, want := range []int{1: 0, 2: 1} {
		server.rtr.HandleMapRegister(&message.NATRegister{
			Arrival:     message.Arrival{Local: ms, From: netip.MustParseAddrPort(outsider)},
			MapRegister: &wire.MapRegister{Nonce: uint64(ttl) + 1},
			Inner: wire.InnerPacket{
				TTL: uint8(ttl), Source: netip.MustParseAddrPort("192.168.0.1:4342"), Destination: ms, Message: []byte{1},
			},
			Mappings: []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 3}},
		})
		if _, waiting := server.rtr.Size(); waiting != want {
			t.Errorf("inner TTL %d: %d wait, want %d", ttl, waiting, want)
		}
	}
	server.wantCounter(counter.RefusedHopLimit, 2)
}
