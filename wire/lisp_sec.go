// SPDX-License-Identifier: Apache-2.0

package wire

// Where authentication data of ECM and Map-Reply ends: layout alone. LISP-SEC
// ECM-AD, type 1 (RFC 9303 s.6.1):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  ECM AD Type  |   Unassigned  |       Requested HMAC ID       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           OTK Length          |     Key ID    | OTK Wrap. ID  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     One-Time-Key Preamble (64 bits), One-Time Key (128 bits)  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         EID-AD Length         |            KDF ID             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   rest of the EID-AD, absent when EID-AD Length is 4 ...      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// RTR authentication, type 2 (draft-ermagan-lisp-nat-traversal s.4.4): type,
// three reserved octets, 16-bit key ID, 16-bit length, data. LISP-SEC Map-Reply
// data (RFC 9303 s.6.2): type 1, three unassigned octets, an EID-AD as above,
// then a PKT-AD whose 16-bit length counts itself. No key is touched here.

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	securityTypeLISPSEC = 1
	securityTypeRTR     = 2

	ecmSecurityHeadOctets = 8
	eidADMinOctets        = 4
	pktADMinOctets        = 4
)

// takeECMSecurity returns a copy of the authentication data of an ECM.
func takeECMSecurity(r *reader) []byte {
	start := r.at
	head := r.take(ecmSecurityHeadOctets, "ECM authentication data")
	if head == nil {
		return nil
	}
	switch head[0] {
	case securityTypeLISPSEC:
		r.take(int(binary.BigEndian.Uint16(head[4:])), "one-time key")
		takeCounted(r, eidADMinOctets, "EID-AD length")
	case securityTypeRTR:
		r.take(int(binary.BigEndian.Uint16(head[6:])), "RTR authentication data")
	default:
		r.failAt(start, "ECM AD type", ReasonBadValue, fmt.Sprintf("%d", head[0]))
	}
	return bytes.Clone(r.data[start:r.at])
}

// takeReplySecurity returns a copy of the authentication data of a Map-Reply.
func takeReplySecurity(r *reader) []byte {
	start := r.at
	if kind := r.u8("MR AD type"); kind != securityTypeLISPSEC {
		r.failAt(start, "MR AD type", ReasonBadValue, fmt.Sprintf("%d", kind))
	}
	r.take(3, "unassigned")
	takeCounted(r, eidADMinOctets, "EID-AD length")
	takeCounted(r, pktADMinOctets, "PKT-AD length")
	if r.failed() {
		return nil
	}
	return bytes.Clone(r.data[start:r.at])
}

// takeCounted skips a block that starts with its own length in octets.
func takeCounted(r *reader, minOctets int, field string) {
	n := int(r.u16(field))
	if n < minOctets {
		r.failAt(r.at-2, field, ReasonBadLength, fmt.Sprintf("%d, want at least %d", n, minOctets))
	}
	r.take(n-2, field)
}
