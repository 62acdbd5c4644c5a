// SPDX-License-Identifier: Apache-2.0

// Package translation is itr.lisp-nat of the configuration: LISP-NAT, RFC 6832 s.7. An entry gives the packets of some
// sources an address of a pool: EIDs towards hosts outside LISP (s.7.1), private addresses towards hosts outside LISP
// (s.7.2) and, if the pool is an EID-Prefix of the site, towards EIDs (s.7.3).
//
// It knows entries and what is wrong with them, and translates nothing.
package translation

import (
	"fmt"
	"net/netip"
	"strings"
)

// Method says what an entry changes in packets.
type Method string

// The methods.
const (
	Address        Method = "address"          // a prefix to one of the same length, one to one
	AddressAndPort Method = "address-and-port" // any pool: ports keep the sources of an address apart
)

// Entry translates the sources of a prefix.
type Entry struct {
	From      netip.Prefix `key:"from" required:"true"`
	Pool      Pool         `key:"pool" required:"true"`
	Translate Method       `key:"translate" required:"true" oneof:"address,address-and-port"`
}

// String is what the entry does.
func (e Entry) String() string { return fmt.Sprintf("%s to %s by %s", e.From, e.Pool, e.Translate) }

// Pool is the addresses from First to Last, of one family.
type Pool struct{ First, Last netip.Addr }

// PoolOf has all addresses of a prefix.
func PoolOf(p netip.Prefix) Pool { return Pool{p.Masked().Addr(), lastOf(p)} }

func lastOf(p netip.Prefix) netip.Addr {
	octets := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(octets)*8; bit++ {
		octets[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(octets)
	return last
}

// UnmarshalText reads a prefix, an address, or two addresses with a hyphen between them.
func (p *Pool) UnmarshalText(text []byte) error {
	read, err := parsePool(string(text))
	if err == nil {
		*p = read
	}
	return err
}

func parsePool(text string) (Pool, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
		if prefix != prefix.Masked() {
			return Pool{}, fmt.Errorf("%s has host bits set: did you mean %s?", text, prefix.Masked())
		}
		return PoolOf(prefix), nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errFirst := netip.ParseAddr(strings.TrimSpace(first))
	b, errLast := netip.ParseAddr(strings.TrimSpace(last))
	switch {
	case errFirst != nil || errLast != nil || a.Zone()+b.Zone() != "" || a.Is4In6() || b.Is4In6():
		return Pool{}, fmt.Errorf("%q is not a pool: want a prefix, an address or a range:"+
			" 192.0.2.0/24, 192.0.2.2, 192.0.2.2-192.0.2.254", text)
	case a.Is4() != b.Is4() || b.Less(a):
		return Pool{}, fmt.Errorf("%q is not a range: want two addresses of one family, the lower one first",
			text)
	}
	return Pool{a, b}, nil
}

// MarshalText is String.
func (p Pool) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String is the pool as a prefix or an address, if it is one, else as a range.
func (p Pool) String() string {
	prefix, ok := p.Prefix()
	switch {
	case !p.First.IsValid():
		return ""
	case p.First == p.Last:
		return p.First.String()
	case ok:
		return prefix.String()
	}
	return p.First.String() + "-" + p.Last.String()
}

// Prefix is the pool as a prefix; false where it is none.
func (p Pool) Prefix() (netip.Prefix, bool) {
	if !p.First.IsValid() {
		return netip.Prefix{}, false
	}
	for bits := range p.First.BitLen() + 1 {
		if prefix := netip.PrefixFrom(p.First, bits); prefix.Masked() == prefix && lastOf(prefix) == p.Last {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// Contains reports whether an address is in the pool.
func (p Pool) Contains(a netip.Addr) bool {
	return a.Is4() == p.First.Is4() && !a.Less(p.First) && !p.Last.Less(a)
}

func (p Pool) overlaps(q Pool) bool { return p.Contains(q.First) || q.Contains(p.First) }
