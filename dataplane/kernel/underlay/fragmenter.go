// SPDX-License-Identifier: Apache-2.0

// This file sends IPv6 packets by paths that carry less than IPv6 asks of any link with the outer headers counted in
// (RFC 8200 s.5, RFC 2473 s.7.1): the sender may not be told to send smaller ones, so the outer packet goes in
// fragments. It is the slow path of a last resort; N, L, E and V are 0 in its headers. Packets whose outer UDP
// checksum the programs cannot compute go the same way, whole.

package underlay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/netspace"
	"loci/forward"
	"loci/lisp"
)

// Fragmenter sends outer packets in fragments. It is for one goroutine.
type Fragmenter struct {
	Space   *netspace.Space
	sockets [2]int // of IPv4 and IPv6; 0 until they are needed
}

// Way is how a packet gets to its locator.
type Way struct {
	Source, Locator lisp.RLOC
	SourcePort      uint16 // of the locator; 0: that of each flow
	Instance        lisp.InstanceID
	Encapsulation   dataplane.Encapsulation
	Outer           *Way // where the locator is an EID: of the second layer; else nil
}

// Tunnel is how packets of a family are encapsulated.
func (w *Way) Tunnel(family uint8) forward.Tunnel {
	t := forward.Tunnel{Source: w.Source, Destination: w.Locator, SourcePort: w.SourcePort}
	t.BareHeader(forward.Encapsulation(w.Encapsulation), w.Instance, family)
	if w.Locator.Port() != 0 {
		t.Port = w.Locator.Port()
	}
	return t
}

// encapsulate puts the outer headers before a packet.
func (w *Way) encapsulate(packet []byte, forwarded bool) ([]byte, error) {
	h, err := forward.ParseHeader(packet)
	if err != nil {
		return nil, err
	}
	t := w.Tunnel(h.Family)
	t.Forwarded = forwarded
	outer, reason := forward.Encapsulate(nil, packet, &h, &t)
	if reason != forward.DropNone {
		return nil, errors.New(reason.String())
	}
	return outer, nil
}

// Unfragmented is for packets that fit their path.
const Unfragmented = 0

// Send encapsulates a packet and sends its fragments, of which each has room for so many octets of it, or sends it
// whole.
func (s *Fragmenter) Send(packet []byte, way Way, forwarded bool, largest int) error {
	outer, err := way.encapsulate(packet, forwarded)
	mtu := largest + forward.Overhead(way.Locator)
	if err == nil && way.Outer != nil {
		way = *way.Outer
		outer, err = way.encapsulate(outer, false)
		mtu += forward.Overhead(way.Locator)
	}
	if err != nil {
		return err
	}
	if largest == Unfragmented {
		return s.SendWhole(outer, way.Locator.Addr())
	}
	parts, reason := forward.FragmentOuter(outer, mtu, rand.Uint32())
	if reason != forward.DropNone {
		return errors.New(reason.String())
	}
	socket, err := s.socket(way.Locator.Is4())
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := unix.Sendto(socket, part, 0, socketAddress(way.Locator.Addr())); err != nil {
			return err
		}
	}
	return nil
}

// socket opens once a socket that sends whole IP packets by the host's rules and routes, and receives nothing.
func (s *Fragmenter) socket(four bool) (int, error) {
	at, family, level, option := 0, unix.AF_INET, unix.SOL_IP, unix.IP_HDRINCL
	if !four {
		at, family, level, option = 1, unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_HDRINCL
	}
	if s.sockets[at] != 0 {
		return s.sockets[at], nil
	}
	var socket int
	err := s.Space.Do(func() (err error) {
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

// Close closes the sockets.
func (s *Fragmenter) Close() {
	for _, socket := range s.sockets {
		if socket != 0 {
			_ = unix.Close(socket)
		}
	}
	s.sockets = [2]int{}
}

// SendWhole sends an IP packet of this host's own by its rules and routes.
func (s *Fragmenter) SendWhole(packet []byte, to netip.Addr) error {
	socket, err := s.socket(to.Is4())
	if err != nil {
		return err
	}
	return unix.Sendto(socket, packet, 0, socketAddress(to))
}

func socketAddress(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}
