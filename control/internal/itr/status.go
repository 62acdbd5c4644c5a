// SPDX-License-Identifier: Apache-2.0

package itr

// What the ITR tells about itself.

import (
	"iter"

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
