// SPDX-License-Identifier: Apache-2.0

package forward

// What is decided about a packet: select.go makes an Action, or an earlier stage does where there is nothing to
// select; apply.go carries it out. bpf/abi_actions.h has the same in C. Nothing here looks at a packet or a table.

import "loci/lisp"

// What is what is done with a packet.
type What uint8

// What is done with packets. There is room for replication.
const (
	DoPass        What = iota // not for LISP: it goes its way as without it
	DoEncapsulate             // Action.Template is written before it, and it goes to Action.Locator
	DoRelay                   // the same, of a packet that was decapsulated first
	DoDeliver                 // decapsulated, to the site
	DoLocal                   // decapsulated, to this host's stack, which answers that its TTL is at its end
	DoNatively                // forwarded without encapsulation
	DoWait                    // punted: no mapping, or one on hold
	DoTooBig                  // punted: Action.LargestInner octets would fit
	DoSegment                 // punted: a GSO packet that gets two layers; each of its segments comes by itself
	DoControl                 // a control message in a data packet: the control plane's
	DoDrop                    // Action.Reason says why
)

var whatNames = [...]string{"pass", "encapsulate", "relay", "decapsulate", "stack", "native", "wait", "too-big", "segment", "control", "drop"}

// String names what is done as the golden packets do.
func (w What) String() string { return whatNames[min(int(w), len(whatNames)-1)] }

// Varies says which fields of the LISP header differ from packet to packet.
type Varies uint8

// The fields that vary, beside lengths, TTL, traffic class, source port and flow label.
const (
	VariesNonce  Varies = 1 << iota // the nonce
	VariesHeader                    // nonce, E bit, Locator-Status-Bits and Map-Versions (trusted.go)
)

// Action is what is done with a packet; fields hold where the values named beside them stand in What; what holds for
// DoEncapsulate does for DoRelay.
type Action struct {
	What         What
	Reason       DropReason   // DoDrop
	Locator      lisp.Locator // DoEncapsulate, DoTooBig
	LargestInner int          // likewise: octets of the largest inner packet that the path to Locator carries
	Template     Tunnel       // DoEncapsulate: the outer headers, without what varies
	Varies       Varies       // DoEncapsulate

	// With two layers (RFC 9300 s.4): Locator's RLOC is an EID, and this is how the encapsulated packet is
	// encapsulated again.
	Outer *Layer
}

// Layer is a second encapsulation: of a packet to an RLOC that the map-cache covers, in Instance-ID 0.
type Layer struct {
	Entry    *Entry // of the RLOC
	Locator  lisp.Locator
	Template Tunnel
	Varies   Varies
}

// SentTo is the RLOC that the packet goes to.
func (a *Action) SentTo() lisp.RLOC {
	if a.Outer != nil {
		return a.Outer.Locator.NextHop()
	}
	return a.Locator.NextHop()
}

// SourcePort is the port that the packet leaves from; 0 is that of its flow.
func (a *Action) SourcePort() uint16 {
	if a.Outer != nil {
		return a.Outer.Template.SourcePort
	}
	return a.Template.SourcePort
}

func drop(reason DropReason) Action { return Action{What: DoDrop, Reason: reason} }
