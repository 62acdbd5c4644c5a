// SPDX-License-Identifier: Apache-2.0

package forward

// Deny and allow lists for inner and outer sources and destinations: which packets
// RFC 9300 s.5 is applied to at all. bpf/lists.h has the same in C. The lists are the
// caller's; nothing here knows a prefix.

import (
	"net/netip"

	"loci/lisp"
)

// ListKind says which address of which packets a list is about. The numbers are those
// of enum lisp_list_kind.
type ListKind uint8

// The kinds. ListDecapsulated is added to the others: packets from the core, not
// those towards it.
const (
	ListInnerSource      ListKind = 0
	ListInnerDestination ListKind = 1
	ListOuterSource      ListKind = 2
	ListOuterDestination ListKind = 3
	ListDecapsulated     ListKind = 4
)

// Denies reports whether the lists of a kind deny an address; of outer ones the
// Instance-ID is 0.
type Denies func(kind ListKind, instance lisp.InstanceID, address netip.Addr) bool

// judge returns why the lists from that kind of source on drop a packet.
func (d Denies) judge(kind ListKind, instance lisp.InstanceID, source, destination netip.Addr) DropReason {
	switch {
	case d == nil:
		return DropNone
	case d(kind, instance, source):
		return DropDeniedSource + DropReason(kind&^ListDecapsulated)
	case d(kind+1, instance, destination):
		return DropDeniedSource + DropReason(kind&^ListDecapsulated) + 1
	}
	return DropNone
}
