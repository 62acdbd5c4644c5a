// SPDX-License-Identifier: Apache-2.0

package itr

// What the absence of a more specific mapping means while less specific ones are cached
// (RFC 9301 s.5.5): they would decide for its EIDs, about which they say nothing. So
// those that cover an entry leave before it does. Nothing here asks for anything.

import (
	"loci/control/internal/effect"
	"loci/control/internal/timing"
	"loci/lisp"
)

// removeCovering removes the dynamic entries that are less specific than p, the least
// specific first.
func (r *ITR) removeCovering(p lisp.Prefix, reason effect.RemoveReason) {
	covering := r.covering(p)
	for i := len(covering) - 1; i >= 0; i-- {
		if id, e, ok := r.Cache.Get(covering[i]); ok && !e.Static {
			r.Remove(id, reason)
		}
	}
}

// capCovering lets no less specific dynamic entry live longer than one within it: what is
// in use is asked for again before that, with all that is more specific.
func (r *ITR) capCovering(p lisp.Prefix, expiresAt timing.Instant) {
	for _, wider := range r.covering(p) {
		id, e, ok := r.Cache.Get(wider)
		if !ok || e.Static || e.ExpiresAt <= expiresAt {
			continue
		}
		e.ExpiresAt = expiresAt
		r.emitInstall(id)
		r.schedule(id)
	}
}

// isCovered reports whether a less specific dynamic entry is cached.
func (r *ITR) isCovered(p lisp.Prefix) bool {
	if p.Bits() == 0 {
		return false
	}
	wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
	_, e, ok := r.Cache.Longest(wider)
	return err == nil && ok && !e.Static
}

// removeIncomplete removes what covers records of a Map-Reply for which there was no
// room.
func (r *ITR) removeIncomplete(mappings []lisp.Mapping) {
	for _, m := range mappings {
		if _, _, ok := r.Cache.Get(m.Prefix); !ok && m.TTLMinutes > 0 {
			r.removeCovering(m.Prefix, effect.RemoveEvicted)
		}
	}
}
