// SPDX-License-Identifier: Apache-2.0

package world

// Configurations that change while a run goes on.

import (
	"slices"
	"time"

	"loci/sim/internal/sites"
)

// Configure brings what changed at a site to all its tunnel routers, one after the other.
func (w *World) Configure(s *sites.Site) {
	for _, x := range s.XTRs {
		w.Router(x).judgeLinks()
	}
	s.RaiseVersion()
	for i, x := range s.XTRs {
		if i == 0 {
			w.Router(x).Configure()
			continue
		}
		w.After(w.Random.Between(0, 500*time.Millisecond), w.Router(x).Configure)
	}
	if s.Via.Before != nil {
		w.Router(s.Via.Before).Configure()
	}
}

// ConfigureAround brings another address of a relay to all that have it.
func (w *World) ConfigureAround(relay *sites.Router) {
	w.Router(relay).Configure()
	for _, s := range w.Sites {
		if slices.Contains(s.ByWay(), relay) {
			w.Configure(s)
		}
	}
}
