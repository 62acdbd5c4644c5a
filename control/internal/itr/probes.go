// SPDX-License-Identifier: Apache-2.0

package itr

// What the answers to RLOC-probes mean for the map-cache (RFC 9301 s.7.1): they say
// what the site believes its mapping to be. That is a hint, no more: a mapping only
// comes into the map-cache from the mapping system.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/locatorset"
	"loci/control/internal/maprequest"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/lisp"
)

// handleProbeReply takes the answer to an RLOC-probe.
func (r *ITR) handleProbeReply(m *message.MapReply) {
	l, ok := r.Prober.HandleReply(m)
	if !ok {
		return
	}
	at := slices.IndexFunc(m.Mappings, func(m lisp.Mapping) bool { return m.Prefix == l.Prefix })
	if at < 0 {
		return
	}
	r.askForKept(l.RLOC)
	if e, cached := l.EntryIn(&r.Cache.Cache); cached && !e.Static && speaksForSite(e.Mapping.Locators, l.RLOC) {
		r.hearNews(l, e.Mapping, m.Mappings[at])
	}
}

// askForKept asks the mapping system again for the mappings of a site that it did not have, when the site's ETR answers: their
// registrations may be back.
func (r *ITR) askForKept(rloc lisp.RLOC) {
	for _, k := range r.KeptMappings() {
		if _, e, ok := r.Cache.Get(k.Prefix); ok && speaksForSite(e.Mapping.Locators, rloc) {
			r.Requester.Ask(maprequest.Request{Prefix: k.Prefix})
		}
	}
}

// speaksForSite reports whether a probed RLOC is the site's: a locator, or the last hop of one. What other hops of a path say of the
// mapping is their own view.
func speaksForSite(set lisp.LocatorSet, r lisp.RLOC) bool {
	return slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Path().Last() == r })
}

// hearNews asks the mapping system when a probed site tells of other locators than
// the cached ones; once for each thing that it tells, because two ETRs of one site may
// differ for ever.
func (r *ITR) hearNews(l *reach.Locator, cached, told lisp.Mapping) {
	if locatorset.SameButReplyBits(told.Locators, cached.Locators) {
		l.Probes.Differing = nil
		return
	}
	news := locatorset.WithoutReplyBits(told.Locators)
	switch {
	case len(news) == 0, lisp.CompareMapVersions(told.Version, cached.Version) < 0, slices.Equal(news, l.Probes.Differing):
		return
	case !r.Requester.AskForNews(maprequest.Request{Prefix: cached.Prefix}, cached.Prefix):
		return
	}
	l.Probes.Differing = news
	r.h.Count(counter.RLOCProbeNews)
}

// HandleProbeTimeout sends a locator's next RLOC-probe.
func (r *ITR) HandleProbeTimeout(id uint32) {
	l, unanswered, probed := r.Prober.Due(id)
	if unanswered != nil {
		r.renew(l, unanswered)
	}
	if probed {
		r.Prober.Send(id)
	}
}

// privateRLOCs are the private RLOCs beside RTRs, as the data plane gets them.
type privateRLOCs struct {
	cache     *mapCache
	requester *maprequest.Requester
}

// changed gives the data plane a mapping with the private RLOCs that answer about it now.
func (p privateRLOCs) changed(prefix lisp.Prefix) {
	if id, _, known := p.cache.Get(prefix); known {
		p.cache.emitInstall(id)
	}
}

// adopt brings them into line after a restart, which no answer outlives. A mapping in which one was not used is asked
// for anew: its priority was not kept.
func (p privateRLOCs) adopt(id uint32, kept lisp.LocatorSet) {
	e := p.cache.Entries.At(id)
	isWithheld := func(l lisp.Locator) bool { return l.Priority == lisp.PriorityUnused && l.RLOC.IsPrivate() }
	isRTR := func(l lisp.Locator) bool { return l.Priority == lisp.PriorityRTR && l.Usable() }
	if slices.ContainsFunc(kept, isWithheld) && slices.ContainsFunc(kept, isRTR) {
		p.requester.Ask(maprequest.Request{Prefix: e.Mapping.Prefix})
	}
	withholds := func(l lisp.Locator) bool { return p.cache.prober.Private.Withholds(&e.Mapping, &l) }
	if slices.ContainsFunc(e.Mapping.Locators, withholds) {
		p.cache.emitInstall(id)
	}
}
