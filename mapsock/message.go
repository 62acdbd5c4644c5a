// SPDX-License-Identifier: Apache-2.0

package mapsock

// Message: the value that is written and read. Its meaning for an engine is in
// entries.go, its octets in append.go and parse.go.

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// Message is one message. What it holds beside the header's fields is told by HasEID,
// HasMask, the length of Locators and Has; the rest has no meaning.
type Message struct {
	Type       Type
	Flags      Flags
	MapVersion uint16 // with FlagVersioning; 12 bits (RFC 9302)
	PID        int32  // of the sender; 0: the engine itself
	Seq        uint32 // the sender's number for it
	Errno      unix.Errno

	HasEID   bool
	HasMask  bool // without it a get asks for the longest match
	Prefix   lisp.Prefix
	Locators []Locator

	Instance        lisp.InstanceID // that of Prefix, when there is one
	Source          lisp.EID
	Action          lisp.Action
	TTLMinutes      uint32
	Created         time.Time
	Expires         time.Time
	Usage           dataplane.Usage
	Interface       string
	LocatorState    dataplane.LocatorState
	StatusBits      uint32
	StatusBitCount  uint32 // that the header had room for
	ReceivedVersion uint16
	OtherVersion    uint16 // of the same packet
	ICMPType        uint8
	ICMPCode        uint8
	MTU             uint32
	ErrorOffset     uint32 // in the message that failed
	ErrorText       string
	Lost            uint64 // messages
	Count           uint64 // entries
	Hearing         Hearing
	MissForm        Type   // TypeMissEID, TypeMissHeader or TypeMissPacket
	Packet          []byte // after Parse part of the datagram
	Watched         []dataplane.Interface
	LocalRLOCs      []lisp.RLOC
	MissPolicy      dataplane.MissPolicy
	MissPolicies    map[lisp.InstanceID]dataplane.MissPolicy
	Wait            dataplane.WaitBounds
	Header          dataplane.HeaderSettings
	Encapsulations  []dataplane.EncapsulationRule
	Lists           []dataplane.AccessList
	Roles           []dataplane.RolePolicy
	RecursionDepth  uint8
	Sibling         netip.Addr
	RTRs            []lisp.RLOC
	Outer           [2]netip.AddrPort // source and destination of an outer header
	MarkNative      uint8             // 0 or 1
	Flow            lisp.Flow         // in Instance
	Tables          uint32            // bits, of a flush
	Subflows        uint8             // 0 or 1

	PathIdentification dataplane.PathIdentification

	Counts []Count
	Paths  []PathState
	Nonce  uint32

	has       uint64 // a bit for each attribute
	continues bool   // the first of Lists does, one of an earlier part

	roleContinues bool // and of Roles
}

// Count is a named counter. Its attribute is AttributeCounter, AttributeDrop or
// AttributeOther, after the part of dataplane.Counters that it belongs to.
type Count struct {
	Attribute Attribute
	Name      string
	Value     uint64
}

// Has reports whether an attribute is there.
func (m *Message) Has(a Attribute) bool { return m.has&(1<<a) != 0 }

// Mark says that attributes are there, so that Append writes them.
func (m *Message) Mark(attributes ...Attribute) {
	for _, a := range attributes {
		m.has |= 1 << a
	}
}

// Reset makes m an empty message of a type. It keeps the room of Locators.
func (m *Message) Reset(t Type) { *m = Message{Type: t, Locators: m.Locators[:0]} }

// SetPrefix gives m an EID-Prefix with its mask.
func (m *Message) SetPrefix(p lisp.Prefix) {
	m.HasEID, m.HasMask, m.Prefix, m.Instance = true, true, p, p.Instance()
}

// Err is what an answer says: nil, or an error that errors.Is relates to the errors
// of package dataplane and to the errno.
func (m *Message) Err() error {
	if m.Errno == 0 {
		return nil
	}
	return &Refusal{Errno: m.Errno, Text: m.ErrorText, Offset: int(m.ErrorOffset)}
}

// String is one line for logs: type, flags, sender, subject and outcome.
func (m *Message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s pid %d seq %d", m.Type, m.PID, m.Seq)
	if m.HasEID {
		fmt.Fprintf(&b, " %s", m.Prefix)
	}
	for i := range m.Locators {
		fmt.Fprintf(&b, " -> %s", m.Locators[i].Locator)
	}
	if m.Has(AttributeSource) {
		fmt.Fprintf(&b, " from %s", m.Source)
	}
	if m.Has(AttributeFlow) {
		fmt.Fprintf(&b, " %s", m.Flow)
	}
	if m.Has(AttributeLost) {
		fmt.Fprintf(&b, " %d messages", m.Lost)
	}
	fmt.Fprintf(&b, " %s", m.Flags)
	if m.Errno != 0 {
		fmt.Fprintf(&b, ": %s", m.Err())
	}
	return b.String()
}

// PathState is what an engine knows of the way to one RLOC.
type PathState struct {
	RLOC   lisp.RLOC
	MTU    int  // octets, as dataplane.PathReporter tells them; 0: not known
	Learnt bool // the MTU, from ICMP
	Echo   dataplane.EchoState
}

// clone is a copy that does not share memory with the receiver.
func clone(m *Message) Message {
	copied := *m
	copied.Locators = append([]Locator(nil), m.Locators...)
	copied.Paths = append([]PathState(nil), m.Paths...)
	copied.Packet = append([]byte(nil), m.Packet...)
	return copied
}
