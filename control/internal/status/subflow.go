// SPDX-License-Identifier: Apache-2.0

package status

// What a Node knows of subflows of Multipath TCP.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// Subflow is one direction of a subflow: towards the core.
type Subflow struct {
	Flow        lisp.Flow
	Path        lisp.Path // zero where it is not bound
	Session     uint32    // tells sessions apart while they last; 0 where it is not known
	Token       uint32    // of the session's responder
	HasToken    bool
	Why         SubflowReason
	AnsweredBy  netip.Addr // who chose its path; the zero Addr where this router did
	State       SubflowState
	OpenedAt    time.Time
	LastHeardAt time.Time // zero when nothing followed yet
}

// SubflowReason says by what the path of a subflow was chosen.
type SubflowReason string

// The reasons.
const (
	SubflowFirst   SubflowReason = "first"   // the best path, for the first subflow of a session
	SubflowSession SubflowReason = "session" // the path with the fewest subflows of its session
	// the path with the fewest subflows of its two EIDs: its session is not known
	SubflowEIDs    SubflowReason = "eids"
	SubflowAdopted SubflowReason = "adopted" // by an earlier run
	SubflowAsked   SubflowReason = "asked"   // its ETR is asked for the path, and has not answered yet
	// its ETR chose the path, and answered with it
	SubflowAnswered SubflowReason = "answered"
)

// AnsweredFlow is a flow to an EID of this site whose path this ETR chose.
type AnsweredFlow struct {
	Flow     lisp.Flow // as its packets come
	Path     lisp.Path
	AskedBy  netip.Addr // the ITR
	ChosenAt time.Time  // when the flow was first asked for
	AskedAt  time.Time  // when it was last
}

// SubflowState says how far a subflow got.
type SubflowState string

// The states.
const (
	SubflowOpened      SubflowState = "opened"      // nothing followed its SYN yet
	SubflowEstablished SubflowState = "established" // something did
	SubflowClosing     SubflowState = "closing"     // its last packets keep its path
)
