// SPDX-License-Identifier: Apache-2.0

package itr

// What data packets say about the locators of a mapping (RFC 9300 s.10), and by their Map-Versions (RFC 9302 s.7): who
// has an old mapping of ours is solicited, and an old mapping of theirs is asked for again. Whether the packet is
// forwarded is the data plane's to say.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/maprequest"
	"loci/control/internal/report"
	"loci/lisp"
)

// Trusts reports whether what only trusted networks may use is believed.
func (r *ITR) Trusts() bool { return !r.config.PublicInternet }

// endsAt reports whether an RLOC is an ETR of a locator-set: another sender numbers other locators, as where a static mapping leads to
// relays.
func endsAt(set lisp.LocatorSet, from lisp.RLOC) bool {
	return slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Path().Last().Addr() == from.Addr() })
}

// HandleStatusBits takes over the Locator-Status-Bits of a data packet.
func (r *ITR) HandleStatusBits(s report.StatusBits) {
	_, e, ok := r.Cache.Get(s.Prefix)
	if !ok || e.Gleaned || !r.Trusts() || !endsAt(e.Mapping.Locators, s.From) { // the bits are by the places of a locator-set, which a gleaned mapping has not
		r.h.Count(counter.RefusedHint)
		return
	}
	for i, l := range e.Mapping.Locators[:min(len(e.Mapping.Locators), s.Count, lisp.MaxLocators)] {
		r.Prober.SetStatusBit(l.Path(), s.Prefix, s.Bits>>i&1 == 1)
	}
}

// HandleVersion compares the source version with the map-cache (RFC 9302 s.7.2).
func (r *ITR) HandleVersion(v report.MapVersions) {
	_, e, ok := r.Cache.Longest(lisp.HostPrefix(v.Instance, v.Source))
	if !ok || e.Static || lisp.CompareMapVersions(v.SourceVersion, e.Mapping.Version) <= 0 {
		return
	}
	r.h.Count(counter.MapVersionOutdated)
	r.Requester.AskForNews(maprequest.Request{Prefix: e.Mapping.Prefix}, e.Mapping.Prefix)
}
