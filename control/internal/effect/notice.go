// SPDX-License-Identifier: Apache-2.0

package effect

// Notices: what the protocol did, for an operator to read.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// Notice tells an operator what the protocol did; one line of `loci monitor`.
// Notices are rate-limited: never build logic on them.
type Notice struct {
	Kind   NoticeKind
	At     time.Time
	Prefix lisp.Prefix    // what it is about, may be zero
	Remote netip.AddrPort // who it came from or went to, may be zero
	RLOC   string         // the locator or path that it is about, may be empty
	Site   string         // of the Map-Server's configuration, may be empty
	Reason string         // why, in a word: of a refused message as its counter has it; may be empty
	Took   time.Duration  // how long an answer took, 0 for what is none
	Detail string         // the rest in words, may be empty
}

// NoticeKind names an event.
type NoticeKind string

// The events.
const (
	NoticeRegistered              NoticeKind = "registered"                // the Map-Server has a new registration
	NoticeRegistrationChanged     NoticeKind = "registration-changed"      // its locators changed
	NoticeRegistrationExpired     NoticeKind = "registration-expired"      // it was not refreshed
	NoticeRegistrationWithdrawn   NoticeKind = "registration-withdrawn"    // its xTR sent TTL 0
	NoticeRegistrationRemoved     NoticeKind = "registration-removed"      // the configuration no longer allows it
	NoticeRegistrationRefused     NoticeKind = "registration-refused"      // a Map-Register was refused
	NoticeMapRegisterSent         NoticeKind = "map-register-sent"         // the ETR registers a change, or for the first time
	NoticeMapNotifyReceived       NoticeKind = "map-notify-received"       // the Map-Server acknowledged after silence
	NoticeMapNotifySent           NoticeKind = "map-notify-sent"           // to an xTR whose EID-Prefix another one changed
	NoticeMapNotifyUnacknowledged NoticeKind = "map-notify-unacknowledged" // it never acknowledged that
	NoticeMapServerSilent         NoticeKind = "map-server-silent"         // several Map-Registers stay unacknowledged
	NoticeEIDNotAcknowledged      NoticeKind = "eid-not-acknowledged"      // a Map-Server acknowledges others, but not this one
	NoticeDuplicateEID            NoticeKind = "duplicate-eid"             // another router registers an EID-Prefix of ours, and we do not know of it
	NoticeDuplicateEIDEnded       NoticeKind = "duplicate-eid-ended"       // it does no more
	NoticeMapRequestSent          NoticeKind = "map-request-sent"          // the ITR asks
	NoticeMapRequestForwarded     NoticeKind = "map-request-forwarded"     // the mapping system passes one on
	NoticeMapResolverSilent       NoticeKind = "map-resolver-silent"       // several Map-Requests to it in a row got no answer
	NoticeMapResolverAnswers      NoticeKind = "map-resolver-answers"      // it answered after that
	NoticeMapRequestUnanswered    NoticeKind = "map-request-unanswered"    // the ITR gives up for a while
	NoticeMapReplySent            NoticeKind = "map-reply-sent"            // by the ETR, or for it
	NoticeNegativeMapReplySent    NoticeKind = "negative-map-reply-sent"   // by the mapping system
	NoticeMapReplyReceived        NoticeKind = "map-reply-received"        // the ITR is answered
	NoticeMappingInstalled        NoticeKind = "mapping-installed"
	NoticeMappingRefreshed        NoticeKind = "mapping-refreshed" // asked for again in time, and the same as before
	NoticeMappingStale            NoticeKind = "mapping-stale"     // its TTL is over, the mapping system is silent, and its locators live
	NoticeMappingKept             NoticeKind = "mapping-kept"      // a Map-Reply says that it is not registered, but its locators live
	NoticeMappingLost             NoticeKind = "mapping-lost"      // an EID-Prefix in use that had locators lately is not registered
	NoticeMappingRemoved          NoticeKind = "mapping-removed"
	NoticeMappingLoop             NoticeKind = "mapping-loop"           // with two layers, a new mapping leads back to itself
	NoticePathsAmbiguous          NoticeKind = "paths-ambiguous"        // an RTR on several paths of a mapping cannot tell which one a packet is on
	NoticeSolicitMapRequestTaken  NoticeKind = "smr-received"           // an SMR about a cached mapping
	NoticeSolicitMapRequestSent   NoticeKind = "smr-sent"               // a mapping of ours changed
	NoticeMapVersionNotRaised     NoticeKind = "map-version-not-raised" // a mapping of ours changed, its Map-Version did not grow
	NoticeMapVersionInvalid       NoticeKind = "map-version-invalid"    // data packets have a Map-Version that our mapping never had
	NoticeMessageRefused          NoticeKind = "message-refused"
	NoticeRLOCProbeSent           NoticeKind = "rloc-probe-sent"
	NoticeRLOCProbeAnswered       NoticeKind = "rloc-probe-answered"
	NoticeRLOCProbeReplySent      NoticeKind = "rloc-probe-reply-sent"   // another router's RLOC-probe was answered
	NoticeLocatorSilent           NoticeKind = "locator-silent"          // packets come from it no more: it is probed
	NoticeLocatorDown             NoticeKind = "locator-down"            // nothing is sent there any more
	NoticeLocatorUnconfirmed      NoticeKind = "locator-unconfirmed"     // its probes are not answered: only what has no better locator is sent there
	NoticeLocatorUp               NoticeKind = "locator-up"              // it may be used again
	NoticePathMoved               NoticeKind = "path-moved"              // its packets go to another hop
	NoticeSiblingHeard            NoticeKind = "sibling-heard"           // another xTR of the site answers
	NoticeSiblingSilent           NoticeKind = "sibling-silent"          // it does no more
	NoticeSiblingPath             NoticeKind = "sibling-path"            // the site's packets go to it, because we have no path to the core
	NoticeSiblingPathEnded        NoticeKind = "sibling-path-ended"      // we have one again
	NoticeInfoRequestSent         NoticeKind = "info-request-sent"       // a node asks a Map-Server how it looks from there
	NoticeInfoRequestUnanswered   NoticeKind = "info-request-unanswered" // several times, without an answer
	NoticeInfoReplyReceived       NoticeKind = "info-reply-received"     // a node is answered
	NoticeInfoReplySent           NoticeKind = "info-reply-sent"         // by the Map-Server
	NoticeNATFound                NoticeKind = "nat-found"               // a NAT is between this router and a Map-Server, or it has another address
	NoticeNATGone                 NoticeKind = "nat-gone"                // there is none any more
	NoticeRTRChosen               NoticeKind = "rtr-chosen"              // a node registers by this RTR
	NoticeRTRLeft                 NoticeKind = "rtr-left"                // it registers without an RTR again
	NoticeRTRConfirmed            NoticeKind = "rtr-confirmed"           // the RTR knows the node's address
	NoticeRTRSilent               NoticeKind = "rtr-silent"              // it leaves keepalives, or Map-Registers, unanswered
	NoticeRTRAnswers              NoticeKind = "rtr-answers"             // it answers again
	NoticeNATBindingLost          NoticeKind = "nat-binding-lost"        // the RTR has another address and port for this node, or none
	NoticeMapRegisterRelayed      NoticeKind = "map-register-relayed"    // the RTR sends one on that may make or move a binding
	NoticeNATBindingMade          NoticeKind = "nat-binding-made"        // the RTR forwards packets of a node
	NoticeNATBindingMoved         NoticeKind = "nat-binding-moved"       // to another address or port of the NAT
	NoticeNATBindingRemoved       NoticeKind = "nat-binding-removed"     // and no more
	NoticeNATRLOCAdded            NoticeKind = "nat-rloc-added"          // the RTR forwards to another RLOC of a node as well
	NoticeNATRLOCRemoved          NoticeKind = "nat-rloc-removed"        // and no more; the node has others
	// a subflow of Multipath TCP has a path of its own
	NoticeSubflowBound NoticeKind = "subflow-bound"
	NoticeSubflowMoved NoticeKind = "subflow-moved" // to another path
	NoticeSubflowEnded NoticeKind = "subflow-ended" // it is bound no more
)

// IsChange reports whether an event is the change of a state that lasts: rarer than messages,
// and what an operator has to know.
func (k NoticeKind) IsChange() bool {
	switch k {
	case NoticeRegistrationExpired, NoticeDuplicateEID, NoticeDuplicateEIDEnded, NoticeMapNotifyUnacknowledged, NoticeMapServerSilent, NoticeEIDNotAcknowledged, NoticeMapNotifyReceived,
		NoticeMapResolverSilent, NoticeMapResolverAnswers, NoticeMapRequestUnanswered, NoticeMapVersionNotRaised,
		NoticeLocatorDown, NoticeLocatorUnconfirmed, NoticeLocatorUp, NoticeMappingKept, NoticeMappingLost, NoticeMappingStale, NoticeMappingLoop, NoticePathsAmbiguous, NoticeSiblingHeard, NoticeSiblingSilent, NoticeSiblingPath, NoticeSiblingPathEnded,
		NoticeNATFound, NoticeNATGone, NoticeRTRChosen, NoticeRTRLeft, NoticeRTRConfirmed, NoticeRTRSilent, NoticeRTRAnswers, NoticeNATBindingLost,
		NoticeNATBindingMoved, NoticeNATBindingRemoved, NoticeNATRLOCRemoved:
		return true
	}
	return false
}

func (Notice) effect() {}
