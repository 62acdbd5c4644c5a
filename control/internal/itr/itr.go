// SPDX-License-Identifier: Apache-2.0

package itr

// The ITR: resolves what the data plane misses and keeps the map-cache (RFC 9300
// s.5 to s.9, RFC 9301 s.5.2, s.5.3, s.5.5, s.6.1, s.8.1). Locators are chosen per
// flow by the data plane. It never answers a Map-Request, and never takes a
// Map-Reply that it did not ask for.

import (
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/mapcache"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

// ITR is the role with its tables.
type ITR struct {
	h         *system.System
	config    *settings.ITRConfig
	Cache     mapcache.Cache
	Pending   *pendingRequests
	Resolvers resolvers
	requests  timing.Bucket
	Smrs      timing.Buckets[lisp.Prefix]
	gleans    timing.Bucket
	renewals  timing.Bucket
	last      lisp.Prefix // asked for
	Prober    *reach.Prober
	Sweeps    sweeps
	Statics   statics
	Own       func() lisp.Prefix // an EID-Prefix of our own, zero for none
}

// Refreshing begins a quarter of the TTL before its end, refreshLead at most, for
// entries that forwarded something in that time and a reporting delay.
const (
	refreshLead       = time.Minute
	requestBackoffMax = 3 // doublings of MapRequestInterval
	// reinstallAfter is how old an entry must be before a miss that it covers means
	// that the data plane lost it, and not that miss and Map-Reply crossed.
	reinstallAfter = 2 * time.Second
)

// New makes an ITR with an empty map-cache.
func New(h *system.System) *ITR {
	r := &ITR{h: h, config: &settings.ITRConfig{}, Pending: newPendingRequests(), Resolvers: resolvers{H: h}}
	r.Prober = reach.New(h, &r.Cache)
	return r
}

// StaticChange is how the static mappings differ from those before.
type StaticChange struct {
	Gone   []lisp.Prefix // static before, and not now
	Wanted map[lisp.Prefix]struct{}
}

// statics is the pass under way.
type statics struct {
	gone   []lisp.Prefix // to be taken out, unless wanted says otherwise by now
	wanted map[lisp.Prefix]struct{}
	To     []lisp.Mapping // to be put in
	Work   batch.Work
}

// Sweep is one pass over the rows of the map-cache.
type Sweep struct {
	Reinstall  bool // tell the data plane every entry anew
	reschedule bool // work out every entry's deadline anew; the rest is for wide replies
	startedAt  timing.Instant
	Cursor     uint32
	asked      lisp.Prefix
	whole      lisp.Prefix // what the reply speaks of
	records    []sweptRecord
}

// sweptRecord is a record of a wide reply, and when it expires because of what it covers.
type sweptRecord struct {
	prefix    lisp.Prefix
	expiresAt timing.Instant
}

// sweeps are the passes that wait, the first under way.
type sweeps struct {
	Queue []Sweep
	Work  batch.Work
}
