// SPDX-License-Identifier: Apache-2.0

// This file translates between the values of package lisp and the records of
// bpf/abi.h, both ways, because the pinned records are what a restart reads back
// (RFC 9301 s.5.4 for what a locator says). It never touches a map.

package tables

import (
	"encoding/binary"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/lisp"
)

// The bits of a mapping's cookie, which is for user space alone.
const (
	cookieDeleted       = 1 << 0 // only programs may still hold the record's index
	CookieAuthoritative = 1 << 1
	CookieGleaned       = 1 << 2
	CookieStale         = 1 << 3
	CookieByNAT         = 1 << 4
	cookieActionShift   = 8 // the action that came with the mapping, also where there are locators
	cookieActionMask    = 7
)

// KeyOf returns the key of the entry that a record holds.
func KeyOf(m *abi.Mapping) lpm.Key {
	kind := abi.RootMapCache
	if m.Flags&abi.MappingDatabase != 0 {
		kind = abi.RootDatabase
	}
	return lpm.Key{Kind: kind, Family: m.Family, Bits: m.PrefixLength, Instance: m.Iid, Address: m.Prefix}
}

// InForce reports whether a record holds an entry, rather than what is left of one.
func InForce(m *abi.Mapping) bool {
	return m.Flags&abi.MappingValid != 0 && m.Cookie&cookieDeleted == 0
}

// CookieOf is what a record keeps for user space alone.
func CookieOf(m *dataplane.MapCacheEntry) uint32 {
	cookie := uint32(m.Mapping.Action&cookieActionMask) << cookieActionShift
	if m.Mapping.Authoritative {
		cookie |= CookieAuthoritative
	}
	if m.Gleaned {
		cookie |= CookieGleaned
	}
	if m.Stale {
		cookie |= CookieStale
	}
	if m.ByNAT {
		cookie |= CookieByNAT
	}
	return cookie
}

// ActionOf is the action that came with a mapping, from its cookie.
func ActionOf(cookie uint32) lisp.Action {
	return lisp.Action(cookie >> cookieActionShift & cookieActionMask)
}

// encodeLocator makes the ABI's locator; source is the zero RLOC when this system
// has none of the locator's family.
func encodeLocator(l lisp.Locator, source lisp.RLOC) abi.Locator {
	to := l.NextHop()
	record := abi.Locator{
		Rloc: abi.Octets(to.Addr()), Source: abi.Octets(source.Addr()), Family: abi.Family(to.Addr()), Port: abi.NetworkOrder(to.Port()),
		Priority: l.Priority, Weight: l.Weight,
		MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
		SourcePort: abi.NetworkOrder(l.SourcePort),
	}
	record.Flags = flagIf(l.Local, abi.LocatorLocal) | flagIf(l.Probed, abi.LocatorProbed) | flagIf(l.Reachable, abi.LocatorReachable) |
		flagIf(isPath(&l), abi.LocatorPath)
	return record
}

func flagIf(set bool, flag uint8) uint8 {
	if set {
		return flag
	}
	return 0
}

// DecodeLocator is the locator that a record holds; of a path it is the next hop alone (SavedPath.Complete).
func DecodeLocator(record *abi.Locator) lisp.Locator {
	return lisp.Locator{
		RLOC:     lisp.RLOCFromAddr(abi.Addr(record.Family, record.Rloc)).WithPort(abi.NetworkOrder(record.Port)),
		Priority: record.Priority, Weight: record.Weight,
		MulticastPriority: record.MulticastPriority, MulticastWeight: record.MulticastWeight,
		SourcePort: abi.NetworkOrder(record.SourcePort),
		Local:      record.Flags&abi.LocatorLocal != 0,
		Probed:     record.Flags&abi.LocatorProbed != 0,
		Reachable:  record.Flags&abi.LocatorReachable != 0,
	}
}

// contentOf returns octets that are equal for equal sets.
func contentOf(set lisp.LocatorSet) string {
	return string(appendContent(make([]byte, 0, contentOctets*len(set)), set))
}

// contentOctets is what a locator of one hop adds to the content of its set.
const contentOctets = 16 + 2 + 6 + 2

func appendContent(content []byte, set lisp.LocatorSet) []byte {
	for _, l := range set {
		record := encodeLocator(l, lisp.RLOC{})
		content = append(content, record.Rloc[:]...)
		content = binary.NativeEndian.AppendUint16(content, record.Port)
		content = append(content, record.Family, record.Priority, record.Weight,
			record.MulticastPriority, record.MulticastWeight, record.Flags)
		content = binary.NativeEndian.AppendUint16(content, record.SourcePort)
		if isPath(&l) {
			saved := savePath(&l)
			content = append(content, saved[:]...)
		}
	}
	return content
}
