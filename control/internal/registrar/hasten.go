// SPDX-License-Identifier: Apache-2.0

package registrar

// Map-Registers that no Map-Notify answered go at once when the mapping system is heard from again, at the rate of all: by their
// backoff (RFC 9301 s.5.7) some would wait for a minute. The backoff goes on from there.

import (
	"loci/control/internal/settings"
	"loci/control/internal/timing"
)

// hastenBatch bounds the Map-Registers that are looked at in one event-loop iteration.
const hastenBatch = 1024

// Hasten begins to send them.
func (r *Registrar) Hasten() {
	r.hastened = 0
	r.Hastening.At(r.h.Now)
}

// HandleHastening does one batch.
func (r *Registrar) HandleHastening() {
	r.Hastening.Run(r.h.Now, hastenBatch, func() (cost int, more bool) {
		rows := uint32(r.Messages.Len())
		if r.hastened < rows {
			r.hasten(r.hastened)
			r.hastened++
		}
		return 1, r.hastened < rows
	})
}

// hasten sends a message soon that was sent in vain, unless that was a moment ago.
func (r *Registrar) hasten(id uint32) {
	m := r.Messages.At(id)
	if m.peer == nil || !m.peer.Config.WantMapNotify || m.tries == 0 || m.refused || r.h.Now-m.sentAt < hastenAfter {
		return
	}
	m.tries = min(m.tries, silentAfter)
	r.Timers.Set(id, min(r.Timers.Of(id), m.peer.slot(r.h.Now, r.h.Limits.MapRegisters)))
}

// hastenAfter is how long a Map-Notify may take.
const hastenAfter = timing.Instant(settings.RegisterRetransmitFirst)
