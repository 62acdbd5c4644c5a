// SPDX-License-Identifier: Apache-2.0

package control

// What a Node knows of one destination, for `loci explain`: the Database, the map-cache
// entry that decides and those around it, its locators with their states and policies, and
// a Map-Request under way (RFC 9300 s.9, RFC 9301 s.5.4, s.5.5). It changes nothing, and
// looks at a bounded number of entries.

import (
	"slices"

	"loci/lisp"
)

// explainedSpecifics bounds the more specific entries that are counted.
const explainedSpecifics = 256

// explainEntry fills in what the map-cache has.
func (r *itr) explainEntry(host lisp.Prefix, e *Explanation) {
	_, entry, ok := r.cache.longest(host)
	if !ok {
		return
	}
	told := r.entry(entry)
	status := r.entryStatus(entry)
	status.Mapping = entry.mapping
	e.Entry, e.Told = &status, told.Mapping
	e.Covering = r.covering(entry.mapping.Prefix)
	for p := range r.cache.index.subtree(entry.mapping.Prefix) {
		if p != entry.mapping.Prefix {
			e.MoreSpecific++
		}
		if e.MoreSpecific == explainedSpecifics {
			break
		}
	}
	for _, l := range told.Mapping.Locators {
		e.Locators = append(e.Locators, r.explainLocator(entry.mapping, l))
	}
}

func (r *itr) explainLocator(m lisp.Mapping, told lisp.Locator) ExplainedLocator {
	x := ExplainedLocator{Locator: told, Said: told, Policy: -1}
	if said, ok := m.Locators.Find(told.RLOC); ok {
		x.Said = said
		x.Policy = slices.IndexFunc(r.config.LocatorPolicies, func(p LocatorPolicy) bool { return p.fits(m.Prefix, told.RLOC) })
	}
	if id, _, known := r.prober.table.get(told.RLOC); known {
		status := r.prober.table.rowStatus(id)
		x.State = &status
	}
	return x
}

// covering lists the entries that are less specific than p, the nearest first.
func (r *itr) covering(p lisp.Prefix) []lisp.Prefix {
	var list []lisp.Prefix
	for p.Bits() > 0 {
		wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
		_, e, ok := r.cache.longest(wider)
		if err != nil || !ok {
			break
		}
		p = e.mapping.Prefix
		list = append(list, p)
	}
	return list
}
