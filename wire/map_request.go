// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Request (RFC 9301 s.5.2; I, N and the xTR-ID are RFC 9437 s.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=1 |A|M|P|S|p|s|m|I|  Reserved |L|D|   IRC   | Record Count  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Nonce, 64 bits                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Source-EID-AFI        |   Source EID Address  ...     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         ITR-RLOC-AFI          |    ITR-RLOC Address  ...      |   IRC+1 times
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|N|  Reserved   | EID mask-len  |        EID-Prefix-AFI         |   Record Count
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+   times
//	|                       EID-Prefix  ...                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                   Map-Reply Record  (if M) ...                |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              xTR-ID 128 bits, Site-ID 64 bits (if I)          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// IRC counts from 0, so the format cannot say "no ITR-RLOC". This file does not
// judge who may send which request.

import (
	"encoding/binary"
	"fmt"
)

// MaxITRRLOCs is what the 5-bit IRC field can announce.
const MaxITRRLOCs = 32

// MapRequest asks for the mapping of an EID-Prefix, probes an RLOC, or solicits
// such a request (SMR).
type MapRequest struct {
	Authoritative  bool // A: the site itself shall answer
	MapDataPresent bool // M: MapReplyRecord follows; set by AppendTo's caller
	Probe          bool // P: RLOC-probe
	SMR            bool // S: Solicit-Map-Request
	PITR           bool // p: sent by a PITR
	SMRInvoked     bool // s: answers an SMR
	MobileNode     bool // m: bit 10, reserved in RFC 9301 (draft-ietf-lisp-mn)
	XTRIDPresent   bool // I: XTRID and SiteID follow
	LocalXTR       bool // L: the ITR-RLOC is an address of the sender itself
	DontReply      bool // D: no Map-Reply wanted

	Nonce          uint64
	SourceEID      Address
	ITRRLOCs       []Address // 1 to MaxITRRLOCs
	Records        []RequestRecord
	MapReplyRecord *Record // the mapping of SourceEID, when MapDataPresent
	XTRID          [16]byte
	SiteID         uint64
}

// RequestRecord is one EID-Prefix that a Map-Request asks for.
type RequestRecord struct {
	Notify  bool // N: subscribe to changes (RFC 9437 s.4)
	MaskLen uint8
	EID     Address
}

const (
	requestAuthoritative  = 0x08000000
	requestMapDataPresent = 0x04000000
	requestProbe          = 0x02000000
	requestSMR            = 0x01000000
	requestPITR           = 0x00800000
	requestSMRInvoked     = 0x00400000
	requestMobileNode     = 0x00200000
	requestXTRIDPresent   = 0x00100000
	requestLocalXTR       = 0x00004000
	requestDontReply      = 0x00002000
	requestIRCShift       = 8
	requestIRCMask        = 0x1f

	requestRecordNotify    = 0x80
	requestRecordMinOctets = 4
)

// Type is TypeMapRequest.
func (*MapRequest) Type() MessageType { return TypeMapRequest }

// usualMapRequest is a Map-Request with room for the lists of nearly all: one EID-Prefix,
// asked for by an ITR with a locator of each family. It is made in one piece, because there
// are hundreds of thousands a second.
type usualMapRequest struct {
	MapRequest
	itrRLOCs [2]Address
	records  [1]RequestRecord
}

// forMapRequest is an empty Map-Request.
func (room *Room) forMapRequest() *usualMapRequest {
	if room == nil {
		return &usualMapRequest{}
	}
	room.request = usualMapRequest{}
	return &room.request
}

func parseMapRequest(r *reader) *MapRequest {
	made := r.room.forMapRequest()
	m := &made.MapRequest
	word := r.u32("flags")
	m.setFlags(word)
	m.Nonce = r.u64("nonce")
	m.SourceEID = r.address("Source EID") // unknown LCAFs are ignored here: it is no EID-Prefix (RFC 9306 s.3)
	m.ITRRLOCs = ofLength(made.itrRLOCs[:], r.count(int(word>>requestIRCShift&requestIRCMask)+1, afiOctets, "ITR-RLOC count"))
	for i := range m.ITRRLOCs {
		m.ITRRLOCs[i] = r.address("ITR-RLOC")
	}
	if n := r.count(int(word&0xff), requestRecordMinOctets, "record count"); n > 0 {
		m.Records = ofLength(made.records[:], n)
	}
	for i := range m.Records {
		m.Records[i] = RequestRecord{
			Notify:  r.u8("N bit")&requestRecordNotify != 0,
			MaskLen: r.u8("EID mask-len"),
			EID:     r.eid("EID-Prefix"),
		}
	}
	if m.MapDataPresent {
		m.MapReplyRecord = &Record{}
		parseRecord(r, m.MapReplyRecord)
	}
	if m.XTRIDPresent {
		m.XTRID, m.SiteID = parseXTRID(r)
	}
	return m
}

// ofLength is a slice of n, in the room where that is enough.
func ofLength[T any](room []T, n int) []T {
	if n > len(room) {
		return make([]T, n)
	}
	return room[:n:n]
}

func (m *MapRequest) setFlags(word uint32) {
	m.Authoritative = word&requestAuthoritative != 0
	m.MapDataPresent = word&requestMapDataPresent != 0
	m.Probe = word&requestProbe != 0
	m.SMR = word&requestSMR != 0
	m.PITR = word&requestPITR != 0
	m.SMRInvoked = word&requestSMRInvoked != 0
	m.MobileNode = word&requestMobileNode != 0
	m.XTRIDPresent = word&requestXTRIDPresent != 0
	m.LocalXTR = word&requestLocalXTR != 0
	m.DontReply = word&requestDontReply != 0
}

func (m *MapRequest) flags() uint32 {
	return bit32(m.Authoritative, requestAuthoritative) | bit32(m.MapDataPresent, requestMapDataPresent) |
		bit32(m.Probe, requestProbe) | bit32(m.SMR, requestSMR) | bit32(m.PITR, requestPITR) |
		bit32(m.SMRInvoked, requestSMRInvoked) | bit32(m.MobileNode, requestMobileNode) |
		bit32(m.XTRIDPresent, requestXTRIDPresent) | bit32(m.LocalXTR, requestLocalXTR) |
		bit32(m.DontReply, requestDontReply)
}

// AppendTo appends the encoded Map-Request to b.
func (m *MapRequest) AppendTo(b []byte) ([]byte, error) {
	out, err := m.appendTo(b)
	if err != nil {
		return b, fmt.Errorf("Map-Request: %w", err)
	}
	return out, nil
}

func (m *MapRequest) appendTo(b []byte) ([]byte, error) {
	switch {
	case len(m.ITRRLOCs) == 0 || len(m.ITRRLOCs) > MaxITRRLOCs:
		return b, fmt.Errorf("%d ITR-RLOCs: want 1 to %d", len(m.ITRRLOCs), MaxITRRLOCs)
	case len(m.Records) > MaxRecords:
		return b, fmt.Errorf("%d records: want at most %d", len(m.Records), MaxRecords)
	case m.MapDataPresent != (m.MapReplyRecord != nil):
		return b, fmt.Errorf("the M bit and the Map-Reply record contradict each other")
	}
	word := uint32(TypeMapRequest)<<28 | m.flags() | uint32(len(m.ITRRLOCs)-1)<<requestIRCShift | uint32(len(m.Records))
	b = binary.BigEndian.AppendUint32(b, word)
	b = binary.BigEndian.AppendUint64(b, m.Nonce)
	b, err := appendAddress(b, m.SourceEID)
	if err != nil {
		return b, fmt.Errorf("Source EID: %w", err)
	}
	if b, err = m.appendLists(b); err != nil {
		return b, err
	}
	if m.MapDataPresent {
		if b, err = m.MapReplyRecord.appendTo(b); err != nil {
			return b, fmt.Errorf("Map-Reply record: %w", err)
		}
	}
	if m.XTRIDPresent {
		b = appendXTRID(b, m.XTRID, m.SiteID)
	}
	return b, nil
}

func (m *MapRequest) appendLists(b []byte) ([]byte, error) {
	var err error
	for i, a := range m.ITRRLOCs {
		if b, err = appendAddress(b, a); err != nil {
			return b, fmt.Errorf("ITR-RLOC %d: %w", i+1, err)
		}
	}
	for i := range m.Records {
		rec := &m.Records[i]
		b = append(b, uint8(bit32(rec.Notify, requestRecordNotify)), rec.MaskLen)
		if b, err = appendAddress(b, rec.EID); err != nil {
			return b, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	return b, nil
}

// xtrIDOctets is the length of xTR-ID and Site-ID together (RFC 9301 s.5.6).
const xtrIDOctets = 24

func parseXTRID(r *reader) (xtrID [16]byte, siteID uint64) {
	copy(xtrID[:], r.take(len(xtrID), "xTR-ID"))
	return xtrID, r.u64("Site-ID")
}

func appendXTRID(b []byte, xtrID [16]byte, siteID uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, xtrID[:]...), siteID)
}
