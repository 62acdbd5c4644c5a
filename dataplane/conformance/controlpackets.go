// SPDX-License-Identifier: Apache-2.0

package conformance

// Control messages in data packets (Instance-ID 0xFFFFFF): events, where they come from an RTR of the settings.

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// controlFrom is a control message that a peer sends in a data packet, from a port.
func controlFrom(peer netip.Addr, port uint16, payload []byte) []byte {
	header := [8]byte{0x08}
	binary.BigEndian.PutUint32(header[4:], uint32(lisp.ControlInstanceID)<<8)
	return packet{from: peer, to: ownLike(peer), port: port}.serialize(64, dataPort, append(header[:], payload...))
}

// rtrs has control messages taken from these addresses.
func (b *bench) rtrs(addresses ...netip.Addr) {
	b.Helper()
	s := b.plane.Settings()
	s.RTRs = rlocs(addresses...)
	b.apply(dataplane.SetSettings{Settings: s})
}

func rlocs(addresses ...netip.Addr) (list []lisp.RLOC) {
	for _, a := range addresses {
		list = append(list, lisp.RLOCFromAddr(a))
	}
	return list
}

// manyRLOCs are that many.
func manyRLOCs(n int) (list []lisp.RLOC) {
	for a := netip.MustParseAddr("198.18.0.1"); len(list) < n; a = a.Next() {
		list = append(list, lisp.RLOCFromAddr(a))
	}
	return list
}

// controlPacketsBecomeEvents: of each family, from whatever port, and whatever form their contents have.
func controlPacketsBecomeEvents(b *bench) {
	b.rtrs(PeerRLOCs[0], PeerRLOCs[2])
	notify := toHost(SiteHosts[0]).bytes() // an inner packet, as the draft has it
	for i, payload := range [][]byte{notify, {0x70, 1, 2, 3}, bytes.Repeat([]byte{0x45}, 1300), {}} {
		for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
			own := ownLike(peer)
			port := uint16(4342 - i)
			b.SendFromCore(b, controlFrom(peer, port, payload))
			want := dataplane.ControlPacket{Source: netip.AddrPortFrom(peer, port), Destination: netip.AddrPortFrom(own, dataPort), Payload: payload}
			got := b.nextControlPacket()
			if got.Source != want.Source || got.Destination != want.Destination || !bytes.Equal(got.Payload, want.Payload) {
				b.Errorf("%s to %s: %x, want %s to %s: %x", got.Source, got.Destination, got.Payload, want.Source, want.Destination, want.Payload)
			}
		}
	}
	b.expectNoDrops("control-source", "control-limit")
	b.eventually("control packets counted", func() bool { return b.plane.Counters().Other["control_packets"] == 8 })
	b.nothingAtSite()
}

func (b *bench) nextControlPacket() (got dataplane.ControlPacket) {
	b.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-b.plane.Events():
			if got, is := event.(dataplane.ControlPacket); is {
				return got
			}
		case <-deadline:
			b.Fatalf("no control packet; counters %+v", b.plane.Counters())
		}
	}
}

func (b *bench) expectNoDrops(reasons ...string) {
	b.Helper()
	for _, reason := range reasons {
		if n := b.plane.Counters().Drops[reason]; n != 0 {
			b.Errorf("%d packets dropped for %s", n, reason)
		}
	}
}

// nothingAtSite demands that a packet that is sent now is the first that arrives at the site.
func (b *bench) nothingAtSite() {
	b.Helper()
	b.SendFromCore(b, fromPeer(PeerRLOCs[1], 0, toHost(SiteHosts[0]).numbered(77).bytes()))
	if _, number := b.receiveAtSite().flow(); number != 77 {
		b.Errorf("number %d arrived at the site, want 77", number)
	}
}

// controlPacketsOfStrangers are dropped: of those who are no RTR, also when there are others, and of an RTR that is
// none any more.
func controlPacketsOfStrangers(b *bench) {
	inner := toHost(SiteHosts[0]).bytes() // would be forwarded in another Instance-ID
	dropped := uint64(0)
	for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[2]} {
		b.SendFromCore(b, controlFrom(peer, 4342, inner))
		dropped++
		b.eventuallyDropped("control-source", dropped)
	}
	b.rtrs(PeerRLOCs[0], PeerRLOCs[2])
	for _, peer := range []netip.Addr{PeerRLOCs[1], PeerRLOCs[3]} {
		b.SendFromCore(b, controlFrom(peer, 4342, inner))
		dropped++
		b.eventuallyDropped("control-source", dropped)
	}
	b.SendFromCore(b, controlFrom(PeerRLOCs[0], 4342, inner))
	if got := b.nextControlPacket(); got.Source.Addr() != PeerRLOCs[0] {
		b.Errorf("a control packet of %s", got.Source)
	}
	b.rtrs()
	b.SendFromCore(b, controlFrom(PeerRLOCs[0], 4342, inner))
	b.eventuallyDropped("control-source", dropped+1)
	b.nothingAtSite()
}

// controlPacketsOfAllNodes: an RTR that takes them from any IPv4 address takes none from IPv6, and none any more when
// it is none.
func controlPacketsOfAllNodes(b *bench) {
	b.rtrs(dataplane.AnyIPv4.Addr())
	ask := []byte{0x70, 1, 2, 3}
	for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[1]} {
		b.SendFromCore(b, controlFrom(peer, 40007, ask))
		if got := b.nextControlPacket(); got.Source != netip.AddrPortFrom(peer, 40007) || !bytes.Equal(got.Payload, ask) {
			b.Errorf("%s: %x", got.Source, got.Payload)
		}
	}
	b.SendFromCore(b, controlFrom(PeerRLOCs[2], 40007, ask))
	b.eventuallyDropped("control-source", 1)
	b.rtrs(PeerRLOCs[0])
	b.SendFromCore(b, controlFrom(PeerRLOCs[1], 40007, ask))
	b.eventuallyDropped("control-source", 2)
}

// controlPacketsOfARelay: a role relays none of them, whatever its policy covers, and none within another packet is
// taken.
func controlPacketsOfARelay(b *bench) {
	b.settings(func(s *dataplane.Settings) {
		s.RTRs, s.RecursionDepth = rlocs(PeerRLOCs[0], PeerRLOCs[1]), 2
		s.Roles = append(s.Roles, dataplane.RolePolicy{Role: dataplane.RoleRTR, EIDs: prefixes("0.0.0.0/0", "::/0")},
			dataplane.RolePolicy{Role: dataplane.RoleRTR, Instance: lisp.MaxInstanceID, EIDs: prefixes("0.0.0.0/0", "::/0")})
	})
	b.SendFromCore(b, controlFrom(PeerRLOCs[2], 4342, toHost(SiteHosts[0]).bytes()))
	b.eventuallyDropped("control-source", 1)
	b.SendFromCore(b, fromPeer(PeerRLOCs[1], 0, controlFrom(PeerRLOCs[0], 4342, toHost(SiteHosts[0]).bytes())))
	b.eventuallyDropped("control-source", 2)
	b.nothingAtSite()
}

// controlPacketsOfRoutersInUse: what the map-cache sends to from a port of its own is heard beside a flood of others,
// also of its own address.
func controlPacketsOfRoutersInUse(b *bench) {
	if _, refuses := b.Harness.(WithoutSourcePorts); refuses {
		return
	}
	b.rtrs(dataplane.AnyIPv4.Addr())
	const port = 40007
	l := lisp.NewLocator(lisp.RLOCFromAddr(PeerRLOCs[0]).WithPort(port))
	l.SourcePort = dataPort
	b.apply(dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{
		Prefix: lisp.MustParsePrefix("10.99.0.0/16"), Locators: lisp.LocatorSet{l}, TTLMinutes: 60,
	}}})
	for _, peer := range []netip.Addr{PeerRLOCs[0], PeerRLOCs[1]} {
		for range dataplane.MaxControlPackets / 2 {
			b.SendFromCore(b, controlFrom(peer, 4342, []byte{0x70, 9}))
		}
	}
	in := []byte{0x70, 1}
	b.SendFromCore(b, controlFrom(PeerRLOCs[0], port, in))
	for !bytes.Equal(b.nextControlPacket().Payload, in) {
	}
}

// controlPacketsAreBounded: a flood from the address of an RTR becomes no more events than there may be, after which
// they come as before. What a socket has no room for the kernel counts.
func controlPacketsAreBounded(b *bench) {
	b.rtrs(PeerRLOCs[0])
	flood := controlFrom(PeerRLOCs[0], 4342, []byte{0x40, 9})
	const sent = dataplane.MaxControlPackets + 500
	before := time.Now()
	for range sent {
		b.SendFromCore(b, flood)
	}
	b.eventually("events of the flood", func() bool { return b.plane.Counters().Other["control_packets"] > 0 })
	b.Pass(1100 * time.Millisecond)
	windows := uint64(time.Since(before)/time.Second) + 2
	c := b.plane.Counters()
	if n := c.Other["control_packets"]; n > windows*dataplane.MaxControlPackets || n+c.Drops["control-limit"] > sent {
		b.Errorf("%d events and %d dropped of %d, at most %d a second in %d", n, c.Drops["control-limit"], sent, dataplane.MaxControlPackets, windows)
	}
	last := []byte{1}
	b.SendFromCore(b, controlFrom(PeerRLOCs[0], 4342, last))
	for !bytes.Equal(b.nextControlPacket().Payload, last) {
	}
}
