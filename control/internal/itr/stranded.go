// SPDX-License-Identifier: Apache-2.0

package itr

// Mappings none of whose locators answers RLOC-probes: their site may have others by now,
// and not have told us. It does not know who sends packets to it one way only while a
// Map-Server answers for it, and SMRs get lost (RFC 9301 s.6.1). So the mapping system is
// asked again, before the TTL ends, less and less often as long as it says the same.
// Nothing here judges a locator.

import (
	"loci/control/internal/counter"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/reach"
	"loci/control/internal/timing"
)

// renewGapMax is how many RLOC-probes of a mapping's first locator at most lie between two
// Map-Requests for it.
const renewGapMax = 16

// Renewals bounds the Map-Requests for such mappings: a core that is cut off leaves all of
// them without a locator at once.
func Renewals() timing.Rate { return timing.Rate{PerSecond: 100, Burst: 100} }

// renew asks for a mapping without a locator that answers, when it is its time.
func (r *ITR) renew(l *reach.Locator, e *mapcache.Entry) {
	w := &l.Probes.Renewal
	if e.Static || e.Gleaned || !r.Prober.IsStranded(e.Mapping.Locators, l.RLOC) {
		*w = reach.Renewal{}
		return
	}
	if w.Prefix != e.Mapping.Prefix {
		*w = reach.Renewal{Prefix: e.Mapping.Prefix, Gap: 1}
	}
	switch {
	case w.In > 0:
		w.In--
	case !r.Requester.Resolvers.WorthAsking(), !r.renewals.Take(r.h.Now, Renewals()):
		// at the next RLOC-probe
	case r.Requester.Ask(maprequest.Request{Prefix: e.Mapping.Prefix}):
		r.h.Count(counter.MappingStranded)
		w.In = w.Gap
		w.Gap = min(2*w.Gap, renewGapMax)
	}
}
