// SPDX-License-Identifier: Apache-2.0

package wire

// Map-Reply (RFC 9301 s.5.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=2 |P|E|S|          Reserved               | Record Count  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Nonce, 64 bits                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 EID-Records (see record.go) ...               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            LISP-SEC authentication data (if S) ...            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The authentication data is kept as octets; lisp_sec.go gives its layout. This
// file does not match nonces.

import (
	"encoding/binary"
	"fmt"
)

// MapReply answers a Map-Request.
type MapReply struct {
	Probe        bool // P: answers an RLOC-probe
	EchoNonce    bool // E: the sender echoes nonces
	Security     bool // S: SecurityData follows the records
	Nonce        uint64
	Records      []Record
	SecurityData []byte // LISP-SEC authentication data (RFC 9303 s.6.2)
}

const (
	replyProbe     = 0x08000000
	replyEchoNonce = 0x04000000
	replySecurity  = 0x02000000
)

// Type is TypeMapReply.
func (*MapReply) Type() MessageType { return TypeMapReply }

func parseMapReply(r *reader) *MapReply {
	word := r.u32("flags")
	m := &MapReply{
		Probe:     word&replyProbe != 0,
		EchoNonce: word&replyEchoNonce != 0,
		Security:  word&replySecurity != 0,
		Nonce:     r.u64("nonce"),
		Records:   parseRecords(r, int(word&0xff)),
	}
	if m.Security {
		m.SecurityData = takeReplySecurity(r)
	}
	return m
}

// AppendTo appends the encoded Map-Reply to b.
func (m *MapReply) AppendTo(b []byte) ([]byte, error) {
	switch {
	case len(m.Records) > MaxRecords:
		return b, fmt.Errorf("Map-Reply: %d records: want at most %d", len(m.Records), MaxRecords)
	case m.Security != (len(m.SecurityData) > 0):
		return b, fmt.Errorf("Map-Reply: the S bit and the authentication data contradict each other")
	}
	word := uint32(TypeMapReply)<<28 | bit32(m.Probe, replyProbe) | bit32(m.EchoNonce, replyEchoNonce) |
		bit32(m.Security, replySecurity) | uint32(len(m.Records))
	out := binary.BigEndian.AppendUint32(b, word)
	out = binary.BigEndian.AppendUint64(out, m.Nonce)
	out, err := appendRecords(out, m.Records)
	if err != nil {
		return b, fmt.Errorf("Map-Reply: %w", err)
	}
	return append(out, m.SecurityData...), nil
}
