// SPDX-License-Identifier: Apache-2.0

package dataplane

// Flows that are bound to a path: those of Multipath TCP, whose subflows each take a path of their own (RFC 8684).
// A binding chooses among the locators of the mapping that covers the destination, nothing else: where its path is not
// among them, has priority 255 or is down, the flow goes by its hash, as every flow without binding. So no binding
// leads a packet to a wrong site, and a flow leaves a path that is down without the control plane, and returns with it.
// No packet waits for a binding.

import (
	"time"

	"loci/lisp"
)

const (
	// MaxFlows is how many flows may be bound; one more is ErrFull.
	MaxFlows = 65536
	// MaxFlowsOfSource is how many of them may have one source EID, in one Instance-ID; one more is ErrFull.
	MaxFlowsOfSource = MaxFlows / 4
	// SubflowBurst is how many events Subflow of one source EID may come at once: a host begins, or ends, all
	// subflows of a connection together.
	SubflowBurst = 16
	// SubflowInterval is how long it takes until one more may come.
	SubflowInterval = time.Millisecond
	// MaxSubflows is how many events Subflow an engine raises within a second.
	MaxSubflows = 5000
	// MaxTCPHeader is how many octets a TCP header has at most.
	MaxTCPHeader = 60
)

// PutFlow binds a flow to a path, or binds it to another one. ErrInvalid where Flow.Valid or Path.Valid refuses,
// ErrFull beyond MaxFlows and MaxFlowsOfSource.
type PutFlow struct {
	Flow lisp.Flow
	Path lisp.Path // the identity of a locator: all its hops
}

// DeleteFlow ends the binding of a flow; ErrNotFound when there is none.
type DeleteFlow struct{ Flow lisp.Flow }

func (PutFlow) operation()    {}
func (DeleteFlow) operation() {}

// FlowEntry is a flow that is bound.
type FlowEntry struct {
	Flow      lisp.Flow
	Path      lisp.Path
	CreatedAt time.Time // when it was first bound
	// LastUsedAt is when a packet of it last went by; zero when never; exact to a second. While Settings.Subflows
	// is set, a TCP packet with SYN does not count: a host repeats one that is not answered.
	LastUsedAt time.Time
}

// Subflow says that a TCP packet begins or ends a connection that may be bound: between EIDs, while Settings.Subflows
// is set. Raised are those with SYN that have an option of Multipath TCP (kind 30), from an EID of the site where the
// mapping has two locators or more that a binding may choose, and from the core to an EID of the site; and those with
// FIN or RST of flows that are bound, or whose other direction is, also where they are relayed. A packet that is
// dropped or waits raises none, nor does one whose TCP header or options are cut off. At most SubflowBurst are raised
// at once for each source EID, one more for each SubflowInterval that passes, and MaxSubflows within a second in all.
// None takes the place of a Miss. The packet may be forged; it went on at once.
type Subflow struct {
	Flow     lisp.Flow // of the packet
	FromCore bool      // it came from the core, for an EID of the site
	TCP      []byte    // the TCP header with its options, at most MaxTCPHeader octets
}

func (Subflow) event() {}
