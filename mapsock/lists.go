// SPDX-License-Identifier: Apache-2.0

package mapsock

// Deny and allow lists as attributes of settings: one for each list, with its prefixes
// one after the other, and more where a list is long. Which lists make sense together is the engine's to say.

import (
	"errors"
	"fmt"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

const (
	listSize         = 8 // u32 packets × 256 + address, u32 Instance-ID; then the prefixes
	listedSize       = 4 // u8 verdict, u8 mask length, u8 octets of the address, u8 zero; then the address
	listPacketsShift = 8
	listContinued    = 1 << 16 // the list before goes on
	listedTogether   = 512     // prefixes in an attribute
)

// What a list says of a prefix.
const (
	listedAllow = 0
	listedDeny  = 1
)

// appendLists writes each list in as many attributes as it needs.
func appendLists(b []byte, a Attribute, m *Message) []byte {
	for i := range m.Lists {
		l := &m.Lists[i]
		lists := [2][]netip.Prefix{listedAllow: l.Allow, listedDeny: l.Deny}
		b = appendPrefixes(b, a, uint32(l.Packets)<<listPacketsShift|uint32(l.Address), l.Instance, lists)
	}
	return b
}

// appendPrefixes writes two lists of prefixes for an Instance-ID in as many attributes as they need, all but the first of which
// continue the one before.
func appendPrefixes(b []byte, a Attribute, what uint32, instance lisp.InstanceID, lists [2][]netip.Prefix) []byte {
	for {
		first := min(len(lists[0]), listedTogether)
		second := min(len(lists[1]), listedTogether-first)
		b = appendPrefixesPart(b, a, what, instance, [2][]netip.Prefix{lists[0][:first], lists[1][:second]})
		lists[0], lists[1], what = lists[0][first:], lists[1][second:], what|listContinued
		if len(lists[0])+len(lists[1]) == 0 {
			return b
		}
	}
}

func appendPrefixesPart(b []byte, a Attribute, what uint32, instance lisp.InstanceID, lists [2][]netip.Prefix) []byte {
	octets := listSize
	for _, prefixes := range lists {
		for _, p := range prefixes {
			octets += listedSize + p.Addr().BitLen()/8
		}
	}
	b = appendAttribute(b, a, octets)
	b = order.AppendUint32(b, what)
	b = order.AppendUint32(b, uint32(instance))
	for kind, prefixes := range lists {
		b = appendListed(b, byte(kind), prefixes)
	}
	return b
}

func appendListed(b []byte, verdict byte, prefixes []netip.Prefix) []byte {
	for _, p := range prefixes {
		address := p.Addr().AsSlice()
		b = append(b, verdict, byte(p.Bits()), byte(len(address)), 0)
		b = append(b, address...)
	}
	return b
}

func parseList(m *Message, v []byte) error {
	what := order.Uint32(v)
	continued := what&listContinued != 0
	what &^= listContinued
	packets, address := what>>listPacketsShift, uint32(uint8(what))
	if err := errors.Join(atMost(packets, uint32(dataplane.ListDecapsulated)), atMost(address, uint32(dataplane.ListOuterDestination))); err != nil {
		return err
	}
	lists, err := parsePrefixes(v)
	if err != nil {
		return err
	}
	l := dataplane.AccessList{
		Packets: dataplane.ListPackets(packets), Address: dataplane.ListAddress(address), Instance: lisp.InstanceID(order.Uint32(v[4:])),
		Allow: lists[listedAllow], Deny: lists[listedDeny],
	}
	if !continued {
		m.Lists = append(m.Lists, l)
		return nil
	}
	return continueList(m, l)
}

// parsePrefixes reads what appendPrefixes wrote behind the first numbers.
func parsePrefixes(v []byte) (lists [2][]netip.Prefix, err error) {
	for rest := v[listSize:]; len(rest) > 0; {
		p, kind, octets, err := parseListed(rest)
		if err != nil {
			return lists, fmt.Errorf("prefix at octet %d: %w", len(v)-len(rest), err)
		}
		lists[kind] = append(lists[kind], p)
		rest = rest[octets:]
	}
	return lists, nil
}

// continueList adds to the list before. That of an earlier part is joined later.
func continueList(m *Message, l dataplane.AccessList) error {
	if len(m.Lists) == 0 {
		m.continues = true
		m.Lists = append(m.Lists, l)
		return nil
	}
	last := &m.Lists[len(m.Lists)-1]
	if !sameList(last, &l) {
		return errors.New("the list continues one of other packets, addresses or Instance-ID")
	}
	last.Allow, last.Deny = append(last.Allow, l.Allow...), append(last.Deny, l.Deny...)
	return nil
}

// parseListed reads the first of some prefixes, in which list it is, and how many octets it takes.
func parseListed(v []byte) (p netip.Prefix, kind byte, octets int, err error) {
	if len(v) < listedSize || len(v) < listedSize+int(v[2]) {
		return p, 0, 0, fmt.Errorf("%d octets hold no prefix", len(v))
	}
	kind, bits, octets := v[0], int(v[1]), listedSize+int(v[2])
	a, ok := netip.AddrFromSlice(v[listedSize:octets])
	if !ok || a.Is4In6() || bits > a.BitLen() || v[3] != 0 || kind > 1 {
		return p, 0, 0, fmt.Errorf("%x is not a prefix", v[:octets])
	}
	if p = netip.PrefixFrom(a, bits); p != p.Masked() {
		return p, 0, 0, fmt.Errorf("%s has host bits set: did you mean %s?", p, p.Masked())
	}
	return p, kind, octets, nil
}
