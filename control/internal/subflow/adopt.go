// SPDX-License-Identifier: Apache-2.0

package subflow

// What the data plane says about bound flows: those that it kept through a restart, and when each was last used.

import (
	"loci/control/internal/effect"
	"loci/control/internal/report"
	"loci/control/internal/status"
)

// Adopt takes over bindings of an earlier run. Their sessions are not known any more: joins are bound by their two
// EIDs. Where ETRs choose, they are asked again.
func (b *Binder) Adopt(list []report.BoundFlow) {
	for _, f := range list {
		_, _, known := b.flows.get(f.Flow)
		if !b.on || known || f.Flow.Protocol != protocolTCP || !b.flows.hasRoom(&f.Flow) {
			b.h.Emit(effect.UnbindFlow{Flow: f.Flow})
			continue
		}
		opened, heard := b.h.Instant(f.CreatedAt), b.h.Instant(f.LastUsedAt)
		id := b.add(row{
			flow: f.Flow, isAdopted: true, state: followed, why: status.SubflowAdopted, openedAt: opened,
			askedAt: opened, heardAt: max(opened, heard),
		})
		b.flows.setPath(id, f.Path)
	}
	if b.asks {
		b.StatesChanged()
	}
}

// HandleUsage takes when bound flows were last used. One that is not known is unbound: that was lost. What the data
// plane forwarded before the subflow was of an older connection with the same addresses and ports, and what it
// forwarded up to a repeated SYN was that SYN.
func (b *Binder) HandleUsage(list []report.BoundFlow) {
	if !b.on {
		return
	}
	for _, f := range list {
		id, r, known := b.flows.get(f.Flow)
		switch used := b.h.Instant(f.LastUsedAt); {
		case !known:
			b.h.Emit(effect.UnbindFlow{Flow: f.Flow})
		case used > r.askedAt:
			b.heard(id, used)
		}
	}
}
