// SPDX-License-Identifier: Apache-2.0

package wire

// Why a message is refused. RFC 9301 s.5.1 and RFC 9306 s.3, s.4 ask for
// different treatments of unknown parts; every refusal has a name to count by.
// This file never decides what is refused.

import "fmt"

// Reason names why a parser refused its input. Its text is the name of the drop
// counter.
type Reason uint8

// The reasons. Keep reasonNames in step.
const (
	ReasonNone           Reason = iota
	ReasonTruncated             // the input ends inside a field
	ReasonTrailing              // octets follow the last field
	ReasonUnknownType           // no such message type
	ReasonUnknownAFI            // RFC 9301 s.5.1: drop the message and log
	ReasonUnknownOUI            // RFC 9306 s.4: drop the message
	ReasonUnknownLCAFEID        // RFC 9306 s.3: an EID of unknown LCAF types alone
	ReasonBadLength             // a length field contradicts the input
	ReasonBadValue              // a field holds what its RFC forbids
	ReasonTooDeep               // addresses nested beyond MaxAddressDepth
	ReasonTooMany               // a list beyond its limit
	ReasonBadChecksum           // an inner checksum does not verify
	ReasonZeroChecksum          // the inner UDP checksum is absent
	ReasonForbiddenPort         // 4341 inside an ECM (RFC 9301 s.5.8)
	ReasonNestedECM             // an ECM inside an ECM
	ReasonNotUDP                // an ECM without an inner UDP packet
	ReasonFragment              // an ECM with an IP fragment inside
)

var reasonNames = [...]string{
	"none", "truncated", "trailing-octets", "unknown-type", "unknown-afi", "unknown-oui", "unknown-lcaf-eid", "bad-length", "bad-value",
	"too-deep", "too-many", "bad-checksum", "zero-checksum", "forbidden-port", "nested-ecm", "not-udp", "fragment",
}

// String is the reason's counter name.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// Reasons lists every reason a parser gives, for counters and documentation.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonNames)-1)
	for r := ReasonTruncated; int(r) < len(reasonNames); r++ {
		all = append(all, r)
	}
	return all
}

// ParseError says what was refused, where and why.
type ParseError struct {
	Message string // "Map-Request", "LISP header", "address", …
	Field   string // the field as the RFC calls it
	Offset  int    // octets from the start of the input
	Reason  Reason
	Detail  string // the offending value, may be empty
}

// Error names message, field, offset and reason in one line.
func (e *ParseError) Error() string {
	text := fmt.Sprintf("%s: %s at octet %d: %s", e.Message, e.Field, e.Offset, e.Reason)
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	return text
}
