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

	"loci/lisp"
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
	out, err := appendRecords(m.appendHead(b, len(m.Records)), m.Records)
	if err != nil {
		return b, fmt.Errorf("Map-Reply: %w", err)
	}
	return append(out, m.SecurityData...), nil
}

func (m *MapReply) appendHead(b []byte, records int) []byte {
	word := uint32(TypeMapReply)<<28 | bit32(m.Probe, replyProbe) | bit32(m.EchoNonce, replyEchoNonce) |
		bit32(m.Security, replySecurity) | uint32(records)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, word), m.Nonce)
}

// AppendMapReply appends a Map-Reply whose records are these mappings. head has none, and no authentication data. It errs like
// AppendTo.
func AppendMapReply(b []byte, head *MapReply, mappings []lisp.Mapping) ([]byte, error) {
	if len(mappings) > MaxRecords {
		return b, fmt.Errorf("Map-Reply: %d records: want at most %d", len(mappings), MaxRecords)
	}
	var err error
	out := head.appendHead(b, len(mappings))
	for i := range mappings {
		if out, err = appendMapping(out, &mappings[i]); err != nil {
			return b, fmt.Errorf("Map-Reply: record %d: %w", i+1, err)
		}
	}
	return out, nil
}
