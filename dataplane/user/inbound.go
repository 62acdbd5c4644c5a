// SPDX-License-Identifier: Apache-2.0

package user

// From the core to the TUN: the ETR's packets.

import (
	"encoding/binary"
	"slices"
	"time"

	"loci/dataplane/model/packets"
	"loci/dataplane/user/offload"
	"loci/dataplane/user/underlay"
	"loci/forward"
	"loci/lisp"
	"loci/wire"
)

// errorPause keeps a file that cannot be read from taking a processor.
const errorPause = 100 * time.Millisecond

// The flags of a LISP header that the cache serves: nonce and Instance-ID.
const plainFlags = 0x88

type inbound struct {
	engine *Engine
	port   uint16 // of the data plane
	writer writer
	joiner offload.Joiner

	trains trains // of relayed packets
	nonces *nonces

	entries    map[entryKey]*entry
	relays     map[relayKey]*flow
	last       entryKey // the one that was looked up last
	lastEntry  *entry
	generation uint64
	now        time.Time
	tallies    tallies
	outer      []byte // memory for an outer packet
	segments   []byte // memory for the datagrams of a GSO packet
}

// newInbound is for packets that come to a port of the data plane.
func newInbound(e *Engine, port uint16, w writer, s sender) *inbound {
	return &inbound{
		engine: e, port: port, writer: w, trains: trains{sender: s}, nonces: newNonces(), entries: map[entryKey]*entry{}, relays: map[relayKey]*flow{},
	}
}

func (b *inbound) run(from *underlay.Receiver) {
	for {
		trains, err := from.Await()
		if underlay.IsClosed(err) {
			return
		}
		if err != nil {
			time.Sleep(errorPause)
			continue
		}
		for _, failure := range from.Failures() {
			b.engine.errors.pathError(failure)
		}
		b.now = time.Now()
		for i := range trains {
			t := from.Train(i)
			b.forget()
			b.train(&t)
		}
		b.end()
	}
}

// forget empties the cache when the tables have changed since, or it is full.
func (b *inbound) forget() {
	if g := b.engine.generation.Load(); g != b.generation || len(b.entries)+len(b.relays) >= maxFlows {
		clear(b.entries)
		clear(b.relays)
		b.generation, b.lastEntry = g, nil
	}
}

// train takes the datagrams of a train one by one.
func (b *inbound) train(t *underlay.Train) {
	for rest := t.Payload; len(rest) > 0; {
		octets := len(rest)
		if t.Segment > 0 {
			octets = min(octets, t.Segment)
		}
		b.datagram(t, rest[:octets:octets])
		rest = rest[octets:]
	}
}

// datagram takes one that may have come from a router of the same machine: its checksum may be open, and it may have a
// GSO packet in it.
func (b *inbound) datagram(t *underlay.Train, payload []byte) {
	if len(payload) > wire.DataHeaderOctets {
		if segments, ok := offload.CutUncut(payload[wire.DataHeaderOctets:]); ok {
			b.cut(t, payload[:wire.DataHeaderOctets], &segments)
			return
		}
		offload.CompleteChecksum(payload[wire.DataHeaderOctets:])
	}
	b.whole(t, payload)
}

// cut takes the segments of a GSO packet as datagrams, each behind its LISP header.
func (b *inbound) cut(t *underlay.Train, header []byte, segments *offload.Segments) {
	b.end() // what it wrote before may still be in use
	b.segments = b.segments[:0]
	for i := range segments.Count() {
		b.segments = slices.Grow(b.segments, len(header)+segments.Longest())
		from := len(b.segments)
		b.segments = append(b.segments, header...)
		b.segments = append(segments.AppendHeader(b.segments, i), segments.Payload(i)...)
		b.whole(t, b.segments[from:len(b.segments):len(b.segments)])
	}
}

// whole takes a datagram with a packet that is complete.
func (b *inbound) whole(t *underlay.Train, payload []byte) {
	if len(payload) < wire.DataHeaderOctets+20 || payload[0]&^plainFlags != 0 || b.port != forward.DataPort || !b.engine.plainHeaders.Load() {
		b.ask(t, payload, nil, nil)
		return
	}
	inner := payload[wire.DataHeaderOctets:]
	p, ok := readPlain(inner)
	if !ok || isToDataPort(&p.key) || b.engine.isModels(&p) {
		b.ask(t, payload, nil, nil)
		return
	}
	key := entryKey{
		from: t.From.Addr(), to: t.To, port: b.port, source: p.key.source, destination: p.key.destination,
		header: uint64(payload[0])<<40 | uint64(p.key.family)<<32 | uint64(binary.BigEndian.Uint32(payload[4:])),
	}
	f := b.entry(&key)
	class, notes, admitted := b.engine.marking.Inner(p.class, t.Class)
	ttl := min(p.ttl, t.TTL)
	if f == nil || !admitted || notes != 0 || ttl <= 1 { // notes are counted
		b.ask(t, payload, &key, &p)
		return
	}
	if f.relays {
		b.relay(t, payload, &key, &p, underlay.Marks{TTL: ttl, Class: class})
		return
	}
	forward.SetMarks(inner, p.key.family, ttl, class)
	b.tallies.add(&f.use, 1, len(inner))
	if b.joiner.Packets() > 0 && !b.writer.Joins() || !b.joiner.Add(inner) {
		b.write()
		b.joiner.Add(inner)
	}
}

// isToDataPort reports whether a packet may be LISP within LISP, which entries for its addresses say nothing of.
func isToDataPort(k *flowKey) bool {
	port := uint16(k.ports)
	return k.protocol == 17 && (port == forward.DataPort || port == forward.VXLANGPEPort)
}

func (b *inbound) entry(key *entryKey) *entry {
	if b.lastEntry == nil || b.last != *key {
		b.last, b.lastEntry = *key, b.entries[*key]
	}
	if b.lastEntry != nil && b.now.After(b.lastEntry.until) {
		return nil
	}
	return b.lastEntry
}

// write gives the host what was joined.
func (b *inbound) write() {
	if b.joiner.Packets() > 0 {
		_ = b.writer.Write(b.joiner.Frame()...) // what the stack refuses, it counts
		b.joiner.Reset()
	}
}

// relay sends a packet on that leaves its tunnel with these marks.
func (b *inbound) relay(t *underlay.Train, payload []byte, key *entryKey, p *plain, m underlay.Marks) {
	inner := payload[wire.DataHeaderOctets:]
	f := b.relays[relayKey{*key, p.key.ports, p.key.protocol}]
	if f == nil || b.now.After(f.until) || len(inner) > f.largestInner {
		b.ask(t, payload, key, p)
		return
	}
	forward.SetMarks(inner, p.key.family, m.TTL-1, m.Class)
	b.trains.addOf(f, b.nonces, underlay.Marks{TTL: m.TTL - 1, Class: b.engine.marking.Outer(m.Class)}, inner)
	b.tallies.add(&f.use, 1, len(inner))
}

// ask gives an outer packet to the model, behind those that came before it, and keeps what it says.
func (b *inbound) ask(t *underlay.Train, payload []byte, key *entryKey, p *plain) {
	b.write()
	b.trains.send()
	b.outer = appendOuter(b.outer[:0], t, b.port, payload)
	o := b.engine.model.Receive(b.outer)
	if key == nil {
		return
	}
	relay := relayKey{*key, p.key.ports, p.key.protocol}
	delete(b.entries, *key)
	delete(b.relays, relay)
	b.lastEntry = nil
	if o.Miss {
		return // it is counted and told
	}
	e := entry{until: b.now.Add(flowAge), use: packets.Use{From: lisp.RLOCFromAddr(t.From.Addr()), Native: o.What == forward.DoNatively, Relayed: o.Relayed}}
	switch o.What {
	case forward.DoDeliver, forward.DoNatively:
	case forward.DoRelay:
		f := flowOf(&o, b.now)
		if f == nil {
			return
		}
		f.use.From, e.relays = e.use.From, true
		b.relays[relay] = f
	default:
		return
	}
	b.entries[*key] = &e
}

// appendOuter makes the outer packet again as far as the kernel told of it.
func appendOuter(dst []byte, t *underlay.Train, port uint16, payload []byte) []byte {
	octets := 8 + len(payload)
	if t.To.Is4() {
		dst = append(dst, 0x45, t.Class)
		dst = binary.BigEndian.AppendUint16(dst, uint16(20+octets))
		dst = append(dst, 0, 0, 0x40, 0, t.TTL, 17, 0, 0)
	} else {
		dst = binary.BigEndian.AppendUint32(dst, 6<<28|uint32(t.Class)<<20)
		dst = binary.BigEndian.AppendUint16(dst, uint16(octets))
		dst = append(dst, 17, t.TTL)
	}
	dst = append(append(dst, t.From.Addr().AsSlice()...), t.To.AsSlice()...)
	dst = binary.BigEndian.AppendUint16(dst, t.From.Port())
	dst = binary.BigEndian.AppendUint16(dst, port)
	dst = binary.BigEndian.AppendUint16(dst, uint16(octets))
	return append(append(dst, 0, 0), payload...)
}

// end sends what is left, and counts.
func (b *inbound) end() {
	b.write()
	b.trains.send()
	b.tallies.tell(b.engine.model)
}
