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

// hasten sends a message soon that was sent in vain; one that went a moment ago only if it is not acknowledged then.
// What was not acknowledged during a silence says nothing about its EID-Prefixes: they have all tries again before they
// are refused, or registered apart.
func (r *Registrar) hasten(id uint32) {
	m := r.Messages.At(id)
	if m.peer == nil || !m.peer.Config.WantMapNotify || m.tries == 0 || m.refused {
		return
	}
	m.tries = min(m.tries, silentAfter)
	switch {
	case m.sentAt >= m.peer.backAt:
	case r.h.Now-m.sentAt < hastenAfter: // its Map-Notify may be under way
		m.tries = 1
	default:
		m.tries = 0
	}
	apart := timing.Instant(m.place) * timing.Instant(registerGap)
	at := max(m.peer.slot(r.h.Now, r.h.Limits.MapRegisters), m.sentAt+hastenAfter+apart)
	r.Timers.Set(id, min(r.Timers.Of(id), at))
}

// hastenAfter is how long a Map-Notify may take.
const hastenAfter = timing.Instant(settings.RegisterRetransmitFirst)
