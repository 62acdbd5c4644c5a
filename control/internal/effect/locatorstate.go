// SPDX-License-Identifier: Apache-2.0

package effect

// The states of a locator, and their reasons.

import "loci/control/internal/hops"

// LocatorState says whether packets are sent to an RLOC, and before which others.
type LocatorState string

// The states. An unknown locator is used as one that is up: nothing speaks against it yet.
const (
	LocatorUnknown     LocatorState = "unknown"
	LocatorUp          LocatorState = "up"
	LocatorUnconfirmed LocatorState = "unconfirmed" // used where a mapping has none that is up or unknown
	LocatorDown        LocatorState = "down"        // never used
	// LocatorHeard is how the data plane is told of an unconfirmed locator that packets came
	// from within HeardFor, or that answers again: it is used before the other unconfirmed ones.
	LocatorHeard LocatorState = "heard"
)

// LocatorReason says why a locator is in its state.
type LocatorReason string

// The reasons.
const (
	LocatorNotProbed     LocatorReason = "not-probed"        // RLOC-probing is off, or we have no RLOC of that family
	LocatorAwaitsReply   LocatorReason = "awaits-reply"      // the first RLOC-probes are under way
	LocatorAnswered      LocatorReason = "probe-answered"    // the last RLOC-probe was answered
	LocatorUnanswered    LocatorReason = "probes-unanswered" // the RLOC-probe and its retries were not
	LocatorReturning     LocatorReason = "returning"         // nothing speaks against it any more, but it has to prove itself
	LocatorAdopted       LocatorReason = "adopted"           // down or unconfirmed already before the restart
	LocatorStatusBit     LocatorReason = "status-bit"        // its site's Locator-Status-Bit says so
	LocatorNonceMismatch LocatorReason = "nonce-not-echoed"  // it sends packets without the nonce that it was to echo
	LocatorUnreachable   LocatorReason = "icmp-unreachable"  // ICMP says so, and another locator answers
	LocatorPrivate       LocatorReason = "private"           // it is private, and does not answer RLOC-probes about the EID-Prefix
)

// The reasons of paths alone. A path that is not down has the reason of its next hop.
const (
	PathOwnNextHop    = LocatorReason(hops.OwnNextHop)    // our own address is its last hop
	PathAllHopsLookup = LocatorReason(hops.AllHopsLookup) // every hop has to be looked up
	PathHopLookup     = LocatorReason(hops.HopLookup)     // a hop has to be looked up, which takes a second layer: it is skipped
	PathHopFamily     = LocatorReason(hops.HopFamily)     // a hop is of a family without an RLOC of ours: it is skipped
	PathHopNotUsable  = LocatorReason(hops.HopNotUsable)  // a strict hop has to be looked up, or is of a family without an RLOC of ours
	PathNoHopUsable   = LocatorReason(hops.NoHopUsable)   // that holds for all hops that are left
	PathStrictHopDown = LocatorReason(hops.StrictHopDown) // a hop that must not be skipped is gone
	PathAllHopsDown   = LocatorReason(hops.AllHopsDown)   // all that are left are gone
	PathNotOnPath     = LocatorReason("not-on-path")      // relayed packets cannot take it, and there are locators that they can take
)

// Why packets to an RLOC that is an EID get no second layer, as the data plane counts them.
const (
	LayerMappingLoop    LocatorReason = "mapping-loop"    // its mapping leads to that RLOC again, or to this router
	LayerRecursionDepth LocatorReason = "recursion-depth" // its mapping leads to an EID as well
)
