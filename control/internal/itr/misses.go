// SPDX-License-Identifier: Apache-2.0

package itr

// Destinations that the data plane misses.

import (
	"time"

	"loci/control/internal/maprequest"
	"loci/control/internal/report"
	"loci/control/internal/timing"
	"loci/lisp"
)

// reinstallAfter is how old an entry must be before a miss that it covers means
// that the data plane lost it, and not that miss and Map-Reply crossed.
const reinstallAfter = 2 * time.Second

// HandleMiss resolves a destination, unless it is known or being resolved; as PITR for a non-LISP host.
func (r *ITR) HandleMiss(m report.Miss, asPITR bool) {
	asked := lisp.HostPrefix(m.Instance, m.Destination)
	if id, e, ok := r.Cache.Longest(asked); ok && e.Mapping.Action != lisp.ActionSendMapRequest {
		if r.h.Now-e.RefreshedAt > timing.Instant(reinstallAfter) {
			e.RefreshedAt = r.h.Now
			r.Cache.emitInstall(id)
		}
		return
	}
	r.Requester.Ask(maprequest.Request{Prefix: asked, Source: m.Source, ForPacket: true, AsPITR: asPITR})
}
