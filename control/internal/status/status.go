// SPDX-License-Identifier: Apache-2.0

package status

// What a Node reports about itself: values for `loci show`. They are copies.

import (
	"net/netip"
	"time"

	"loci/control/internal/effect"
	"loci/lisp"
)

// MapCacheStatus is a map-cache entry with its state.
type MapCacheStatus struct {
	effect.MapCacheEntry
	State      MapCacheState
	LastUsedAt time.Time // zero when no use was reported
	From       netip.AddrPort
}

// KeptMapping is a mapping that is used though the mapping system says that it is not registered.
type KeptMapping struct {
	Prefix    lisp.Prefix
	Since     time.Time // of the first Map-Reply that said so
	ExpiresAt time.Time // it is used until then
}

// LostMapping is an EID-Prefix in use that is not registered, and had locators within the last hour.
type LostMapping struct {
	Prefix        lisp.Prefix
	Since         time.Time // of the first Map-Reply that said so
	HadUntil      time.Time // it had locators until then
	From          netip.AddrPort
	Action        lisp.Action // the answer
	ByProxyETR    bool        // its packets go to a proxy ETR
	NextRequestAt time.Time   // it is asked for again then
}

// DuplicateEID is an EID-Prefix of ours for which the mapping system has only RLOCs of another router.
type DuplicateEID struct {
	Prefix lisp.Prefix
	RLOC   lisp.RLOC      // of the other router
	From   netip.AddrPort // who answered so
	Since  time.Time      // of the first such answer
}

// RefusedRegistration is what a Map-Server refused from a sender lately: an EID-Prefix under a key that fits, or all that comes from
// the address of an ETR that registered before.
type RefusedRegistration struct {
	From           netip.AddrPort // of the last one
	Site           string         // known by a key or an EID-Prefix of its own; empty for none
	Prefix         lisp.Prefix    // zero where it is not known
	KeyFits        bool
	Reason, Detail string // of the last one
	Since, LastAt  time.Time
	Count          uint64
}

// StaleMapping is a mapping that is used past its TTL, because the mapping system says nothing about it.
type StaleMapping struct {
	Prefix lisp.Prefix
	Since  time.Time // the end of its TTL
	Until  time.Time // it is used no longer than that
}

// UnreachableMapping is a mapping of which the site calls no locator reachable: all R bits are 0 (RFC 9301 s.5.4).
type UnreachableMapping struct {
	Prefix lisp.Prefix
	From   netip.AddrPort // who said so
	Since  time.Time
}

// MapCacheState says what an entry of the map-cache is doing.
type MapCacheState string

// The states.
const (
	MapCacheStatic     MapCacheState = "static"
	MapCacheComplete   MapCacheState = "complete"
	MapCacheNegative   MapCacheState = "negative"
	MapCacheRefreshing MapCacheState = "refreshing"
	MapCacheGleaned    MapCacheState = "gleaned" // from a data packet, until the mapping system answers
	MapCacheStale      MapCacheState = "stale"   // used past its TTL, while the mapping system is silent
)

// Registration is what one xTR registered for one EID-Prefix.
type Registration struct {
	Site              string
	Prefix            lisp.Prefix
	Mapping           lisp.Mapping // what this xTR registered
	Merged            lisp.Mapping // what is answered: several xTRs merged where they asked for it
	AsAnswered        bool         // that has just the locators that this xTR registered
	InForce           bool         // what this xTR registered is answered, by itself or merged with others
	FirstRegisteredAt time.Time
	LastRegisteredAt  time.Time
	ExpiresAt         time.Time
	From              netip.AddrPort
	ByRTR             bool     // that is an RTR which is offered to routers behind NATs
	XTRID             [16]byte // zero when none was sent
	SiteID            uint64
	KeyID             uint8
	Algorithm         uint8
	ProxyReply        bool
	UseTTL            bool
	MergeRequest      bool
	WantMapNotify     bool
}

// MapServerStatus is how the registration with one Map-Server stands.
type MapServerStatus struct {
	Address        netip.AddrPort
	Site           string // whose EID-Prefixes, as configured; may be empty
	State          MapServerState
	Prefixes       int       // EID-Prefixes registered with it
	LastSentAt     time.Time // last Map-Register
	LastNotifyAt   time.Time // last Map-Notify that answered one
	NextSendAt     time.Time
	Unacknowledged int                 // Map-Registers since the last Map-Notify, when one is wanted
	Lacking        []UnacknowledgedEID // the first of LackingCount
	LackingCount   int
}

// UnacknowledgedEID is an EID-Prefix that a Map-Server does not acknowledge.
type UnacknowledgedEID struct {
	Prefix lisp.Prefix
	Since  time.Time // when the first Map-Register was sent that it did not acknowledge
}

// MapServerState says whether a Map-Server has our registration.
type MapServerState string

// The states. Without WantMapNotify no more than "sent" is known.
const (
	MapServerIdle       MapServerState = "idle" // nothing to register
	MapServerSent       MapServerState = "sent"
	MapServerWaiting    MapServerState = "waiting" // for a Map-Notify
	MapServerRegistered MapServerState = "registered"
	MapServerPartial    MapServerState = "partial" // some EID-Prefixes it does not acknowledge, all others it does
)

// MapResolverStatus is how things stand with one Map-Resolver of the ITR.
type MapResolverStatus struct {
	Address        netip.AddrPort
	State          MapResolverState
	ChangedAt      time.Time     // of the state, zero before the first answer or silence
	RoundTrip      time.Duration // exponential average of the time to a Map-Reply, 0 before the first
	LastReplyAt    time.Time     // zero for never
	Sent, Answered uint64        // Map-Requests
}

// MapResolverState says whether a Map-Resolver answers.
type MapResolverState string

// The states. A silent one is asked after the others.
const (
	MapResolverUnknown MapResolverState = "unknown"
	MapResolverAnswers MapResolverState = "answers"
	MapResolverSilent  MapResolverState = "silent"
)

// LocatorStatus is how things stand with one locator of the map-cache, or with a hop of its paths.
type LocatorStatus struct {
	RLOC           lisp.RLOC
	Behind         lisp.Hops     // the other hops of a path; it has no RLOC-probes of its own, its hops have
	Bits           lisp.PathBits // of a path
	Next           uint8         // of a path: the hop that packets are sent to
	State          effect.LocatorState
	Told           effect.LocatorState // to the data plane, as SetLocatorState says it
	Reason         effect.LocatorReason
	ChangedAt      time.Time   // of the state
	HeldUntil      time.Time   // not up before, because it flapped; zero when not held
	Mappings       int         // of the map-cache with this RLOC
	Prefix         lisp.Prefix // the one that probes name
	ProxyETR       bool        // it is one
	Peer           bool        // it is probed though no mapping names it
	ProbesSent     uint64
	ProbesAnswered uint64
	LastProbeAt    time.Time // zero for never, as the next two
	LastReplyAt    time.Time
	NextProbeAt    time.Time
	LastHeardAt    time.Time // when data packets last came from it, as the data plane reports; zero for never
	Silent         bool      // it was probed because none has come since, while packets are sent to it
	RoundTrip      RoundTrip
}

// PendingRequest is a resolution under way.
type PendingRequest struct {
	Prefix      lisp.Prefix
	Source      lisp.EID // zero for refreshes
	SMRInvoked  bool
	Tries       int
	MapResolver netip.AddrPort // the one asked last
	StartedAt   time.Time
	NextAt      time.Time
	State       PendingState
}

// PendingState says what a resolution waits for.
type PendingState string

// The states.
const (
	PendingWaiting  PendingState = "waiting"   // for a Map-Reply
	PendingHoldDown PendingState = "hold-down" // not answered; tried again after a pause
	PendingSettled  PendingState = "settled"   // answered; kept for the rate limit's second
)

// SiblingPathReason says why the site's packets go to a sibling.
type SiblingPathReason string

// The reasons.
const (
	SiblingPathNone SiblingPathReason = ""
	// The host can use none of our RLOCs.
	SiblingPathRLOCsDown SiblingPathReason = "own-rlocs-down"
	// It can again, and the core has not answered us from them yet.
	SiblingPathUnproven SiblingPathReason = "own-rlocs-unproven"
	// No RLOC in the core answers any more, and one answers the sibling.
	SiblingPathNoCore SiblingPathReason = "core-unanswered"
	// None answers the sibling either, and data packets come only to the sibling.
	SiblingPathNoData SiblingPathReason = "no-data-packets"
)

// SiblingPathStatus says who gets the site's packets.
type SiblingPathStatus struct {
	To    netip.Addr // zero: none, we have a path
	Why   SiblingPathReason
	Since time.Time // of either; zero when it was never otherwise
	// UnansweredSince is when the core last answered, while it does not; zero while it does.
	UnansweredSince time.Time
}

// SiblingStatus is what is known of a sibling.
type SiblingStatus struct {
	Address          netip.Addr
	Answers          bool
	HeardAt          time.Time // zero for never
	Locators         []SiblingLocator
	SiblingPathTaken bool // it gets the site's packets
	// CoreAskedAt is when it last said whether the core answers it, CoreAnswers what it said, DataAt when data packets last
	// came to it; zero where it did not say so.
	CoreAskedAt time.Time
	CoreAnswers bool
	DataAt      time.Time
}

// SiblingLocator is a sibling's own locator, as it says.
type SiblingLocator struct {
	RLOC      lisp.RLOC
	Reachable bool
}

// RoundTrip sums up the round-trip times of a locator; zero values without samples.
type RoundTrip struct {
	Samples                 int           // ever
	Last                    time.Duration // of the last answer
	Average                 time.Duration // exponential, a new sample counts an eighth
	Median, Percentile90    time.Duration // of the last 64 samples
	Percentile99, Min, Most time.Duration // of the last 64 samples
}
