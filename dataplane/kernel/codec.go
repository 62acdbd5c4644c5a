// SPDX-License-Identifier: Apache-2.0

// This file translates between the values of package lisp and the records of
// bpf/abi.h, both ways, because the pinned records are what a restart reads back
// (RFC 9301 s.5.4 for what a locator says). It never touches a map.

package kernel

import (
	"fmt"
	"net/netip"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// The bits of a mapping's cookie, which is for user space alone.
const (
	cookieDeleted       = 1 << 0 // programs may still hold the record's index, nobody else
	cookieAuthoritative = 1 << 1
	cookieGleaned       = 1 << 2
	cookieActionShift   = 8 // the action that came with the mapping, also where there are locators
	cookieActionMask    = 7
)

const (
	flagValid    = uint32(abi.MappingValid)
	flagHold     = uint32(abi.MappingHold)
	flagDatabase = uint32(abi.MappingDatabase)
	flagOneWay   = uint32(abi.MappingOneWay)
	flagStatic   = uint32(abi.MappingStatic)
	flagEchoes   = uint32(abi.MappingEchoNonce)

	kindMapCache = uint8(abi.RootMapCache)
	kindDatabase = uint8(abi.RootDatabase)

	noLocatorSet = ^uint32(0) // LISP_NO_LOCATOR_SET
)

// entryKey names an entry of either table. It holds no pointer, so that the
// collector need not walk the index of a large table.
type entryKey struct {
	kind, family, bits uint8
	instance           uint32
	address            [16]byte
}

// keyOf returns the key of a prefix, or why this engine cannot forward it.
func keyOf(kind uint8, prefix lisp.Prefix) (entryKey, error) {
	p := prefix.Netip()
	if !p.IsValid() {
		return entryKey{}, fmt.Errorf("prefix %v: %w: only IPv4 and IPv6", prefix, dataplane.ErrUnsupported)
	}
	if prefix.Instance() > lisp.MaxInstanceID {
		return entryKey{}, fmt.Errorf("prefix %v: %w: the data header holds an Instance-ID of 24 bits", prefix, dataplane.ErrUnsupported)
	}
	return entryKey{
		kind: kind, family: familyOf(p.Addr()), bits: uint8(p.Bits()),
		instance: uint32(prefix.Instance()), address: octetsOf(p.Addr()),
	}, nil
}

// octets returns the address's octets, as many as its family has.
func (k *entryKey) octets() []byte {
	return k.address[:addressOctets(k.family)]
}

func (k *entryKey) trieKey() trieKey { return trieKeyOf(k.octets()) }

// root returns the key of the root below which the entry stands.
func (k *entryKey) root() rootKey {
	return rootKey{kind: k.kind, family: k.family, instance: k.instance}
}

// shorter returns the key of the prefix of so many bits that covers k's.
func (k entryKey) shorter(bits int) entryKey {
	for i := bits / 8; i < len(k.address); i++ {
		mask := byte(0)
		if i == bits/8 {
			mask = ^(byte(0xFF) >> (bits % 8))
		}
		k.address[i] &= mask
	}
	k.bits = uint8(bits)
	return k
}

// prefix is the inverse of keyOf.
func (k *entryKey) prefix() (lisp.Prefix, error) {
	address, ok := netip.AddrFromSlice(k.octets())
	if !ok {
		return lisp.Prefix{}, fmt.Errorf("family %d is neither 4 nor 6", k.family)
	}
	return lisp.PrefixFrom(lisp.InstanceID(k.instance), lisp.EIDFromAddr(address), int(k.bits))
}

// keyOfRecord returns the key of the entry that a record holds.
func keyOfRecord(m *abi.Mapping) entryKey {
	kind := kindMapCache
	if m.Flags&flagDatabase != 0 {
		kind = kindDatabase
	}
	return entryKey{kind: kind, family: m.Family, bits: m.PrefixLength, instance: m.Iid, address: m.Prefix}
}

// inForce reports whether a record holds an entry, rather than what is left of one.
func inForce(m *abi.Mapping) bool {
	return m.Flags&flagValid != 0 && m.Cookie&cookieDeleted == 0
}

func cookieOf(m *dataplane.MapCacheEntry) uint32 {
	cookie := uint32(m.Mapping.Action&cookieActionMask) << cookieActionShift
	if m.Mapping.Authoritative {
		cookie |= cookieAuthoritative
	}
	if m.Gleaned {
		cookie |= cookieGleaned
	}
	return cookie
}

func actionOf(cookie uint32) lisp.Action {
	return lisp.Action(cookie >> cookieActionShift & cookieActionMask)
}

func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return 4
	}
	return 6
}

func addressOctets(family uint8) int {
	if family == 4 {
		return 4
	}
	return 16
}

// octetsOf returns an address as the ABI has it: an IPv4 address in the first four.
func octetsOf(a netip.Addr) (octets [16]byte) {
	copy(octets[:], a.AsSlice())
	return octets
}

func addrFrom(family uint8, octets [16]byte) netip.Addr {
	a, _ := netip.AddrFromSlice(octets[:addressOctets(family)])
	return a
}

func rlocKey(r lisp.RLOC) abi.RLOCKey {
	return abi.RLOCKey{Address: octetsOf(r.Addr()), Family: familyOf(r.Addr())}
}

func rlocFromKey(k abi.RLOCKey) lisp.RLOC {
	return lisp.RLOCFromAddr(addrFrom(k.Family, k.Address))
}

const (
	locatorLocal     = uint8(abi.LocatorLocal)
	locatorProbed    = uint8(abi.LocatorProbed)
	locatorReachable = uint8(abi.LocatorReachable)
)

// encodeLocator makes the ABI's locator; source is the zero RLOC when this system
// has none of the locator's family.
func encodeLocator(l lisp.Locator, source lisp.RLOC) abi.Locator {
	record := abi.Locator{
		Rloc: octetsOf(l.RLOC.Addr()), Source: octetsOf(source.Addr()), Family: familyOf(l.RLOC.Addr()),
		Priority: l.Priority, Weight: l.Weight,
		MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
	}
	record.Flags = flagIf(l.Local, locatorLocal) | flagIf(l.Probed, locatorProbed) | flagIf(l.Reachable, locatorReachable)
	return record
}

func flagIf(set bool, flag uint8) uint8 {
	if set {
		return flag
	}
	return 0
}

func decodeLocator(record *abi.Locator) lisp.Locator {
	return lisp.Locator{
		RLOC:     lisp.RLOCFromAddr(addrFrom(record.Family, record.Rloc)),
		Priority: record.Priority, Weight: record.Weight,
		MulticastPriority: record.MulticastPriority, MulticastWeight: record.MulticastWeight,
		Local:     record.Flags&locatorLocal != 0,
		Probed:    record.Flags&locatorProbed != 0,
		Reachable: record.Flags&locatorReachable != 0,
	}
}
