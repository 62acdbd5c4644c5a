// SPDX-License-Identifier: Apache-2.0

// This file sends IPv6 packets by paths that carry less than IPv6 asks of any link with the outer headers counted in (RFC
// 8200 s.5, RFC 2473 s.7.1): the sender may not be told to send smaller ones, so the outer packet goes in fragments. It is the slow
// path of a last resort; N, L, E and V are 0 in its headers.

package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

// fragmenter sends outer packets in fragments; it belongs to the room's goroutine.
type fragmenter struct {
	space   *space
	sockets [2]int // of IPv4 and IPv6; 0 until they are needed
}

// outerWay is how a packet gets to its locator.
type outerWay struct {
	source, locator lisp.RLOC
	instance        lisp.InstanceID
	encapsulation   dataplane.Encapsulation
}

// wayOf implements roomTables.
func (e *Engine) wayOf(to forward.Destination, h *forward.Header) (outerWay, bool) {
	address := to.EID.Addr()
	e.mu.Lock()
	defer e.mu.Unlock()
	record, ok := e.tables.lookup(abi.RootMapCache, abi.Family(address), uint32(to.Instance), address.AsSlice())
	if !ok || record.LocatorSet == abi.NoLocatorSet {
		return outerWay{}, false
	}
	buckets := forward.BucketVector(e.tables.sets.records[record.LocatorSet].Buckets)
	l, ok := forward.SelectLocator(e.tables.sets.of(record.LocatorSet), &buckets, forward.FlowHash(h))
	return outerWay{source: e.tables.sets.sourceFor(l.RLOC), locator: l.RLOC, instance: lisp.InstanceID(record.Iid),
		encapsulation: e.settings.EncapsulationTo(l.RLOC)}, ok
}

// narrow sends an IPv6 packet whose path is too narrow for it.
func (r *room) narrow(f frame, header *forward.Header, from origin) {
	to := forward.Destination{Instance: from.instance, EID: lisp.EIDFromAddr(header.Destination)}
	way, ok := r.tables.wayOf(to, header)
	if !ok {
		r.drop(forward.DropNoLocator, f)
		return
	}
	send := func(packet []byte) error { return r.fragments.send(packet, way, from.site, f.largestInner()) }
	if err := eachPacket(f, header, send); err != nil {
		r.log.Debug("a packet could not be sent in fragments", "error", err)
		r.drop(forward.DropEncapsulationFailed, f)
		return
	}
	atomic.AddUint64(&r.words[wordOuterFragmented], 1)
}

// eachPacket calls send with the packet of a frame, or with the segments of a
// super-packet.
func eachPacket(f frame, header *forward.Header, send func([]byte) error) error {
	if f.segmentOctets() == 0 {
		finishChecksum(f, header)
		return send(f.packet())
	}
	segments, err := forward.Segments(f.packet(), header, f.segmentOctets())
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

// send encapsulates a packet and sends its fragments, each of mtu octets at most.
func (s *fragmenter) send(packet []byte, way outerWay, forwarded bool, largest int) error {
	h, err := forward.ParseHeader(packet)
	if err != nil {
		return err
	}
	t := forward.Tunnel{Source: way.source, Destination: way.locator, Forwarded: forwarded}
	t.BareHeader(forward.Encapsulation(way.encapsulation), way.instance, h.Family)
	outer, reason := forward.Encapsulate(nil, packet, &h, &t)
	if reason != forward.DropNone {
		return errors.New(reason.String())
	}
	parts, reason := forward.FragmentOuter(outer, largest+forward.Overhead(way.locator), rand.Uint32())
	if reason != forward.DropNone {
		return errors.New(reason.String())
	}
	socket, err := s.socket(way.locator.Is4())
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := unix.Sendto(socket, part, 0, socketAddress(way.locator.Addr())); err != nil {
			return err
		}
	}
	return nil
}

// socket opens once a socket that sends whole IP packets by the host's rules and routes, and receives nothing.
func (s *fragmenter) socket(four bool) (int, error) {
	at, family, level, option := 0, unix.AF_INET, unix.SOL_IP, unix.IP_HDRINCL
	if !four {
		at, family, level, option = 1, unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_HDRINCL
	}
	if s.sockets[at] != 0 {
		return s.sockets[at], nil
	}
	var socket int
	err := s.space.do(func() (err error) {
		socket, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("socket for fragments: %w", err)
	}
	if err := unix.SetsockoptInt(socket, level, option, 1); err != nil {
		_ = unix.Close(socket)
		return 0, fmt.Errorf("socket for fragments: %w", err)
	}
	s.sockets[at] = socket
	return socket, nil
}

func (s *fragmenter) close() {
	for _, socket := range s.sockets {
		if socket != 0 {
			_ = unix.Close(socket)
		}
	}
	s.sockets = [2]int{}
}

func socketAddress(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}
