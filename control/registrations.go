// SPDX-License-Identifier: Apache-2.0

package control

// The Map-Server's registrations: who registered which EID-Prefix, what comes of
// it when several did, and the nonces that were seen (RFC 9301 s.5.6, s.8.2). A
// table: it accepts what it is given. A million of its rows hold no pointer.

import (
	"errors"
	"iter"
	"net/netip"
	"slices"

	"loci/lisp"
)

// registrantID tells the xTRs of an EID-Prefix apart: by Site-ID and xTR-ID where
// they send them (RFC 9301 s.5.6), else by address.
type registrantID struct {
	xtrID  [16]byte
	siteID uint64
	source netip.Addr // only without xTR-ID
}

// xtr is what a Map-Register says of who sent it. The rows of all its records share it.
type xtr struct {
	id                                              registrantID
	from                                            netip.AddrPort
	keyID, algorithm, macOctets                     uint8
	proxyReply, useTTL, mergeRequest, wantMapNotify bool
}

// noRow is the number of no row.
const noRow = ^uint32(0)

// registrant is what one xTR registered for one EID-Prefix.
type registrant struct {
	firstAt, lastAt, expiresAt instant
	next                       uint32 // who registered the same EID-Prefix before, noRow for nobody
	xtr                        uint32
	content                    content
}

// content is a mapping but for its EID-Prefix.
type content struct {
	locators      uint32
	ttlMinutes    uint32
	version       uint16
	action        lisp.Action
	authoritative bool
}

// registration is an EID-Prefix with everybody who registered it.
type registration struct {
	prefix lisp.Prefix
	site   uint32
	newest uint32  // the registrant who came last; the others follow by next
	merged content // what is answered
	// proxyReply: any of them wants the Map-Server to answer, which is enough (RFC 9301 s.8.3).
	proxyReply bool
	wide       bool // something more specific is registered, or was
}

// registrations is the table.
type registrations struct {
	rows        slab[registration]
	registrants slab[registrant]
	index       prefixTable[uint32]
	exact       rowHash   // of the same rows
	timers      deadlines // not later than the first expiry; a refresh does not move them
	xtrs        interned[xtr]
	sets        locatorSets
	sites       siteTable
	edits       uint64    // of index
	toCome      []toCome  // whose rows are looked up next
	coming      []uint32  // hashes of EID-Prefixes whose rows are read next
	touched     uint32    // what bring read, so that the compiler keeps the reads
	sweep       deadlines // one row: the next batch of the pass after a change of the configuration
	swept       uint32    // where that pass is
	sweptSites  uint32
}

var errMergedLocators = errors.New("the merged locator-set is too large")

// get returns the registration of exactly that EID-Prefix.
func (t *registrations) get(p lisp.Prefix) (uint32, *registration, bool) {
	id, ok := uint32(0), false
	if t.exact.off {
		id, ok = t.index.get(p)
	} else {
		id, ok = t.exact.find(&t.rows, &p, hashOf(&p))
	}
	if !ok {
		return 0, nil, false
	}
	return id, t.rows.at(id), true
}

// lookup is the registration that covers what is asked for most closely.
func (t *registrations) lookup(asked *lisp.Prefix) (row uint32, ok bool) {
	lengths, ok := t.exact.lengthsFor(asked)
	if !ok {
		return t.index.lookup(*asked)
	}
	for _, length := range lengths {
		wider, hash := covering(asked, length)
		if row, ok := t.exact.find(&t.rows, &wider, hash); ok {
			return row, true
		}
	}
	return 0, false
}

// siteOf is the site of a registration.
func (t *registrations) siteOf(row *registration) *siteState { return t.sites.numberOf(row.site) }

// each yields those who registered, who did so last first.
func (t *registrations) each(row *registration) iter.Seq[*registrant] {
	return func(yield func(*registrant) bool) {
		for at := row.newest; at != noRow; {
			r := t.registrants.at(at)
			if at = r.next; !yield(r) {
				return
			}
		}
	}
}

// appendEach appends those who registered, who did so last first.
func (t *registrations) appendEach(all []*registrant, row *registration) []*registrant {
	for at := row.newest; at != noRow; at = t.registrants.at(at).next {
		all = append(all, t.registrants.at(at))
	}
	return all
}

// count is how many registered.
func (t *registrations) count(row *registration) (n int) {
	for range t.each(row) {
		n++
	}
	return n
}

// mapping is content with an EID-Prefix again.
func (t *registrations) mapping(p lisp.Prefix, c content) lisp.Mapping {
	return lisp.Mapping{
		Prefix: p, Locators: t.sets.at(c.locators), TTLMinutes: c.ttlMinutes, Version: c.version, Action: c.action, Authoritative: c.authoritative,
	}
}

// merged is what is answered for a registration.
func (t *registrations) merged(row *registration) lisp.Mapping {
	return t.mapping(row.prefix, row.merged)
}

// contentOf makes content, which uses a locator-set.
func (t *registrations) contentOf(m lisp.Mapping) content {
	return content{locators: t.sets.acquire(m.Locators), ttlMinutes: m.TTLMinutes, version: m.Version, action: m.Action, authoritative: m.Authoritative}
}

// put adds what an xTR registered, in place of what it had registered before. r has
// everything but its content, and its xtr has a user for the call. changed reports
// whether other answers come of it.
func (t *registrations) put(site *siteState, m lisp.Mapping, r registrant) (fresh, changed bool) {
	return t.putAt(t.placeOf(m.Prefix), site, m, r)
}

// place is where an EID-Prefix is registered, if it is; good until the next one is.
type place struct {
	id    uint32
	row   *registration
	known bool
}

func (t *registrations) placeOf(p lisp.Prefix) place {
	id, row, known := t.get(p)
	return place{id, row, known}
}

// putAt is put for who knows the place.
func (t *registrations) putAt(at place, site *siteState, m lisp.Mapping, r registrant) (fresh, changed bool) {
	id, row, known := at.id, at.row, at.known
	if known && t.refresh(row, m, r) {
		t.hasten(id, r.expiresAt)
		return false, false
	}
	if !known {
		id = t.rows.add(registration{prefix: m.Prefix, site: site.id, newest: noRow, merged: t.contentOf(lisp.Mapping{})})
		t.widen(m.Prefix, id)
		t.index.insert(m.Prefix, id)
		t.exact.insert(&t.rows, id)
		t.edits++
		site.registrations++
		row = t.rows.at(id)
	}
	if old := t.take(row, t.xtrs.at(r.xtr).id); old != noRow {
		r.firstAt = t.registrants.at(old).firstAt
		t.free(old)
	}
	t.xtrs.retain(r.xtr)
	r.content, r.next = t.contentOf(m), row.newest
	row.newest = t.registrants.add(r)
	changed = t.merge(row)
	t.hasten(id, t.expiry(row))
	return !known, changed || !known
}

// hasten sees to it that a row is looked at when its first registrant expires.
func (t *registrations) hasten(id uint32, expiry instant) {
	if expiry < t.timers.of(id) {
		t.timers.set(id, expiry)
	}
}

// refresh takes what the only registrant of a row says again. It reports false for everything else.
func (t *registrations) refresh(row *registration, m lisp.Mapping, r registrant) bool {
	only := t.registrants.at(row.newest)
	c := &only.content
	if only.next != noRow || only.xtr != r.xtr || c.ttlMinutes != m.TTLMinutes || c.version != m.Version || c.action != m.Action ||
		c.authoritative != m.Authoritative || !slices.Equal(t.sets.at(c.locators), m.Locators) {
		return false
	}
	only.lastAt, only.expiresAt = r.lastAt, r.expiresAt
	return true
}

// widen notes that an EID-Prefix is registered within the next less specific one; those
// beyond know it since that one came.
func (t *registrations) widen(p lisp.Prefix, id uint32) {
	if !t.index.overlaps(p) {
		return
	}
	if _, wider, ok := t.index.longest(p); ok {
		t.rows.at(wider).wide = true
	}
	t.rows.at(id).wide = t.index.holds(p, lisp.Prefix{})
}

// take takes an xTR's registrant out of the chain and returns its number.
func (t *registrations) take(row *registration, who registrantID) uint32 {
	link := &row.newest
	for *link != noRow {
		at := *link
		r := t.registrants.at(at)
		if t.xtrs.at(r.xtr).id == who {
			*link = r.next
			return at
		}
		link = &r.next
	}
	return noRow
}

// free forgets a registrant that is in no chain any more.
func (t *registrations) free(at uint32) {
	r := t.registrants.at(at)
	t.xtrs.release(r.xtr)
	t.sets.release(r.content.locators)
	t.registrants.release(at)
}

// removeRegistrant takes out what one xTR registered; changed reports that other
// answers come of it, or none any more.
func (t *registrations) removeRegistrant(p lisp.Prefix, who registrantID) (found, changed bool) {
	id, row, ok := t.get(p)
	if !ok {
		return false, false
	}
	at := t.take(row, who)
	if at == noRow {
		return false, false
	}
	t.free(at)
	gone, changed := t.settle(id, row)
	return true, gone || changed
}

// expire takes out the registrants whose time is over. None may be: a refresh does not
// move the deadline.
func (t *registrations) expire(id uint32, now instant) (expired int, gone, changed bool) {
	row := t.rows.at(id)
	for link := &row.newest; *link != noRow; {
		at := *link
		r := t.registrants.at(at)
		if r.expiresAt > now {
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
func (t *registrations) settle(id uint32, row *registration) (gone, changed bool) {
	if row.newest == noRow {
		t.remove(id)
		return true, true
	}
	changed = t.merge(row)
	t.timers.set(id, t.expiry(row))
	return false, changed
}

// remove takes a registration out.
func (t *registrations) remove(id uint32) {
	row := t.rows.at(id)
	for at := row.newest; at != noRow; {
		next := t.registrants.at(at).next
		t.free(at)
		at = next
	}
	t.siteOf(row).registrations--
	t.sets.release(row.merged.locators)
	t.exact.remove(&t.rows, id)
	t.index.remove(row.prefix)
	t.edits++
	t.timers.remove(id)
	t.rows.release(id)
}

// find returns what an xTR registered, nil when that is nothing.
func (t *registrations) find(row *registration, who registrantID) *registrant {
	for r := range t.each(row) {
		if t.xtrs.at(r.xtr).id == who {
			return r
		}
	}
	return nil
}

// newestVersion is the newest Map-Version that was registered: all xTRs of a site
// must have the same one, and who is behind has an old mapping (RFC 9302 s.5, s.9).
func (t *registrations) newestVersion(row *registration) uint16 {
	newest := uint16(lisp.NullMapVersion)
	for r := range t.each(row) {
		if newest == lisp.NullMapVersion || lisp.CompareMapVersions(r.content.version, newest) > 0 {
			newest = r.content.version
		}
	}
	return newest
}

// expiry is when the first of the registrants expires.
func (t *registrations) expiry(row *registration) instant {
	earliest := never
	for r := range t.each(row) {
		earliest = min(earliest, r.expiresAt)
	}
	return earliest
}

// merge works out what is answered: the last registrant's mapping, with those of
// all others that asked for merging when it asked for it too (RFC 9301 s.5.6, a
// bit). Where two speak of one locator, the later one is right. No locator is called
// local, and nothing authoritative (RFC 9301 s.5.4): each xTR means others by that, so
// that every refresh would look like a change.
func (t *registrations) merge(row *registration) (changed bool) {
	row.proxyReply = false
	for r := range t.each(row) {
		row.proxyReply = row.proxyReply || t.xtrs.at(r.xtr).proxyReply
	}
	last := t.registrants.at(row.newest)
	merged := last.content
	merged.authoritative = false
	if last.next != noRow && t.xtrs.at(last.xtr).mergeRequest {
		merged.locators = t.sets.acquire(t.mergedLocators(row))
	} else {
		merged.locators = t.sets.told(merged.locators)
		t.sets.retain(merged.locators)
	}
	changed = merged != row.merged
	t.sets.release(row.merged.locators)
	row.merged = merged
	return changed
}

func (t *registrations) mergedLocators(row *registration) lisp.LocatorSet {
	var locators []lisp.Locator
	for r := range t.each(row) {
		if t.xtrs.at(r.xtr).mergeRequest {
			locators = appendNewLocators(locators, t.toldBy(r))
		}
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil { // mergeable saw to it that it is not
		return t.toldBy(t.registrants.at(row.newest))
	}
	return set
}

// toldBy is what a registrant registered as others are told it.
func (t *registrations) toldBy(r *registrant) lisp.LocatorSet {
	return t.sets.at(t.sets.told(r.content.locators))
}

// isAnswered reports whether the locators that are answered are just those that a registrant registered.
func (t *registrations) isAnswered(row *registration, r *registrant) bool {
	return t.sets.told(r.content.locators) == row.merged.locators
}

func appendNewLocators(locators []lisp.Locator, more lisp.LocatorSet) []lisp.Locator {
	for _, l := range more {
		known := slices.ContainsFunc(locators, func(k lisp.Locator) bool { return k.RLOC == l.RLOC })
		if !known {
			locators = append(locators, l)
		}
	}
	return locators
}

// mergeable says why the locators that an xTR wants merged do not fit beside the others'.
func (t *registrations) mergeable(row *registration, who registrantID, new lisp.LocatorSet) error {
	locators := slices.Clone([]lisp.Locator(new))
	for r := range t.each(row) {
		if x := t.xtrs.at(r.xtr); x.mergeRequest && x.id != who {
			locators = appendNewLocators(locators, t.sets.at(r.content.locators))
		}
	}
	if len(locators) > lisp.MaxLocators {
		return errMergedLocators
	}
	return nil
}

// isInForce reports whether what a registrant registered is answered, alone or merged with others.
func (t *registrations) isInForce(row *registration, r *registrant) bool {
	return t.isAnswered(row, r) || t.areMerged(t.registrants.at(row.newest), r)
}

// areMerged reports whether both wanted their locators merged.
func (t *registrations) areMerged(newest, r *registrant) bool {
	return t.xtrs.at(newest.xtr).mergeRequest && t.xtrs.at(r.xtr).mergeRequest
}

// agrees reports whether a registrant registered the RLOCs that the newest one did, or
// both wanted theirs merged. One that does not is displaced: perhaps the same xTR, which is
// elsewhere now, so that nobody is where it was.
func (t *registrations) agrees(newest, r *registrant) bool {
	if r == newest || t.areMerged(newest, r) {
		return true
	}
	return r.content.locators == newest.content.locators || t.sets.at(newest.content.locators).SameRLOCs(t.sets.at(r.content.locators))
}

// registrantOf is who sent the Map-Register.
func registrantOf(m *mapRegister) registrantID {
	if !m.XTRIDPresent {
		return registrantID{source: m.from.Addr()}
	}
	return registrantID{xtrID: m.XTRID, siteID: m.SiteID}
}
