// SPDX-License-Identifier: Apache-2.0

package mapregister

// Map-Registers that no Map-Notify answered go at once when the mapping system is heard from again, at the rate of all: by their
// backoff (RFC 9301 s.5.7) some would wait for a minute. The backoff goes on from there.

import (
	"loci/control/internal/settings"
	"loci/control/internal/timing"
)

// hastenBatch bounds the Map-Registers that are looked at in one event-loop iteration.
const hastenBatch = 1024

// Hasten begins to send them.
func (s *Sender) Hasten() {
	s.hastened = 0
	s.Hastening.At(s.h.Now)
}

// HandleHastening does one batch.
func (s *Sender) HandleHastening() {
	s.Hastening.Run(s.h.Now, hastenBatch, func() (cost int, more bool) {
		rows := uint32(s.Messages.Len())
		if s.hastened < rows {
			s.hasten(s.hastened)
			s.hastened++
		}
		return 1, s.hastened < rows
	})
}

// hasten sends a message soon that was sent in vain; one that went a moment ago only if it is not acknowledged then.
// What was not acknowledged during a silence says nothing about its EID-Prefixes: they have all tries again before they
// are refused, or registered apart.
func (s *Sender) hasten(id uint32) {
	m := s.Messages.At(id)
	if m.peer == nil || !m.peer.Config.WantMapNotify || m.tries == 0 || m.refused {
		return
	}
	m.tries = min(m.tries, silentAfter)
	switch {
	case m.sentAt >= m.peer.backAt:
	case s.h.Now-m.sentAt < hastenAfter: // its Map-Notify may be under way
		m.tries = 1
	default:
		m.tries = 0
	}
	apart := timing.Instant(m.place) * timing.Instant(registerGap)
	at := max(m.peer.slot(s.h.Now, s.h.Limits.MapRegisters), m.sentAt+hastenAfter+apart)
	s.Timers.Set(id, min(s.Timers.Of(id), at))
}

// hastenAfter is how long a Map-Notify may take.
const hastenAfter = timing.Instant(settings.RegisterRetransmitFirst)
