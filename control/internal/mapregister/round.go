// SPDX-License-Identifier: Apache-2.0

package mapregister

// A Map-Register that goes by several RTRs goes by one after the other, each time with a nonce of its own: at once, the
// Map-Server would refuse those that another one overtook. The first Map-Notify registers it; each RTR forwards from its
// own on. The others get it then, and once or twice again where no Map-Notify comes by them.

import (
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/timing"
)

const (
	// pathGap is how long a Map-Notify by one RTR is waited for before the next one has its turn.
	pathGap = 250 * time.Millisecond
	// pathTries are sent again by an RTR after the first one, where the Map-Register is acknowledged by another.
	pathTries = 2
)

// paths are a set of the RTRs of a Map-Server, by number.
type paths uint16

// sentNonce is that of one Map-Register.
type sentNonce struct {
	nonce    uint64
	path     uint8 // the number of the RTR
	answered bool
}

// round is how far a message has come by all RTRs.
type round struct {
	toGo      paths
	passed    paths // a Map-Notify came by them
	next      paths // of the next round; 0 for all
	open      int   // of the last nonces: Map-Notifies for these acknowledge something
	again     int   // how often the rest went again
	refreshAt timing.Instant
}

// all are the RTRs of a Map-Server; without any, one stands for no RTR.
func (p *Peer) all() paths {
	return 1<<min(max(len(p.Config.ByRTRs), 1), settings.MaxRTRs) - 1
}

// answering are those that are not silent.
func (p *Peer) answering() (set paths) {
	for i, path := range p.Config.ByRTRs {
		if !path.Silent && i < settings.MaxRTRs {
			set |= 1 << i
		}
	}
	return set
}

// pathOf is the number of an RTR, -1 for none.
func (p *Peer) pathOf(rtr, local netip.Addr) int {
	return slices.IndexFunc(p.Config.ByRTRs, func(path settings.RTRPath) bool { return path.RTR == rtr && path.Local == local })
}

// beginRound begins with the first try, or another one: by those that answer.
func (m *Message) beginRound() {
	r := &m.round
	switch {
	case m.tries == 0:
		*r = round{toGo: m.peer.all(), refreshAt: r.refreshAt, next: r.next}
		if r.next != 0 {
			r.toGo &= r.next
		}
		r.next = 0
	default:
		r.toGo = m.peer.answering()
	}
	if r.toGo == 0 {
		r.toGo = m.peer.all()
	}
}

// nextPath takes the next RTR of the round; nil for no RTR.
func (m *Message) nextPath() (at uint8, path *settings.RTRPath) {
	at = uint8(bits.TrailingZeros16(uint16(m.round.toGo)))
	m.round.toGo &^= 1 << at
	if int(at) < len(m.peer.Config.ByRTRs) {
		path = &m.peer.Config.ByRTRs[at]
	}
	return at, path
}

// sendAgainBy has the next round go by an RTR; where the message is not acknowledged, by all.
func (m *Message) sendAgainBy(path int) {
	if m.tries == 0 && m.round.toGo == 0 && m.acknowledged {
		m.round.next |= 1 << path
	} else {
		m.round.next = 0
	}
	m.tries, m.round.toGo, m.round.refreshAt = 0, 0, 0
}

// awaits is the Map-Register that a Map-Notify answers, nil where it acknowledges nothing: one that was answered, or of
// an earlier round. Older nonces are kept to tell a late copy from an unsolicited Map-Notify.
func (m *Message) awaits(nonce uint64) *sentNonce {
	for i := max(len(m.nonces)-m.round.open, 0); i < len(m.nonces); i++ {
		if m.nonces[i].nonce == nonce && !m.nonces[i].answered {
			return &m.nonces[i]
		}
	}
	return nil
}

// answeredBy notes and returns by which RTR a Map-Notify came.
func (m *Message) answeredBy(sent *sentNonce) *settings.RTRPath {
	m.round.passed |= 1 << sent.path
	if int(sent.path) < len(m.peer.Config.ByRTRs) {
		return &m.peer.Config.ByRTRs[sent.path]
	}
	return nil
}

// rest are the RTRs that go on when the message is acknowledged by another one.
func (m *Message) rest() paths {
	if m.round.toGo != 0 || len(m.peer.Config.ByRTRs) < 2 {
		return m.round.toGo
	}
	if m.round.again >= pathTries {
		return 0
	}
	return m.sentBy() & m.peer.answering() &^ m.round.passed
}

// sentBy are the RTRs that it went by in this round.
func (m *Message) sentBy() (set paths) {
	for _, sent := range m.nonces[max(len(m.nonces)-m.round.open, 0):] {
		set |= 1 << sent.path
	}
	return set
}

// goesOn reports whether a message that is acknowledged is to be sent by another RTR.
func (m *Message) goesOn(now timing.Instant) bool {
	return m.tries == 0 && m.acknowledged && m.rest() != 0 && (m.Withdrawal || now < m.round.refreshAt)
}

// goOn schedules what is left for a message that is acknowledged: other RTRs, then its refresh, or its end.
func (s *Sender) goOn(id uint32, at timing.Instant) {
	m := s.Messages.At(id)
	switch {
	case m.goesOn(at) && m.round.toGo == 0:
		s.Timers.Set(id, m.sentAt+timing.Instant(settings.RegisterRetransmitFirst<<m.round.again))
	case m.goesOn(at):
		s.Timers.Set(id, at)
	case m.Withdrawal:
		s.end(id)
	default:
		s.Timers.Set(id, m.round.refreshAt)
	}
}

// sendOn sends a message that is acknowledged by the next RTR.
func (s *Sender) sendOn(id uint32) {
	m := s.Messages.At(id)
	again := m.round.toGo == 0
	if again {
		m.round.toGo = m.rest()
		m.round.again++
	}
	s.transmit(id, again)
	s.goOn(id, s.h.After(pathGap))
}
