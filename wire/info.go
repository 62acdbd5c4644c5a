// SPDX-License-Identifier: Apache-2.0

package wire

// Info-Request and Info-Reply (draft-ermagan-lisp-nat-traversal s.4.1, s.4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=7 |R|               Reserved                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Nonce, 64 bits                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Key ID    | Algorithm ID  |  Authentication Data Length   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                     Authentication Data                       ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                              TTL                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    | EID mask-len  |        EID-Prefix-AFI         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       EID-Prefix  ...                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        AFI 0 (R=0), or a NAT-Traversal LCAF (R=1) ...         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The draft draws one 16-bit Key ID; it reads here as in Map-Register, so that
// its values 1 and 2 become Key ID 0 with Algorithm ID 1 and 2.
//
// simple-nat (draft-farinacci-lisp-lispers-net-nat) has the same messages, in two
// forms. The draft's has the host name of the sender as EID (AFI 17). What its
// author's code sends has EID-AFI 0, and the host name in place of the AFI 0 at
// the end; in its Info-Replies the name is the private RLOC, and the length of
// the LCAF is always 16, whatever follows.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// InfoRequest asks a Map-Server how the sender's address looks from outside.
type InfoRequest struct {
	Nonce          uint64
	KeyID          uint8
	AlgorithmID    uint8
	Authentication []byte
	TTLMinutes     uint32
	MaskLen        uint8
	EID            Address
	HostName       DistinguishedName // simple-nat's code: in place of the last AFI 0; only where there is no EID
}

// InfoReply answers an InfoRequest.
type InfoReply struct {
	InfoRequest
	NAT Address // *NATTraversalLCAF from conforming senders
}

const infoReply = 0x08000000

// Type is TypeInfo.
func (*InfoRequest) Type() MessageType { return TypeInfo }

// Type is TypeInfo.
func (*InfoReply) Type() MessageType { return TypeInfo }

func parseInfo(r *reader) Message {
	word := r.u32("flags")
	m := InfoRequest{Nonce: r.u64("nonce")}
	m.KeyID, m.AlgorithmID, m.Authentication = parseAuthentication(r)
	m.TTLMinutes = r.u32("TTL")
	r.u8("reserved")
	m.MaskLen = r.u8("EID mask-len")
	m.EID = r.eid("EID-Prefix")
	start := r.at
	_, named := m.EID.(NoAddress)
	if word&infoReply != 0 {
		if named {
			return &InfoReply{InfoRequest: m, NAT: r.unboundedNAT()}
		}
		return &InfoReply{InfoRequest: m, NAT: r.address("NAT LCAF")}
	}
	switch end := r.address("final AFI").(type) {
	case NoAddress:
	case DistinguishedName:
		m.HostName = end
		if !named {
			r.failAt(start, "final AFI", ReasonBadValue, "a host name beside an EID-Prefix")
		}
	default:
		if !r.failed() {
			r.failAt(start, "final AFI", ReasonBadValue, "want AFI 0 or a host name in an Info-Request")
		}
	}
	return &m
}

// natLengthAlways is the length of the NAT-Traversal LCAF in the Info-Replies of simple-nat's code.
const natLengthAlways = 16

// unboundedNAT reads the address at the end of an Info-Reply: to the end of the message where it is a NAT-Traversal
// LCAF of that length.
func (r *reader) unboundedNAT() Address {
	head := r.data[r.at:r.end]
	const whole = afiOctets + lcafHeadOctets
	if len(head) < whole || AFI(binary.BigEndian.Uint16(head)) != AFILCAF || LCAFType(head[4]) != LCAFNATTraversal ||
		binary.BigEndian.Uint16(head[whole-2:]) != natLengthAlways {
		return r.address("NAT LCAF")
	}
	r.take(whole, "NAT LCAF")
	r.depth++
	nat := parseNATTraversal(r)
	r.depth--
	return nat
}

// AppendTo appends the encoded Info-Request to b.
func (m *InfoRequest) AppendTo(b []byte) ([]byte, error) {
	out, err := m.appendAs(b, 0, nil)
	if err != nil || m.HostName == "" {
		return out, err
	}
	if m.EID != nil && m.EID.AFI() != AFINone {
		return b, fmt.Errorf("Info: host name %s beside EID-Prefix %s: want one of them", m.HostName, m.EID)
	}
	if out, err = m.HostName.appendTo(out[:len(out)-afiOctets]); err != nil {
		return b, fmt.Errorf("Info: %w", err)
	}
	return out, nil
}

// AppendTo appends the encoded Info-Reply to b.
func (m *InfoReply) AppendTo(b []byte) ([]byte, error) { return m.appendAs(b, infoReply, m.NAT) }

func (m *InfoRequest) appendAs(b []byte, flags uint32, end Address) ([]byte, error) {
	if len(m.Authentication) > math.MaxUint16 {
		return b, fmt.Errorf("Info: %d octets of authentication data: want at most %d", len(m.Authentication), math.MaxUint16)
	}
	out := binary.BigEndian.AppendUint32(b, uint32(TypeInfo)<<28|flags)
	out = binary.BigEndian.AppendUint64(out, m.Nonce)
	out = append(out, m.KeyID, m.AlgorithmID)
	out = binary.BigEndian.AppendUint16(out, uint16(len(m.Authentication)))
	out = append(out, m.Authentication...)
	out = binary.BigEndian.AppendUint32(out, m.TTLMinutes)
	out, err := appendAddress(append(out, 0, m.MaskLen), m.EID)
	if err == nil {
		out, err = appendAddress(out, end)
	}
	if err != nil {
		return b, fmt.Errorf("Info: %w", err)
	}
	return out, nil
}
