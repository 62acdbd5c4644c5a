// SPDX-License-Identifier: Apache-2.0

package status

// What a Node knows of one destination, for `loci explain`.

import (
	"loci/control/internal/effect"
	"loci/control/internal/settings"
	"loci/lisp"
)

// Explanation is what a Node knows of a destination. What is nil or zero does not exist.
type Explanation struct {
	Own      *settings.DatabaseMapping // it is an EID of this site
	Entry    *MapCacheStatus           // the most specific mapping that covers it, as the site said it
	Told     lisp.Mapping              // the same as the data plane was told
	Covering []lisp.Prefix             // entries that are less specific than Entry, the nearest first
	// MoreSpecific counts entries within Entry that do not cover the destination.
	MoreSpecific int
	Locators     []ExplainedLocator // of Told, in the order of the set
	Lost         *LostMapping       // Entry is negative, is in use, and had locators lately
	Skipped      []SkippedLocator   // of the Map-Reply, which Entry does not have
	Pending      *PendingRequest    // for it, or for Entry
	ITR          bool               // there is an ITR at all
	Resolvers    []MapResolverStatus
}

// SkippedLocator is a locator of a Map-Reply that an ITR cannot send packets to: its address and the reason, in words.
type SkippedLocator struct{ Address, Reason string }

// ExplainedLocator is a locator of a mapping with what decides whether it is used.
type ExplainedLocator struct {
	Locator lisp.Locator // as the data plane was told
	Said    lisp.Locator // as the site said; the same where no policy fits
	Policy  int          // index of ITRConfig.LocatorPolicies that fits, -1 for none
	State   *LocatorStatus
	Hops    []LocatorStatus // of a path: those of its hops that RLOC-probes or packets tell of
	// NotUsable says why no packet can take the path, whatever the priority; empty where packets can. The data plane was told a
	// priority of 255 where no hop could change that.
	NotUsable effect.LocatorReason
	// SkippedHops are those of a path between this router and the hop that it sends to.
	SkippedHops []SkippedHop
	// OffPath says that this router relays, and does not stand on the path, which stays because nothing else is left: relayed packets
	// are dropped. With RelaysAlone there are no EIDs of this router whose packets could take it.
	OffPath, RelaysAlone bool
	// SecondLayers is what becomes of packets where RLOCs are looked up, by each locator of the mapping that covers this one's next hop.
	SecondLayers []SecondLayer
}

// SecondLayer is what becomes of packets to an RLOC that is an EID (RFC 9300 s.4), by one of the locators that its mapping has.
type SecondLayer struct {
	RLOC    lisp.RLOC
	Prefix  lisp.Prefix // the mapping of Instance-ID 0 that covers it
	Through lisp.RLOC   // where that one sends
	// Problem says why packets are dropped, as the data plane does; empty where they get the second layer.
	Problem effect.LocatorReason
	// LeadsBack says that the mappings come back to one of them, or to this router.
	LeadsBack bool
}

// SkippedHop is a hop of a path that packets are not sent to, though it comes before the one that they are sent to.
type SkippedHop struct {
	RLOC   lisp.RLOC
	Reason effect.LocatorReason
}
