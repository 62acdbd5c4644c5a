// SPDX-License-Identifier: Apache-2.0

package itr

// What the ITR tells about itself.

import (
	"iter"
	"slices"

	"loci/control/internal/mapcache"
	"loci/control/internal/status"
)

// Status yields the map-cache for `loci show`.
func (r *ITR) Status() iter.Seq[status.MapCacheStatus] {
	return func(yield func(status.MapCacheStatus) bool) {
		for _, id := range r.Cache.Index.All() {
			if !yield(r.entryStatus(r.Cache.Entries.At(id))) {
				return
			}
		}
	}
}

// maxUnreachableListed bounds the mappings that UnreachableMappings lists.
const maxUnreachableListed = 64

// UnreachableMappings lists mappings whose packets are dropped because their sites call no locator reachable, some
// dozens at most, in the order of EID-Prefixes, and says how many there are.
func (c *mapCache) UnreachableMappings() (list []status.UnreachableMapping, count int) {
	unreachable := &c.Unreachable
	for i := range min(unreachable.Size(), maxUnreachableListed) {
		id := unreachable.Row(i)
		e := c.Entries.At(id)
		list = append(list, status.UnreachableMapping{Prefix: e.Mapping.Prefix, From: e.From, Since: c.h.Time(unreachable.Of(id))})
	}
	slices.SortFunc(list, func(a, b status.UnreachableMapping) int { return a.Prefix.Compare(b.Prefix) })
	return list, unreachable.Size()
}

func (r *ITR) entryStatus(e *mapcache.Entry) status.MapCacheStatus {
	s := status.MapCacheStatus{MapCacheEntry: r.Cache.Entry(e), State: status.MapCacheComplete, From: e.From}
	if e.LastUsedAt != 0 {
		s.LastUsedAt = r.h.Time(e.LastUsedAt)
	}
	switch {
	case e.Static:
		s.State = status.MapCacheStatic
	case e.Stale:
		s.State = status.MapCacheStale
	case e.Gleaned:
		s.State = status.MapCacheGleaned
	case e.Refreshing:
		s.State = status.MapCacheRefreshing
	case e.Mapping.Negative():
		s.State = status.MapCacheNegative
	}
	return s
}
