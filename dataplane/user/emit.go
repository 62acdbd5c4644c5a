// SPDX-License-Identifier: Apache-2.0

package user

// What the model sends: packets that are not plain, the first ones of flows, those that waited, answers. The model
// calls one at a time.

import (
	"encoding/binary"
	"net/netip"

	"loci/dataplane/model/packets"
	"loci/dataplane/user/offload"
	"loci/dataplane/user/underlay"
	"loci/forward"
)

// sender sends outer packets: an underlay.Sender.
type sender interface {
	Add(o *underlay.Outer, pieces ...[]byte)
	Flush()
	Cuts() bool // takes trains
}

// writer gives packets to the host's stack: a tun.Writer.
type writer interface {
	Write(pieces ...[]byte) error
	Joins() bool // takes GSO packets
}

type emitter struct {
	sender sender
	writer writer
	vnet   [offload.VnetOctets]byte // of a packet that is whole
}

func newEmitter(e *Engine) emitter {
	return emitter{sender: underlay.NewSender(e.pool, e.errors.refusedByModel), writer: e.tun.Queues[0].Writer()}
}

func (t *emitter) emit(m packets.Emission) {
	if m.Way != packets.ToCore {
		_ = t.writer.Write(t.vnet[:], m.Packet) // what the stack refuses, it counts
		return
	}
	outer, payload, ok := outerOf(m.Packet, m.SourcePort)
	if ok {
		outer.Relayed = m.Relayed
		t.sender.Add(&outer, payload)
		t.sender.Flush()
	}
}

// outerOf takes the outer headers of a packet apart, which the kernel writes anew. It leaves from sourcePort, unless
// that is 0.
func outerOf(packet []byte, sourcePort uint16) (o underlay.Outer, payload []byte, ok bool) {
	h, err := forward.ParseHeader(packet)
	if err != nil || len(packet) < h.PayloadOffset+8 {
		return o, nil, false
	}
	udp := packet[h.PayloadOffset:]
	return underlay.Outer{
		Source: h.Source, To: netip.AddrPortFrom(h.Destination, binary.BigEndian.Uint16(udp[2:])), Flow: binary.BigEndian.Uint16(udp),
		SourcePort: sourcePort, Marks: underlay.Marks{TTL: h.TTL, Class: h.TrafficClass},
	}, udp[8:], true
}
