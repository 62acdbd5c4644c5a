// SPDX-License-Identifier: Apache-2.0

package wire

// Encapsulated Control Message (RFC 9301 s.5.8; E and M are s.12.6, R and N
// draft-ermagan-lisp-nat-traversal s.4.1):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=8 |S|D|E|M| |R|N|              Reserved                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              Authentication Data (if S) ...                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|             IPv4 or IPv6 header, UDP header                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    LISP control message                       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The inner message stays octets: who relays it must not change a bit of it.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// EncapsulatedControlMessage carries a control message through the mapping
// system, addressed to an EID.
type EncapsulatedControlMessage struct {
	Security      bool // S: AuthData follows the first word
	DDTOriginated bool // D: sent by a DDT client (RFC 8111 s.5)
	ToETR         bool // E: a Map-Server sends it to an ETR (RFC 9301 s.12.6)
	ToMapServer   bool // M: destined to a Map-Server (RFC 9301 s.12.6)
	ForRTR        bool // R: to be processed by an RTR (NAT traversal)
	RelayedByRTR  bool // N: relayed by an RTR (NAT traversal)

	AuthData []byte // LISP-SEC (RFC 9303 s.6.1) or RTR authentication data
	Inner    InnerPacket
}

const (
	ecmSecurity      = 0x08000000
	ecmDDTOriginated = 0x04000000
	ecmToETR         = 0x02000000
	ecmToMapServer   = 0x01000000
	ecmForRTR        = 0x00400000
	ecmRelayedByRTR  = 0x00200000
)

// Type is TypeEncapsulatedControlMessage.
func (*EncapsulatedControlMessage) Type() MessageType { return TypeEncapsulatedControlMessage }

// usualECM is an ECM with room for its inner message, which is hardly ever longer.
type usualECM struct {
	EncapsulatedControlMessage
	message [96]byte
}

// forECM is an empty ECM.
func (room *Room) forECM() *usualECM {
	if room == nil {
		return &usualECM{}
	}
	room.ecm.EncapsulatedControlMessage = EncapsulatedControlMessage{}
	return &room.ecm
}

func parseECM(r *reader) *EncapsulatedControlMessage {
	word := r.u32("flags")
	made := r.room.forECM()
	m := &made.EncapsulatedControlMessage
	m.Security = word&ecmSecurity != 0
	m.DDTOriginated = word&ecmDDTOriginated != 0
	m.ToETR = word&ecmToETR != 0
	m.ToMapServer = word&ecmToMapServer != 0
	m.ForRTR = word&ecmForRTR != 0
	m.RelayedByRTR = word&ecmRelayedByRTR != 0
	if m.Security {
		m.AuthData = takeECMSecurity(r)
	}
	m.Inner.parse(r, made.message[:0])
	return m
}

// AppendTo appends the encoded ECM to b, inner checksums computed.
func (m *EncapsulatedControlMessage) AppendTo(b []byte) ([]byte, error) {
	if m.Security != (len(m.AuthData) > 0) {
		return b, fmt.Errorf("ECM: the S bit and the authentication data contradict each other")
	}
	word := uint32(TypeEncapsulatedControlMessage)<<28 | bit32(m.Security, ecmSecurity) |
		bit32(m.DDTOriginated, ecmDDTOriginated) | bit32(m.ToETR, ecmToETR) | bit32(m.ToMapServer, ecmToMapServer) |
		bit32(m.ForRTR, ecmForRTR) | bit32(m.RelayedByRTR, ecmRelayedByRTR)
	out := binary.BigEndian.AppendUint32(b, word)
	out, err := m.Inner.appendTo(append(out, m.AuthData...))
	if err != nil {
		return b, fmt.Errorf("ECM: %w", err)
	}
	return out, nil
}

// AppendECM appends an ECM without flags that carries message from source to
// destination.
func AppendECM(b []byte, source, destination netip.AddrPort, message []byte) ([]byte, error) {
	m := EncapsulatedControlMessage{Inner: InnerPacket{Source: source, Destination: destination, Message: message}}
	return m.AppendTo(b)
}
