// SPDX-License-Identifier: Apache-2.0

// Hostile input of both ends of the engine, without a host around it: frames of the TUN, whose virtio header a
// process of this host can make by a packet socket, and trains of datagrams, which anybody can send. Caches may not
// change what becomes of a packet: what comes twice is treated twice alike, and as the model alone treats it.

package user

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/dataplane/user/offload"
	"loci/dataplane/user/underlay"
	"loci/forward"
	"loci/lisp"
	"loci/wire"
)

// sink takes what an engine sends.
type sink struct {
	now       time.Time // of the tables
	datagrams [][]byte  // outer ports, addresses, marks and payload
	frames    [][]byte
	asked     int // of these were the model's
}

func (s *sink) Add(o *underlay.Outer, pieces ...[]byte) {
	payload := slices.Concat(pieces...)
	for len(payload) > 0 {
		octets := len(payload)
		if o.Segment > 0 {
			octets = min(octets, o.Segment)
		}
		head := []byte(o.Source.String() + " " + o.To.String() + " ")
		s.datagrams = append(s.datagrams, slices.Concat(head, []byte{o.TTL, o.Class}, withoutNonce(payload[:octets])))
		payload = payload[octets:]
	}
}

// withoutNonce also makes one of the two numbers that are 0 in the arithmetic of checksums.
func withoutNonce(payload []byte) []byte {
	payload = bytes.Clone(payload)
	if len(payload) >= wire.DataHeaderOctets && payload[0]&0x80 != 0 {
		clear(payload[1:4])
	}
	if inner := payload[min(wire.DataHeaderOctets, len(payload)):]; len(inner) >= 20 && inner[0]>>4 == 4 && inner[10] == 0xff && inner[11] == 0xff {
		clear(inner[10:12])
	}
	return payload
}

func (s *sink) Flush() {}

func (s *sink) Cuts() bool { return true }

func (s *sink) Joins() bool { return true }

func (s *sink) Write(pieces ...[]byte) error {
	s.frames = append(s.frames, slices.Concat(pieces...))
	return nil
}

// take returns what was sent since the last call; GSO packets are cut.
func (s *sink) take(t testing.TB) (sent [][]byte) {
	sent = s.datagrams
	for _, frame := range s.frames {
		v, packet := offload.ParseVnet(frame), frame[offload.VnetOctets:]
		if !v.IsGSO() {
			sent = append(sent, packet)
			continue
		}
		segments, ok := offload.Cut(packet, v)
		if !ok {
			t.Fatalf("a frame for the host contradicts itself: %x", frame)
		}
		for i := range segments.Count() {
			sent = append(sent, append(segments.AppendHeader(nil, i), segments.Payload(i)...))
		}
	}
	*s = sink{asked: s.asked, now: s.now.Add(time.Second)} // answers have a rate
	return sent
}

// newFuzzed is an engine without files: an xTR that is RTR, PITR and PETR as well.
func newFuzzed(t testing.TB) (*Engine, *sink) {
	now := time.Now()
	s := &sink{now: now}
	e := &Engine{paths: newPaths(nil, 0, nil, nil), errors: &pathErrors{}, emitter: emitter{sender: s, writer: s}}
	e.model = model.Hosted{Engine: model.New(model.Options{
		Now: func() time.Time { return s.now }, Nonce: func() uint32 { return 0 }, Routed: true, Emit: func(m packets.Emission) { s.asked++; e.emitter.emit(m) },
		IsHost: func(netip.Addr) bool { return false },
		AnswerFrom: func(to netip.Addr) netip.Addr {
			if to.Is4() {
				return conformance.OwnRLOC4
			}
			return conformance.OwnRLOC6
		},
	})}
	e.plainHeaders.Store(true)
	own := []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	settings := dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}, LocalRLOCs: own,
		Wait: dataplane.WaitBounds{PacketsPerDestination: 8, PacketsTotal: 64, OctetsTotal: 1 << 17, Time: time.Minute},
	}
	for _, role := range []dataplane.Role{dataplane.RoleRTR, dataplane.RolePITR, dataplane.RolePETR} {
		settings.Roles = append(settings.Roles, dataplane.RolePolicy{Role: role, EIDs: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("2001:db8:2::/48")}})
	}
	operations := []dataplane.Operation{dataplane.SetSettings{Settings: settings}}
	locators := func(rlocs ...lisp.RLOC) (set lisp.LocatorSet) {
		for _, r := range rlocs {
			set = append(set, lisp.Locator{RLOC: r, Priority: 1, Weight: 100, Reachable: true})
		}
		return set
	}
	for _, prefix := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
		operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix(prefix), Locators: locators(own...)}})
	}
	for i, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/64"} {
		m := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: locators(lisp.RLOCFromAddr(conformance.PeerRLOCs[2*i])), TTLMinutes: 1440}
		operations = append(operations, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: m, CreatedAt: now, Static: true}})
	}
	for _, prefix := range []string{"10.3.0.0/24", "2001:db8:3::/64"} {
		m := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Action: lisp.ActionNativelyForward, TTLMinutes: 1440}
		operations = append(operations, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: m, CreatedAt: now, Static: true}})
	}
	if errs := e.model.Apply(operations...); errs != nil {
		t.Fatal(errs)
	}
	return e, s
}

func newFuzzedOutbound(e *Engine, s *sink) *outbound {
	return &outbound{engine: e, writer: s, trains: trains{sender: s}, nonces: newNonces(), flows: map[flowKey]*flow{}, now: time.Now()}
}

// frameOf is a frame of the TUN whose virtio header has these fields.
func frameOf(v [5]uint16, packet []byte) []byte {
	frame := []byte{byte(v[0]), byte(v[0] >> 8)}
	for _, field := range v[1:] {
		frame = binary.NativeEndian.AppendUint16(frame, field)
	}
	return append(frame, packet...)
}

// FuzzFrame: frames of the TUN.
func FuzzFrame(f *testing.F) {
	for _, p := range seedPackets() {
		transport := 20
		if p[0]>>4 == 6 {
			transport = 40
		}
		f.Add(frameOf([5]uint16{}, p))
		f.Add(frameOf([5]uint16{1, 0, 0, uint16(transport), 6}, p))
		f.Add(frameOf([5]uint16{1 | 1<<8, uint16(transport + 20), 10, uint16(transport), 16}, p))
		f.Add(frameOf([5]uint16{1 | 4<<8, uint16(transport + 20), 10, uint16(transport), 16}, p))
		f.Add(frameOf([5]uint16{1 | 5<<8, uint16(transport + 8), 1, uint16(transport), 6}, p))
		f.Add(frameOf([5]uint16{1 | 3<<8, 0xffff, 0, 0xffff, 0xffff}, p))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) <= offload.VnetOctets || len(frame) > 1<<16 {
			return
		}
		e, s := newFuzzed(t)
		b := newFuzzedOutbound(e, s)
		var first [][]byte
		var grown dataplane.Counters
		for round := range 2 {
			before := e.Counters()
			b.frame(bytes.Clone(frame))
			b.end()
			sent := s.take(t)
			if round == 0 {
				first, grown = sent, e.Counters()
				continue
			}
			if waiting(e) { // bounds count what waits already
				break
			}
			sameSent(t, sent, first)
			sameGrowth(t, before, e.Counters(), grown)
		}
		bounded(t, e)
		if len(b.flows) > maxFlows || len(b.trains.heads) != 0 || b.trains.train.count != 0 {
			t.Errorf("%d flows, %d octets of headers, %d datagrams are kept", len(b.flows), len(b.trains.heads), b.trains.train.count)
		}
	})
}

// FuzzTrain: datagrams from the core.
func FuzzTrain(f *testing.F) {
	for _, p := range seedPackets() {
		for _, header := range [][]byte{{0x80, 1, 2, 3, 0, 0, 0, 0}, {0x88, 1, 2, 3, 0, 0, 7, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, {0xff, 1, 2, 3, 4, 5, 6, 7}} {
			one := append(bytes.Clone(header), p...)
			f.Add(false, uint8(64), uint8(0), 0, one)
			f.Add(true, uint8(64), uint8(3), len(one), append(bytes.Clone(one), one...))
			f.Add(false, uint8(1), uint8(0), len(one)-3, append(bytes.Clone(one), one[:30]...))
		}
	}
	f.Add(false, uint8(64), uint8(0), 1, []byte{0x80, 1, 2})
	f.Fuzz(func(t *testing.T, six bool, ttl, class uint8, segment int, payload []byte) {
		if len(payload) > 65507 || segment < 0 || segment > 0xffff || segment > 0 && len(payload)/segment > 200 {
			return
		}
		e, s := newFuzzed(t)
		train := underlay.Train{From: netip.AddrPortFrom(conformance.PeerRLOCs[0], 50000), To: conformance.OwnRLOC4, Marks: underlay.Marks{TTL: ttl, Class: class}, Segment: segment}
		if six {
			train.From, train.To = netip.AddrPortFrom(conformance.PeerRLOCs[2], 50000), conformance.OwnRLOC6
		}
		b := newInbound(e, forward.DataPort, s, s)
		b.now = time.Now()
		var first [][]byte
		var grown dataplane.Counters
		for round := range 2 {
			before := e.Counters()
			train.Payload = bytes.Clone(payload)
			b.train(&train)
			b.end()
			sent := s.take(t)
			if round == 0 {
				first, grown = sent, e.Counters()
				continue
			}
			if waiting(e) {
				break
			}
			sameSent(t, sent, first)
			sameGrowth(t, before, e.Counters(), grown)
		}
		bounded(t, e)
		if len(b.entries)+len(b.relays) > maxFlows || b.joiner.Packets() != 0 {
			t.Errorf("%d entries, %d packets are kept", len(b.entries)+len(b.relays), b.joiner.Packets())
		}
	})
}

func waiting(e *Engine) bool { return e.Counters().WaitingPackets > 0 }

func bounded(t *testing.T, e *Engine) {
	t.Helper()
	if c, wait := e.Counters(), e.Settings().Wait; c.WaitingPackets > uint64(wait.PacketsTotal) || c.WaitingOctets > uint64(wait.OctetsTotal) {
		t.Errorf("%d packets of %d octets wait", c.WaitingPackets, c.WaitingOctets)
	}
}

// sameSent demands the same packets; answers have a rate.
func sameSent(t *testing.T, got, want [][]byte) {
	t.Helper()
	got, want = withoutAnswers(got), withoutAnswers(want)
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("the second time were sent\n%x\nthe first time\n%x", got, want)
	}
}

func withoutAnswers(sent [][]byte) [][]byte {
	return slices.DeleteFunc(slices.Clone(sent), func(p []byte) bool {
		h, err := forward.ParseHeader(p)
		return err == nil && (h.Source == conformance.OwnRLOC4 || h.Source == conformance.OwnRLOC6)
	})
}

// sameGrowth demands that counters grew by as much the second time as they had from 0.
func sameGrowth(t *testing.T, before, after, first dataplane.Counters) {
	t.Helper()
	for _, c := range []struct {
		name                 string
		before, after, first uint64
	}{
		{"encapsulated", before.EncapsulatedPackets, after.EncapsulatedPackets, first.EncapsulatedPackets},
		{"octets encapsulated", before.EncapsulatedOctets, after.EncapsulatedOctets, first.EncapsulatedOctets},
		{"decapsulated", before.DecapsulatedPackets, after.DecapsulatedPackets, first.DecapsulatedPackets},
		{"octets decapsulated", before.DecapsulatedOctets, after.DecapsulatedOctets, first.DecapsulatedOctets},
		{"relayed", before.RelayedPackets, after.RelayedPackets, first.RelayedPackets},
		{"octets relayed", before.RelayedOctets, after.RelayedOctets, first.RelayedOctets},
		{"native", before.NativePackets, after.NativePackets, first.NativePackets},
		{"proxied", before.ProxiedPackets, after.ProxiedPackets, first.ProxiedPackets},
		{"missed", before.MissPackets, after.MissPackets, first.MissPackets},
	} {
		if c.after-c.before != c.first {
			t.Errorf("%s: %d packets the second time, %d the first time", c.name, c.after-c.before, c.first)
		}
	}
	for reason, n := range after.Drops {
		if n-before.Drops[reason] != first.Drops[reason] {
			t.Errorf("%s: %d packets dropped the second time, %d the first time", reason, n-before.Drops[reason], first.Drops[reason])
		}
	}
}

// seedPackets are plain packets of hosts: TCP and UDP, IPv4 and IPv6, from EIDs of the site and of others.
func seedPackets() (packets [][]byte) {
	for _, ends := range [][2]string{
		{"10.1.0.10", "10.2.0.1"}, {"10.2.0.1", "10.1.0.10"}, {"10.2.0.1", "10.3.0.1"}, {"10.9.0.1", "10.2.0.1"}, {"10.1.0.10", "10.3.0.1"}, {"10.1.0.10", "10.8.0.1"},
		{"2001:db8:1::10", "2001:db8:2::1"}, {"2001:db8:2::1", "2001:db8:1::10"}, {"2001:db8:2::1", "2001:db8:3::1"},
	} {
		from, to := net.ParseIP(ends[0]), net.ParseIP(ends[1])
		for _, protocol := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
			tcp := &layers.TCP{SrcPort: 1000, DstPort: 9, Seq: 7, ACK: true, Window: 77}
			udp := &layers.UDP{SrcPort: 1000, DstPort: 9}
			var network gopacket.SerializableLayer
			if four := from.To4(); four != nil {
				v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 63, Protocol: protocol, SrcIP: four, DstIP: to.To4()}
				_, _, network = tcp.SetNetworkLayerForChecksum(v4), udp.SetNetworkLayerForChecksum(v4), v4
			} else {
				v6 := &layers.IPv6{Version: 6, HopLimit: 63, NextHeader: protocol, SrcIP: from, DstIP: to}
				_, _, network = tcp.SetNetworkLayerForChecksum(v6), udp.SetNetworkLayerForChecksum(v6), v6
			}
			var transport gopacket.SerializableLayer = tcp
			if protocol == layers.IPProtocolUDP {
				transport = udp
			}
			buffer := gopacket.NewSerializeBuffer()
			if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, network, transport, gopacket.Payload("some thirty octets of a payload")); err != nil {
				panic(err)
			}
			packets = append(packets, bytes.Clone(buffer.Bytes()))
		}
	}
	return packets
}

// TestCachesServe sends packets of every kind that is cached a second time, of which the model is not asked.
func TestCachesServe(t *testing.T) {
	e, s := newFuzzed(t)
	out, in := newFuzzedOutbound(e, s), newInbound(e, forward.DataPort, s, s)
	in.now = time.Now()
	for i, p := range seedPackets() {
		there := func() { out.frame(frameOf([5]uint16{}, p)); out.end() }
		back := func() {
			train := underlay.Train{From: netip.AddrPortFrom(conformance.PeerRLOCs[0], 50000), To: conformance.OwnRLOC4, Marks: underlay.Marks{TTL: 64}}
			train.Payload = append(make([]byte, wire.DataHeaderOctets), p...)
			in.train(&train)
			in.end()
		}
		for _, send := range []func(){there, back} {
			send()
			first := s.take(t)
			asked := s.asked
			send()
			sameSent(t, s.take(t), first)
			if s.asked != asked && len(withoutAnswers(first)) > 0 {
				t.Errorf("packet %d: the model was asked again", i)
			}
		}
	}
}

// TestCachesAreBounded floods both caches with flows.
func TestCachesAreBounded(t *testing.T) {
	e, s := newFuzzed(t)
	out, in := newFuzzedOutbound(e, s), newInbound(e, forward.DataPort, s, s)
	in.now = time.Now()
	there, back := seedPackets()[1], seedPackets()[3] // UDP over IPv4, which has a checksum of its own
	train := underlay.Train{From: netip.AddrPortFrom(conformance.PeerRLOCs[0], 50000), To: conformance.OwnRLOC4, Marks: underlay.Marks{TTL: 64}}
	for i := range 2*maxFlows + 10 {
		binary.BigEndian.PutUint16(there[20:], uint16(i))
		binary.BigEndian.PutUint16(there[22:], uint16(i>>16))
		out.forget()
		out.frame(frameOf([5]uint16{}, there))
		out.end()
		binary.BigEndian.PutUint32(back[12:], 0x0a020000+uint32(i))
		clear(back[10:12])
		binary.BigEndian.PutUint16(back[10:], forward.Checksum(back[:20]))
		train.Payload = append([]byte{0x88, 0, 0, 0, 0, 0, 0, 0}, back...)
		in.forget()
		in.train(&train)
		in.end()
		*s = sink{}
		if len(out.flows) > maxFlows || len(in.entries) > maxFlows {
			t.Fatalf("%d flows and %d entries after %d", len(out.flows), len(in.entries), i)
		}
	}
	if len(out.flows) < 2 || len(in.entries) < 2 {
		t.Errorf("%d flows and %d entries: they were not cached", len(out.flows), len(in.entries))
	}
}

// TestHeadersAreBounded sends a GSO packet that has a segment for each octet, as a packet socket can make it.
func TestHeadersAreBounded(t *testing.T) {
	e, s := newFuzzed(t)
	b := newFuzzedOutbound(e, s)
	packet := append(bytes.Clone(seedPackets()[0][:40]), make([]byte, 20000)...)
	frame := frameOf([5]uint16{1 | 1<<8, 40, 1, 20, 16}, packet)
	b.frame(frame)
	b.end()
	if c := e.Counters(); c.EncapsulatedPackets != 20000 || len(s.datagrams) != 20000 {
		t.Errorf("%d packets encapsulated, %d datagrams sent, want 20000", c.EncapsulatedPackets, len(s.datagrams))
	}
	if cap(b.trains.heads) > 2*headsOctets {
		t.Errorf("%d octets of headers are kept, want at most %d", cap(b.trains.heads), 2*headsOctets)
	}
}

// TestCountersAreAllThere: who reads a counter finds it at 0, as with the kernel's engine.
func TestCountersAreAllThere(t *testing.T) {
	e, s := newFuzzed(t)
	c := e.Counters()
	for _, reason := range forward.DropReasons() {
		if n, known := c.Drops[reason.String()]; !known || n != 0 {
			t.Errorf("%s: %d, known %t", reason, n, known)
		}
	}
	b := newFuzzedOutbound(e, s)
	b.frame(frameOf([5]uint16{1, 0, 0, 0xffff, 0}, seedPackets()[0]))
	before, after := c.Other, e.Counters().Other
	if _, known := before["tun_malformed"]; !known || after["tun_malformed"] != 1 || len(after) != len(before) {
		t.Errorf("other counters %v, then %v", before, after)
	}
}
