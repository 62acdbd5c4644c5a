// SPDX-License-Identifier: Apache-2.0

package mapserver

// The Map-Server's registrations: who registered which EID-Prefix, what comes of
// it when several did, and the nonces that were seen (RFC 9301 s.5.6, s.8.2). A
// table: it accepts what it is given. A million of its rows hold no pointer.

import (
	"errors"
	"iter"
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/locatorset"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// Registrations is the table.
type Registrations struct {
	Rows        table.Slab[Registration]
	Registrants table.Slab[Registrant]
	Index       table.Prefixes[uint32]
	Exact       rowHash          // of the same rows
	Timers      timing.Deadlines // not later than the first expiry; a refresh does not move them
	Xtrs        table.Interned[XTR]
	Sets        locatorset.Sets
	Sites       siteTable
	edits       uint64     // of Index
	places      []Place    // of the records of a Map-Register
	Sweep       batch.Work // the pass after a change of the configuration
	Displaced   displaced  // rows of which a registrant is not in force
	swept       uint32     // where that pass is
	sweptSites  uint32
}

var errMergedLocators = errors.New("the merged locator-set is too large")

// Get returns the registration of exactly that EID-Prefix.
func (t *Registrations) Get(p lisp.Prefix) (uint32, *Registration, bool) {
	id, ok := uint32(0), false
	if t.Exact.Off {
		id, ok = t.Index.Get(p)
	} else {
		id, ok = t.Exact.find(&t.Rows, &p, HashOf(&p))
	}
	if !ok {
		return 0, nil, false
	}
	return id, t.Rows.At(id), true
}

// Lookup is the registration that covers what is asked for most closely.
func (t *Registrations) Lookup(asked *lisp.Prefix) (row uint32, ok bool) {
	lengths, ok := t.Exact.lengthsFor(asked)
	if !ok {
		return t.Index.Lookup(*asked)
	}
	for _, length := range lengths {
		wider, hash := covering(asked, length)
		if row, ok := t.Exact.find(&t.Rows, &wider, hash); ok {
			return row, true
		}
	}
	return 0, false
}

// SiteOf is the site of a registration.
func (t *Registrations) SiteOf(row *Registration) *siteState { return t.Sites.numberOf(row.site) }

// Each yields those who registered, who did so last first.
func (t *Registrations) Each(row *Registration) iter.Seq[*Registrant] {
	return func(yield func(*Registrant) bool) {
		for at := row.newest; at != noRow; {
			r := t.Registrants.At(at)
			if at = r.next; !yield(r) {
				return
			}
		}
	}
}

// appendEach appends those who registered, who did so last first.
func (t *Registrations) appendEach(all []*Registrant, row *Registration) []*Registrant {
	for at := row.newest; at != noRow; at = t.Registrants.At(at).next {
		all = append(all, t.Registrants.At(at))
	}
	return all
}

// Count is how many registered.
func (t *Registrations) Count(row *Registration) (n int) {
	for range t.Each(row) {
		n++
	}
	return n
}

// mapping is content with an EID-Prefix again.
func (t *Registrations) mapping(p lisp.Prefix, c content) lisp.Mapping {
	return lisp.Mapping{
		Prefix: p, Locators: t.Sets.At(c.Locators), TTLMinutes: c.ttlMinutes, Version: c.version, Action: c.action, Authoritative: c.authoritative,
	}
}

// merged is what is answered for a registration.
func (t *Registrations) merged(row *Registration) lisp.Mapping {
	return t.mapping(row.Prefix, row.Merged)
}

// contentOf makes content, which uses a locator-set.
func (t *Registrations) contentOf(m lisp.Mapping) content {
	return content{Locators: t.Sets.Acquire(m.Locators), ttlMinutes: m.TTLMinutes, version: m.Version, action: m.Action, authoritative: m.Authoritative}
}

// Place is where an EID-Prefix is registered, if it is; good until an EID-Prefix comes or goes.
type Place struct {
	id    uint32
	row   *Registration
	known bool
	edits uint64 // of the table, when it was looked up
}

// PlaceOf looks an EID-Prefix up.
func (t *Registrations) PlaceOf(p lisp.Prefix) Place {
	id, row, known := t.Get(p)
	return Place{id, row, known, t.edits}
}

// renewed is a place of p that is good.
func (t *Registrations) renewed(at Place, p lisp.Prefix) Place {
	if at.edits == t.edits {
		return at
	}
	return t.PlaceOf(p)
}

// Put adds what an xTR registered, in place of what it had registered before, at the place
// of its EID-Prefix. r has everything but its content, and its xtr has a user for the call.
// id is the number of the row; changed reports whether other answers come of it.
func (t *Registrations) Put(at Place, site *siteState, m lisp.Mapping, r Registrant) (id uint32, fresh, changed bool) {
	id, row, known := at.id, at.row, at.known
	if known && t.refresh(row, m, r) {
		t.hasten(id, r.ExpiresAt)
		return id, false, false
	}
	if !known {
		id = t.Rows.Add(Registration{Prefix: m.Prefix, site: site.id, newest: noRow, Merged: t.contentOf(lisp.Mapping{})})
		t.widen(m.Prefix, id)
		t.Index.Insert(m.Prefix, id)
		t.Exact.Insert(&t.Rows, id)
		t.edits++
		site.Registrations++
		row = t.Rows.At(id)
	}
	if old := t.take(row, t.Xtrs.At(r.XTR).ID); old != noRow {
		r.FirstAt = t.Registrants.At(old).FirstAt
		t.free(old)
	}
	t.Xtrs.Retain(r.XTR)
	r.Content, r.next = t.contentOf(m), row.newest
	row.newest = t.Registrants.Add(r)
	changed = t.merge(row)
	t.hasten(id, t.expiry(row))
	return id, !known, changed || !known
}

// hasten sees to it that a row is looked at when its first registrant expires.
func (t *Registrations) hasten(id uint32, expiry timing.Instant) {
	if expiry < t.Timers.Of(id) {
		t.Timers.Set(id, expiry)
	}
}

// refresh takes what the only registrant of a row says again. It reports false for everything else.
func (t *Registrations) refresh(row *Registration, m lisp.Mapping, r Registrant) bool {
	only := t.Registrants.At(row.newest)
	c := &only.Content
	if only.next != noRow || only.XTR != r.XTR || c.ttlMinutes != m.TTLMinutes || c.version != m.Version || c.action != m.Action ||
		c.authoritative != m.Authoritative || !slices.Equal(t.Sets.At(c.Locators), m.Locators) {
		return false
	}
	only.LastAt, only.ExpiresAt = r.LastAt, r.ExpiresAt
	return true
}

// widen notes that an EID-Prefix is registered within the next less specific one; those
// beyond know it since that one came.
func (t *Registrations) widen(p lisp.Prefix, id uint32) {
	if !t.Index.Overlaps(p) {
		return
	}
	if _, wider, ok := t.Index.Longest(p); ok {
		t.Rows.At(wider).wide = true
	}
	t.Rows.At(id).wide = t.Index.Holds(p, lisp.Prefix{})
}

// take takes an xTR's registrant out of the chain and returns its number.
func (t *Registrations) take(row *Registration, who RegistrantID) uint32 {
	link := &row.newest
	for *link != noRow {
		at := *link
		r := t.Registrants.At(at)
		if t.Xtrs.At(r.XTR).ID == who {
			*link = r.next
			return at
		}
		link = &r.next
	}
	return noRow
}

// free forgets a registrant that is in no chain any more.
func (t *Registrations) free(at uint32) {
	r := t.Registrants.At(at)
	t.Xtrs.Release(r.XTR)
	t.Sets.Release(r.Content.Locators)
	t.Registrants.Release(at)
}

// removeAt takes out what one xTR registered; changed reports that other answers come
// of it, gone that none comes any more.
func (t *Registrations) removeAt(at Place, who RegistrantID) (found, gone, changed bool) {
	if !at.known {
		return false, false, false
	}
	registrant := t.take(at.row, who)
	if registrant == noRow {
		return false, false, false
	}
	t.free(registrant)
	gone, changed = t.settle(at.id, at.row)
	return true, gone, changed
}

// replaceDirect takes out what a router registered directly before it registered by an RTR: it was known by its
// address then. All its locators are those that it calls unreachable now, from behind its NAT.
func (t *Registrations) replaceDirect(by lisp.Mapping) {
	at := t.PlaceOf(by.Prefix)
	if !at.known {
		return
	}
	isPrivate := func(l lisp.Locator) bool {
		return slices.ContainsFunc(by.Locators, func(o lisp.Locator) bool { return !o.Reachable && o.IsSame(&l) })
	}
	var direct []RegistrantID
	for r := range t.Each(at.row) {
		set := t.Sets.At(r.Content.Locators)
		if len(set) > 0 && !slices.ContainsFunc(set, func(l lisp.Locator) bool { return !isPrivate(l) || !l.Reachable }) {
			direct = append(direct, t.Xtrs.At(r.XTR).ID)
		}
	}
	for _, who := range direct {
		t.removeAt(at, who)
	}
}

// expire takes out the registrants whose time is over. None may be: a refresh does not
// move the deadline.
func (t *Registrations) expire(id uint32, now timing.Instant) (expired int, gone, changed bool) {
	row := t.Rows.At(id)
	for link := &row.newest; *link != noRow; {
		at := *link
		r := t.Registrants.At(at)
		if r.ExpiresAt > now {
			link = &r.next
			continue
		}
		*link = r.next
		t.free(at)
		expired++
	}
	gone, changed = t.settle(id, row)
	return expired, gone, changed
}

// settle brings a registration into order after registrants left.
func (t *Registrations) settle(id uint32, row *Registration) (gone, changed bool) {
	if row.newest == noRow {
		t.Remove(id)
		return true, true
	}
	changed = t.merge(row)
	t.Timers.Set(id, t.expiry(row))
	return false, changed
}

// Remove takes a registration out.
func (t *Registrations) Remove(id uint32) {
	row := t.Rows.At(id)
	for at := row.newest; at != noRow; {
		next := t.Registrants.At(at).next
		t.free(at)
		at = next
	}
	t.Displaced.note(row, false)
	t.SiteOf(row).Registrations--
	t.Sets.Release(row.Merged.Locators)
	t.Exact.Remove(&t.Rows, id)
	t.Index.Remove(row.Prefix)
	t.edits++
	t.Timers.Remove(id)
	t.Rows.Release(id)
}

// find returns what an xTR registered, nil when that is nothing.
func (t *Registrations) find(row *Registration, who RegistrantID) *Registrant {
	for r := range t.Each(row) {
		if t.Xtrs.At(r.XTR).ID == who {
			return r
		}
	}
	return nil
}

// newestVersion is the newest Map-Version that was registered: all xTRs of a site
// must have the same one, and who is behind has an old mapping (RFC 9302 s.5, s.9).
func (t *Registrations) newestVersion(row *Registration) uint16 {
	newest := uint16(lisp.NullMapVersion)
	for r := range t.Each(row) {
		if newest == lisp.NullMapVersion || lisp.CompareMapVersions(r.Content.version, newest) > 0 {
			newest = r.Content.version
		}
	}
	return newest
}

// expiry is when the first of the registrants expires.
func (t *Registrations) expiry(row *Registration) timing.Instant {
	earliest := timing.Never
	for r := range t.Each(row) {
		earliest = min(earliest, r.ExpiresAt)
	}
	return earliest
}

// merge works out what is answered: the last registrant's mapping, with those of
// all others that asked for merging when it asked for it too (RFC 9301 s.5.6, a
// bit). Where two speak of one locator, the later one is right. No locator is called
// local, and nothing authoritative (RFC 9301 s.5.4): each xTR means others by that, so
// that every refresh would look like a change.
func (t *Registrations) merge(row *Registration) (changed bool) {
	row.proxyReply = false
	for r := range t.Each(row) {
		row.proxyReply = row.proxyReply || t.Xtrs.At(r.XTR).ProxyReply
	}
	last := t.Registrants.At(row.newest)
	merged := last.Content
	merged.authoritative = false
	if last.next != noRow && t.Xtrs.At(last.XTR).mergeRequest {
		merged.Locators = t.Sets.Acquire(t.mergedLocators(row))
	} else {
		merged.Locators = t.Sets.Told(merged.Locators)
		t.Sets.Retain(merged.Locators)
	}
	changed = merged != row.Merged
	t.Sets.Release(row.Merged.Locators)
	row.Merged = merged
	t.Displaced.judge(t, row)
	return changed
}

func (t *Registrations) mergedLocators(row *Registration) lisp.LocatorSet {
	var locators []lisp.Locator
	for r := range t.Each(row) {
		if t.Xtrs.At(r.XTR).mergeRequest {
			locators = appendNewLocators(locators, t.toldBy(r))
		}
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil { // mergeable saw to it that it is not
		return t.toldBy(t.Registrants.At(row.newest))
	}
	return set
}

// toldBy is what a registrant registered as others are told it.
func (t *Registrations) toldBy(r *Registrant) lisp.LocatorSet {
	return t.Sets.At(t.Sets.Told(r.Content.Locators))
}

// isAnswered reports whether the locators that are answered are just those that a registrant registered.
func (t *Registrations) isAnswered(row *Registration, r *Registrant) bool {
	return t.Sets.Told(r.Content.Locators) == row.Merged.Locators
}

func appendNewLocators(locators []lisp.Locator, more lisp.LocatorSet) []lisp.Locator {
	for _, l := range more {
		known := slices.ContainsFunc(locators, func(k lisp.Locator) bool { return k.IsSame(&l) })
		if !known {
			locators = append(locators, l)
		}
	}
	return locators
}

// mergeable says why the locators that an xTR wants merged do not fit beside the others'.
func (t *Registrations) mergeable(row *Registration, who RegistrantID, new lisp.LocatorSet) error {
	locators := slices.Clone([]lisp.Locator(new))
	for r := range t.Each(row) {
		if x := t.Xtrs.At(r.XTR); x.mergeRequest && x.ID != who {
			locators = appendNewLocators(locators, t.Sets.At(r.Content.Locators))
		}
	}
	octets := 0
	for i := range locators {
		octets += len(locators[i].Address)
	}
	if len(locators) > lisp.MaxLocators || octets > wire.MaxAddressOctets {
		return errMergedLocators
	}
	return nil
}

// isInForce reports whether what a registrant registered is answered, alone or merged with others.
func (t *Registrations) isInForce(row *Registration, r *Registrant) bool {
	return t.isAnswered(row, r) || t.areMerged(t.Registrants.At(row.newest), r)
}

// areMerged reports whether both wanted their locators merged.
func (t *Registrations) areMerged(newest, r *Registrant) bool {
	return t.Xtrs.At(newest.XTR).mergeRequest && t.Xtrs.At(r.XTR).mergeRequest
}

// agrees reports whether a registrant registered the RLOCs that the newest one did, or
// both wanted theirs merged. One that does not is displaced: perhaps the same xTR, which is
// elsewhere now, and no longer where it was.
func (t *Registrations) agrees(newest, r *Registrant) bool {
	if r == newest || t.areMerged(newest, r) {
		return true
	}
	return r.Content.Locators == newest.Content.Locators || t.Sets.At(newest.Content.Locators).SameRLOCs(t.Sets.At(r.Content.Locators))
}

// checkSizes refuses more EID-Prefixes than there may be.
func (t *Registrations) checkSizes(limits *settings.Limits, site *siteState, added int) *message.Refusal {
	switch {
	case t.Index.Size+added > limits.Registrations:
		return message.Refuse(counter.RefusedRegistrationTable, "%d EID-Prefixes are registered", t.Index.Size)
	case site.Registrations+added > site.maxRegistrations(limits):
		return message.Refuse(counter.RefusedSiteTable, "site %s has registered %d EID-Prefixes", site.Config.Name, site.Registrations)
	}
	return nil
}
