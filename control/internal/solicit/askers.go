// SPDX-License-Identifier: Apache-2.0

package solicit

// Who asked for our mappings, what for, and from which EID: those who are told by SMRs when a mapping changes (RFC 9301 s.6.1).
// Nothing authenticates a Map-Request, so this says where an SMR goes and what it names, nothing else. A table: it sends nothing.

import (
	"slices"

	"loci/lisp"
)

// Askers are the RLOCs that asked for our mappings, and for which: the recent ones, two
// generations of half the limit each.
type Askers struct{ current, previous map[lisp.RLOC][]Asking }

// Asking is an EID-Prefix of ours that a peer asked for, and the EID from which; zero for none.
type Asking struct{ Prefix, from lisp.Prefix }

// AskerPrefixes bounds what is remembered of one of them.
const AskerPrefixes = 8

// Note remembers who asked for what.
func (a *Askers) Note(rloc lisp.RLOC, asked Asking, limit int) {
	known, ok := a.current[rloc]
	if at := slices.IndexFunc(known, func(k Asking) bool { return k.Prefix == asked.Prefix }); at >= 0 {
		if !asked.from.IsZero() {
			known[at].from = asked.from
		}
		return
	}
	if !ok && (a.current == nil || len(a.current) >= max(limit/2, 1)) {
		a.previous, a.current = a.current, make(map[lisp.RLOC][]Asking)
	}
	if len(known) == AskerPrefixes {
		known = slices.Delete(known, 0, 1)
	}
	a.current[rloc] = append(known, asked)
}

// siteAt is an EID from which an RLOC asked, of the Instance-ID and family of an EID-Prefix; zero for none.
func (a *Askers) siteAt(rloc lisp.RLOC, like lisp.Prefix) (site lisp.Prefix) {
	for _, k := range slices.Concat(a.previous[rloc], a.current[rloc]) {
		if k.from.Kind() == like.Kind() && k.from.Instance() == like.Instance() {
			site = k.from
		}
	}
	return site
}

// List is all of them in order.
func (a *Askers) List() []lisp.RLOC {
	var all []lisp.RLOC
	for rloc := range a.current {
		all = append(all, rloc)
	}
	for rloc := range a.previous {
		if _, newer := a.current[rloc]; !newer {
			all = append(all, rloc)
		}
	}
	slices.SortStableFunc(all, lisp.RLOC.Compare)
	return all
}

// AskedFor is what one of them asked for, the latest first.
func (a *Askers) AskedFor(rloc lisp.RLOC) []lisp.Prefix {
	var all []lisp.Prefix
	for _, k := range slices.Concat(a.previous[rloc], a.current[rloc]) {
		if at := slices.Index(all, k.Prefix); at >= 0 {
			all = slices.Delete(all, at, at+1)
		}
		all = append(all, k.Prefix)
	}
	slices.Reverse(all)
	return all
}
