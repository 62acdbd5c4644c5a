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

// Explanation is what a Node knows of a destination. What is nil or zero does not exist.
type Explanation struct {
	Own      *DatabaseMapping // it is an EID of this site
	Entry    *MapCacheStatus  // the most specific mapping that covers it, as the site said it
	Told     lisp.Mapping     // the same as the data plane was told
	Covering []lisp.Prefix    // entries that are less specific than Entry, the nearest first
	// MoreSpecific counts entries within Entry that do not cover the destination.
	MoreSpecific int
	Locators     []ExplainedLocator // of Told, in the order of the set
	Pending      *PendingRequest    // for it, or for Entry
	ITR          bool               // there is an ITR at all
	Resolvers    []MapResolverStatus
}

// ExplainedLocator is a locator of a mapping with what decides whether it is used.
type ExplainedLocator struct {
	Locator lisp.Locator // as the data plane was told
	Said    lisp.Locator // as the site said; the same where no policy fits
	Policy  int          // index of ITRConfig.LocatorPolicies that fits, -1 for none
	State   *LocatorStatus
}

// Explain tells what is known of a destination.
func (n *Node) Explain(instance lisp.InstanceID, destination lisp.EID) Explanation {
	host := lisp.HostPrefix(instance, destination)
	e := Explanation{ITR: n.itr != nil}
	if n.etr != nil {
		if _, own, ok := n.etr.database.index.longest(host); ok {
			own.Locators = n.etr.lowered(own.Locators)
			e.Own = &own
		}
	}
	if n.itr == nil {
		return e
	}
	e.Resolvers = slices.Collect(n.itr.resolvers.status())
	n.itr.explainEntry(host, &e)
	id, _, asked := n.itr.pending.get(host)
	if !asked && e.Entry != nil {
		id, _, asked = n.itr.pending.get(e.Entry.Mapping.Prefix)
	}
	if asked {
		p := n.itr.pendingRow(id)
		e.Pending = &p
	}
	return e
}

// MappingFor is the mapping by which packets reach a destination, as the data plane was told it.
// There is none when it is to be asked for, or is being.
func (n *Node) MappingFor(instance lisp.InstanceID, destination lisp.EID) (lisp.Mapping, bool) {
	if n.itr == nil {
		return lisp.Mapping{}, false
	}
	_, e, ok := n.itr.cache.longest(lisp.HostPrefix(instance, destination))
	if !ok || e.mapping.Action == lisp.ActionSendMapRequest {
		return lisp.Mapping{}, false
	}
	return n.itr.entry(e).Mapping, true
}

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
