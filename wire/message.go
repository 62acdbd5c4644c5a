// SPDX-License-Identifier: Apache-2.0

package wire

// Message types and the dispatch on them (RFC 9301 s.5.1). Knows no layout.

import (
	"fmt"
	"slices"
	"strconv"
)

// The UDP ports of LISP (RFC 9300 s.5.3, RFC 9301 s.5).
const (
	DataPort    = 4341
	ControlPort = 4342
)

// MessageType is the type nibble that every control message starts with.
type MessageType uint8

// The types of RFC 9301 s.5.1 and, for 7, draft-ermagan-lisp-nat-traversal s.4.
const (
	TypeMapRequest                 MessageType = 1
	TypeMapReply                   MessageType = 2
	TypeMapRegister                MessageType = 3
	TypeMapNotify                  MessageType = 4
	TypeMapNotifyAck               MessageType = 5
	TypeMapReferral                MessageType = 6
	TypeInfo                       MessageType = 7
	TypeEncapsulatedControlMessage MessageType = 8
	TypeSharedExtension            MessageType = 15
)

// String is the RFC's name of the type.
func (t MessageType) String() string {
	switch t {
	case TypeMapRequest:
		return "Map-Request"
	case TypeMapReply:
		return "Map-Reply"
	case TypeMapRegister:
		return "Map-Register"
	case TypeMapNotify:
		return "Map-Notify"
	case TypeMapNotifyAck:
		return "Map-Notify-Ack"
	case TypeMapReferral:
		return "Map-Referral"
	case TypeInfo:
		return "Info"
	case TypeEncapsulatedControlMessage:
		return "Encapsulated Control Message"
	case TypeSharedExtension:
		return "Shared Extension"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Message is a control message: one of *MapRequest, *MapReply, *MapRegister,
// *MapNotify, *MapNotifyAck, *MapReferral, *InfoRequest, *InfoReply,
// *EncapsulatedControlMessage and *SharedExtension.
type Message interface {
	// Type is the type nibble.
	Type() MessageType
	// AppendTo appends the encoded message to b. It errs when a field does not
	// fit its width; b is then returned as it came.
	AppendTo(b []byte) ([]byte, error)
}

// anyMessage names a message whose type is not known in errors.
const anyMessage = "LISP control message"

// OUI is an IEEE organizationally unique identifier, 24 bits (RFC 9306 s.4).
type OUI uint32

// Parser parses control messages. The zero value obeys the RFCs strictly; it is
// immutable in use and may be shared.
type Parser struct {
	// KnownOUIs are the vendors whose LCAFs the receiver understands; a message
	// with any other vendor LCAF is refused (RFC 9306 s.4).
	KnownOUIs []OUI
	// AcceptZeroInnerChecksum admits ECMs whose inner UDP checksum is absent.
	// RFC 9301 s.5.8 forbids sending them, deployed systems do.
	AcceptZeroInnerChecksum bool
	// KeepAddresses fills LocatorRecord.Octets, for a Map-Server that answers with addresses as they were registered.
	KeepAddresses bool
}

// Parse reads one control message, the whole payload of a UDP packet, with the
// strict zero Parser. The error is a *ParseError.
func Parse(b []byte) (Message, error) { return Parser{}.Parse(b) }

// Parse reads one control message, the whole payload of a UDP packet. The
// message does not refer to b afterwards. The error is a *ParseError.
func (p Parser) Parse(b []byte) (Message, error) { return p.ParseIn(nil, b) }

// Room is memory for a message, for those who read hundreds of thousands a second: for a Map-Request
// and the ECM around it, and for the records of others.
type Room struct {
	ecm      usualECM
	request  usualMapRequest
	records  []Record
	locators []LocatorRecord // of all records
}

// ParseIn is Parse into a room: parsing the next message into it overwrites what is there, except
// that an ECM stays while its inner message is parsed. A nil room is none.
func (p Parser) ParseIn(room *Room, b []byte) (Message, error) {
	r := newReader(anyMessage, b)
	if r.room = room; room != nil {
		room.locators = room.locators[:0]
	}
	r.knownOUIs = p.KnownOUIs
	r.acceptZeroChecksum = p.AcceptZeroInnerChecksum
	r.keepAddresses = p.KeepAddresses
	if len(b) == 0 {
		r.fail("type", ReasonTruncated, "")
		return nil, r.err
	}
	t := MessageType(b[0] >> 4)
	r.message = t.String()
	m := parseBody(r, t)
	r.expectEnd()
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

func parseBody(r *reader, t MessageType) Message {
	switch t {
	case TypeMapRequest:
		return parseMapRequest(r)
	case TypeMapReply:
		return parseMapReply(r)
	case TypeMapRegister:
		return parseMapRegister(r)
	case TypeMapNotify:
		return parseMapNotify(r)
	case TypeMapNotifyAck:
		return (*MapNotifyAck)(parseMapNotify(r))
	case TypeMapReferral:
		return parseMapReferral(r)
	case TypeInfo:
		return parseInfo(r)
	case TypeEncapsulatedControlMessage:
		return parseECM(r)
	case TypeSharedExtension:
		return parseSharedExtension(r)
	}
	r.message = anyMessage
	r.failAt(0, "type", ReasonUnknownType, strconv.Itoa(int(t)))
	return nil
}

// knows reports whether the receiver understands a vendor's LCAFs.
func (r *reader) knows(oui OUI) bool { return slices.Contains(r.knownOUIs, oui) }
