// SPDX-License-Identifier: Apache-2.0

package conformance

// What comes from the core, packets that do not fit, and the counters.

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/lisp"
)

// toHost is a packet of a remote EID to a host of the site.
func toHost(host netip.Addr) packet {
	remote := netip.MustParseAddr("2001:db8:2::1")
	if host.Is4() {
		remote = netip.MustParseAddr("10.2.0.1")
	}
	return packet{from: remote, to: host, port: 5000}
}

func (b *bench) receiveAtSite() seen {
	b.Helper()
	octets, ok := b.ReceiveAtSite(b)
	if !ok {
		b.Fatalf("nothing arrived at the site; counters %+v", b.plane.Counters())
	}
	s, err := read(octets)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func fromCore(b *bench) {
	number := 0
	for _, host := range SiteHosts {
		for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
			number++
			b.SendFromCore(b, fromPeer(peer, 0, toHost(host).numbered(number).bytes()))
			s := b.receiveAtSite()
			if _, got := s.flow(); s.encapsulated || got != number || s.destination() != host || s.ttl() != 63 {
				b.Fatalf("%s with TTL %d, want number %d to %s with 63", s, s.ttl(), number, host)
			}
		}
	}
}

func fromCoreRefused(b *bench) {
	peer := PeerRLOCs[0]
	foreign := toHost(SiteHosts[0])
	foreign.to = netip.MustParseAddr("10.77.0.1")
	b.SendFromCore(b, fromPeer(peer, 0, foreign.bytes()))
	b.eventuallyDropped("eid-not-in-database", 1)
	b.SendFromCore(b, fromPeer(peer, 7, toHost(SiteHosts[0]).bytes()))
	b.eventuallyDropped("eid-not-in-database", 2)
	b.SendFromCore(b, fromPeer(peer, 0, []byte{0x45, 0}))
	b.eventuallyDropped("inner-malformed", 1)
	// What is good still arrives, and nothing of the others came before it.
	b.SendFromCore(b, fromPeer(peer, 0, toHost(SiteHosts[0]).numbered(9).bytes()))
	if _, number := b.receiveAtSite().flow(); number != 9 {
		b.Errorf("number %d arrived at the site, want 9", number)
	}
}

// sourcesAreTold demands the RLOCs that good packets came from, and the time of the last.
func sourcesAreTold(b *bench) {
	reporter, ok := b.plane.(dataplane.SourceReporter)
	if !ok {
		b.Skipf("%T does not tell from whom packets come", b.plane)
	}
	if told := maps.Collect(reporter.Sources()); len(told) != 0 {
		b.Errorf("%v before any packet", told)
	}
	began := time.Now()
	foreign := toHost(SiteHosts[0])
	foreign.to = netip.MustParseAddr("10.77.0.1")
	b.SendFromCore(b, fromPeer(PeerRLOCs[1], 0, foreign.bytes()))
	b.eventuallyDropped("eid-not-in-database", 1)
	for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
		b.SendFromCore(b, fromPeer(peer, 0, toHost(SiteHosts[0]).bytes()))
		b.receiveAtSite()
	}
	told := maps.Collect(reporter.Sources())
	if len(told) != 2 {
		b.Errorf("%v, want %s and %s", told, PeerRLOCs[0], PeerRLOCs[2])
	}
	for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
		if at := told[lisp.RLOCFromAddr(peer)]; at.Before(began.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			b.Errorf("%s was heard from at %s, want a time since %s", peer, at, began)
		}
	}
	first := told[lisp.RLOCFromAddr(PeerRLOCs[0])]
	b.eventually("a later packet", func() bool {
		b.Pass(100 * time.Millisecond)
		b.SendFromCore(b, fromPeer(PeerRLOCs[0], 0, toHost(SiteHosts[0]).bytes()))
		b.receiveAtSite()
		return maps.Collect(reporter.Sources())[lisp.RLOCFromAddr(PeerRLOCs[0])].After(first)
	})
}

func countersMove(b *bench) {
	before := b.plane.Counters()
	p := from4("10.2.0.1")
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", p)
	in := toHost(SiteHosts[1])
	b.SendFromCore(b, fromPeer(PeerRLOCs[2], 0, in.bytes()))
	b.receiveAtSite()
	b.eventually("one packet each way", func() bool {
		c := b.plane.Counters()
		return c.EncapsulatedPackets == before.EncapsulatedPackets+1 && c.DecapsulatedPackets == before.DecapsulatedPackets+1
	})
	c := b.plane.Counters()
	if out := c.EncapsulatedOctets - before.EncapsulatedOctets; out != uint64(len(p.bytes())) {
		b.Errorf("%d octets encapsulated, want %d", out, len(p.bytes()))
	}
	if octets := c.DecapsulatedOctets - before.DecapsulatedOctets; octets != uint64(len(in.bytes())) {
		b.Errorf("%d octets decapsulated, want %d", octets, len(in.bytes()))
	}
	b.apply(negative("10.3.0.0/24", 1))
	b.expectNative(from4("10.3.0.1"))
	b.eventually("a native packet", func() bool { return b.plane.Counters().NativePackets == before.NativePackets+1 })
	c.Drops["miss"] = 1 << 40
	if b.plane.Counters().Drops["miss"] == 1<<40 {
		b.Error("the counters returned share memory with the engine")
	}
}

// tooBig demands an answer to the host (RFC 9300 s.7.1), with what would fit.
func tooBig(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"), b.to("2001:db8:2::/64", "192.0.2.2"))
	const largest = PathMTU - 36
	b.expectTo("192.0.2.2", from4("10.2.0.1").dontFragmented().sized(largest))
	b.send(from4("10.2.0.1").dontFragmented().sized(largest + 1))
	v4, ok := b.receiveAtSite().inner.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
	if !ok || v4.TypeCode != layers.CreateICMPv4TypeCode(3, 4) || v4.Seq != largest {
		b.Errorf("answer %+v, want fragmentation needed with MTU %d", v4, largest)
	}
	b.expectTo("192.0.2.2", from6("2001:db8:2::1").sized(largest))
	b.send(from6("2001:db8:2::1").sized(largest + 1))
	v6, ok := b.receiveAtSite().inner.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
	if !ok || v6.TypeCode != layers.CreateICMPv6TypeCode(2, 0) || binary.BigEndian.Uint32(v6.Payload) != largest {
		b.Errorf("answer %+v, want Packet Too Big with MTU %d", v6, largest)
	}
	b.eventuallyDropped("too-big", 2)
}

// fragmentsFit demands IPv4 without DF in two parts (RFC 9300 s.7.1).
func fragmentsFit(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.send(from4("10.2.0.1").sized(PathMTU))
	payload := 0
	for i := range 2 {
		s := b.receive()
		v4, ok := s.inner.NetworkLayer().(*layers.IPv4)
		if !ok || !s.encapsulated || s.octets > PathMTU-36 {
			b.Fatalf("part %d: %s of %d octets", i, s, s.octets)
		}
		if int(v4.FragOffset)*8 != payload || (v4.Flags&layers.IPv4MoreFragments != 0) != (i == 0) {
			b.Errorf("part %d: offset %d, flags %s, after %d octets", i, v4.FragOffset*8, v4.Flags, payload)
		}
		payload += int(v4.Length) - 20
	}
	if payload != PathMTU-20 {
		b.Errorf("both parts carry %d octets, want %d", payload, PathMTU-20)
	}
}

// shrunkMTU is what the core carries after a change, and tooLong a packet that does not fit it any more.
const (
	shrunkMTU = 1300
	tooLong   = 1400
)

// shrunkPathLosesNothing: after flows went by a path it carries less. Their packets are sent in parts, or answered and counted,
// or as they are until the engine knows: the link still carries them. None is lost silently.
func shrunkPathLosesNothing(b *bench) {
	shrinking, ok := b.Harness.(Shrinking)
	if !ok {
		b.Skipf("%T cannot shrink the core", b.Harness)
	}
	const packets = 10
	b.apply(b.to("10.2.0.0/24", PeerRLOCs[0].String()), b.to("2001:db8:2::/64", PeerRLOCs[2].String()))
	for i := range 3 {
		b.expectTo(PeerRLOCs[0].String(), from4("10.2.0.1").sized(tooLong).numbered(i))
		b.expectTo(PeerRLOCs[2].String(), from6("2001:db8:2::1").sized(tooLong).numbered(i))
	}
	shrinking.SetCoreMTU(b, shrunkMTU)
	for i := range packets {
		b.send(from4("10.2.0.1").sized(tooLong).numbered(i))
	}
	expectOctets(b, packets*(tooLong-20))
	for i := range packets {
		b.send(from6("2001:db8:2::1").sized(tooLong).numbered(i))
	}
	whole := uint64(0)
	for _, ok := b.ReceiveAtCore(b); ok; _, ok = b.ReceiveAtCore(b) {
		whole++
	}
	if dropped := b.plane.Counters().Drops["too-big"]; whole+dropped != packets {
		b.Fatalf("%d packets arrived and %d were dropped, want %d together", whole, dropped, packets)
	}
	if whole == packets {
		return
	}
	answer := b.receiveAtSite()
	if v6, ok := answer.inner.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); !ok || binary.BigEndian.Uint32(v6.Payload) != shrunkMTU-56 {
		b.Errorf("%s, want Packet Too Big with MTU %d", answer, shrunkMTU-56)
	}
}

// shrunkPathOfRelaysLosesNothing is the same for packets of an RTR.
func shrunkPathOfRelaysLosesNothing(b *bench) {
	shrinking, ok := b.Harness.(Shrinking)
	if !ok {
		b.Skipf("%T cannot shrink the core", b.Harness)
	}
	const packets = 10
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24"))
	b.apply(b.to("10.3.0.0/24", PeerRLOCs[1].String()))
	p := between("10.2.0.1", "10.3.0.1").sized(tooLong)
	for i := range 3 {
		b.through(PeerRLOCs[0], 0, p.numbered(i))
		b.expectRelayed(PeerRLOCs[1].String(), 0, p.numbered(i))
	}
	shrinking.SetCoreMTU(b, shrunkMTU)
	for i := range packets {
		b.through(PeerRLOCs[0], 0, p.numbered(i))
	}
	expectOctets(b, packets*(tooLong-20))
}

// expectOctets demands encapsulated packets of IPv4 at the core, whole or in parts, that have so many octets of payload together.
func expectOctets(b *bench, octets int) {
	b.Helper()
	for octets > 0 {
		s := b.receive()
		v4, ok := s.inner.NetworkLayer().(*layers.IPv4)
		if !ok || !s.encapsulated {
			b.Fatalf("%s, want a packet of IPv4 or a part of one", s)
		}
		octets -= int(v4.Length) - 20
	}
	if octets < 0 {
		b.Errorf("%d octets of payload too much", -octets)
	}
}
