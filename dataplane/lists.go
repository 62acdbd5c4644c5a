// SPDX-License-Identifier: Apache-2.0

package dataplane

// Deny and allow lists: which packets an engine encapsulates and decapsulates at all,
// by the addresses of the inner and the outer header. They are for packets of LISP
// alone: what an engine passes untouched is none of theirs.

import (
	"fmt"
	"net/netip"

	"loci/lisp"
)

const (
	// MaxLists is how many lists Settings may have.
	MaxLists = 1024
	// MaxListPrefixes is how many prefixes all of them may have together.
	MaxListPrefixes = 4096
)

// ListPackets says which packets a list is about.
type ListPackets uint8

// The packets.
const (
	ListEncapsulated ListPackets = iota // towards the core
	ListDecapsulated                    // from the core
)

// ListAddress says which of their addresses a list is about.
type ListAddress uint8

// The addresses.
const (
	ListInnerSource ListAddress = iota
	ListInnerDestination
	ListOuterSource
	ListOuterDestination
)

// AccessList denies addresses, or allows some and no others. Of all prefixes of both
// kinds the longest that covers an address decides. An address that none covers is
// denied where the list allows anything, else permitted.
type AccessList struct {
	Packets  ListPackets
	Address  ListAddress
	Instance lisp.InstanceID // 0 where the address is an outer one
	Allow    []netip.Prefix
	Deny     []netip.Prefix
}

// Rules are all prefixes of the list and whether each is denied. What holds for the
// other addresses of a family is a rule as well.
func (l *AccessList) Rules() map[netip.Prefix]bool {
	rules := make(map[netip.Prefix]bool, len(l.Allow)+len(l.Deny)+2)
	if len(l.Allow) > 0 {
		rules[netip.PrefixFrom(netip.IPv4Unspecified(), 0)] = true
		rules[netip.PrefixFrom(netip.IPv6Unspecified(), 0)] = true
	}
	for _, p := range l.Allow {
		rules[p] = false
	}
	for _, p := range l.Deny {
		rules[p] = true
	}
	return rules
}

// Denies reports whether the list denies an address. It looks at every prefix.
func (l *AccessList) Denies(a netip.Addr) (denied bool) {
	longest := -1
	for p, deny := range l.Rules() {
		if p.Bits() > longest && p.Contains(a) {
			longest, denied = p.Bits(), deny
		}
	}
	return denied
}

// CheckLists says what of the lists cannot be; ErrInvalid.
func (s *Settings) CheckLists() error {
	if len(s.Lists) > MaxLists {
		return fmt.Errorf("%d lists, at most %d: %w", len(s.Lists), MaxLists, ErrInvalid)
	}
	type subject struct {
		packets  ListPackets
		address  ListAddress
		instance lisp.InstanceID
	}
	seen, prefixes := map[subject]bool{}, 0
	for i := range s.Lists {
		l := &s.Lists[i]
		at := subject{l.Packets, l.Address, l.Instance}
		if seen[at] {
			return fmt.Errorf("two lists of packets %d, address %d, Instance-ID %d: %w", l.Packets, l.Address, l.Instance, ErrInvalid)
		}
		seen[at] = true
		if err := l.check(); err != nil {
			return err
		}
		prefixes += len(l.Allow) + len(l.Deny)
	}
	if prefixes > MaxListPrefixes {
		return fmt.Errorf("lists of %d prefixes, at most %d: %w", prefixes, MaxListPrefixes, ErrInvalid)
	}
	return nil
}

func (l *AccessList) check() error {
	outer := l.Address >= ListOuterSource
	if l.Packets > ListDecapsulated || l.Address > ListOuterDestination || l.Instance > lisp.MaxInstanceID || outer && l.Instance != 0 {
		return fmt.Errorf("list of packets %d, address %d, Instance-ID %d: %w", l.Packets, l.Address, l.Instance, ErrInvalid)
	}
	seen := map[netip.Prefix]bool{}
	for _, prefixes := range [][]netip.Prefix{l.Allow, l.Deny} {
		for _, p := range prefixes {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() || seen[p] {
				return fmt.Errorf("prefix %v of a list, wrong or twice: %w", p, ErrInvalid)
			}
			seen[p] = true
		}
	}
	return nil
}
