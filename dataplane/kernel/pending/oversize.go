// SPDX-License-Identifier: Apache-2.0

// This file deals with packets that are too big for their path (RFC 9300 s.7.1): smaller segments or fragments
// where that is allowed, an outer packet in fragments as a last resort, else an answer to the source.

package pending

import (
	"log/slog"
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

// oversize deals with packets that are too big. It belongs to the goroutine that works for the queue.
type oversize struct {
	log       *slog.Logger
	entries   *entries.Entries
	answers   *answers
	fragments *underlay.Fragmenter
	words     []uint64 // user space's counters
	write     func(f tap.Frame, magic byte)
	drop      func(reason forward.DropReason, f tap.Frame)
	part      []byte // for a segment of a frame, behind an empty virtio header
}

// tooBig deals with a packet that does not fit its path: smaller segments or
// fragments where that is allowed, else an answer to its source.
func (o *oversize) tooBig(f tap.Frame, header *forward.Header, from entries.Origin) {
	fit, segmentOctets := forward.CheckSize(f.Packet(), header, f.SegmentOctets(), f.LargestInner())
	switch fit {
	case forward.FitWhole: // the path has changed meanwhile
		o.write(f, abi.TAPReleased)
	case forward.FitSegments:
		f.SetSegmentOctets(segmentOctets)
		o.write(f, abi.TAPReleased)
	case forward.FitFragments:
		o.fragment(f, header)
	default:
		o.doesNotFit(f, header, from)
	}
}

// doesNotFit answers the source of a packet, unless it is one that IPv6 lets it send by
// any path.
func (o *oversize) doesNotFit(f tap.Frame, header *forward.Header, from entries.Origin) {
	largest := f.LargestInner()
	if header.Family == 6 && largest < underlay.SmallestMTU {
		largest = underlay.SmallestMTU
		if fit, _ := forward.CheckSize(f.Packet(), header, f.SegmentOctets(), largest); fit == forward.FitWhole {
			o.narrow(f, header, from)
			return
		}
	}
	o.drop(forward.DropTooBig, f)
	o.answers.send(f, header, from, func(dst []byte, source netip.Addr) ([]byte, bool) {
		return forward.PacketTooBig(dst, source, f.Packet(), largest)
	})
}

// fragment writes a packet back in parts.
func (o *oversize) fragment(f tap.Frame, header *forward.Header) {
	finishChecksum(f, header)
	parts, reason := forward.Fragment(nil, f.Packet(), f.LargestInner())
	if reason != forward.DropNone {
		o.drop(reason, f)
		return
	}
	for _, part := range parts {
		whole := make(tap.Frame, tap.VnetOctets, tap.VnetOctets+tap.EthernetOctets+len(part))
		whole = append(append(whole, f.Ethernet()...), part...)
		o.write(whole, abi.TAPReleased)
	}
}

// cut writes a GSO packet back in its segments: behind two layers no interface could cut it.
func (o *oversize) cut(f tap.Frame, header *forward.Header) {
	if f.SegmentOctets() == 0 { // it came behind one
		o.write(f, abi.TAPReleased)
		return
	}
	segments, err := forward.Segments(f.Packet(), header, f.SegmentOctets())
	if err != nil {
		o.log.Debug("a GSO packet could not be cut into segments", "error", err)
		o.drop(forward.DropEncapsulationFailed, f)
		return
	}
	for part := range segments {
		whole := append(o.part[:tap.VnetOctets], f.Ethernet()...)
		o.part = append(whole, part...)
		o.write(o.part, abi.TAPReleased)
	}
}

// narrow sends an IPv6 packet whose path is too narrow for it.
func (o *oversize) narrow(f tap.Frame, header *forward.Header, from entries.Origin) {
	if o.send(f, header, from, f.LargestInner()) {
		atomic.AddUint64(&o.words[store.WordOuterFragmented], 1)
	}
}

// sum sends a packet that gets an outer UDP checksum, and has none of its own that the outer one follows from.
func (o *oversize) sum(f tap.Frame, header *forward.Header, from entries.Origin) {
	if o.send(f, header, from, underlay.Unfragmented) {
		atomic.AddUint64(&o.words[store.WordOuterChecksummed], 1)
	}
}

// send sends a packet by the socket for fragments, of which each has room for so many octets of it, or whole.
func (o *oversize) send(f tap.Frame, header *forward.Header, from entries.Origin, largest int) (sent bool) {
	to := forward.Destination{Instance: from.Instance, EID: lisp.EIDFromAddr(header.Destination)}
	way, ok := o.entries.WayOf(to, header)
	if !ok {
		o.drop(forward.DropNoLocator, f)
		return false
	}
	send := func(packet []byte) error { return o.fragments.Send(packet, way, from.Site, largest) }
	if err := eachPacket(f, header, send); err != nil {
		o.log.Debug("a packet could not be sent from user space", "error", err)
		o.drop(forward.DropEncapsulationFailed, f)
		return false
	}
	return true
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
