// SPDX-License-Identifier: Apache-2.0

package control

// The Map-Server's registrations: who registered which EID-Prefix, what comes of
// it when several did, and the nonces that were seen (RFC 9301 s.5.6, s.8.2). A
// table: it accepts what it is given.

import (
	"errors"
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

// registrant is what one xTR registered for one EID-Prefix.
type registrant struct {
	id                                              registrantID
	mapping                                         lisp.Mapping
	from                                            netip.AddrPort
	firstAt, lastAt, expiresAt                      instant
	keyID, algorithm, macOctets                     uint8
	proxyReply, useTTL, mergeRequest, wantMapNotify bool
}

// registration is an EID-Prefix with everybody who registered it; the one who did
// so last comes last.
type registration struct {
	site        *siteState
	registrants []registrant
	merged      lisp.Mapping // what is answered
	turn        int          // whose turn it is to get a Map-Request
}

// registrations is the table.
type registrations struct {
	rows   slab[registration]
	index  prefixTable[uint32]
	timers deadlines
}

var errMergedLocators = errors.New("the merged locator-set is too large")

func (t *registrations) get(p lisp.Prefix) (uint32, *registration, bool) {
	id, ok := t.index.get(p)
	if !ok {
		return 0, nil, false
	}
	return id, t.rows.at(id), true
}

// put adds what an xTR registered, in place of what it had registered before.
// changed reports whether other answers come of it.
func (t *registrations) put(site *siteState, r registrant) (fresh, changed bool) {
	prefix := r.mapping.Prefix
	id, row, ok := t.get(prefix)
	if !ok {
		id = t.rows.add(registration{site: site})
		t.index.insert(prefix, id)
		site.registrations++
		row = t.rows.at(id)
	}
	if i := row.find(r.id); i >= 0 {
		r.firstAt = row.registrants[i].firstAt
		row.registrants = slices.Delete(row.registrants, i, i+1)
	}
	row.registrants = append(row.registrants, r)
	changed = row.merge()
	t.timers.set(id, row.expiry())
	return !ok, changed
}

// removeRegistrant takes out what one xTR registered; changed reports that other
// answers come of it, or none any more.
func (t *registrations) removeRegistrant(p lisp.Prefix, who registrantID) (found, changed bool) {
	id, row, ok := t.get(p)
	if !ok {
		return false, false
	}
	i := row.find(who)
	if i < 0 {
		return false, false
	}
	row.registrants = slices.Delete(row.registrants, i, i+1)
	gone, changed := t.settle(id, row)
	return true, gone || changed
}

// expire takes out the registrants whose time is over.
func (t *registrations) expire(id uint32, now instant) (gone, changed bool) {
	row := t.rows.at(id)
	row.registrants = slices.DeleteFunc(row.registrants, func(r registrant) bool { return r.expiresAt <= now })
	return t.settle(id, row)
}

// settle brings a registration into order after registrants left.
func (t *registrations) settle(id uint32, row *registration) (gone, changed bool) {
	if len(row.registrants) == 0 {
		t.remove(id)
		return true, true
	}
	changed = row.merge()
	t.timers.set(id, row.expiry())
	return false, changed
}

func (t *registrations) remove(id uint32) {
	row := t.rows.at(id)
	row.site.registrations--
	t.index.remove(row.merged.Prefix)
	t.timers.remove(id)
	t.rows.release(id)
}

func (r *registration) find(who registrantID) int {
	return slices.IndexFunc(r.registrants, func(x registrant) bool { return x.id == who })
}

// newestVersion is the newest Map-Version that was registered: all xTRs of a site
// must have the same one, and who is behind has an old mapping (RFC 9302 s.5, s.9).
func (r *registration) newestVersion() uint16 {
	newest := uint16(lisp.NullMapVersion)
	for i := range r.registrants {
		v := r.registrants[i].mapping.Version
		if newest == lisp.NullMapVersion || lisp.CompareMapVersions(v, newest) > 0 {
			newest = v
		}
	}
	return newest
}

// expiry is when the first of the registrants expires.
func (r *registration) expiry() instant {
	earliest := never
	for i := range r.registrants {
		earliest = min(earliest, r.registrants[i].expiresAt)
	}
	return earliest
}

// merge works out what is answered: the last registrant's mapping, with those of
// all others that asked for merging when it asked for it too (RFC 9301 s.5.6, a
// bit). Where two speak of one locator, the later one is right.
func (r *registration) merge() (changed bool) {
	merged := mergedMapping(r.registrants)
	changed = !merged.Equal(r.merged)
	r.merged = merged
	return changed
}

func mergedMapping(registrants []registrant) lisp.Mapping {
	last := registrants[len(registrants)-1]
	merged := last.mapping
	if !last.mergeRequest || len(registrants) == 1 {
		return merged
	}
	locators := slices.Clone([]lisp.Locator(last.mapping.Locators))
	for i := len(registrants) - 2; i >= 0; i-- {
		if registrants[i].mergeRequest {
			locators = appendNewLocators(locators, registrants[i].mapping.Locators)
		}
	}
	if set, err := lisp.NewLocatorSet(locators...); err == nil {
		merged.Locators = set
	}
	return merged
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

// mergeable says why a registrant's locators do not fit beside the others'.
func (r *registration) mergeable(new registrant) error {
	if !new.mergeRequest {
		return nil
	}
	locators := slices.Clone([]lisp.Locator(new.mapping.Locators))
	for i := range r.registrants {
		if x := &r.registrants[i]; x.mergeRequest && x.id != new.id {
			locators = appendNewLocators(locators, x.mapping.Locators)
		}
	}
	if len(locators) > lisp.MaxLocators {
		return errMergedLocators
	}
	return nil
}

// proxyReply reports whether any registrant wants the Map-Server to answer
// (RFC 9301 s.8.3: any of them is enough).
func (r *registration) proxyReply() bool {
	return slices.ContainsFunc(r.registrants, func(x registrant) bool { return x.proxyReply })
}

// siteState is what a site has used of its limits.
type siteState struct {
	config        Site
	registrations int
	registers     bucket  // of the site's own rate
	authFailedAt  instant // 0 for never
	nonces        map[nonceKey]seenNonce
}

// nonceKey is whose nonces have to grow (RFC 9301 s.5.6). The source address is no
// part of it: a replay could choose it.
type nonceKey struct {
	xtrID  [16]byte
	siteID uint64
	keyID  uint8
}

// seenNonce is the last nonce with the start of its message's MAC, which tells a
// duplicate from another message.
type seenNonce struct {
	nonce uint64
	mac   [16]byte
}
