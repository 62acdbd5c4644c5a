// SPDX-License-Identifier: Apache-2.0

package forward

// Why a packet is dropped: one list for programs, user space, metrics and
// documentation. Numbers and names are those of enum lisp_drop in bpf/abi_counters.h; a
// test holds the two together. This file never decides what is dropped.

import "fmt"

// DropReason says why a packet was dropped. Its text names the counter.
type DropReason uint8

// The reasons. DropNone means that a packet is not dropped.
const (
	DropNone DropReason = 0

	// Towards the core.
	DropNoAction               DropReason = 1  // negative mapping, ACT 0, 6 or 7
	DropActionDrop             DropReason = 2  // negative mapping, ACT 3
	DropPolicyDenied           DropReason = 3  // negative mapping, ACT 4
	DropAuthenticationFailure  DropReason = 4  // negative mapping, ACT 5
	DropNoLocator              DropReason = 5  // no usable locator
	DropNoRoute                DropReason = 6  // no route to the RLOC
	DropNoTAP                  DropReason = 7  // has to wait and there is no TAP for pending packets
	DropEncapsulationFailed    DropReason = 8  // no room for the outer headers
	DropSourceNotEID           DropReason = 9  // sent to LISP though its source is not an own EID
	DropReleasedWithoutMapping DropReason = 10 // waited, but its mapping is gone again
	DropTAPOriginUnknown       DropReason = 11 // waited, but its interface is gone
	DropTTLExpired             DropReason = 12 // waited with TTL 0 or 1
	DropNoNativeRoute          DropReason = 13 // natively forwarded, but there is no route
	DropMiss                   DropReason = 14 // no mapping, and the policy is to drop
	DropNotForwardable         DropReason = 15 // not IP, multicast, broadcast or link-local
	DropBacklogSourceLimit     DropReason = 16 // the source has its share of the TAP's queue
	DropOwnNextHop             DropReason = 17 // the next hop is an own RLOC
	DropRecursionDepth         DropReason = 18 // needs more layers of encapsulation than there may be
	DropMappingLoop            DropReason = 19 // the RLOC is an EID whose mapping leads back to it

	// From the core.
	DropOuterMalformed      DropReason = 20 // lengths of the outer headers contradict each other
	DropLISPHeaderTruncated DropReason = 21
	DropReservedBit         DropReason = 22 // bit 5 of the LISP header, and what follows is neither IPv4 nor IPv6
	DropKeyID               DropReason = 23 // KK is not 00: encrypted
	DropInnerMalformed      DropReason = 24 // neither IPv4 nor IPv6, cut off, a wrong length, or a source that is no unicast address
	DropEIDNotInDatabase    DropReason = 25 // inner destination is not an own EID of the Instance-ID
	DropECN                 DropReason = 26 // RFC 6040 s.4.2: inner Not-ECT, outer CE
	DropDecapsulationFailed DropReason = 27 // the kernel could not shrink the packet
	DropDestinationVersion  DropReason = 28 // RFC 9302 s.7.1: newer than ours, or one of the two is Null
	DropStaleVersion        DropReason = 29 // RFC 9302 s.7.1: older than ours, after many Solicit-Map-Requests
	DropSourceVersion       DropReason = 30 // RFC 9302 s.7.2: older than what the map-cache has
	DropSourceRLOC          DropReason = 31 // the outer source is no locator of the inner source
	DropOtherInstance       DropReason = 32 // the site's routes lead to an interface of another Instance-ID
	DropNotInPolicy         DropReason = 33 // inner destination is no own EID, and no policy of an RTR or PETR covers the packet
	DropNotOnPath           DropReason = 34 // to be relayed by a path on which no own RLOC stands before the next hop
	DropControlSource       DropReason = 35 // Instance-ID 0xFFFFFF, and the outer source is none of the RTRs
	DropControlLimit        DropReason = 36 // Instance-ID 0xFFFFFF, too often or too long
	DropWaitingPacketsLimit DropReason = 40
	DropWaitingOctetsLimit  DropReason = 41
	DropWaitingTimeLimit    DropReason = 42
	DropWaitingSourceLimit  DropReason = 45 // the source takes more of the queue than it leaves free
	DropTooBig              DropReason = 43 // answered with Packet Too Big
	DropHandOverLimit       DropReason = 44 // the control plane does not take what it is handed

	// Both ways: denied by a list.
	DropDeniedSource           DropReason = 48
	DropDeniedDestination      DropReason = 49
	DropDeniedOuterSource      DropReason = 50
	DropDeniedOuterDestination DropReason = 51

	dropReasonsEnd = 64
)

var dropNames = map[DropReason]string{
	DropNone:                   "none",
	DropNoAction:               "no-action",
	DropActionDrop:             "action-drop",
	DropPolicyDenied:           "policy-denied",
	DropAuthenticationFailure:  "authentication-failure",
	DropNoLocator:              "no-locator",
	DropNoRoute:                "no-route",
	DropNoTAP:                  "no-tap",
	DropEncapsulationFailed:    "encapsulation-failed",
	DropSourceNotEID:           "source-not-eid",
	DropReleasedWithoutMapping: "released-without-mapping",
	DropTAPOriginUnknown:       "tap-origin-unknown",
	DropTTLExpired:             "ttl-expired",
	DropNoNativeRoute:          "no-native-route",
	DropMiss:                   "miss",
	DropNotForwardable:         "not-forwardable",
	DropBacklogSourceLimit:     "backlog-source-limit",
	DropOwnNextHop:             "own-next-hop",
	DropRecursionDepth:         "recursion-depth",
	DropMappingLoop:            "mapping-loop",
	DropOuterMalformed:         "outer-malformed",
	DropLISPHeaderTruncated:    "lisp-header-truncated",
	DropReservedBit:            "reserved-bit",
	DropKeyID:                  "key-id",
	DropInnerMalformed:         "inner-malformed",
	DropEIDNotInDatabase:       "eid-not-in-database",
	DropECN:                    "ecn",
	DropDecapsulationFailed:    "decapsulation-failed",
	DropDestinationVersion:     "destination-version",
	DropStaleVersion:           "stale-version",
	DropSourceVersion:          "source-version",
	DropSourceRLOC:             "source-rloc",
	DropOtherInstance:          "other-instance",
	DropNotInPolicy:            "not-in-policy",
	DropNotOnPath:              "not-on-path",
	DropControlSource:          "control-source",
	DropControlLimit:           "control-limit",
	DropWaitingPacketsLimit:    "waiting-packets-limit",
	DropWaitingOctetsLimit:     "waiting-octets-limit",
	DropWaitingTimeLimit:       "waiting-time-limit",
	DropWaitingSourceLimit:     "waiting-source-limit",
	DropTooBig:                 "too-big",
	DropHandOverLimit:          "hand-over-limit",
	DropDeniedSource:           "denied-source",
	DropDeniedDestination:      "denied-destination",
	DropDeniedOuterSource:      "denied-outer-source",
	DropDeniedOuterDestination: "denied-outer-destination",
}

// IsAction reports whether a negative map-cache entry is the reason, by its action.
func (r DropReason) IsAction() bool { return r >= DropNoAction && r <= DropAuthenticationFailure }

// String is the reason's name, "reason-N" when it has none.
func (r DropReason) String() string {
	if name, ok := dropNames[r]; ok {
		return name
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// DropReasons lists every reason for which a packet is dropped, by number.
func DropReasons() []DropReason {
	var all []DropReason
	for r := DropNone + 1; r < dropReasonsEnd; r++ {
		if _, ok := dropNames[r]; ok {
			all = append(all, r)
		}
	}
	return all
}
