// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Notify and Map-Notify-Ack share one layout (RFC 9301 s.5.7); the I bit and
// what follows it are draft-ermagan-lisp-nat-traversal s.4.3:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=4/5|I|R|            Reserved              | Record Count  |
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
//	|   MS-RTR Key ID (if I and R)  |  MS-RTR Auth. Data Length     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~               MS-RTR Authentication Data                      ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// R and what follows it are of the draft before its version 04: Map-Server to RTR, without an ECM. The RTR passes the
// message on with R, a Key ID and a length of 0.
//
// RFC 9301 copies the fields of the Map-Register without giving Map-Notify an I
// bit, so deployed systems send xTR-ID and Site-ID with the bit clear: 24 octets
// after the last record are read as those.
//
// This file does not verify anything: auth.go does, on the encoded octets.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MapNotify acknowledges a Map-Register, or tells a subscriber or an xTR of a
// change unasked.
type MapNotify struct {
	XTRIDPresent   bool // I: XTRID and SiteID follow
	XTRIDUnflagged bool // XTRID and SiteID follow though I is clear
	ByRTR          bool // R: with I, RTRKeyID and RTRAuthData follow those
	Nonce          uint64
	KeyID          uint8
	AlgorithmID    uint8
	Authentication []byte
	Records        []Record
	XTRID          [16]byte
	SiteID         uint64
	RTRKeyID       uint16
	RTRAuthData    []byte
}

// MapNotifyAck acknowledges an unsolicited Map-Notify with its own contents;
// (*MapNotifyAck)(notify) makes one.
type MapNotifyAck MapNotify

const (
	notifyXTRIDPresent = 0x08000000
	notifyByRTR        = 0x04000000
)

// Type is TypeMapNotify.
func (*MapNotify) Type() MessageType { return TypeMapNotify }

// Type is TypeMapNotifyAck.
func (*MapNotifyAck) Type() MessageType { return TypeMapNotifyAck }

func parseMapNotify(r *reader) *MapNotify {
	word := r.u32("flags")
	m := &MapNotify{XTRIDPresent: word&notifyXTRIDPresent != 0, ByRTR: word&notifyByRTR != 0, Nonce: r.u64("nonce")}
	m.KeyID, m.AlgorithmID, m.Authentication = parseAuthentication(r)
	m.Records = parseRecords(r, int(word&0xff))
	m.XTRIDUnflagged = !m.XTRIDPresent && r.remaining() == xtrIDOctets
	if m.XTRIDPresent || m.XTRIDUnflagged {
		m.XTRID, m.SiteID = parseXTRID(r)
	}
	if m.XTRIDPresent && m.ByRTR {
		m.RTRKeyID = r.u16("MS-RTR key ID")
		m.RTRAuthData = r.copied(int(r.u16("MS-RTR authentication data length")), "MS-RTR authentication data")
	}
	return m
}

// AppendTo appends the encoded Map-Notify to b with Authentication as it is;
// AppendSigned computes it.
func (m *MapNotify) AppendTo(b []byte) ([]byte, error) { return m.appendAs(b, TypeMapNotify) }

// AppendTo appends the encoded Map-Notify-Ack to b with Authentication as it is;
// AppendSigned computes it.
func (m *MapNotifyAck) AppendTo(b []byte) ([]byte, error) {
	return (*MapNotify)(m).appendAs(b, TypeMapNotifyAck)
}

func (m *MapNotify) appendAs(b []byte, t MessageType) ([]byte, error) {
	flags := bit32(m.XTRIDPresent, notifyXTRIDPresent) | bit32(m.ByRTR, notifyByRTR)
	head := authenticatedHead{flags, m.Nonce, m.KeyID, m.AlgorithmID, m.Authentication}
	out, err := head.appendTo(b, t, m.Records)
	if err == nil && len(m.RTRAuthData) > math.MaxUint16 {
		err = fmt.Errorf("%d octets of MS-RTR authentication data: want at most %d",
			len(m.RTRAuthData), math.MaxUint16)
	}
	if err != nil {
		return b, fmt.Errorf("%s: %w", t, err)
	}
	if m.XTRIDPresent || m.XTRIDUnflagged {
		out = appendXTRID(out, m.XTRID, m.SiteID)
	}
	if m.XTRIDPresent && m.ByRTR {
		out = binary.BigEndian.AppendUint16(out, m.RTRKeyID)
		out = binary.BigEndian.AppendUint16(out, uint16(len(m.RTRAuthData)))
		out = append(out, m.RTRAuthData...)
	}
	return out, nil
}
