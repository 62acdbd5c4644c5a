// SPDX-License-Identifier: Apache-2.0

package forward

// DSCP and ECN between inner and outer header (RFC 9300 s.5.3, RFC 6040, RFC 2983). Nothing here looks at a packet.

// The codepoints of ECN (RFC 3168 s.5).
const (
	ecnMask   = 0x03
	ecnNotECT = 0
	ecnECT1   = 1
	ecnECT0   = 2
	ecnCE     = 3
)

// Marking chooses what of DSCP and ECN crosses the tunnel's ends. Its zero value
// is what RFC 9300 recommends: copied both ways.
type Marking struct {
	OuterNotECT   bool // RFC 6040 s.4.3 compatibility mode: the outer header says Not-ECT
	OuterDSCPZero bool // pipe model: the outer DSCP is 0 ...
	InnerDSCPKept bool // ... and the inner one survives decapsulation
}

// Outer is the traffic class of the outer header at encapsulation.
func (m Marking) Outer(inner uint8) uint8 {
	dscp, ecn := inner&^ecnMask, inner&ecnMask
	if m.OuterDSCPZero {
		dscp = 0
	}
	if m.OuterNotECT {
		ecn = ecnNotECT
	}
	return dscp | ecn
}

// Notes are things about a packet that are worth counting and no reason to drop it.
type Notes uint16

// The notes.
const (
	NoteECNAlarm         Notes = 1 << iota // RFC 6040 s.4.2, marked (!!!)
	NoteECNCurious                         // RFC 6040 s.4.2, marked (!)
	NoteNonceAndVersion                    // N and V both set: taken for a nonce
	NoteStaleDestination                   // RFC 9302 s.7.1: a version older than ours
	NoteStaleSource                        // RFC 9302 s.7.2: a version newer than the map-cache's
	NoteEchoReceived                       // RFC 9300 s.10.1: our nonce came back
	NoteEchoMissing                        // RFC 9300 s.10.1: packets come without it
	NotePathUnidentified                   // the path that a relayed packet is on could not be told
)

// ecnCell is one cell of figure 4 of RFC 6040.
type ecnCell struct {
	ecn  uint8
	note Notes
	drop bool
}

// ecnDecapsulation returns the cell at inner row and outer column.
func ecnDecapsulation(inner, outer uint8) ecnCell {
	inner, outer = inner&ecnMask, outer&ecnMask
	switch {
	case inner == ecnNotECT && outer == ecnCE:
		return ecnCell{note: NoteECNAlarm, drop: true}
	case inner == ecnNotECT && outer != ecnNotECT:
		return ecnCell{ecn: ecnNotECT, note: NoteECNAlarm}
	case inner == ecnCE && outer == ecnECT1:
		return ecnCell{ecn: ecnCE, note: NoteECNAlarm}
	case inner == ecnECT1 && outer == ecnECT0:
		return ecnCell{ecn: ecnECT1, note: NoteECNCurious}
	case outer == ecnCE, inner == ecnECT0 && outer == ecnECT1:
		return ecnCell{ecn: outer}
	}
	return ecnCell{ecn: inner}
}

// Inner is the traffic class of the decapsulated packet; false when RFC 6040
// demands that it be dropped.
func (m Marking) Inner(inner, outer uint8) (class uint8, notes Notes, ok bool) {
	cell := ecnDecapsulation(inner, outer)
	dscp := outer &^ ecnMask
	if m.InnerDSCPKept {
		dscp = inner &^ ecnMask
	}
	return dscp | cell.ecn, cell.note, !cell.drop
}

// SetMarks writes TTL and traffic class into a plain IP packet of that family.
func SetMarks(packet []byte, family, ttl, class uint8) {
	setMarks(packet, &Header{Family: family}, ttl, class)
}
