// SPDX-License-Identifier: Apache-2.0

package mapserver

// Registrations that came through a NAT, as far as they show it: all their RLOCs are private, and none is the address that they came
// from. A status that lists them would walk a million rows otherwise.

import (
	"net/netip"
	"slices"

	"loci/control/internal/status"
	"loci/lisp"
)

// maxTranslated bounds the EID-Prefixes that are told. Where one of them ends, another is told when it is registered again.
const maxTranslated = 64

// translated are such EID-Prefixes.
type translated map[lisp.Prefix]struct{}

// isTranslated reports whether a NAT lies between those RLOCs and who registered them. That none of the other family is the source
// says nothing.
func isTranslated(set lisp.LocatorSet, from netip.Addr) bool {
	comparable := false
	for i := range set {
		own := set[i].Path().Last()
		if !own.IsZero() && (own.Addr() == from || !own.IsPrivate()) {
			return false
		}
		comparable = comparable || !own.IsZero() && own.Is4() == from.Is4()
	}
	return comparable
}

// note notes an EID-Prefix that was registered.
func (t *translated) note(p lisp.Prefix, is bool) {
	switch {
	case !is:
		delete(*t, p)
	case len(*t) < maxTranslated:
		if *t == nil {
			*t = translated{}
		}
		(*t)[p] = struct{}{}
	}
}

// Translated lists registrations that came through a NAT, in the order of EID-Prefixes.
func (s *MapServer) Translated() (list []status.Registration) {
	for p := range s.translated {
		before := len(list)
		if _, row, ok := s.Registrations.Get(p); ok {
			s.StatusOf(row, func(r status.Registration) bool {
				if isTranslated(r.Mapping.Locators, r.From.Addr()) {
					list = append(list, r)
				}
				return true
			})
		}
		if len(list) == before {
			delete(s.translated, p)
		}
	}
	slices.SortStableFunc(list, func(a, b status.Registration) int { return a.Prefix.Compare(b.Prefix) })
	return list
}
