// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Register (RFC 9301 s.5.6):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=3 |P|S|I|R|      Reserved       |E|T|a|m|M| Record Count  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Nonce, 64 bits                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Key ID    | Algorithm ID  |  Authentication Data Length   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                     Authentication Data                       ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 EID-Records (see record.go) ...               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              xTR-ID 128 bits, Site-ID 64 bits (if I)          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// This file does not verify anything: auth.go does, on the encoded octets.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MapRegister tells a Map-Server the mappings of a site.
type MapRegister struct {
	ProxyReply    bool // P: the Map-Server shall answer Map-Requests itself
	Security      bool // S: the ETR can do LISP-SEC
	XTRIDPresent  bool // I: XTRID and SiteID follow
	ByRTR         bool // R: bit 7, reserved in RFC 9301: by an RTR (draft-ermagan-lisp-nat-traversal before -04)
	EIDNotify     bool // E: from a first-hop router, for a site xTR to relay
	UseTTL        bool // T: registrations last as long as their Record TTL
	MergeRequest  bool // a: merge the locators of several xTRs
	MobileNode    bool // m: bit 22, reserved in RFC 9301 (draft-ietf-lisp-mn)
	WantMapNotify bool // M: acknowledge with a Map-Notify

	Nonce          uint64
	KeyID          uint8
	AlgorithmID    uint8
	Authentication []byte
	Records        []Record
	XTRID          [16]byte
	SiteID         uint64
}

const (
	registerProxyReply    = 0x08000000
	registerSecurity      = 0x04000000
	registerXTRIDPresent  = 0x02000000
	registerByRTR         = 0x01000000
	registerEIDNotify     = 0x00001000
	registerUseTTL        = 0x00000800
	registerMergeRequest  = 0x00000400
	registerMobileNode    = 0x00000200
	registerWantMapNotify = 0x00000100
)

// Type is TypeMapRegister.
func (*MapRegister) Type() MessageType { return TypeMapRegister }

func parseMapRegister(r *reader) *MapRegister {
	word := r.u32("flags")
	m := &MapRegister{
		ProxyReply:    word&registerProxyReply != 0,
		Security:      word&registerSecurity != 0,
		XTRIDPresent:  word&registerXTRIDPresent != 0,
		ByRTR:         word&registerByRTR != 0,
		EIDNotify:     word&registerEIDNotify != 0,
		UseTTL:        word&registerUseTTL != 0,
		MergeRequest:  word&registerMergeRequest != 0,
		MobileNode:    word&registerMobileNode != 0,
		WantMapNotify: word&registerWantMapNotify != 0,
		Nonce:         r.u64("nonce"),
	}
	m.KeyID, m.AlgorithmID, m.Authentication = parseAuthentication(r)
	m.Records = parseRecords(r, int(word&0xff))
	if m.XTRIDPresent {
		m.XTRID, m.SiteID = parseXTRID(r)
	}
	return m
}

func (m *MapRegister) flags() uint32 {
	return bit32(m.ProxyReply, registerProxyReply) | bit32(m.Security, registerSecurity) |
		bit32(m.XTRIDPresent, registerXTRIDPresent) | bit32(m.ByRTR, registerByRTR) |
		bit32(m.EIDNotify, registerEIDNotify) | bit32(m.UseTTL, registerUseTTL) |
		bit32(m.MergeRequest, registerMergeRequest) | bit32(m.MobileNode,
		registerMobileNode) | bit32(m.WantMapNotify, registerWantMapNotify)
}

// AppendTo appends the encoded Map-Register to b with Authentication as it is;
// AppendSigned computes it.
func (m *MapRegister) AppendTo(b []byte) ([]byte, error) {
	head := authenticatedHead{m.flags(), m.Nonce, m.KeyID, m.AlgorithmID, m.Authentication}
	out, err := head.appendTo(b, TypeMapRegister, m.Records)
	if err != nil {
		return b, fmt.Errorf("Map-Register: %w", err)
	}
	if m.XTRIDPresent {
		out = appendXTRID(out, m.XTRID, m.SiteID)
	}
	return out, nil
}

// authenticatedHead is what Map-Register, Map-Notify and Map-Notify-Ack have in
// common before their records.
type authenticatedHead struct {
	flags              uint32
	nonce              uint64
	keyID, algorithmID uint8
	authentication     []byte
}

func (h authenticatedHead) appendTo(b []byte, t MessageType, records []Record) ([]byte, error) {
	switch {
	case len(records) > MaxRecords:
		return b, fmt.Errorf("%d records: want at most %d", len(records), MaxRecords)
	case len(h.authentication) > math.MaxUint16:
		return b, fmt.Errorf("%d octets of authentication data: want at most %d", len(h.authentication), math.MaxUint16)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(t)<<28|h.flags|uint32(len(records)))
	b = binary.BigEndian.AppendUint64(b, h.nonce)
	b = append(b, h.keyID, h.algorithmID)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.authentication)))
	return appendRecords(append(b, h.authentication...), records)
}

func parseAuthentication(r *reader) (keyID, algorithmID uint8, data []byte) {
	keyID = r.u8("key ID")
	algorithmID = r.u8("algorithm ID")
	n := r.u16("authentication data length")
	return keyID, algorithmID, r.copied(int(n), "authentication data")
}
