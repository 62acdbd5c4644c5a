// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Referral (RFC 8111 s.6.1 to s.6.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=6 |                Reserved               | Record Count  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Nonce, 64 bits                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          Record TTL                           |   per record
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Referral Count| EID mask-len  | ACT |A|I|     Reserved        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|SigCnt |   Map Version Number  |            EID-AFI            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        EID-Prefix, RLOC-Records as in record.go ...           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Original Record TTL                      |   per signature
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Signature Expiration                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Signature Inception                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Key Tag            |           Sig Length          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Sig-Algorithm |    Reserved   |            Reserved           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                           Signature                           ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// This file verifies no signature.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// ReferralAction is the ACT of a Map-Referral record (RFC 8111 s.6.1).
type ReferralAction uint8

// The actions of RFC 8111 s.6.1.
const (
	ReferralNode             ReferralAction = 0 // NODE-REFERRAL
	ReferralMapServer        ReferralAction = 1 // MS-REFERRAL
	ReferralMapServerAck     ReferralAction = 2 // MS-ACK
	ReferralNotRegistered    ReferralAction = 3 // MS-NOT-REGISTERED
	ReferralDelegationHole   ReferralAction = 4 // DELEGATION-HOLE
	ReferralNotAuthoritative ReferralAction = 5 // NOT-AUTHORITATIVE
)

// MapReferral is a DDT node's answer to a Map-Request.
type MapReferral struct {
	Nonce   uint64
	Records []ReferralRecord
}

// ReferralRecord says where to ask about an EID-Prefix.
type ReferralRecord struct {
	TTLMinutes    uint32
	EID           Address
	MaskLen       uint8
	Action        ReferralAction // 3 bits
	Authoritative bool           // A
	Incomplete    bool           // I: the referral set is not complete
	Version       uint16         // 12 bits
	Referrals     []LocatorRecord
	Signatures    []Signature // at most MaxSignatures
}

// MaxSignatures is what the 4-bit SigCnt can announce.
const MaxSignatures = 15

// Signature signs a referral record (RFC 8111 s.6.4.1). Times are in seconds since
// 1970.
type Signature struct {
	OriginalTTLMinutes uint32
	ExpirationSeconds  uint32
	InceptionSeconds   uint32
	KeyTag             uint16
	Algorithm          uint8
	Octets             []byte
}

const (
	referralIncomplete     = 0x0800
	referralSigCountShift  = 12
	signatureMinimumOctets = 20
)

// Type is TypeMapReferral.
func (*MapReferral) Type() MessageType { return TypeMapReferral }

func parseMapReferral(r *reader) *MapReferral {
	word := r.u32("flags")
	m := &MapReferral{Nonce: r.u64("nonce")}
	if n := r.count(int(word&0xff), recordMinOctets, "record count"); n > 0 {
		m.Records = make([]ReferralRecord, n)
	}
	for i := range m.Records {
		parseReferralRecord(r, &m.Records[i])
	}
	return m
}

func parseReferralRecord(r *reader, rec *ReferralRecord) {
	rec.TTLMinutes = r.u32("record TTL")
	referrals := int(r.u8("referral count"))
	rec.MaskLen = r.u8("EID mask-len")
	flags := r.u16("ACT")
	rec.Action = ReferralAction(flags >> recordActionShift)
	rec.Authoritative = flags&recordAuthoritative != 0
	rec.Incomplete = flags&referralIncomplete != 0
	version := r.u16("map-version")
	rec.Version = version & recordVersionMask
	rec.EID = r.eid("EID-Prefix")
	rec.Referrals = parseLocators(r, referrals)
	if n := r.count(int(version>>referralSigCountShift), signatureMinimumOctets, "SigCnt"); n > 0 {
		rec.Signatures = make([]Signature, n)
	}
	for i := range rec.Signatures {
		parseSignature(r, &rec.Signatures[i])
	}
}

func parseSignature(r *reader, s *Signature) {
	s.OriginalTTLMinutes = r.u32("original record TTL")
	s.ExpirationSeconds = r.u32("signature expiration")
	s.InceptionSeconds = r.u32("signature inception")
	s.KeyTag = r.u16("key tag")
	length := r.u16("sig length")
	s.Algorithm = r.u8("sig-algorithm")
	r.take(3, "reserved")
	s.Octets = r.copied(int(length), "signature")
}

// AppendTo appends the encoded Map-Referral to b.
func (m *MapReferral) AppendTo(b []byte) ([]byte, error) {
	if len(m.Records) > MaxRecords {
		return b, fmt.Errorf("Map-Referral: %d records: want at most %d", len(m.Records), MaxRecords)
	}
	out := binary.BigEndian.AppendUint32(b, uint32(TypeMapReferral)<<28|uint32(len(m.Records)))
	out = binary.BigEndian.AppendUint64(out, m.Nonce)
	var err error
	for i := range m.Records {
		if out, err = m.Records[i].appendTo(out); err != nil {
			return b, fmt.Errorf("Map-Referral: record %d: %w", i+1, err)
		}
	}
	return out, nil
}

func (rec *ReferralRecord) appendTo(b []byte) ([]byte, error) {
	switch {
	case len(rec.Referrals) > MaxRecords:
		return b, fmt.Errorf("%d referrals: want at most %d", len(rec.Referrals), MaxRecords)
	case len(rec.Signatures) > MaxSignatures:
		return b, fmt.Errorf("%d signatures: want at most %d", len(rec.Signatures), MaxSignatures)
	case rec.Action > 7 || rec.Version > recordVersionMask:
		return b, fmt.Errorf("action %d, map-version %d: want 3 and 12 bits", rec.Action, rec.Version)
	}
	flags := uint16(rec.Action)<<recordActionShift | bit16(rec.Authoritative, recordAuthoritative) |
		bit16(rec.Incomplete, referralIncomplete)
	b = binary.BigEndian.AppendUint32(b, rec.TTLMinutes)
	b = append(b, uint8(len(rec.Referrals)), rec.MaskLen)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(rec.Signatures))<<referralSigCountShift|rec.Version)
	b, err := appendAddress(b, rec.EID)
	if err != nil {
		return b, fmt.Errorf("EID-Prefix: %w", err)
	}
	if b, err = appendLocators(b, rec.Referrals); err != nil {
		return b, err
	}
	return appendSignatures(b, rec.Signatures)
}

func appendSignatures(b []byte, signatures []Signature) ([]byte, error) {
	for i := range signatures {
		s := &signatures[i]
		if len(s.Octets) > math.MaxUint16 {
			return b, fmt.Errorf("signature of %d octets: want at most %d", len(s.Octets), math.MaxUint16)
		}
		b = binary.BigEndian.AppendUint32(b, s.OriginalTTLMinutes)
		b = binary.BigEndian.AppendUint32(b, s.ExpirationSeconds)
		b = binary.BigEndian.AppendUint32(b, s.InceptionSeconds)
		b = binary.BigEndian.AppendUint16(b, s.KeyTag)
		b = binary.BigEndian.AppendUint16(b, uint16(len(s.Octets)))
		b = append(append(b, s.Algorithm, 0, 0, 0), s.Octets...)
	}
	return b, nil
}
