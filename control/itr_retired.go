// SPDX-License-Identifier: Apache-2.0

package control

// What of an earlier ITR the one in its place has.

// hasMapping reports whether the ITR, nil for none, has an entry of its own in an old one's place.
func (r *itr) hasMapping(old *cacheEntry) bool {
	if r == nil {
		return false
	}
	_, _, ok := r.cache.get(old.mapping.Prefix)
	return ok
}

// holdsBack reports whether the ITR, nil for none, told the data plane itself that a locator is not up.
func (r *itr) holdsBack(old *locator) bool {
	if r == nil {
		return false
	}
	_, l, ok := r.prober.table.get(old.rloc)
	return ok && l.told != LocatorUp
}
