// SPDX-License-Identifier: Apache-2.0

package user

// From the TUN to the core: the ITR's packets.

import (
	"time"

	"loci/dataplane/user/offload"
	"loci/dataplane/user/tun"
	"loci/dataplane/user/underlay"
	"loci/wire"
)

const (
	// readOctets is the memory for the packets of a batch.
	readOctets = 8 * tun.FrameOctets
	// batchPackets bounds a batch.
	batchPackets = 64
	// headsOctets is how many octets of headers are kept until they are sent: a GSO packet may have a segment for each octet.
	headsOctets = 1 << 18
)

type outbound struct {
	engine *Engine
	queue  *tun.Queue
	sender sender
	nonces *nonces

	flows      map[flowKey]*flow
	generation uint64
	renewals   uint64 // of the TUN
	now        time.Time
	tallies    tallies

	frames []byte // of a batch; what the sender has points into it
	heads  []byte // headers of the batch, likewise
	train  train
}

// train are datagrams that may leave together: the same outer headers, all but the last of one length.
type train struct {
	outer   underlay.Outer
	pieces  [][]byte
	count   int
	octets  int
	segment int
	closed  bool
}

func newOutbound(e *Engine, q *tun.Queue) *outbound {
	return &outbound{
		engine: e, queue: q, sender: underlay.NewSender(e.pool, e.refused), nonces: newNonces(),
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
		b.packet(offload.ParseVnet(room), room[offload.VnetOctets:octets])
		room = room[octets:]
		packets++
	}
	return packets, nil
}

// forget empties the cache when the tables have changed since, or it is full. It is asked after a packet was read: one that was
// sent after a change is treated by it.
func (b *outbound) forget() {
	if g := b.engine.generation.Load(); g != b.generation || len(b.flows) >= maxFlows {
		clear(b.flows)
		b.generation = g
	}
}

// end sends what was collected, and counts it.
func (b *outbound) end() {
	b.send()
	b.tallies.tell(b.engine.model)
}

func (b *outbound) send() {
	b.endTrain()
	b.sender.Flush()
	b.heads = b.heads[:0]
}

func (b *outbound) packet(v offload.Vnet, packet []byte) {
	if v.IsGSO() {
		b.segments(v, packet)
		return
	}
	if !v.Finish(packet) {
		b.engine.model.Count("tun-malformed", 1)
		return
	}
	b.whole(packet)
}

// whole sends a packet that is no GSO packet.
func (b *outbound) whole(packet []byte) {
	p, ok := readPlain(packet)
	if !ok {
		b.ask(packet, nil)
		return
	}
	f := b.flows[p.key]
	if f == nil || b.now.After(f.until) || len(packet) > f.largestInner {
		b.ask(packet, &p.key)
		return
	}
	at := len(b.heads)
	header := f.headerFor(b.nonces)
	b.heads = append(b.heads, header[:]...)
	b.add(b.outerFor(f, p.ttl, p.class), b.heads[at:], packet)
	b.tallies.add(&f.use, len(packet))
}

// segments sends a GSO packet.
func (b *outbound) segments(v offload.Vnet, packet []byte) {
	s, ok := offload.Cut(packet, v)
	if !ok {
		b.engine.model.Count("tun-malformed", 1)
		return
	}
	for i := range s.Count() {
		if len(b.heads) >= headsOctets {
			b.send()
		}
		at := len(b.heads)
		b.heads = append(b.heads, make([]byte, wire.DataHeaderOctets)...)
		b.heads = s.AppendHeader(b.heads, i)
		head, payload := b.heads[at:], s.Payload(i)
		inner := head[wire.DataHeaderOctets:]
		p, ok := readPlainOf(inner, len(inner)+len(payload))
		f := b.flows[p.key]
		if !ok || f == nil || b.now.After(f.until) || len(inner)+len(payload) > f.largestInner {
			b.askParts(inner, payload)
			continue
		}
		header := f.headerFor(b.nonces)
		copy(head, header[:])
		b.add(b.outerFor(f, p.ttl, p.class), head, payload)
		b.tallies.add(&f.use, len(inner)+len(payload))
	}
}

func (b *outbound) outerFor(f *flow, ttl, class uint8) underlay.Outer {
	o := f.outer
	o.TTL, o.Class = ttl, b.engine.marking.Outer(class)
	return o
}

// add puts a datagram into the train, or begins a new one with it.
func (b *outbound) add(o underlay.Outer, head, payload []byte) {
	t, octets := &b.train, len(head)+len(payload)
	fits := t.count > 0 && !t.closed && t.outer == o && octets <= t.segment && t.octets+octets <= underlay.MaxTrainOctets && t.count < underlay.MaxSegments
	if !fits {
		b.endTrain()
		t.outer, t.segment = o, octets
	}
	t.pieces = append(t.pieces, head, payload)
	t.count, t.octets, t.closed = t.count+1, t.octets+octets, octets < t.segment
}

func (b *outbound) endTrain() {
	t := &b.train
	if t.count == 0 {
		return
	}
	if t.count > 1 {
		t.outer.Segment = t.segment
	}
	b.sender.Add(&t.outer, t.pieces...)
	clear(t.pieces)
	*t = train{pieces: t.pieces[:0]}
}

// ask gives a packet to the model, behind those that were collected before it, and keeps what it says of the flow.
func (b *outbound) ask(packet []byte, key *flowKey) {
	b.endTrain()
	b.sender.Flush()
	o := b.engine.model.SendRouted(packet)
	if key == nil {
		return
	}
	delete(b.flows, *key)
	if f := flowOf(&o, o.Instance, b.now); f != nil {
		b.flows[*key] = f
	}
}

func (b *outbound) askParts(inner, payload []byte) {
	packet := append(append(make([]byte, 0, len(inner)+len(payload)), inner...), payload...)
	p, ok := readPlain(packet)
	if !ok {
		b.ask(packet, nil)
		return
	}
	b.ask(packet, &p.key)
}
