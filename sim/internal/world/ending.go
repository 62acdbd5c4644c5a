// SPDX-License-Identifier: Apache-2.0

package world

// What endings need: two sites that nothing else has happened to, flows between them, and TTLs that outlive what follows.

import (
	"time"

	"loci/sim/internal/report"
	"loci/sim/internal/sites"
)

const (
	// lastTTLMinutes is the TTL of the mappings of such sites. It is asked for again a minute before its end: after a registration
	// has expired, and before the run ends.
	lastTTLMinutes = 6
	// LastPrepares is how long the new TTL may take to reach all caches.
	LastPrepares = report.MaxTTLMinutes*time.Minute + 10*time.Second
	// LastFor ends before the first TTL does.
	LastFor = lastTTLMinutes*time.Minute - LastPrepares - 10*time.Second
	// LastInterval is between two packets of such a flow.
	LastInterval = 2 * time.Second
)

// endsAt is when the run is over.
func (w *World) endsAt() time.Duration {
	if w.ending != nil {
		return w.Options.Duration + w.ending.Lasts()
	}
	return w.Options.Duration
}

// Outlive gives the mappings of two sites a TTL that outlives what follows, and those of sites whose EID-Prefixes overlap theirs: all
// records of a Map-Reply have the shortest of their TTLs (RFC 9301 s.5.5).
func (w *World) Outlive(a, b *sites.Site) {
	for _, s := range w.Sites {
		if s.Overlaps(a) || s.Overlaps(b) {
			s.TtlMinutes = lastTTLMinutes
			w.Configure(s)
		}
	}
}
