// SPDX-License-Identifier: Apache-2.0

package control

// Mappings none of whose locators answers RLOC-probes: their site may have others by now,
// and not have told us. It does not know who sends packets to it one way only while a
// Map-Server answers for it, and SMRs get lost (RFC 9301 s.6.1). So the mapping system is
// asked again, before the TTL ends, less and less often as long as it says the same.
// Nothing here judges a locator.

// renewGapMax is how many RLOC-probes of a mapping's first locator at most lie between two
// Map-Requests for it.
const renewGapMax = 16

// renewals bounds the Map-Requests for such mappings: a core that is cut off leaves all of
// them without a locator at once.
func renewals() Rate { return Rate{PerSecond: 100, Burst: 100} }

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
