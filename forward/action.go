// SPDX-License-Identifier: Apache-2.0

package forward

// What is decided about a packet: select.go makes an Action, or an earlier stage does where there is nothing to select;
// apply.go carries it out. bpf/abi_actions.h has the same in C. Nothing here looks at a packet or a table.

import "loci/lisp"

// What is what is done with a packet.
type What uint8

// What is done with packets. There is room for relaying, a second encapsulation and replication.
const (
	DoPass        What = iota // not for LISP: it goes its way as without it
	DoEncapsulate             // Action.Template is written before it, and it goes to Action.Locator
	DoDeliver                 // decapsulated, to the site
	DoLocal                   // decapsulated, to this host's stack, which answers that its TTL is at its end
	DoNatively                // from an EID, but forwarded without encapsulation
	DoWait                    // punted: no mapping, or one on hold
	DoTooBig                  // punted: Action.LargestInner octets would fit
	DoDrop                    // Action.Reason says why
)

var whatNames = [...]string{"pass", "encapsulate", "decapsulate", "stack", "native", "wait", "too-big", "drop"}

// String names what is done as the golden packets do.
func (w What) String() string { return whatNames[min(int(w), len(whatNames)-1)] }

// Varies says which fields of the LISP header differ from packet to packet.
type Varies uint8

// The fields that vary, beside lengths, TTL, traffic class, source port and flow label.
const (
	VariesNonce  Varies = 1 << iota // the nonce
	VariesHeader                    // nonce, E bit, Locator-Status-Bits and Map-Versions (trusted.go)
)

// Action is what is done with a packet; fields hold where the values named beside them stand in What.
type Action struct {
	What         What
	Reason       DropReason   // DoDrop
	Locator      lisp.Locator // DoEncapsulate, DoTooBig
	LargestInner int          // likewise: octets of the largest inner packet that the path to Locator carries
	Template     Tunnel       // DoEncapsulate: the outer headers, without what varies
	Varies       Varies       // DoEncapsulate
}

func drop(reason DropReason) Action { return Action{What: DoDrop, Reason: reason} }
