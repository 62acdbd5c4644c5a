// SPDX-License-Identifier: Apache-2.0

package conformance

// RTR, PITR and PETR (RFC 6832, RFC 8060 s.4.6): what each policy lets through, beside the packet that it does not.

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/lisp"
)

// roles puts policies in force, in place of those before.
func (b *bench) roles(roles ...dataplane.RolePolicy) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) { s.Roles = roles })
}

func policy(role dataplane.Role, eids ...string) dataplane.RolePolicy {
	return dataplane.RolePolicy{Role: role, EIDs: prefixes(eids...)}
}

// between is a packet of two remote EIDs.
func between(from, to string) packet {
	return packet{from: netip.MustParseAddr(from), to: netip.MustParseAddr(to), port: 3000}
}

// through sends a packet in a tunnel from the first peer of a family.
func (b *bench) through(peer netip.Addr, instance uint32, p packet) {
	b.Helper()
	b.SendFromCore(b, fromPeer(peer, instance, p.bytes()))
}

// expectRelayed demands a packet that came from the core at an RLOC, with one hop less to go inside and outside.
func (b *bench) expectRelayed(rloc string, instance uint32, p packet) {
	b.Helper()
	s := b.receive()
	_, number := s.flow()
	if !s.encapsulated || s.rloc.String() != rloc || s.instance != instance || s.destination() != p.to || number != int(p.number) {
		b.Fatalf("%s of Instance-ID %d, want one to %s through %s, number %d", s, s.instance, p.to, rloc, p.number)
	}
	if s.ttl() != 63 || s.outerTTL != 63 {
		b.Errorf("%s: TTL %d inside, %d outside, want 63", s, s.ttl(), s.outerTTL)
	}
}

// rtrRelays in all family pairs, to and from the EIDs of its policy and no others; an own EID comes first.
func rtrRelays(b *bench) {
	rtr := policy(dataplane.RoleRTR, "10.2.0.0/24", "2001:db8:2::/64")
	pairs := []struct {
		from, to, rloc string
		peer           netip.Addr
	}{
		{"10.2.0.1", "10.3.0.1", PeerRLOCs[1].String(), PeerRLOCs[0]}, {"10.9.0.1", "10.2.0.1", PeerRLOCs[3].String(), PeerRLOCs[0]},
		{"2001:db8:2::1", "2001:db8:3::1", PeerRLOCs[1].String(), PeerRLOCs[2]}, {"2001:db8:9::1", "2001:db8:2::1", PeerRLOCs[3].String(), PeerRLOCs[2]},
	}
	for i, c := range pairs {
		p := between(c.from, c.to).numbered(i + 1)
		p.ttl = 200 // more than the outer header's
		b.apply(b.to(c.to, c.rloc))
		b.roles()
		b.through(c.peer, 0, p)
		b.eventuallyDropped("eid-not-in-database", uint64(i+1))
		b.roles(rtr)
		b.through(c.peer, 0, p)
		b.expectRelayed(c.rloc, 0, p)
		b.roles(policy(dataplane.RoleRTR, "10.77.0.0/16"))
		b.through(c.peer, 0, p)
		b.eventuallyDropped("not-in-policy", uint64(i+1))
	}
	b.roles(policy(dataplane.RoleRTR, "0.0.0.0/0"))
	b.through(PeerRLOCs[0], 0, toHost(SiteHosts[0]).numbered(77))
	if _, number := b.receiveAtSite().flow(); number != 77 {
		b.Errorf("number %d arrived at the site, want 77", number)
	}
	b.eventually("four packets relayed", func() bool { return b.plane.Counters().RelayedPackets == 4 })
	if c := b.plane.Counters(); c.EncapsulatedPackets != 0 || c.DecapsulatedPackets != 1 || c.RelayedOctets == 0 {
		b.Errorf("%+v, want those that are relayed among no others", c)
	}
}

// registeredIsRelayed: what a router behind a NAT has registered is relayed, to and from, in its Instance-ID, without
// a policy or beside one; not before, not after, and no part of it that a longer prefix has.
func registeredIsRelayed(b *bench) {
	for i, c := range []struct {
		prefix, longer, inside, apart, other string
		instance                             uint32
		peer                                 netip.Addr
		roles                                []dataplane.RolePolicy
		drop                                 string
	}{
		{"10.2.0.0/16", "10.2.9.0/24", "10.2.0.1", "10.2.9.1", "10.3.0.1", 0, PeerRLOCs[0], nil, "eid-not-in-database"},
		{"[7]2001:db8:2::/48", "[7]2001:db8:2:9::/64", "2001:db8:2::1", "2001:db8:2:9::1", "2001:db8:3::1", 7, PeerRLOCs[2],
			[]dataplane.RolePolicy{{Role: dataplane.RoleRTR, Instance: 7, EIDs: prefixes("10.77.0.0/16")}}, "not-in-policy"},
	} {
		instance := map[uint32]string{0: "", 7: "[7]"}[c.instance]
		bits := map[uint32]string{0: "/24", 7: "/64"}[c.instance]
		rloc, number := PeerRLOCs[1].String(), 10*i
		b.roles(c.roles...)
		plain := b.to(c.prefix, rloc)
		registered := plain
		registered.Entry.ByNAT, registered.Entry.Registered = true, true
		other := netip.MustParsePrefix(c.other + bits).Masked().String()
		b.apply(plain, b.to(c.longer, rloc), b.to(instance+other, rloc))
		packets := []packet{between(c.inside, c.other), between(c.other, c.inside), between(c.apart, c.other), between(c.other, c.apart)}
		for at := range packets {
			packets[at] = packets[at].numbered(number + at)
			b.through(c.peer, c.instance, packets[at])
		}
		b.eventuallyDropped(c.drop, 4)
		b.apply(registered)
		for _, p := range packets[:2] {
			b.through(c.peer, c.instance, p)
			b.expectRelayed(rloc, c.instance, p)
		}
		for _, p := range packets[2:] {
			b.through(c.peer, c.instance, p)
		}
		b.eventuallyDropped(c.drop, 6)
		b.apply(plain)
		b.through(c.peer, c.instance, packets[0])
		b.eventuallyDropped(c.drop, 7)
		b.apply(registered)
		b.through(c.peer, c.instance, packets[0])
		b.expectRelayed(rloc, c.instance, packets[0])
		b.apply(dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix(c.prefix)})
		b.through(c.peer, c.instance, packets[0])
		b.eventuallyDropped(c.drop, 8)
	}
}

// rtrKeepsTheInstance: policy, map-cache and header are those of the packet's Instance-ID.
func rtrKeepsTheInstance(b *bench) {
	rtr := policy(dataplane.RoleRTR, "10.2.0.0/24")
	rtr.Instance = 7
	b.roles(rtr)
	b.apply(b.to("[7]10.3.0.0/24", PeerRLOCs[1].String()), b.to("10.3.0.0/24", PeerRLOCs[3].String()))
	p := between("10.2.0.1", "10.3.0.1")
	b.through(PeerRLOCs[0], 7, p)
	b.expectRelayed(PeerRLOCs[1].String(), 7, p)
	b.through(PeerRLOCs[0], 0, p)
	b.eventuallyDropped("eid-not-in-database", 1)
}

// relayedHeadersConcernTheSite: versions, status bits and gleaning are between ITR and ETR; an RTR has no part in
// them. An ETR drops the same packet, whose version is newer than that of its EID-Prefix.
func relayedHeadersConcernTheSite(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24"))
	b.headers(dataplane.HeaderSettings{StatusBits: true, MapVersions: true, Glean: true})
	b.apply(b.to("10.3.0.0/24", PeerRLOCs[1].String()))
	versioned := [8]byte{0x10, 0x45, 0x61, 0x24}
	p := between("10.2.0.1", "10.3.0.1")
	b.SendFromCore(b, fromPeerWith(PeerRLOCs[0], versioned, p.bytes()))
	b.expectRelayed(PeerRLOCs[1].String(), 0, p)
	b.SendFromCore(b, fromPeerWith(PeerRLOCs[0], versioned, toHost(SiteHosts[0]).bytes()))
	b.eventuallyDropped("destination-version", 1)
}

// relayedPacketsWait for their mapping, raise a Miss, and leave in order, each with one hop less.
func relayedPacketsWait(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24", "2001:db8:2::/64"))
	for _, c := range []struct {
		p      packet
		prefix string
		rloc   netip.Addr
		peer   netip.Addr
	}{
		{between("10.2.0.1", "10.3.0.1"), "10.3.0.0/24", PeerRLOCs[1], PeerRLOCs[0]},
		{between("2001:db8:2::1", "2001:db8:3::1"), "2001:db8:3::/64", PeerRLOCs[3], PeerRLOCs[2]},
	} {
		const early, late = 20, 5
		for i := range early {
			b.through(c.peer, 0, c.p.numbered(i))
		}
		if miss := b.expectMiss(c.p.to.String()); miss.Source.Addr() != c.p.from {
			b.Errorf("miss %+v, want source %s", miss, c.p.from)
		}
		b.eventuallyWaiting(early)
		b.apply(b.to(c.prefix, c.rloc.String()))
		for i := range late {
			b.through(c.peer, 0, c.p.numbered(early+i))
		}
		for i := range early + late {
			b.expectRelayed(c.rloc.String(), 0, c.p.numbered(i))
		}
		b.eventuallyWaiting(0)
	}
}

// relayedPacketsGoNatively where a PETR's policy covers their source.
func relayedPacketsGoNatively(b *bench) {
	rtr := policy(dataplane.RoleRTR, "10.2.0.0/24")
	b.apply(negative("10.3.0.0/24", lisp.ActionNativelyForward), negative("10.4.0.0/24", lisp.ActionDrop))
	b.roles(rtr)
	b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.3.0.1"))
	b.eventuallyDropped("not-in-policy", 1)
	b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.4.0.1"))
	b.eventuallyDropped("action-drop", 1)
	b.roles(rtr, policy(dataplane.RolePETR, "10.2.0.0/24"))
	b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.3.0.1").numbered(3))
	b.expectOutside("10.3.0.1", 3)
	b.eventually("the mappings are used", func() bool { return b.usage("10.3.0.0/24").Packets == 1 && b.usage("10.4.0.0/24").Packets == 1 })
	b.settings(func(s *dataplane.Settings) { s.MissPolicy = dataplane.MissForwardNatively })
	for i := range 5 {
		b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.5.0.1").numbered(i))
		b.expectOutside("10.5.0.1", i)
	}
	b.eventually("each miss is counted", func() bool { return b.plane.Counters().MissPackets == 5 })
}

// expectOutside demands a packet at the core without encapsulation, with one hop less to go.
func (b *bench) expectOutside(to string, number int) {
	b.Helper()
	s := b.receive()
	if _, got := s.flow(); s.encapsulated || s.destination().String() != to || got != number || s.ttl() != 63 {
		b.Fatalf("%s with TTL %d, want number %d to %s without encapsulation, with 63", s, s.ttl(), number, to)
	}
}

// relayedPacketsFollowPaths that this router is on.
func relayedPacketsFollowPaths(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24"))
	path := func(next uint8, hops ...netip.Addr) lisp.Locator {
		rlocs := make([]lisp.RLOC, len(hops))
		for i, a := range hops {
			rlocs[i] = lisp.RLOCFromAddr(a)
		}
		p, err := lisp.NewPath(rlocs...)
		if err != nil {
			b.Fatal(err)
		}
		return lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Next: next, Priority: 1, Weight: 100, Reachable: true}
	}
	p := between("10.2.0.1", "10.3.0.1")
	b.apply(b.mapping("10.3.0.0/24", path(2, PeerRLOCs[0], OwnRLOC4, PeerRLOCs[1])))
	b.through(PeerRLOCs[0], 0, p)
	b.expectRelayed(PeerRLOCs[1].String(), 0, p)
	b.apply(b.mapping("10.3.0.0/24", path(0, PeerRLOCs[1], PeerRLOCs[0])))
	b.through(PeerRLOCs[0], 0, p)
	b.eventuallyDropped("not-on-path", 1)
	b.expectTo(PeerRLOCs[1].String(), from4("10.3.0.1")) // an ITR is on no path
	b.apply(b.mapping("10.3.0.0/24", path(1, PeerRLOCs[0], OwnRLOC4, PeerRLOCs[1])))
	b.through(PeerRLOCs[0], 0, p)
	b.eventuallyDropped("own-next-hop", 1)
	b.send(from4("10.3.0.1"))
	b.eventuallyDropped("own-next-hop", 2)
}

// relayedPacketsTooBig are answered by LISP: their source is a remote EID.
func relayedPacketsTooBig(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24"))
	b.apply(b.to("10.3.0.0/24", PeerRLOCs[3].String()), b.to("10.2.0.0/24", PeerRLOCs[0].String()))
	const largest = PathMTU - 56
	p := between("10.2.0.1", "10.3.0.1").dontFragmented()
	b.through(PeerRLOCs[0], 0, p.sized(largest))
	b.expectRelayed(PeerRLOCs[3].String(), 0, p)
	b.through(PeerRLOCs[0], 0, p.sized(largest+1))
	s := b.receive()
	v4, ok := s.inner.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
	if !ok || !s.encapsulated || s.rloc != PeerRLOCs[0] || s.destination() != p.from || v4.TypeCode != layers.CreateICMPv4TypeCode(3, 4) || v4.Seq != largest {
		b.Errorf("%s, %+v, want fragmentation needed with MTU %d to %s", s, v4, largest, p.from)
	}
	b.eventuallyDropped("too-big", 1)
}

// petrForwards what comes from the EIDs of its policy, over the other family too.
func petrForwards(b *bench) {
	petr := policy(dataplane.RolePETR, "10.2.0.0/24", "2001:db8:2::/64")
	for i, c := range []struct {
		from, other, to string
	}{
		{"10.2.0.1", "10.9.0.1", "203.0.113.9"}, {"2001:db8:2::1", "2001:db8:9::1", "2001:db8:cafe::9"},
	} {
		for j, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
			number := 2*i + j + 1
			b.roles(petr)
			b.through(peer, 0, between(c.from, c.to).numbered(number))
			b.expectOutside(c.to, number)
			b.through(peer, 0, between(c.other, c.to))
			b.eventuallyDropped("not-in-policy", uint64(number))
			b.roles()
			b.through(peer, 0, between(c.from, c.to))
			b.eventuallyDropped("eid-not-in-database", uint64(number))
		}
	}
	b.eventually("both counted", func() bool {
		c := b.plane.Counters()
		return c.NativePackets == 4 && c.DecapsulatedPackets == 4 && c.RelayedPackets == 0
	})
}

// pitrEncapsulates what hosts outside LISP send to the EIDs of its policy, from whichever side.
func pitrEncapsulates(b *bench) {
	pitr := policy(dataplane.RolePITR, "10.2.0.0/24", "2001:db8:2::/64")
	b.apply(b.to("10.2.0.0/24", PeerRLOCs[1].String()), b.to("2001:db8:2::/64", PeerRLOCs[3].String()), b.to("10.3.0.0/24", PeerRLOCs[1].String()))
	for i, c := range []struct{ from, to, rloc string }{
		{"198.51.100.7", "10.2.0.1", PeerRLOCs[1].String()}, {"2001:db8:cafe::7", "2001:db8:2::1", PeerRLOCs[3].String()},
	} {
		p := between(c.from, c.to).numbered(i + 1)
		b.roles()
		b.expectNative(p)
		b.roles(pitr)
		b.expectTo(c.rloc, p)
		b.SendFromCore(b, p.bytes())
		b.expectRelayed(c.rloc, 0, p)
	}
	b.expectNative(between("198.51.100.7", "10.3.0.1")) // of no EID-Prefix of the policy
	pitr.Sources = prefixes("198.51.100.0/25")
	b.roles(pitr)
	b.expectTo(PeerRLOCs[1].String(), between("198.51.100.7", "10.2.0.1"))
	b.expectNative(between("198.51.100.200", "10.2.0.1"))
	b.send(between("198.51.100.7", "10.2.0.1").withSource(SiteHosts[0].String()))
	b.receive() // the ITR's
	b.eventually("five of a PITR", func() bool { return b.plane.Counters().ProxiedPackets == 5 })
}

// ---- two layers ----

func (b *bench) depth(layers uint8) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) { s.RecursionDepth = layers })
}

// twoLayers: an RLOC that a mapping covers is an EID, whose packets are encapsulated again.
func twoLayers(b *bench) {
	const eidRLOC = "172.20.0.5"
	b.apply(b.to("10.2.0.0/24", eidRLOC), b.to("2001:db8:2::/64", eidRLOC), b.to("172.20.0.0/24", PeerRLOCs[3].String()))
	for _, p := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
		b.depth(1)
		b.expectTo(eidRLOC, p)
		b.depth(2)
		b.send(p.numbered(9))
		s := b.receive()
		if !s.encapsulated || s.rloc != PeerRLOCs[3] || s.destination().String() != eidRLOC {
			b.Fatalf("%s, want one to %s through %s", s, eidRLOC, PeerRLOCs[3])
		}
		inside, err := read(s.inner.Data())
		if err != nil || !inside.encapsulated || inside.destination() != p.to || inside.ttl() != 63 || s.ttl() != 63 || s.outerTTL != 63 {
			b.Fatalf("within: %s, %v, want one to %s with TTL 63", inside, err, p.to)
		}
	}
	b.eventually("the RLOC's mapping is used", func() bool { return b.usage("172.20.0.0/24").Packets == 2 })
	const largest = PathMTU - 56 - 36
	b.send(from4("10.2.0.1").dontFragmented().sized(largest + 1))
	v4, ok := b.receiveAtSite().inner.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
	if !ok || v4.Seq != largest {
		b.Errorf("answer %+v, want MTU %d", v4, largest)
	}
}

// twoLayersResolve: an RLOC that no mapping covers raises a Miss and its packets wait, after they have waited for
// their own mapping.
func twoLayersResolve(b *bench) {
	b.depth(2)
	b.send(from4("10.2.0.1").numbered(1), from4("10.2.0.1").numbered(2))
	b.expectMiss("10.2.0.1")
	b.eventuallyWaiting(2)
	b.apply(b.to("10.2.0.0/24", "172.20.0.5"))
	b.expectMiss("172.20.0.5")
	b.eventuallyWaiting(2)
	b.send(from4("10.2.0.1").numbered(3))
	b.eventuallyWaiting(3)
	b.apply(b.to("172.20.0.0/24", PeerRLOCs[1].String()))
	for i := range 3 {
		s := b.receive()
		inside, err := read(s.inner.Data())
		if _, number := inside.flow(); err != nil || s.rloc != PeerRLOCs[1] || number != i+1 {
			b.Fatalf("%s within %s, want number %d through %s", inside, s, i+1, PeerRLOCs[1])
		}
	}
	b.apply(negative("172.20.0.0/24", lisp.ActionNativelyForward))
	before := b.usage("172.20.0.0/24").Packets
	b.expectTo("172.20.0.5", from4("10.2.0.1"))
	b.expectTo("172.20.0.5", from4("10.2.0.1"))
	b.eventually("the entry that says so is used", func() bool { return b.usage("172.20.0.0/24").Packets == before+2 })
	b.apply(negative("172.20.0.0/24", lisp.ActionDrop))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("action-drop", 1)
	b.eventually("the entry that drops is used", func() bool { return b.usage("172.20.0.0/24").Packets == before+3 })
}

// loopsOfMappings are dropped, and what would get three layers.
func loopsOfMappings(b *bench) {
	b.depth(2)
	b.apply(b.to("10.2.0.0/24", "172.20.0.5"), b.to("172.20.0.0/24", "172.20.0.9"))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("mapping-loop", 1)
	b.apply(b.to("172.20.0.0/24", OwnRLOC4.String()))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("mapping-loop", 2)
	b.apply(b.to("172.20.0.0/24", "172.21.0.5"), b.to("172.21.0.0/24", PeerRLOCs[1].String()))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("recursion-depth", 1)
	b.apply(negative("172.21.0.0/24", lisp.ActionNativelyForward))
	b.send(from4("10.2.0.1"))
	if s := b.receive(); s.rloc.String() != "172.21.0.5" {
		b.Errorf("%s, want two layers: the RLOC of the second is no EID", s)
	}
	b.SendFromSite(b, from4("10.2.0.1").serialize(64, dataPort, make([]byte, 40)))
	b.eventuallyDropped("recursion-depth", 2)
}

// rlocsInHoles are not EIDs, though packets to hosts outside LISP that the same mapping covers go to a proxy ETR.
func rlocsInHoles(b *bench) {
	b.depth(2)
	hole := b.to("192.0.2.0/24", PeerRLOCs[0].String())
	hole.Entry.Mapping.Action = lisp.ActionNativelyForward
	b.apply(b.to("10.2.0.0/24", PeerRLOCs[1].String()), hole)
	b.expectTo(PeerRLOCs[1].String(), from4("10.2.0.1"))
	b.expectTo(PeerRLOCs[0].String(), from4("192.0.2.200"))
	b.apply(b.to("10.3.0.0/24", "172.20.0.5"), b.to("172.20.0.0/24", PeerRLOCs[1].String()))
	b.send(from4("10.3.0.1"))
	if s := b.receive(); s.rloc != PeerRLOCs[1] || s.destination().String() != "172.20.0.5" {
		b.Errorf("%s, want two layers, the second to an RLOC in the hole", s)
	}
}

// lookupHops are no locators where there is one layer alone.
func lookupHops(b *bench) {
	hop := locator("172.20.0.5", 1, 100)
	hop.Bits[0] = lisp.HopLookup | lisp.HopExplicit
	b.apply(b.mapping("10.2.0.0/24", hop, locator(PeerRLOCs[1].String(), 2, 100)), b.to("172.20.0.0/24", PeerRLOCs[0].String()))
	b.depth(1)
	b.expectTo(PeerRLOCs[1].String(), from4("10.2.0.1"))
	b.depth(2)
	b.send(from4("10.2.0.1"))
	if s := b.receive(); s.rloc != PeerRLOCs[0] {
		b.Errorf("%s, want two layers", s)
	}
	b.depth(1)
	b.apply(b.mapping("10.2.0.0/24", hop))
	b.send(from4("10.2.0.1"))
	b.eventuallyDropped("no-locator", 1)
}

// decapsulatedTwice: a PETR takes off both layers of what a node sends whose RLOC is an EID.
func decapsulatedTwice(b *bench) {
	b.roles(policy(dataplane.RolePETR, "10.2.0.0/24", "172.20.0.0/24"))
	inside := between("10.2.0.1", "203.0.113.9").numbered(5)
	layer := packet{from: netip.MustParseAddr("172.20.0.5"), to: OwnRLOC4, port: 50000}
	header := binary.BigEndian.AppendUint64(nil, 0)
	both := layer.serialize(64, dataPort, append(header, inside.bytes()...))
	// Of the same addresses, so that what an engine keeps of a flow is asked. Its checksum is wrong: the host
	// says nothing to it.
	plain := layer.serialize(64, 9, []byte{1, 2, 3, 4})
	plain[len(plain)-1]++
	for i, depth := range []uint8{1, 2} {
		b.depth(depth)
		b.SendFromCore(b, fromPeer(PeerRLOCs[2], 0, plain))
		b.SendFromCore(b, fromPeer(PeerRLOCs[2], 0, plain))
		b.SendFromCore(b, fromPeer(PeerRLOCs[2], 0, both))
		b.eventuallyDropped("recursion-depth", 1)
		if i == 1 {
			b.expectOutside("203.0.113.9", 5)
		}
	}
	other := layer
	other.from = netip.MustParseAddr("172.21.0.5")
	b.SendFromCore(b, fromPeer(PeerRLOCs[0], 0, other.serialize(64, dataPort, append(header, inside.bytes()...))))
	b.eventuallyDropped("not-in-policy", 1)
	b.SendFromCore(b, fromPeer(PeerRLOCs[0], 0, layer.serialize(64, dataPort, append(header, both...))))
	b.eventuallyDropped("recursion-depth", 2)

	// An RTR relays what is within both.
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24", "172.20.0.0/24"))
	b.apply(b.to("10.3.0.0/24", PeerRLOCs[1].String()), negative(PeerRLOCs[1].String()+"/32", lisp.ActionNativelyForward))
	onward := between("10.2.0.1", "10.3.0.1").numbered(6)
	b.SendFromCore(b, fromPeer(PeerRLOCs[2], 0, layer.serialize(64, dataPort, append(header, onward.bytes()...))))
	b.expectRelayed(PeerRLOCs[1].String(), 0, onward)
}

// pitrHasTheInstanceOfTheCore, where the site has another.
func pitrHasTheInstanceOfTheCore(b *bench) {
	b.settings(func(s *dataplane.Settings) {
		s.Roles = []dataplane.RolePolicy{policy(dataplane.RolePITR, "10.2.0.0/24", "2001:db8:2::/64")}
		for i := range s.Interfaces {
			if s.Interfaces[i].Side == dataplane.SideSite {
				s.Interfaces[i].Instance = 7
			}
		}
	})
	b.apply(b.database("[7]"+siteDatabase4), b.database("[7]"+siteDatabase6))
	for i, c := range []struct{ prefix, to, from string }{
		{"10.2.0.0/24", "10.2.0.1", "203.0.113.9"}, {"2001:db8:2::/64", "2001:db8:2::1", "2001:db8:cafe::9"},
	} {
		b.apply(b.to(c.prefix, PeerRLOCs[0].String()), b.to("[7]"+c.prefix, PeerRLOCs[1].String()))
		b.SendFromCore(b, between(c.from, c.to).numbered(i).bytes())
		if s := b.receive(); !s.encapsulated || s.rloc != PeerRLOCs[0] || s.instance != 0 {
			b.Errorf("%s of Instance-ID %d, want one of 0 through %s", s, s.instance, PeerRLOCs[0])
		}
		b.send(packet{from: SiteHosts[i], to: netip.MustParseAddr(c.to), port: 1000})
		if s := b.receive(); !s.encapsulated || s.rloc != PeerRLOCs[1] || s.instance != 7 {
			b.Errorf("%s of Instance-ID %d, want one of 7 through %s", s, s.instance, PeerRLOCs[1])
		}
	}
}

// answerTime is more than an answer takes.
const answerTime = 100 * time.Millisecond

// relayedPacketsAreNotAnswered when they are dropped: their source is a host of another site, which is told nothing
// here, and nothing else is counted for the drop.
func relayedPacketsAreNotAnswered(b *bench) {
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24", "2001:db8:2::/64"))
	b.apply(b.mapping("10.3.0.0/24", locator(PeerRLOCs[1].String(), lisp.PriorityUnused, 0)), negative("2001:db8:3::/64", lisp.ActionDrop))
	b.apply(b.to("10.2.0.0/24", PeerRLOCs[0].String()), b.to("2001:db8:2::/64", PeerRLOCs[2].String()))
	b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.3.0.1"))
	b.eventuallyDropped("no-locator", 1)
	b.through(PeerRLOCs[2], 0, between("2001:db8:2::1", "2001:db8:3::1"))
	b.eventuallyDropped("action-drop", 1)
	b.apply(b.to("10.3.0.0/24", PeerRLOCs[1].String()))
	b.through(PeerRLOCs[0], 0, between("10.2.0.1", "10.3.0.1").numbered(5))
	b.expectRelayed(PeerRLOCs[1].String(), 0, between("10.2.0.1", "10.3.0.1").numbered(5))
	b.Pass(answerTime)
	c := b.plane.Counters()
	maps.DeleteFunc(c.Drops, func(_ string, n uint64) bool { return n == 0 })
	if len(c.Drops) != 2 || c.EncapsulatedPackets != 0 || c.RelayedPackets != 1 {
		b.Errorf("dropped %v, %d encapsulated, %d relayed, want two drops and one packet relayed", c.Drops, c.EncapsulatedPackets, c.RelayedPackets)
	}
}
