// SPDX-License-Identifier: Apache-2.0

package user

// From the TUN to the core: the ITR's packets.

import (
	"slices"
	"time"

	"loci/dataplane/user/offload"
	"loci/dataplane/user/tun"
	"loci/dataplane/user/underlay"
	"loci/forward"
	"loci/wire"
)

const (
	// readOctets is the memory for the packets of a batch.
	readOctets = 8 * tun.FrameOctets
	// batchPackets bounds a batch.
	batchPackets = 64
	// headsOctets is how many octets of headers are kept until they are sent: a GSO packet may have a segment for
	// each octet.
	headsOctets = 1 << 18
)

type outbound struct {
	engine *Engine
	queue  *tun.Queue
	writer writer
	nonces *nonces

	flows      map[flowKey]*flow
	generation uint64
	renewals   uint64 // of the TUN
	now        time.Time
	tallies    tallies

	frames []byte // of a batch; what the sender has points into it
	trains trains
}

func newOutbound(e *Engine, q *tun.Queue) *outbound {
	return &outbound{
		engine: e, queue: q, writer: q.Writer(), nonces: newNonces(), trains: trains{sender: underlay.NewSender(e.pool, e.errors.refusedByCache)},
		flows: map[flowKey]*flow{}, frames: make([]byte, readOctets),
	}
}

func (b *outbound) run() {
	for {
		packets, err := b.batch()
		b.end()
		if err == nil && packets == 0 {
			err = b.queue.Await()
		}
		if tun.IsClosed(err) {
			return
		}
		if err != nil && !b.isRenewed(err) {
			time.Sleep(errorPause)
		}
	}
}

// isRenewed reports whether the TUN was made anew since it was last asked, and has it made anew if it is gone.
func (b *outbound) isRenewed(reason error) bool {
	if b.engine.renewals.Load() == b.renewals {
		b.engine.mend(reason)
	}
	before := b.renewals
	b.renewals = b.engine.renewals.Load()
	return b.renewals != before
}

// batch reads and sends what is there.
func (b *outbound) batch() (packets int, err error) {
	b.now = time.Now()
	room := b.frames
	for packets < batchPackets && len(room) >= tun.FrameOctets {
		octets, err := b.queue.Read(room[:tun.FrameOctets])
		if err != nil || octets <= offload.VnetOctets {
			return packets, err
		}
		b.forget()
		b.frame(room[:octets])
		room = room[octets:]
		packets++
	}
	return packets, nil
}

// forget empties the cache when the tables have changed since, or it is full. It is asked after a packet was read:
// one that was sent after a change is treated by it.
func (b *outbound) forget() {
	if g := b.engine.generation.Load(); g != b.generation || len(b.flows) >= maxFlows {
		clear(b.flows)
		b.generation = g
	}
}

// end sends what was collected, and counts it.
func (b *outbound) end() {
	b.trains.send()
	b.tallies.tell(b.engine.model)
}

// frame treats a frame of the TUN.
func (b *outbound) frame(frame []byte) {
	v, packet := offload.ParseVnet(frame), frame[offload.VnetOctets:]
	if v.IsGSO() {
		b.packetOfSegments(v, frame)
		return
	}
	if !v.Finish(packet) {
		b.engine.model.Count("tun_malformed", 1)
		return
	}
	b.whole(packet)
}

// whole sends a packet that is no GSO packet.
func (b *outbound) whole(packet []byte) {
	p, ok := readPlain(packet)
	if !ok || b.engine.isModels(&p) {
		b.ask(packet, nil)
		return
	}
	f := b.flow(&p, len(packet))
	switch {
	case f == nil:
		b.ask(packet, &p)
	case f.natively:
		b.giveBack(f, &p, wholeFrame[:], packet)
		b.tallies.add(&f.use, 1, len(packet))
	default:
		b.trains.addOf(f, b.nonces, b.marksOf(&p), packet)
		b.tallies.add(&f.use, 1, len(packet))
	}
}

// flow is the entry for a packet of so many octets; nil where there is none that is good for it.
func (b *outbound) flow(p *plain, octets int) *flow {
	f := b.flows[p.key]
	if f == nil || b.now.After(f.until) || octets > f.largestInner {
		return nil
	}
	return f
}

func (b *outbound) marksOf(p *plain) underlay.Marks {
	return underlay.Marks{TTL: p.ttl, Class: b.engine.marking.Outer(p.class)}
}

// wholeFrame is the virtio header of a packet with which nothing is left to do.
var wholeFrame [offload.VnetOctets]byte

// giveBack gives a packet that is not LISP's back to the host, which counts the hop for the second time.
func (b *outbound) giveBack(f *flow, p *plain, vnet, packet []byte) {
	forward.SetMarks(packet, p.key.family, p.ttl+1, p.class)
	_ = b.writer.Write(vnet, packet) // what the stack refuses, it counts
}

// packetOfSegments treats a GSO packet: the host gets it back whole, the core its segments.
func (b *outbound) packetOfSegments(v offload.Vnet, frame []byte) {
	vnet, packet := frame[:offload.VnetOctets], frame[offload.VnetOctets:]
	s, ok := offload.Cut(packet, v)
	if !ok {
		b.engine.model.Count("tun_malformed", 1)
		return
	}
	if p, ok := readPlain(packet); ok {
		if f := b.flow(&p, s.Longest()); f != nil && f.natively {
			b.giveBack(f, &p, vnet, packet)
			b.tallies.add(&f.use, s.Count(), len(packet))
			return
		}
	}
	b.segments(&s)
}

// segments sends the segments of a GSO packet.
func (b *outbound) segments(s *offload.Segments) {
	for i := range s.Count() {
		if len(b.trains.heads) >= headsOctets {
			b.trains.send()
		}
		at := len(b.trains.heads)
		b.trains.heads = append(b.trains.heads, make([]byte, wire.DataHeaderOctets)...)
		b.trains.heads = s.AppendHeader(b.trains.heads, i)
		head, payload := b.trains.heads[at:], s.Payload(i)
		inner := head[wire.DataHeaderOctets:]
		octets := len(inner) + len(payload)
		p, ok := readPlainOf(inner, octets)
		f := b.flow(&p, octets)
		if !ok || f == nil || f.natively || b.engine.isModels(&p) {
			b.whole(slices.Concat(inner, payload))
			continue
		}
		header := f.headerFor(b.nonces)
		copy(head, header[:])
		o := f.outer
		o.Marks = b.marksOf(&p)
		b.trains.add(o, head, payload)
		b.tallies.add(&f.use, 1, octets)
	}
}

// ask gives a packet to the model, behind those that were collected before it, and keeps what it says of the flow.
func (b *outbound) ask(packet []byte, p *plain) {
	b.trains.endTrain()
	b.trains.sender.Flush()
	o := b.engine.model.SendRouted(packet)
	if p == nil {
		return
	}
	delete(b.flows, p.key)
	f := flowOf(&o, b.now)
	if f != nil && (!f.natively || b.engine.isForwarded(p)) {
		b.flows[p.key] = f
	}
}
