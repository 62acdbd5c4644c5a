// SPDX-License-Identifier: Apache-2.0

package itr

// What of an earlier ITR the one in its place has.

import (
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/lisp"
)

// HasMapping reports whether the ITR, nil for none, has an entry of its own in an old one's place.
func (r *ITR) HasMapping(old *mapcache.Entry) bool {
	if r == nil {
		return false
	}
	_, _, ok := r.Cache.Get(old.Mapping.Prefix)
	return ok
}

// HoldsBack reports whether the ITR, nil for none, told the data plane itself that a locator is not up.
func (r *ITR) HoldsBack(old lisp.Path) bool {
	if r == nil {
		return false
	}
	s := r.Prober.Table.PathStatus(old)
	return s != nil && s.Told != effect.LocatorUp
}
