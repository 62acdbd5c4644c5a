// SPDX-License-Identifier: Apache-2.0

package world

// What endings need: two sites that nothing else has happened to, flows between them, and TTLs that outlive what follows.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/report"
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

// MayEnd reports whether something may happen at last: there were faults, and tables have room.
func (w *World) MayEnd() bool { return w.Options.FaultsEnd() > 0 && !w.Flavour.tight }

// isEnding reports whether something has begun that nothing comes after, and to which convergence does not apply.
func (w *World) isEnding() bool { return w.ending != nil && w.ending.Begun() }

// MayEnd leaves sites out that something has happened to, and those with siblings, which have an ending of their own.
func (s *Site) MayEnd() bool {
	return !s.Siblings && s.IsUntouched()
}

// IsUntouched reports whether no relay stands in the way of the site's packets, and the mapping system knows it.
func (s *Site) IsUntouched() bool {
	return s.Via.none() && s.Barred == 0 && s.Withdrawn == 0
}

// IsAcknowledged reports whether Map-Servers acknowledge all that the site registers.
func (s *Site) IsAcknowledged() bool { return s.notify && s.strange.IsZero() }

// Outlive gives the mappings of two sites a TTL that outlives what follows, and those of sites whose EID-Prefixes overlap theirs: all
// records of a Map-Reply have the shortest of their TTLs (RFC 9301 s.5.5).
func (w *World) Outlive(a, b *Site) {
	for _, s := range w.Sites {
		if s.overlaps(a) || s.overlaps(b) {
			s.ttlMinutes = lastTTLMinutes
			s.Configure()
		}
	}
}

// overlaps reports whether an EID-Prefix of one site covers one of the other, or is the same.
func (s *Site) overlaps(other *Site) bool {
	within := func(a, b *Site) bool {
		return slices.ContainsFunc(a.Prefixes, func(p *SitePrefix) bool { return b.Contains(p.Prefix) })
	}
	return within(s, other) || within(other, s)
}

// NewFlow is a flow by a tunnel router between hosts, to that site.
func NewFlow(by *Router, source, to netip.Addr, destination *Site) *Flow {
	return &Flow{from: by, source: source, to: to, Destination: destination}
}

// To is the host that a flow's packets go to.
func (f *Flow) To() netip.Addr { return f.to }

// From is the tunnel router, or PITR, that a flow's packets take.
func (f *Flow) From() *Router { return f.from }

// Back is the flow the other way, by the first tunnel router of the site.
func (f *Flow) Back() *Flow {
	return &Flow{from: f.Destination.XTRs[0], source: f.to, to: f.source, Destination: f.from.Site}
}

// String is a flow in words.
func (f *Flow) String() string { return f.source.String() + " to " + f.to.String() }

// MappingFor is the mapping that a router has for a flow.
func MappingFor(f *Flow, by *Router) (e control.MapCacheEntry, known bool) {
	return by.Mirror.Longest(f.instance(), lisp.EIDFromAddr(f.to))
}
