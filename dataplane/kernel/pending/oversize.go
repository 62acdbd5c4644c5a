// SPDX-License-Identifier: Apache-2.0

// This file deals with packets that are too big for their path (RFC 9300 s.7.1): smaller segments or fragments where that is
// allowed, an outer packet in fragments as a last resort, else an answer to the source.

package pending

import (
	"net/netip"
	"sync/atomic"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

// tooBig deals with a packet that does not fit its path: smaller segments or
// fragments where that is allowed, else an answer to its source.
func (r *Queue) tooBig(f tap.Frame, header *forward.Header, from entries.Origin) {
	fit, segmentOctets := forward.CheckSize(f.Packet(), header, f.SegmentOctets(), f.LargestInner())
	switch fit {
	case forward.FitWhole: // the path has changed meanwhile
		r.write(f, abi.TAPReleased)
	case forward.FitSegments:
		f.SetSegmentOctets(segmentOctets)
		r.write(f, abi.TAPReleased)
	case forward.FitFragments:
		r.fragment(f, header)
	default:
		r.doesNotFit(f, header, from)
	}
}

// doesNotFit answers the source of a packet, unless it is one that IPv6 lets it send by
// any path.
func (r *Queue) doesNotFit(f tap.Frame, header *forward.Header, from entries.Origin) {
	largest := f.LargestInner()
	if header.Family == 6 && largest < underlay.SmallestMTU {
		largest = underlay.SmallestMTU
		if fit, _ := forward.CheckSize(f.Packet(), header, f.SegmentOctets(), largest); fit == forward.FitWhole {
			r.narrow(f, header, from)
			return
		}
	}
	r.Drop(forward.DropTooBig, f)
	r.answers.send(f, header, from, func(dst []byte, source netip.Addr) ([]byte, bool) {
		return forward.PacketTooBig(dst, source, f.Packet(), largest)
	})
}

// fragment writes a packet back in parts.
func (r *Queue) fragment(f tap.Frame, header *forward.Header) {
	finishChecksum(f, header)
	parts, reason := forward.Fragment(nil, f.Packet(), f.LargestInner())
	if reason != forward.DropNone {
		r.Drop(reason, f)
		return
	}
	for _, part := range parts {
		whole := make(tap.Frame, tap.VnetOctets, tap.VnetOctets+tap.EthernetOctets+len(part))
		whole = append(append(whole, f.Ethernet()...), part...)
		r.write(whole, abi.TAPReleased)
	}
}

// cut writes a GSO packet back in its segments: behind two layers no interface could cut it.
func cut(r *Queue, f tap.Frame, header *forward.Header) {
	if f.SegmentOctets() == 0 { // it came behind one
		r.write(f, abi.TAPReleased)
		return
	}
	segments, err := forward.Segments(f.Packet(), header, f.SegmentOctets())
	if err != nil {
		r.log.Debug("a GSO packet could not be cut into segments", "error", err)
		r.Drop(forward.DropEncapsulationFailed, f)
		return
	}
	for part := range segments {
		whole := append(r.part[:tap.VnetOctets], f.Ethernet()...)
		r.part = append(whole, part...)
		r.write(r.part, abi.TAPReleased)
	}
}

// narrow sends an IPv6 packet whose path is too narrow for it.
func (r *Queue) narrow(f tap.Frame, header *forward.Header, from entries.Origin) {
	to := forward.Destination{Instance: from.Instance, EID: lisp.EIDFromAddr(header.Destination)}
	way, ok := r.entries.WayOf(to, header)
	if !ok {
		r.Drop(forward.DropNoLocator, f)
		return
	}
	send := func(packet []byte) error { return r.fragments.Send(packet, way, from.Site, f.LargestInner()) }
	if err := eachPacket(f, header, send); err != nil {
		r.log.Debug("a packet could not be sent in fragments", "error", err)
		r.Drop(forward.DropEncapsulationFailed, f)
		return
	}
	atomic.AddUint64(&r.words[store.WordOuterFragmented], 1)
}

// eachPacket calls send with the packet of a frame, or with the segments of a
// GSO packet.
func eachPacket(f tap.Frame, header *forward.Header, send func([]byte) error) error {
	if f.SegmentOctets() == 0 {
		finishChecksum(f, header)
		return send(f.Packet())
	}
	segments, err := forward.Segments(f.Packet(), header, f.SegmentOctets())
	if err != nil {
		return err
	}
	for segment := range segments {
		if err := send(segment); err != nil {
			return err
		}
	}
	return nil
}
