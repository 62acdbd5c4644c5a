// SPDX-License-Identifier: Apache-2.0

package control

// Mappings none of whose locators answers RLOC-probes: their site may have others by now,
// and not have told us. It does not know who sends packets to it one way only while a
// Map-Server answers for it, and SMRs get lost (RFC 9301 s.6.1). So the mapping system is
// asked again, before the TTL ends, less and less often as long as it says the same.
// Nothing here judges a locator.

import "loci/lisp"

// renewGapMax is how many RLOC-probes of a mapping's first locator at most lie between two
// Map-Requests for it.
const renewGapMax = 16

// renewals bounds the Map-Requests for such mappings: a core that is cut off leaves all of
// them without a locator at once.
func renewals() Rate { return Rate{PerSecond: 100, Burst: 100} }

// renewal is when the mapping of a locator is asked for again.
type renewal struct {
	prefix lisp.Prefix
	in     uint8 // RLOC-probes
	gap    uint8
}

// isStranded reports whether every locator of a set was judged, and none answers as yet. Its first
// one is asked for all of them.
func (p *prober) isStranded(set lisp.LocatorSet, by lisp.RLOC) bool {
	first := true
	for _, l := range set {
		if !l.Usable() {
			continue
		}
		_, row, known := p.table.get(l.RLOC)
		if !known || !row.isFallen() || first && l.RLOC != by {
			return false
		}
		first = false
	}
	return !first
}

// renew asks for a mapping without a locator that answers, when it is its time.
func (r *itr) renew(l *locator, e *cacheEntry) {
	w := &l.probes.renewal
	if e.static || e.gleaned || !r.prober.isStranded(e.mapping.Locators, l.rloc) {
		*w = renewal{}
		return
	}
	if w.prefix != e.mapping.Prefix {
		*w = renewal{prefix: e.mapping.Prefix, gap: 1}
	}
	switch {
	case w.in > 0:
		w.in--
	case !r.resolvers.worthAsking(), !r.renewals.take(r.h.now, renewals()):
		// at the next RLOC-probe
	case r.ask(pendingRequest{prefix: e.mapping.Prefix}):
		r.h.count(MappingStranded)
		w.in = w.gap
		w.gap = min(2*w.gap, renewGapMax)
	}
}

// lookAgain makes the next RLOC-probe of locators that do not answer come soon, where another
// mapping came in place of one that had them: what else has them may have changed as well.
func (p *prober) lookAgain(set lisp.LocatorSet) {
	for _, l := range set {
		id, row, known := p.table.get(l.RLOC)
		if known && row.isFallen() && p.probes(l.RLOC) {
			p.table.timers.set(id, min(p.table.timers.of(id), p.h.after(p.config.RetriesInterval)))
		}
	}
}
