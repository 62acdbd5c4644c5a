// SPDX-License-Identifier: Apache-2.0

package wire

// The head of every LISP Canonical Address Format, and the dispatch on its type
// (RFC 8060 s.3; vendor LCAFs RFC 9306):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Type      |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// A body is read in a window of Length octets: nothing is read past it, and what
// a type does not define of it is skipped (RFC 8060 s.4.10.5). Nesting and lists
// are bounded.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// LCAFType is the type octet of an LCAF.
type LCAFType uint8

// The types of RFC 8060 s.3, s.5 and RFC 9306. 4, 6, 8, 14, 15 and 16 are
// experimental.
const (
	LCAFNull                LCAFType = 0
	LCAFAFIList             LCAFType = 1
	LCAFInstanceID          LCAFType = 2
	LCAFASNumber            LCAFType = 3
	LCAFApplicationData     LCAFType = 4
	LCAFGeo                 LCAFType = 5
	LCAFOpaqueKey           LCAFType = 6
	LCAFNATTraversal        LCAFType = 7
	LCAFNonceLocator        LCAFType = 8
	LCAFMulticastInfo       LCAFType = 9
	LCAFExplicitLocatorPath LCAFType = 10
	LCAFSecurityKey         LCAFType = 11
	LCAFSourceDest          LCAFType = 12
	LCAFReplicationList     LCAFType = 13
	LCAFJSON                LCAFType = 14
	LCAFKeyValue            LCAFType = 15
	LCAFEncapsulationFormat LCAFType = 16
	LCAFVendor              LCAFType = 255
)

// MaxAddressDepth is how many LCAFs may enclose one another.
const MaxAddressDepth = 6

// MaxListEntries bounds AFI lists, locator paths, replication lists and RTR lists.
const MaxListEntries = 128

const lcafHeadOctets = 6 // without the AFI

// LCAF is an address of AFI 16387.
type LCAF interface {
	Address
	LCAFType() LCAFType
}

// UnknownLCAF is an LCAF of a type this package does not know, kept as it came. Receivers
// ignore the address (RFC 9306 s.3).
type UnknownLCAF struct {
	Kind  LCAFType
	Flags uint8
	Rsvd2 uint8
	Body  string // the octets after Length; a string, so that addresses compare
}

// LCAFType is the type octet as it came.
func (a UnknownLCAF) LCAFType() LCAFType { return a.Kind }

// AFI is AFILCAF.
func (UnknownLCAF) AFI() AFI { return AFILCAF }

// String names the type and the size.
func (a UnknownLCAF) String() string {
	return fmt.Sprintf("lcaf-type-%d(%d octets)", uint8(a.Kind), len(a.Body))
}

func (a UnknownLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, a.Kind, a.Rsvd2)
	b[at-lcafHeadOctets+1] = a.Flags
	return endLCAF(append(b, a.Body...), at)
}

// lcaf reads an LCAF after its AFI.
func (r *reader) lcaf(field string) Address {
	if r.depth >= MaxAddressDepth {
		r.fail(field, ReasonTooDeep, fmt.Sprintf("more than %d LCAFs inside one another", MaxAddressDepth))
		return nil
	}
	head := r.part(lcafHeadOctets, field, "LCAF")
	if head == nil {
		return nil
	}
	length := int(binary.BigEndian.Uint16(head[4:]))
	if length > r.remaining() {
		r.failAt(r.at-2, field+" LCAF length", ReasonBadLength, fmt.Sprintf("%d, %d octets left", length, r.remaining()))
		return nil
	}
	outer := r.end
	r.end = r.at + length
	r.depth++
	a := r.lcafBody(field, head)
	r.depth--
	if !r.failed() {
		r.at = r.end // skip what the type does not define
	}
	r.end = outer
	return a
}

func (r *reader) lcafBody(field string, head []byte) Address {
	rsvd2 := head[3]
	switch LCAFType(head[2]) {
	case LCAFNull:
		return NullLCAF{}
	case LCAFAFIList:
		return parseAFIList(r)
	case LCAFInstanceID:
		return parseInstanceID(r, rsvd2)
	case LCAFASNumber:
		return parseASNumber(r)
	case LCAFApplicationData:
		return parseApplicationData(r)
	case LCAFGeo:
		return parseGeo(r)
	case LCAFOpaqueKey:
		return parseOpaqueKey(r)
	case LCAFNATTraversal:
		return parseNATTraversal(r)
	case LCAFNonceLocator:
		return parseNonceLocator(r)
	}
	return r.lcafBodyUpper(field, head)
}

func (r *reader) lcafBodyUpper(field string, head []byte) Address {
	rsvd2 := head[3]
	switch kind := LCAFType(head[2]); kind {
	case LCAFMulticastInfo:
		return parseMulticastInfo(r)
	case LCAFExplicitLocatorPath:
		return parseExplicitLocatorPath(r)
	case LCAFSecurityKey:
		return parseSecurityKey(r)
	case LCAFSourceDest:
		return parseSourceDest(r)
	case LCAFReplicationList:
		return parseReplicationList(r)
	case LCAFJSON:
		return parseJSON(r, rsvd2)
	case LCAFKeyValue:
		return parseKeyValue(r)
	case LCAFEncapsulationFormat:
		return parseEncapsulationFormat(r)
	case LCAFVendor:
		return parseVendor(r, field)
	default:
		return UnknownLCAF{Kind: kind, Flags: head[1], Rsvd2: rsvd2, Body: string(r.take(r.remaining(), field))}
	}
}

// onlyUnknownLCAF reports whether an address says nothing but LCAFs of unknown
// types.
func onlyUnknownLCAF(a Address) bool {
	switch a := a.(type) {
	case UnknownLCAF:
		return true
	case InstanceIDLCAF:
		return onlyUnknownLCAF(a.Address)
	case *AFIListLCAF:
		for _, entry := range a.Addresses {
			if !onlyUnknownLCAF(entry) {
				return false
			}
		}
		return len(a.Addresses) > 0
	}
	return false
}

// beginLCAF appends the head; at is where the body starts.
func beginLCAF(b []byte, t LCAFType, rsvd2 uint8) (out []byte, at int) {
	out = append(appendAFI(b, AFILCAF), 0, 0, uint8(t), rsvd2, 0, 0)
	return out, len(out)
}

// endLCAF fills in the length of the body that starts at at.
func endLCAF(b []byte, at int) ([]byte, error) {
	if len(b)-at > math.MaxUint16 {
		return b, fmt.Errorf("LCAF body of %d octets: want at most %d", len(b)-at, math.MaxUint16)
	}
	binary.BigEndian.PutUint16(b[at-2:], uint16(len(b)-at))
	return b, nil
}

// endLCAFWith appends the address that ends many LCAFs, then fills in the length.
func endLCAFWith(b []byte, at int, a Address) ([]byte, error) {
	b, err := appendAddress(b, a)
	if err != nil {
		return b, err
	}
	return endLCAF(b, at)
}

// show is the text of an address that may be nil.
func show(a Address) string {
	if a == nil {
		return NoAddress{}.String()
	}
	return a.String()
}
