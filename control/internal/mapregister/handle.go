// SPDX-License-Identifier: Apache-2.0

package mapregister

// What comes of a Map-Register: the Map-Notify that acknowledges it (RFC 9301 s.5.7), the timer that has it sent
// again, and how things stand with its Map-Server. It knows nothing of Map-Notifies that acknowledge none.

import (
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
)

// HandleMapNotify takes the acknowledgement of a Map-Register, and returns the Map-Server that it is of, nil where it
// answers none, and the RTR that its Map-Register went by. One that comes for the second time acknowledges nothing.
func (s *Sender) HandleMapNotify(m *message.MapNotify) (p *Peer, by *settings.RTRPath, acknowledges bool) {
	id, ok := s.byNonce[m.Nonce]
	if !ok || s.Messages.At(id).peer.Config.ID() != m.Peer {
		return nil, nil, false
	}
	message := s.Messages.At(id)
	p = message.peer
	sent := message.awaits(m.Nonce)
	if sent == nil {
		return p, nil, false // a duplicate or a replay: nothing is registered by it
	}
	by = message.answeredBy(sent)
	if message.tries == 0 { // it was registered by another RTR
		sent.answered = true
		s.goOn(id, s.h.Now)
		return p, by, by != nil
	}
	s.h.CoreAnswered(p.Config.Address.Addr(), m.From.Addr(), message.sentAt)
	complete := message.Withdrawal || message.Note(m)
	sent.answered = complete
	if p.lastNotifyAt == 0 || message.tries >= silentAfter || message.refused && complete {
		s.h.Notice(effect.Notice{Kind: effect.NoticeMapNotifyReceived, Prefix: message.Mappings[0].Prefix, Remote: m.From})
	}
	if p.unacknowledged >= silentAfter {
		s.Hasten()
	}
	if p.question != 0 {
		p.backAt, p.question = s.h.Now, 0
	}
	p.lastNotifyAt, p.unacknowledged = s.h.Now, 0
	switch {
	case message.Withdrawal:
		message.tries, message.acknowledged = 0, true
		s.goOn(id, s.h.Now)
	case complete:
		s.h.Registrations.Add(time.Duration(s.h.Now - message.since))
		s.arrived(message)
		s.complete(id)
	case message.got != nil:
		s.arrived(message)
	}
	return p, by, true
}

// StatusOf is how things stand with a Map-Server.
func (s *Sender) StatusOf(p *Peer) status.MapServerStatus {
	is := status.MapServerStatus{Address: p.Config.Address, Site: p.Config.Site, State: status.MapServerIdle, Prefixes: p.Prefixes, Unacknowledged: p.unacknowledged}
	if p.lastSentAt != 0 {
		is.State, is.LastSentAt = status.MapServerSent, s.h.Time(p.lastSentAt)
	}
	if p.lastNotifyAt != 0 {
		is.LastNotifyAt = s.h.Time(p.lastNotifyAt)
	}
	next, acknowledged, others := timing.Never, true, true
	for _, id := range p.Messages {
		m := s.Messages.At(id)
		next = min(next, s.Timers.Of(id))
		acknowledged = acknowledged && m.acknowledged
		others = others && (m.acknowledged || m.got != nil || m.refused)
	}
	if next != timing.Never {
		is.NextSendAt = s.h.Time(next)
	}
	if p.Config.WantMapNotify && len(p.Messages) > 0 {
		is.State = status.MapServerWaiting
		switch {
		case acknowledged:
			is.State = status.MapServerRegistered
		case others:
			is.State = status.MapServerPartial
		}
	}
	is.Lacking, is.LackingCount = s.unacknowledged(p)
	return is
}

// HandleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal. It returns the
// Map-Server that the message is for.
func (s *Sender) HandleTimeout(id uint32) *Peer {
	m := s.Messages.At(id)
	p := m.peer
	switch {
	case m.goesOn(s.h.Now):
		s.sendOn(id)
		return p
	case m.got != nil: // no other Map-Notify came with the rest
		s.part(id)
		return p
	case s.mayPart(m):
		s.partAll(id)
		return p
	case m.Withdrawal && m.tries >= WithdrawTries:
		s.end(id)
		return p
	}
	if !p.Config.WantMapNotify && !m.Withdrawal {
		m.tries = 0 // without Map-Notifies every message is a refresh
	}
	s.send(id)
	return p
}
