// SPDX-License-Identifier: Apache-2.0

package lisp

// RLOC: where an EID can be reached now (RFC 9300 s.3).

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
)

// RLOC is a Routing Locator: an IPv4 or IPv6 address of the core, and the UDP port behind which
// a NAT has it. It is comparable, holds no pointer, and its zero value is "no RLOC".
type RLOC struct {
	family uint8  // 0, 4 or 6
	port   uint16 // 0: the LISP data port
	raw    [16]byte
}

// RLOCFromAddr makes an RLOC of an IP address; IPv4-mapped IPv6 becomes IPv4 and
// zones are dropped. The invalid address gives the zero RLOC.
func RLOCFromAddr(a netip.Addr) RLOC {
	switch a = a.Unmap(); {
	case a.Is4():
		r := RLOC{family: 4}
		octets := a.As4()
		copy(r.raw[:], octets[:])
		return r
	case a.Is6():
		return RLOC{family: 6, raw: a.As16()}
	}
	return RLOC{}
}

// WithPort is the RLOC behind a UDP port, where a NAT maps it; 0 stands for the LISP data port.
func (r RLOC) WithPort(port uint16) RLOC {
	r.port = port
	return r
}

// Port is the UDP port of the data plane, 0 for the LISP data port.
func (r RLOC) Port() uint16 { return r.port }

// ParseRLOCPort is ParseRLOC of an address with a port, or without one: 192.0.2.1:40000,
// [2001:db8::1]:40000.
func ParseRLOCPort(s string) (RLOC, error) {
	at, err := netip.ParseAddrPort(s)
	if err != nil {
		return ParseRLOC(s)
	}
	r, err := ParseRLOC(at.Addr().String())
	if err == nil && at.Port() == 0 {
		err = fmt.Errorf("RLOC %q: port 0: want 1 to 65535", s)
	}
	return r.WithPort(at.Port()), err
}

// ParseRLOC reads an IPv4 or IPv6 address that may serve as a locator.
func ParseRLOC(s string) (RLOC, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return RLOC{}, fmt.Errorf("RLOC %q: want an IPv4 or IPv6 address", s)
	}
	r := RLOCFromAddr(a)
	if err := r.Valid(); err != nil {
		return RLOC{}, err
	}
	return r, nil
}

// Valid says why r cannot be a locator: RFC 9301 s.5.4 forbids broadcast and
// link-local multicast; unspecified and loopback addresses reach no other system.
func (r RLOC) Valid() error {
	a := r.Addr()
	switch {
	case !a.IsValid():
		return fmt.Errorf("RLOC is missing")
	case a.IsUnspecified(), a.IsLoopback(), a.IsLinkLocalUnicast():
		return fmt.Errorf("RLOC %s is not reachable from other systems", a)
	case a.IsLinkLocalMulticast(), a.IsInterfaceLocalMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("RLOC %s is a broadcast or link-local multicast address", a)
	}
	return nil
}

// IsZero reports whether r is no RLOC at all.
func (r RLOC) IsZero() bool { return r.family == 0 }

// Is4 reports whether r is an IPv4 address.
func (r RLOC) Is4() bool { return r.family == 4 }

// Is6 reports whether r is an IPv6 address.
func (r RLOC) Is6() bool { return r.family == 6 }

// IsPrivate reports whether an RLOC is for one network alone (RFC 1918, RFC 4193), or for a carrier's (RFC 6598).
func (r RLOC) IsPrivate() bool {
	octets := r.Addr().AsSlice()
	shared := r.Is4() && octets[0] == 100 && octets[1]&0xc0 == 64
	return shared || r.Addr().IsPrivate()
}

// Addr returns the IP address, invalid for the zero RLOC.
func (r RLOC) Addr() netip.Addr {
	switch r.family {
	case 4:
		return netip.AddrFrom4([4]byte(r.raw[:4]))
	case 6:
		return netip.AddrFrom16(r.raw)
	}
	return netip.Addr{}
}

// Compare orders RLOCs as RFC 9301 s.5.5 orders locators: IPv4 before IPv6,
// then by ascending address; behind one address by port.
func (r RLOC) Compare(o RLOC) int {
	if c := cmp.Compare(r.family, o.family); c != 0 {
		return c
	}
	if c := bytes.Compare(r.raw[:], o.raw[:]); c != 0 {
		return c
	}
	return cmp.Compare(r.port, o.port)
}

// String is the address, with the port where there is one; "none" for the zero RLOC.
func (r RLOC) String() string {
	switch {
	case r.IsZero():
		return "none"
	case r.port != 0:
		return netip.AddrPortFrom(r.Addr(), r.port).String()
	}
	return r.Addr().String()
}

// MarshalText is String, for JSON and YAML.
func (r RLOC) MarshalText() ([]byte, error) {
	if r.IsZero() {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// AppendText appends what MarshalText gives.
func (r RLOC) AppendText(b []byte) ([]byte, error) {
	if r.IsZero() {
		return b, nil
	}
	if r.port != 0 {
		return netip.AddrPortFrom(r.Addr(), r.port).AppendTo(b), nil
	}
	return r.Addr().AppendTo(b), nil
}

// UnmarshalText is ParseRLOCPort; empty text is the zero RLOC.
func (r *RLOC) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = RLOC{}
		return nil
	}
	*r, err = ParseRLOCPort(string(text))
	return err
}
