// SPDX-License-Identifier: Apache-2.0

package mapregister

// EID-Prefixes that a Map-Server does not acknowledge. Ours leaves them out of its Map-Notify and takes the
// others (RFC 9301 s.5.7); other implementations refuse the whole Map-Register without a word. So what is not
// acknowledged is registered apart, each EID-Prefix in a Map-Register of its own, and joins the others again
// when it is. This file sends nothing itself.

import (
	"slices"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// aloneAgain is how long an EID-Prefix stays alone that was not acknowledged after it had joined others.
	aloneAgain = time.Hour
	// UnacknowledgedListed bounds the EID-Prefixes that a status lists.
	UnacknowledgedListed = 100
)

// complete is for a message whose mappings are all acknowledged: it is refreshed from now on.
func (s *Sender) complete(id uint32) {
	m := s.Messages.At(id)
	m.acknowledged, m.tries, m.since = true, 0, 0
	m.round.refreshAt = max(m.sentAt+timing.Instant(s.refreshAfter(m)), s.h.Now)
	s.goOn(id, s.h.Now)
	if m.alone || m.aloneUntil != 0 && m.aloneUntil <= s.h.Now {
		s.join(id)
	}
}

// join lets a mapping that is acknowledged alone go with others that were.
func (s *Sender) join(id uint32) {
	m := s.Messages.At(id)
	p := m.peer
	if m.refused {
		s.tryOthers(p)
	}
	s.setAlone(m, false)
	m.refused = false
	if m.aloneUntil > s.h.Now {
		return
	}
	m.aloneUntil = 0
	if p.joined != 0 && p.joined != id+1 {
		others := s.Messages.At(p.joined - 1)
		if others.tries == 0 && others.acknowledged && s.hasRoom(others, m.Mappings[0]) {
			others.Mappings = append(others.Mappings[:len(others.Mappings):len(others.Mappings)], m.Mappings[0])
			s.Timers.Set(p.joined-1, max(s.Timers.Of(p.joined-1), m.sentAt+timing.Instant(settings.RegisterRetransmitFirst)))
			s.end(id)
			return
		}
	}
	m.joined, p.joined = true, id+1
}

// tryOthers tries a few of those that were refused before their time, because one of them is not any more.
func (s *Sender) tryOthers(p *Peer) {
	const looks, tries = 32, 2
	tried := 0
	for range min(looks, len(p.Messages)) {
		p.retried = (p.retried + 1) % len(p.Messages)
		id := p.Messages[p.retried]
		m := s.Messages.At(id)
		if !m.refused || s.h.Now-m.sentAt < timing.Instant(settings.RegisterRetransmitFirst) {
			continue
		}
		s.Timers.Set(id, min(s.Timers.Of(id), p.slot(s.h.Now, s.h.Limits.MapRegisters)))
		if tried++; tried == tries {
			return
		}
	}
}

func (s *Sender) hasRoom(m *Message, more lisp.Mapping) bool {
	octets := system.RecordOctets(more)
	for _, mapping := range m.Mappings {
		octets += system.RecordOctets(mapping)
	}
	return octets <= m.peer.Packing().room && len(m.Mappings) < wire.MaxRecords
}

// part keeps the mappings of a message that were acknowledged. The others go apart.
func (s *Sender) part(id uint32) {
	m := *s.Messages.At(id)
	var kept, rest []lisp.Mapping
	for i, mapping := range m.Mappings {
		if m.got[i] {
			kept = append(kept, mapping)
		} else {
			rest = append(rest, mapping)
		}
	}
	s.Messages.At(id).Mappings, s.Messages.At(id).got = kept, nil
	s.complete(id)
	s.sendApart(m, rest)
}

// mayPart reports whether mappings of a message that is not acknowledged are to be tried apart.
func (s *Sender) mayPart(m *Message) bool {
	p := m.peer
	switch {
	case m.alone || m.tries < silentAfter || !p.Config.WantMapNotify:
		return false
	case m.Withdrawal:
		return len(m.Mappings) > 1 && p.answers(m.since)
	}
	return p.answers(m.since) || p.Alone < aloneAtOnce
}

// partAll registers all mappings of a message apart.
func (s *Sender) partAll(id uint32) {
	m := *s.Messages.At(id)
	if len(m.Mappings) == 1 {
		s.setAlone(s.Messages.At(id), true)
		s.send(id)
		return
	}
	s.sendApart(m, m.Mappings)
	s.end(id)
}

// sendApart sends mappings of a message again, each in a message of its own.
func (s *Sender) sendApart(m Message, mappings []lisp.Mapping) {
	for i := range mappings {
		one := Message{peer: m.peer, Mappings: mappings[i : i+1 : i+1], Withdrawal: m.Withdrawal, since: m.since, alone: !m.Withdrawal}
		if m.joined {
			one.aloneUntil = s.h.After(aloneAgain)
		}
		id := s.queue(one)
		if left := s.Messages.At(id); m.got != nil && left.alone { // it was left out of a Map-Notify
			s.tellRefused(left)
		}
	}
}

// unacknowledged are the EID-Prefixes that a Map-Server does not acknowledge, the first of them in order, and how
// many there are.
func (s *Sender) unacknowledged(p *Peer) (list []status.UnacknowledgedEID, count int) {
	if !p.Config.WantMapNotify {
		return nil, 0
	}
	for _, id := range p.Messages {
		m := s.Messages.At(id)
		for i := range m.Mappings {
			if !m.lacks(i) {
				continue
			}
			count++
			if len(list) < UnacknowledgedListed {
				list = append(list, status.UnacknowledgedEID{Prefix: m.Mappings[i].Prefix, Since: s.h.Time(m.since)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b status.UnacknowledgedEID) int { return a.Prefix.Compare(b.Prefix) })
	return list, count
}
