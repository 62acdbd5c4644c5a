// SPDX-License-Identifier: Apache-2.0

package packets

// What headers of packets from the core say, and control messages in data packets, as events. Package forward limits
// their rate. Nothing here acts on them.

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/model/tables"
	"loci/forward"
	"loci/lisp"
)

// hint reports what was found in a packet from the core.
func (p *Path) hint(o forward.Outcome, outer []byte) {
	if p.Queue.closed {
		return
	}
	if o.What == forward.DoControl {
		source, destination := forward.OuterEnds(outer)
		if !p.options.Control.Allow(p.options.Now(), source, len(o.Packet)) {
			p.counters.drop(forward.DropControlLimit)
			return
		}
		p.counters.Other["control_packets"]++
		p.Queue.Offer(dataplane.ControlPacket{Source: source, Destination: destination,
			Payload: slices.Clone(o.Packet)})
	}
	if o.Reason == forward.DropSourceRLOC && o.Miss { // of the inner source: what answers it would miss
		answer := o
		answer.Header.Source, answer.Header.Destination = o.Header.Destination, o.Header.Source
		answer.Asked = forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Source)}
		p.raise(answer, nil, ingress{instance: o.Instance}, dataplane.MissDrop)
	}
	for _, h := range o.Hints {
		if event := eventOf(p.tables, h.Instance, h); event != nil {
			p.Queue.Offer(event)
		}
	}
}

// eventOf is the event that a hint is, nil for none.
func eventOf(t *tables.Tables, instance lisp.InstanceID, h forward.Hint) dataplane.Event {
	from := lisp.RLOCFromAddr(h.RLOC)
	versions := dataplane.PacketVersions{
		Instance: instance, Source: lisp.EIDFromAddr(h.Source), Destination: lisp.EIDFromAddr(h.Destination), From: from,
		SourceVersion: uint16(h.Value), DestinationVersion: uint16(h.Other),
	}
	switch h.Kind {
	case forward.HintStatusBits:
		if prefix, ok := t.Longest(instance, h.Source); ok {
			return dataplane.StatusBitsChanged{Prefix: prefix, From: from, Bits: h.Value, Count: int(h.Other)}
		}
	case forward.HintDestinationVersion:
		return dataplane.RemoteVersionStale{PacketVersions: versions}
	case forward.HintSourceVersion:
		return dataplane.LocalVersionStale{PacketVersions: versions}
	case forward.HintGleaned:
		return dataplane.Gleaned{Instance: instance, Source: versions.Source, Destination: versions.Destination, From: from}
	case forward.HintEchoMissing:
		return dataplane.NonceMismatch{RLOC: from, Sent: h.Value, Received: h.Other}
	}
	return nil
}

// maxSources bounds the outer sources that are remembered.
const maxSources = 16384

// Source is an outer source with the time of its last packet.
type Source struct {
	RLOC lisp.RLOC
	At   time.Time
}

// sources are outer sources in the order of RLOCs.
type sources []Source

// noteSource remembers that an outer packet was decapsulated.
func (s *sources) noteSource(outer []byte, now time.Time) {
	if h, err := forward.ParseHeader(outer); err == nil {
		s.heardFrom(lisp.RLOCFromAddr(h.Source), now)
	}
}

func (s *sources) heardFrom(rloc lisp.RLOC, now time.Time) {
	at, known := slices.BinarySearchFunc(*s, rloc, func(s Source, r lisp.RLOC) int { return s.RLOC.Compare(r) })
	switch {
	case known:
		(*s)[at].At = now
	case len(*s) < maxSources:
		*s = slices.Insert(*s, at, Source{rloc, now})
	}
}

// Sources lists the outer sources of decapsulated packets, in the order of RLOCs.
func (p *Path) Sources() []Source { return slices.Clone(p.sources) }

// EchoNonce is what became of the nonces that an RLOC was to echo.
func (p *Path) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	peer := p.router.Memory.Peer(rloc.Addr(), false)
	if peer == nil {
		return dataplane.EchoState{}
	}
	return dataplane.EchoState{AskedAt: peer.AskedAt, EchoedAt: peer.EchoedAt, MissingAt: peer.MissingAt}
}
