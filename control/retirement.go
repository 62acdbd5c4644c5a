// SPDX-License-Identifier: Apache-2.0

package control

// What an ITR leaves behind when the role is switched off: the data plane is emptied of its map-cache and
// of what it was told about locators, a batch a turn. An ITR that begins meanwhile has
// the last word on all that is its own.

// retiredRows is one batch: each may be a change of the data plane.
const retiredRows = 512

// retirement is the pass over the tables of an ITR that is gone.
type retirement struct {
	cache    *mapCache
	locators *locatorTable
	entry    uint32 // where the pass is
	locator  uint32
}

// retire begins to empty the data plane; little is done at once.
func (n *Node) retire(r *itr) {
	n.retired = append(n.retired, retirement{cache: &r.cache, locators: &r.prober.table})
	n.handleRetirement(0)
}

// handleRetirement does one batch.
func (n *Node) handleRetirement(uint32) {
	for left := retiredRows; left > 0 && len(n.retired) > 0; left-- {
		if !n.retired[0].step(n.host, n.itr) {
			n.retired = n.retired[1:]
		}
	}
	if len(n.retired) > 0 {
		n.retiring.set(0, n.host.now+1) // the next turn
	}
}

// step looks at one row and reports whether there was any. The successor is nil as long as there is none.
func (r *retirement) step(h *host, successor *itr) bool {
	switch {
	case r.entry < uint32(r.cache.entries.len()):
		e := r.cache.entries.at(r.entry)
		r.entry++
		if !e.mapping.Prefix.IsZero() && !successor.hasMapping(e) {
			h.emit(RemoveMapping{Prefix: e.mapping.Prefix, Reason: RemoveConfigured})
		}
	case r.locator < uint32(r.locators.rows.len()):
		l := r.locators.rows.at(r.locator)
		r.locator++
		if l.told && !successor.holdsDown(l) {
			h.emit(SetLocatorState{RLOC: l.rloc, Up: true})
		}
	default:
		return false
	}
	return true
}

// hasMapping reports whether the ITR has an entry of its own in an old one's place.
func (r *itr) hasMapping(old *cacheEntry) bool {
	if r == nil {
		return false
	}
	_, _, ok := r.cache.get(old.mapping.Prefix)
	return ok
}

// holdsDown reports whether the ITR itself told the data plane that a locator is down.
func (r *itr) holdsDown(old *locator) bool {
	if r == nil {
		return false
	}
	_, l, ok := r.prober.table.get(old.rloc)
	return ok && l.told
}
