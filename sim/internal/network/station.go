// SPDX-License-Identifier: Apache-2.0

package network

// A router as the network sees it.

import (
	"net/netip"

	"loci/wire"
)

// Link is a way to the core with its address.
type Link struct {
	Addr    netip.Addr
	Cut     int  // faults that cut it
	Noticed int  // of those, how many the router knows of
	Held    bool // it is up again, and another one is used
}

// IsUp reports whether the router says that others may use it.
func (l *Link) IsUp() bool { return l.Noticed == 0 && !l.Held }

// Station is a router's place in the network.
type Station[R any] struct {
	Number int
	Router R
	Site   int // tells those of one site from others, 0 for none
	Links  []Link
	Inside Link // to the others of its site; without an address there is none
}

// Has reports whether an address is the station's.
func (s *Station[R]) Has(a netip.Addr) bool { return s.LinkOf(a) != nil }

// IsCut reports whether nothing leaves or reaches the station by that address.
func (s *Station[R]) IsCut(a netip.Addr) bool {
	l := s.LinkOf(a)
	return l == nil || l.Cut > 0
}

// IsInside reports whether an address is the station's on the link to the others of its site.
func (s *Station[R]) IsInside(a netip.Addr) bool { return a.IsValid() && a == s.Inside.Addr }

// LinkOf is the link that has an address, nil for none.
func (s *Station[R]) LinkOf(a netip.Addr) *Link {
	for i := range s.Links {
		if s.Links[i].Addr == a {
			return &s.Links[i]
		}
	}
	if s.IsInside(a) {
		return &s.Inside
	}
	return nil
}

// Source is where a message leaves from that its sender gave that source: what was left to the system is filled in, by the
// first of the preferred addresses that is of the receiver's family. It is invalid where there is none.
func (s *Station[R]) Source(wanted netip.AddrPort, v4 bool, preferred func(yield func(netip.Addr) bool)) netip.AddrPort {
	port := wanted.Port()
	if port == 0 {
		port = wire.ControlPort
	}
	if a := wanted.Addr(); a.IsValid() && s.Has(a) {
		return netip.AddrPortFrom(a, port)
	}
	for a := range preferred {
		if a.Is4() == v4 {
			return netip.AddrPortFrom(a, port)
		}
	}
	for _, l := range s.Links {
		if l.Addr.Is4() == v4 {
			return netip.AddrPortFrom(l.Addr, port)
		}
	}
	return netip.AddrPort{}
}
