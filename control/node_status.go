// SPDX-License-Identifier: Apache-2.0

package control

// What a Node tells about itself, whole or a page at a time.

import (
	"iter"
	"slices"
	"time"

	"loci/control/internal/reach"
	"loci/lisp"
)

// RegistrationsPage is a part of what Registrations yields: what overlaps with an EID-Prefix and comes after another,
// about so many values at most, all those of one EID-Prefix together. Zero for within is everything, zero for after
// the beginning. The page is appended to the one given, which is empty.
func (n *Node) RegistrationsPage(page []Registration, within, after lisp.Prefix, most int) []Registration {
	if n.mapServer == nil {
		return page
	}
	add := func(r Registration) bool {
		page = append(page, r)
		return true
	}
	for _, id := range n.mapServer.Registrations.Index.Overlapping(within, after) {
		if len(page) >= most {
			break
		}
		n.mapServer.StatusOf(n.mapServer.Registrations.Rows.At(id), add)
	}
	return page
}

// Explain tells what is known of a destination.
func (n *Node) Explain(instance lisp.InstanceID, destination lisp.EID) Explanation {
	host := lisp.HostPrefix(instance, destination)
	e := Explanation{ITR: n.itr != nil}
	if n.etr != nil {
		if _, own, ok := n.etr.Database.Index.Longest(host); ok {
			own.Locators = n.etr.Lowered(own.Locators)
			e.Own = &own
		}
	}
	if n.itr == nil {
		return e
	}
	e.Resolvers = slices.Collect(n.itr.Requester.Resolvers.Status())
	n.itr.ExplainEntry(host, &e)
	id, _, asked := n.itr.Requester.Pending.Get(host)
	if !asked && e.Entry != nil {
		id, _, asked = n.itr.Requester.Pending.Get(e.Entry.Mapping.Prefix)
	}
	if asked {
		p := n.itr.Requester.Row(id)
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
	_, e, ok := n.itr.Cache.Longest(lisp.HostPrefix(instance, destination))
	if !ok || e.Mapping.Action == lisp.ActionSendMapRequest {
		return lisp.Mapping{}, false
	}
	return n.itr.Cache.Entry(e).Mapping, true
}

// ToldMapping is the mapping of exactly that EID-Prefix, as the data plane was told it.
func (n *Node) ToldMapping(p lisp.Prefix) (lisp.Mapping, bool) {
	if n.itr == nil {
		return lisp.Mapping{}, false
	}
	_, e, ok := n.itr.Cache.Get(p)
	if !ok {
		return lisp.Mapping{}, false
	}
	return n.itr.Cache.Entry(e).Mapping, true
}

// MapCache yields the map-cache in the order of prefixes.
func (n *Node) MapCache() iter.Seq[MapCacheStatus] {
	if n.itr == nil {
		return func(func(MapCacheStatus) bool) {}
	}
	return n.itr.Status()
}

// MapCachePage is a part of the map-cache, in no order, as LocatorsPage is one of the locators.
func (n *Node) MapCachePage(from uint32, most int) (page []MapCacheEntry, next uint32, more bool) {
	if n.itr == nil {
		return nil, 0, false
	}
	rows := uint32(n.itr.Cache.Entries.Len())
	for next = from; next < rows && len(page) < most && next-from < reach.PageRows; next++ {
		if e := n.itr.Cache.Entries.At(next); !e.Mapping.Prefix.IsZero() {
			page = append(page, n.itr.Cache.Entry(e))
		}
	}
	return page, next, next < rows
}

// SecondLayers says what becomes of packets by a mapping of the map-cache whose RLOCs are EIDs (RFC 9300 s.4).
func (n *Node) SecondLayers(p lisp.Prefix) []SecondLayer {
	if n.itr == nil {
		return nil
	}
	return n.itr.SecondLayers(p)
}

// MapCachePrefixes lists EID-Prefixes of the map-cache in their order: what overlaps with one and comes after
// another, so many at most. Zero for within is everything, zero for after the beginning. The page is appended to the
// one given, which is empty.
func (n *Node) MapCachePrefixes(page []lisp.Prefix, within, after lisp.Prefix, most int) []lisp.Prefix {
	if n.itr == nil {
		return page
	}
	for p := range n.itr.Cache.Index.Overlapping(within, after) {
		if len(page) >= most {
			break
		}
		page = append(page, p)
	}
	return page
}

// Database yields the EID-Prefixes of this site in their order.
func (n *Node) Database() iter.Seq[DatabaseMapping] {
	return func(yield func(DatabaseMapping) bool) {
		if n.etr == nil {
			return
		}
		for _, m := range n.etr.Database.List {
			m.Locators = n.etr.Lowered(m.Locators)
			if !yield(m) {
				return
			}
		}
	}
}

// DatabasePage is a part of what Database yields: at most so many after an EID-Prefix, from the
// beginning for the zero one.
func (n *Node) DatabasePage(after lisp.Prefix, most int) (page []DatabaseMapping) {
	if n.etr == nil {
		return nil
	}
	list, from := n.etr.Database.List, 0
	if !after.IsZero() {
		from = n.etr.Database.After(after)
	}
	page = slices.Clone(list[from:min(from+most, len(list))])
	for i := range page {
		page[i].Locators = n.etr.Lowered(page[i].Locators)
	}
	return page
}

// Locators yields the RLOCs of the map-cache with their states, in the order of RLOCs.
func (n *Node) Locators() iter.Seq[LocatorStatus] {
	if n.itr == nil {
		return func(func(LocatorStatus) bool) {}
	}
	return n.itr.Prober.Table.Status()
}

// LocatorsPage is a part of what Locators yields, in no order: at most so many from where
// the last page ended, which is 0 at first. more is false after the last one.
func (n *Node) LocatorsPage(from uint32, most int) (page []LocatorStatus, next uint32, more bool) {
	if n.itr == nil {
		return nil, 0, false
	}
	return n.itr.Prober.Table.Page(from, most)
}

// Registrations yields what the Map-Server knows, in the order of prefixes, one
// value for each xTR of a prefix.
func (n *Node) Registrations() iter.Seq[Registration] {
	if n.mapServer == nil {
		return func(func(Registration) bool) {}
	}
	return n.mapServer.Status()
}

// RegistrationsOf yields what the Map-Server knows of one EID-Prefix alone.
func (n *Node) RegistrationsOf(p lisp.Prefix) iter.Seq[Registration] {
	return func(yield func(Registration) bool) {
		if n.mapServer == nil {
			return
		}
		if _, row, ok := n.mapServer.Registrations.Get(p); ok {
			n.mapServer.StatusOf(row, yield)
		}
	}
}

// StaleMappings lists mappings that are used past their TTLs, some dozens at most, and says how many there are.
func (n *Node) StaleMappings() (list []StaleMapping, count int) {
	if n.itr == nil {
		return nil, 0
	}
	return n.itr.Stales.List()
}

// AmbiguousPaths is a mapping of which an RTR stands on several paths with different next hops, and cannot tell which
// one a packet is on; false where there is none that it knows of.
func (n *Node) AmbiguousPaths() (p lisp.Prefix, since time.Time, ok bool) {
	if n.itr == nil {
		return p, since, false
	}
	ambiguous := &n.itr.Cache.Ambiguous
	_, _, ok = n.itr.Cache.Get(ambiguous.Prefix)
	return ambiguous.Prefix, ambiguous.Since, ok
}

// UnreachableMappings lists mappings whose packets are dropped because their sites call no locator reachable (RFC
// 9301 s.5.4), some dozens at most, and says how many there are.
func (n *Node) UnreachableMappings() (list []UnreachableMapping, count int) {
	if n.itr == nil {
		return nil, 0
	}
	return n.itr.Cache.UnreachableMappings()
}

// KeptMappings lists mappings that are used though the mapping system says that they are not registered, some dozens
// at most.
func (n *Node) KeptMappings() []KeptMapping {
	if n.itr == nil {
		return nil
	}
	return n.itr.KeptMappings()
}

// LostMappings lists EID-Prefixes in use that had locators within the last hour and are not registered now, at most
// so many, and how many there are.
func (n *Node) LostMappings(most int) (some []LostMapping, count int) {
	if n.itr == nil {
		return nil, 0
	}
	return n.itr.LostMappings(most)
}

// DisplacedRegistrations are EID-Prefixes with a registration that is not in force beside the one that is: some
// dozens at most, in their order, and how many there are.
func (n *Node) DisplacedRegistrations() (some []lisp.Prefix, count int) {
	if n.mapServer == nil {
		return nil, 0
	}
	some = n.mapServer.Registrations.Displaced.Some()
	slices.SortFunc(some, lisp.Prefix.Compare)
	return some, n.mapServer.Registrations.Displaced.Count
}

// TranslatedRegistrations lists registrations that came through a NAT as far as they show it, some dozens at most.
func (n *Node) TranslatedRegistrations() []Registration {
	if n.mapServer == nil {
		return nil
	}
	return n.mapServer.Translated()
}

// RefusedRegistrations lists what the Map-Server refused within the last lifetime of a registration, some dozens at
// most: what a key that fits or the address of an ETR tells, and all others as one, whose Count is 0 for none.
func (n *Node) RefusedRegistrations() (list []RefusedRegistration, others RefusedRegistration) {
	if n.mapServer == nil {
		return nil, RefusedRegistration{}
	}
	return n.mapServer.Refusals.RefusedRegistrations()
}

// CompleteAt is until when the Map-Server gives no negative answers about its sites, because they may not have
// registered since it started. It is zero without a Map-Server, and when that is over.
func (n *Node) CompleteAt() time.Time {
	if n.mapServer == nil || n.host.Now >= n.mapServer.Answers.CompleteAt {
		return time.Time{}
	}
	return n.host.Time(n.mapServer.Answers.CompleteAt)
}

// MapResolvers yields how things stand with each Map-Resolver of the ITR, as configured.
func (n *Node) MapResolvers() iter.Seq[MapResolverStatus] {
	if n.itr == nil {
		return func(func(MapResolverStatus) bool) {}
	}
	return n.itr.Requester.Resolvers.Status()
}

// MapServers yields how the registration with each Map-Server stands.
func (n *Node) MapServers() iter.Seq[MapServerStatus] {
	if n.etr == nil {
		return func(func(MapServerStatus) bool) {}
	}
	return n.etr.Registrar.Status()
}

// Registering reports whether the Database is still being registered: some of it is still to be sent, or waits for a
// Map-Notify.
func (n *Node) Registering() bool {
	if n.etr == nil || n.etr.Announces() {
		return n.etr != nil
	}
	for s := range n.MapServers() {
		if s.State == MapServerWaiting {
			return true
		}
	}
	return false
}

// PendingPage is a part of the Map-Requests under way, in no order, as LocatorsPage is one of
// the locators.
func (n *Node) PendingPage(from uint32, most int) (page []PendingRequest, next uint32, more bool) {
	if n.itr == nil {
		return nil, 0, false
	}
	rows := uint32(n.itr.Requester.Pending.Requests.Len())
	for next = from; next < rows && len(page) < most && next-from < reach.PageRows; next++ {
		if !n.itr.Requester.Pending.Requests.At(next).Prefix.IsZero() {
			page = append(page, n.itr.Requester.Row(next))
		}
	}
	return page, next, next < rows
}

// Counters yields every counter by name, in the order of CounterList.
func (n *Node) Counters() iter.Seq2[string, uint64] { return n.host.Counters.All() }

// ResolutionTimes counts how long it took from the first Map-Request for an EID-Prefix to its Map-Reply.
func (n *Node) ResolutionTimes() Durations { return n.host.Resolutions }

// RegistrationTimes counts how long it took from a Map-Register, or the first of those that were lost, to the
// Map-Notify that has all of its EID-Prefixes.
func (n *Node) RegistrationTimes() Durations { return n.host.Registrations }
