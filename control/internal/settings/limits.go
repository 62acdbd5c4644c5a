// SPDX-License-Identifier: Apache-2.0

package settings

// Limits: how much others may make a Node work and keep (RFC 9301 s.5.3,
// s.5.4, s.6.1, s.9). The limits that an RFC states with MUST are constants, the
// recommended ones and the sizes of tables are configuration. Buckets are one
// word each, and their tables are bounded.

import (
	"time"

	"loci/control/internal/timing"
)

// The limits that are no matter of configuration.
const (
	// MapRequestInterval: at most one Map-Request a second for an EID-Prefix.
	MapRequestInterval = time.Second
	// SettledGrid: what is kept for that second is forgotten at such times. Else each resolution would need an event-loop iteration of its own, a second
	// after its Map-Request, and where packets miss at a steady pace that is in the midst of another one.
	SettledGrid = timing.Instant(100 * time.Millisecond)
	// MapRequestTries unanswered Map-Requests are followed by a pause of
	// MapRequestHoldDown (RFC 9301 s.5.3).
	MapRequestTries    = 10
	MapRequestHoldDown = 30 * time.Second
	// An unacknowledged Map-Register is sent again after one second, then after
	// twice as long each time, a minute at most (RFC 9301 s.5.7).
	RegisterRetransmitFirst = time.Second
	RegisterRetransmitMax   = time.Minute
	// RegisterQuestionMax is the maximum for one Map-Register to each Map-Server that acknowledges nothing: less a
	// jitter, it goes every three seconds, the rate of RFC 8085 s.3.1.1 to one that does not answer.
	RegisterQuestionMax = 3500 * time.Millisecond
	// UsageDelay is how late the use of a map-cache entry may be reported.
	UsageDelay = 30 * time.Second
	// StaleUse is how lately a stale map-cache entry must have been of use. Its use may be reported UsageDelay
	// later.
	StaleUse = time.Minute
	// Control packets where the path's MTU is unknown (RFC 9301 s.5).
	ControlPacketOctetsIPv4 = 576
	ControlPacketOctetsIPv6 = 1280
	// The Negative Map-Reply's lifetimes (RFC 9301 s.8.3, s.8.4).
	NegativeTTLMinutes     = 15
	UnregisteredTTLMinutes = 1
)

const (
	// MaxMessageOctets is the longest control message that is looked at: what a
	// jumbo frame holds.
	MaxMessageOctets = 9216
	// MaxRequestRecords is how many records of a Map-Request are answered; senders
	// MUST send one (RFC 9301 s.5.2).
	MaxRequestRecords = 16
	// TimeoutBatch bounds the deadlines that one HandleTimeout works off, so that a
	// event-loop iteration stays short however many end at once.
	TimeoutBatch = 128
)

// RefusalNotices bounds the notices about refused messages.
func RefusalNotices() timing.Rate { return timing.Rate{PerSecond: 10, Burst: 50} }

// FlowReplies bounds the answers with the path of a flow, all together. Each flow has a rate of its own, and their
// number is the sender's choice: they leave the others the larger part of the Map-Replies.
func FlowReplies() timing.Rate { return timing.Rate{PerSecond: 5000, Burst: 5000} }

// ChangeNotices bounds the notices about changes of state.
func ChangeNotices() timing.Rate { return timing.Rate{PerSecond: 50, Burst: 200} }

// ProbeNotices bounds the notices about RLOC-probes.
func ProbeNotices() timing.Rate { return timing.Rate{PerSecond: 20, Burst: 100} }

// Limits bound what others can make a Node do and keep. A zero field is the
// default of DefaultLimits.
type Limits struct {
	MapReplies       timing.Rate // for one destination RLOC and EID-Prefix
	ProbeReplies     timing.Rate // answers to RLOC-probes, for one destination RLOC and EID-Prefix
	MapRepliesTotal  timing.Rate
	MapRequestsTotal timing.Rate // sent by the ITR, all EID-Prefixes together
	NegativeReplies  timing.Rate // negative Map-Replies, all together
	MapNotifies      timing.Rate // for one source of Map-Registers
	MapRegisters     timing.Rate // sent to one Map-Server when the Database is registered anew
	SMRInvoked       timing.Rate // Map-Requests that SMRs cause, for one EID-Prefix
	SMRs             timing.Rate // Solicit-Map-Requests that we send, to one destination RLOC
	SMRsTotal        timing.Rate
	RLOCProbes       timing.Rate // all of them together
	Notices          timing.Rate

	RateTable             int // keys of each table of buckets
	MapCacheEntries       int
	Locators              int // RLOCs of the map-cache whose state is kept
	SMRPeers              int // RLOCs that are told of our changes, and as many that asked for our mappings
	PendingRequests       int // EID-Prefixes with a Map-Request under way or in its pause
	Registrations         int // EID-Prefixes in all
	RegistrationsPerSite  int
	RegistrantsPerPrefix  int // xTRs that register the same EID-Prefix
	ReplayEntriesPerSite  int // (xTR, key) pairs whose last nonce is kept
	Notifications         int // Map-Notifies that are not acknowledged yet
	MoreSpecificsPerReply int // records of one Map-Reply
}

// DefaultLimits follows the RECOMMENDED limits of RFC 9301 with a small burst, so
// that one lost packet does not cost seconds, and suits a router of a million
// mappings. RLOC-probes are answered more often than Map-Requests: their retries are
// a second apart.
func DefaultLimits() Limits {
	return Limits{
		MapReplies:       timing.Rate{PerSecond: 1.0 / 3, Burst: 3},
		ProbeReplies:     timing.Rate{PerSecond: 1, Burst: 5},
		MapRepliesTotal:  timing.Rate{PerSecond: 20000, Burst: 20000},
		MapRequestsTotal: timing.Rate{PerSecond: 25000, Burst: 25000},
		NegativeReplies:  timing.Rate{PerSecond: 10000, Burst: 10000},
		MapNotifies:      timing.Rate{PerSecond: 1000, Burst: 10000},
		MapRegisters:     timing.Rate{PerSecond: 2000, Burst: 200},
		SMRInvoked:       timing.Rate{PerSecond: 1.0 / 3, Burst: 3},
		SMRs:             timing.Rate{PerSecond: 1.0 / 3, Burst: 4}, // a dual-stack site has two EID-Prefixes at least
		SMRsTotal:        timing.Rate{PerSecond: 2000, Burst: 200},
		RLOCProbes:       timing.Rate{PerSecond: 2000, Burst: 200},
		Notices:          timing.Rate{PerSecond: 200, Burst: 1000},

		RateTable:             1 << 18,
		MapCacheEntries:       1 << 20,
		Locators:              1 << 16,
		SMRPeers:              1 << 13,
		PendingRequests:       1 << 16,
		Registrations:         2 << 20,
		RegistrationsPerSite:  2 << 20,
		RegistrantsPerPrefix:  16,
		ReplayEntriesPerSite:  4096,
		Notifications:         1 << 14,
		MoreSpecificsPerReply: 64,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	defaultRates, defaultSizes := d.rates(), d.sizes()
	for i, r := range l.rates() {
		if *r == (timing.Rate{}) {
			*r = *defaultRates[i]
		}
	}
	for i, n := range l.sizes() {
		if *n == 0 {
			*n = *defaultSizes[i]
		}
	}
	return l
}

func (l *Limits) rates() []*timing.Rate {
	return []*timing.Rate{
		&l.MapReplies, &l.ProbeReplies, &l.MapRepliesTotal, &l.MapRequestsTotal, &l.NegativeReplies, &l.MapNotifies, &l.MapRegisters, &l.SMRInvoked, &l.SMRs, &l.SMRsTotal, &l.RLOCProbes, &l.Notices,
	}
}

func (l *Limits) sizes() []*int {
	return []*int{
		&l.RateTable, &l.MapCacheEntries, &l.Locators, &l.SMRPeers, &l.PendingRequests, &l.Registrations, &l.RegistrationsPerSite,
		&l.RegistrantsPerPrefix, &l.ReplayEntriesPerSite, &l.Notifications, &l.MoreSpecificsPerReply,
	}
}
