// SPDX-License-Identifier: Apache-2.0

package itr

// What a Node knows of one destination, for `loci explain`: the Database, the map-cache
// entry that decides and those around it, its locators with their states and policies, and
// a Map-Request under way (RFC 9300 s.9, RFC 9301 s.5.4, s.5.5). It changes nothing, and
// looks at a bounded number of entries.

import (
	"slices"

	"loci/control/internal/effect"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/lisp"
)

// explainedSpecifics bounds the more specific entries that are counted.
const explainedSpecifics = 256

// ExplainEntry fills in what the map-cache has.
func (r *ITR) ExplainEntry(host lisp.Prefix, e *status.Explanation) {
	_, entry, ok := r.Cache.Longest(host)
	if !ok {
		return
	}
	told := r.Cache.Entry(entry)
	status := r.entryStatus(entry)
	status.Mapping = entry.Mapping
	e.Entry, e.Told = &status, told.Mapping
	if l, lost := r.lostStatus(entry.Mapping.Prefix, r.Cache.Lost.NextOf(entry.Mapping.Prefix)); lost {
		e.Lost = &l
	}
	e.Skipped = r.Cache.skipped[entry.Mapping.Prefix]
	e.Covering = r.Cache.covering(entry.Mapping.Prefix)
	for p := range r.Cache.Index.Subtree(entry.Mapping.Prefix) {
		if p != entry.Mapping.Prefix {
			e.MoreSpecific++
		}
		if e.MoreSpecific == explainedSpecifics {
			break
		}
	}
	for _, l := range told.Mapping.Locators {
		e.Locators = append(e.Locators, r.explainLocator(entry.Mapping, l, entry.Static))
	}
}

func (r *ITR) explainLocator(m lisp.Mapping, told lisp.Locator, static bool) status.ExplainedLocator {
	x := status.ExplainedLocator{Locator: told, Said: told, Policy: -1}
	if at := slices.IndexFunc(m.Locators, func(l lisp.Locator) bool { return l.Path() == told.Path() }); at >= 0 {
		x.Said = m.Locators[at]
		x.Policy = slices.IndexFunc(r.config.LocatorPolicies, func(p settings.LocatorPolicy) bool { return p.Fits(m.Prefix, told.RLOC) })
	}
	x.State = r.Prober.Table.PathStatus(told.Path())
	if !told.Path().IsPlain() {
		for _, hop := range told.Path().Hops() {
			if s := r.Prober.Table.PathStatus(lisp.PathTo(hop)); s != nil {
				x.Hops = append(x.Hops, *s)
			}
		}
	}
	x.SecondLayers = r.Cache.secondLayers(lisp.LocatorSet{told})
	x.NotUsable = effect.LocatorReason(r.Prober.Table.Paths.Choose(&x.Said).Reason)
	if !static && r.Prober.Private.Withholds(&m, &x.Said) {
		x.NotUsable = effect.LocatorPrivate
	}
	x.SkippedHops = r.Prober.Table.Paths.SkippedHops(&x.Said)
	if x.NotUsable != "" || !r.Cache.isOffPath(&told) {
		return x
	}
	switch alone, relays := r.h.Relaying[m.Prefix.Instance()]; {
	case told.Priority == lisp.PriorityUnused && x.Said.Usable():
		x.NotUsable = effect.PathNotOnPath
	case relays:
		x.OffPath, x.RelaysAlone = true, alone
	}
	return x
}
