// SPDX-License-Identifier: Apache-2.0

package nat

// The bindings of an RTR, as an operator sees them.

import (
	"slices"

	"loci/control/internal/status"
	"loci/lisp"
)

// pageRows bounds the rows that are looked at for one page.
const pageRows = 2048

// Page is a part of the bindings, in no order: at most so many from where the last page ended, which is 0 at first.
// more is false after the last one.
func (t *bindings) Page(from uint32, most int) (page []status.NATBinding, next uint32, more bool) {
	rows := uint32(t.rows.Len())
	for next = from; next < rows && len(page) < most && next-from < pageRows; next++ {
		if b := t.rows.At(next); !b.prefix.IsZero() { // not released
			page = append(page, t.statusOf(b))
		}
	}
	return page, next, next < rows
}

// Of are the bindings of an EID-Prefix.
func (t *bindings) Of(p lisp.Prefix) (list []status.NATBinding) {
	for _, b := range t.each(p) {
		list = append(list, t.statusOf(b))
	}
	return list
}

func (t *bindings) statusOf(b *binding) status.NATBinding {
	s := status.NATBinding{
		Prefix: b.prefix, Seen: b.from, Private: b.private, Own: b.local, MapServer: b.mapServer,
		XTRID:  b.node.xtr,
		SiteID: b.node.site, Since: t.h.Time(b.since), VerifiedAt: t.h.Time(b.verifiedAt),
		ExpiresAt: t.h.Time(b.expiresAt()), Moves: b.moves, Silent: !slices.Contains(t.inUse(b.prefix), b),
	}
	for _, w := range b.rlocs {
		s.RLOCs = append(s.RLOCs, status.NATRLOC{Seen: w.from, Private: w.private, Priority: w.priority,
			Weight: w.weight})
	}
	if since, often := b.changes.OftenSince(t.h.Now); often {
		s.OftenChangedSince = t.h.Time(since)
	}
	return s
}
