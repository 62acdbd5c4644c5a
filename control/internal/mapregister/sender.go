// SPDX-License-Identifier: Apache-2.0

package mapregister

// Registration with Map-Servers: Map-Registers within the size of control
// messages, authenticated, sent again until a Map-Notify comes, refreshed every
// interval, withdrawn when a prefix leaves the Database (RFC 9301 s.5.6, s.5.7,
// s.8.2). Every message, also a repeated one, has a nonce of its own: a Map-Server
// drops what it has seen. It never answers Map-Requests.

import (
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// registerNonces is how many of a Map-Register's nonces a late Map-Notify may
	// answer.
	registerNonces = 8
	// WithdrawTries ends the repetition of an unacknowledged withdrawal, or one that
	// needs no acknowledgement; the registration expires by itself.
	WithdrawTries = 5
	// registerGap is how far apart the first Map-Registers to one Map-Server are where no
	// Map-Notify tells of a loss, and repeated ones anywhere: it drops one that another
	// overtook, whose nonce is greater (RFC 9301 s.5.6). gapMessages are those that keep it;
	// more follow the pace.
	registerGap = 20 * time.Millisecond
	gapMessages = 64
	// registerJitterPart of the longest time between two repetitions is left to chance.
	registerJitterPart = 4
	// refreshGapPart: refreshes of one Database are this part of their interval apart.
	refreshGapPart = 4 * gapMessages
)

// Sender has all Map-Registers: each is sent, and again, until a Map-Server acknowledges it, and refreshed from then
// on.
type Sender struct {
	h         *system.System
	Messages  table.Slab[Message]
	byNonce   map[uint64]uint32
	Timers    timing.Deadlines
	Quick     time.Duration  // the quick interval, negative for never
	Hastening batch.Work     // sending what is not acknowledged, when the mapping system is back
	hastened  uint32         // the rows that are done
	Awaited   int            // messages with changes that no Map-Notify has answered yet
	ChangeAt  timing.Instant // when the last message with changes goes that no Map-Notify answers

	SentByRTR func(settings.RTRPath) // a Map-Register went by it
}

// NewSender makes a sender without Map-Registers.
func NewSender(h *system.System) *Sender {
	return &Sender{h: h, byNonce: make(map[uint64]uint32), SentByRTR: func(settings.RTRPath) {}}
}

// tell tells of a Map-Register that says something new.
func (s *Sender) tell(m *Message) {
	s.h.Notice(effect.Notice{Kind: effect.NoticeMapRegisterSent, Prefix: m.Mappings[0].Prefix, Remote: m.peer.Config.Address, Detail: registerDetail(*m)})
}

// Add sends a Map-Register that says something new, when its turn comes.
func (s *Sender) Add(m Message) {
	s.queue(m)
	s.tell(&m)
}

// queue schedules a message.
func (s *Sender) queue(m Message) (id uint32) {
	at := s.firstAt(&m)
	if m.awaited && !m.peer.Config.WantMapNotify {
		m.awaited, s.ChangeAt = false, max(s.ChangeAt, at)
	}
	if m.awaited {
		s.Awaited++
	}
	if m.alone {
		m.peer.Alone++
	}
	id = s.Messages.Add(m)
	s.list(id)
	if at > s.h.Now {
		s.Timers.Set(id, at)
	} else {
		s.send(id)
	}
	return id
}

// firstAt gives a message its place among those for its Map-Server, and the time at which
// it goes. Where Map-Notifies are wanted all go at once: what one of them lacks is sent again.
func (s *Sender) firstAt(m *Message) timing.Instant {
	before := len(m.peer.Messages)
	m.place = before % gapMessages
	at := m.peer.slot(s.h.Now, s.h.Limits.MapRegisters)
	if !m.peer.Config.WantMapNotify {
		at += timing.Instant(min(before, gapMessages)) * timing.Instant(registerGap)
	}
	return at
}

// interval is how long after an acknowledged Map-Register the next one follows.
func (s *Sender) interval(p *Peer) time.Duration {
	if s.h.Now < p.QuickUntil {
		return min(p.Config.RegistrationInterval, s.Quick)
	}
	return p.Config.RegistrationInterval
}

// DropFirst forgets the first message to a Map-Server, which is sent no more, and returns it.
func (s *Sender) DropFirst(p *Peer) Message {
	id := p.Messages[0]
	p.Messages, p.cut = p.Messages[1:], p.cut+1
	m := *s.Messages.At(id)
	p.keepRefused(&m)
	s.drop(id)
	return m
}

func (s *Sender) drop(id uint32) {
	m := s.Messages.At(id)
	for _, sent := range m.nonces {
		delete(s.byNonce, sent.nonce)
	}
	s.arrived(m)
	if m.Withdrawal {
		m.peer.withdrawals--
	}
	if s.setAlone(m, false); m.peer.joined == id+1 {
		m.peer.joined = 0
	}
	if m.peer.question == id+1 {
		m.peer.question = 0
	}
	if m.sentAt == 0 { // its slot is free again
		m.peer.pace -= s.h.Limits.MapRegisters.Interval()
	}
	s.Timers.Remove(id)
	s.Messages.Release(id)
}

// arrived notes that the message needs no Map-Notify any more.
func (s *Sender) arrived(m *Message) {
	if m.awaited {
		m.awaited = false
		s.Awaited--
	}
}

// send sends a message with the next nonce and sets its deadline: the
// retransmission when a Map-Notify is wanted, else the next refresh. Where it goes by several RTRs it goes by the next
// of them.
func (s *Sender) send(id uint32) {
	m := s.Messages.At(id)
	p := m.peer
	begins := m.tries == 0 || m.round.toGo == 0
	if begins {
		m.beginRound()
	}
	if !s.transmit(id, m.tries > 0 || !begins) {
		s.Timers.Set(id, s.h.After(p.Config.RegistrationInterval))
		return
	}
	if begins {
		m.tries++
	}
	if m.since == 0 {
		m.since = s.h.Now
	}
	m.acknowledged = m.acknowledged && m.tries < silentAfter
	s.Timers.Set(id, s.h.After(s.wait(id)))
	if m.round.toGo != 0 {
		s.Timers.Set(id, s.h.After(pathGap))
	}
	if begins {
		s.noteSilence(p, m)
	}
}

// transmit sends a message by the next RTR of its round, or directly, and reports whether it can be encoded.
func (s *Sender) transmit(id uint32, again bool) bool {
	m := s.Messages.At(id)
	p := m.peer
	nonce := s.h.NextRegisterNonce()
	payload, err := s.encode(m, nonce)
	if err != nil { // not ours to repair: a value that no message can hold
		s.h.Count(counter.RefusedEncoding)
		m.round.toGo = 0
		return false
	}
	if again {
		s.h.Count(counter.MapRegisterRetransmitted)
	}
	at, path := m.nextPath()
	s.remember(id, sentNonce{nonce: nonce, path: at})
	m.sentAt, p.lastSentAt = s.h.Now, s.h.Now
	if err := s.emit(p, path, payload); err != nil {
		s.h.Count(counter.RefusedEncoding)
	}
	s.h.Count(counter.MapRegisterSent)
	return true
}

// wait is how long after a Map-Register the next one follows, a Map-Notify not
// counted in (RFC 9301 s.5.7: one second, doubling, a minute at most), and no longer than the
// registration interval: a Map-Server that was away has all again after one. Part of that is
// chance, so that not all who lost it come back at the same moment.
func (s *Sender) wait(id uint32) time.Duration {
	m := s.Messages.At(id)
	p := m.peer
	if !p.Config.WantMapNotify && !m.Withdrawal {
		return s.refreshAfter(m)
	}
	if m.refused {
		return p.waitRefused(s.h.Below)
	}
	most := min(settings.RegisterRetransmitMax, p.Config.RegistrationInterval)
	if p.isQuestion(id, m) {
		most = min(most, settings.RegisterQuestionMax)
	}
	if wait := settings.RegisterRetransmitFirst << min(m.tries-1, 6); wait < most {
		return wait + time.Duration(m.place)*registerGap
	}
	return s.jittered(most)
}

func (s *Sender) jittered(most time.Duration) time.Duration {
	return max(most-s.h.Below(most/registerJitterPart), settings.RegisterRetransmitFirst)
}

// refreshAfter is how long after a Map-Register its refresh follows. The first of them go
// apart from each other, and stay so.
func (s *Sender) refreshAfter(m *Message) time.Duration {
	interval := s.interval(m.peer)
	if m.apart {
		return interval
	}
	m.apart = true
	return interval + time.Duration(m.place)*interval/refreshGapPart
}

func (s *Sender) remember(id uint32, sent sentNonce) {
	m := s.Messages.At(id)
	m.nonces = append(m.nonces, sent)
	m.round.open++
	s.byNonce[sent.nonce] = id
	if len(m.nonces) > registerNonces+2*len(m.peer.Config.ByRTRs) {
		delete(s.byNonce, m.nonces[0].nonce)
		m.nonces = slices.Delete(m.nonces, 0, 1)
	}
}

func (s *Sender) noteSilence(p *Peer, m *Message) {
	if !p.Config.WantMapNotify {
		return
	}
	p.unacknowledged++
	switch {
	case p.answers(m.since):
		if m.alone && m.tries >= silentAfter && !m.refused {
			s.tellRefused(m)
		}
	case m.tries == silentAfter && !m.alone:
		s.h.Notice(effect.Notice{Kind: effect.NoticeMapServerSilent, Prefix: m.Mappings[0].Prefix, Remote: p.Config.Address,
			Detail: "no Map-Notify: is the address right, do the keys agree, does the site own the EID-Prefix?"})
	}
}

func (s *Sender) encode(m *Message, nonce uint64) ([]byte, error) {
	p := &m.peer.Config
	message := &wire.MapRegister{
		ProxyReply: p.ProxyReply, UseTTL: p.UseTTL, MergeRequest: p.MergeRequest, WantMapNotify: p.WantMapNotify,
		Nonce: nonce, KeyID: p.Key.ID, AlgorithmID: p.Key.Algorithm, Authentication: make([]byte, p.Key.MACOctets()),
		Records: make([]wire.Record, len(m.Mappings)),
	}
	if s.h.XTRID != ([16]byte{}) {
		message.XTRIDPresent, message.XTRID, message.SiteID = true, s.h.XTRID, s.h.SiteID
	}
	if len(p.ByRTRs) > 0 {
		message.ByRTR, message.ProxyReply, message.WantMapNotify = true, true, true
	}
	if p.XTRID != [16]byte{} && !message.XTRIDPresent {
		message.XTRIDPresent, message.XTRID = true, p.XTRID
	}
	for i, mapping := range m.Mappings {
		mapping.Locators = LocatorsByName(LocatorsByRTRs(mapping.Locators, p.RTRs, p.BehindNATs), p.Named)
		message.Records[i] = wire.RecordOf(mapping)
	}
	payload, err := wire.AppendSigned(s.h.Buffer(system.UsualSignedOctets+len(m.Mappings)*system.UsualRecordOctets), message, p.Key.Secret)
	return s.h.Used(payload), err
}

// list puts a message behind the others to its Map-Server.
func (s *Sender) list(id uint32) {
	m := s.Messages.At(id)
	m.number = m.peer.cut + len(m.peer.Messages)
	m.peer.Messages = append(m.peer.Messages, id)
	if m.Withdrawal {
		m.peer.withdrawals++
	}
}

// end is for a withdrawal that arrived, or did not for too long: the last message takes its place.
func (s *Sender) end(id uint32) {
	m := s.Messages.At(id)
	p, last := m.peer, len(m.peer.Messages)-1
	moved := p.Messages[last]
	p.Messages[m.number-p.cut], s.Messages.At(moved).number = moved, m.number
	p.Messages = p.Messages[:last]
	s.drop(id)
}

func (s *Sender) setAlone(m *Message, alone bool) {
	if m.alone == alone {
		return
	}
	m.alone = alone
	m.peer.Alone--
	if alone {
		m.peer.Alone += 2
	}
}

// tellRefused tells of an EID-Prefix that is not acknowledged although others are.
func (s *Sender) tellRefused(m *Message) {
	m.refused = true
	s.h.Count(counter.EIDNotAcknowledged)
	s.h.Notice(effect.Notice{Kind: effect.NoticeEIDNotAcknowledged, Prefix: m.Mappings[0].Prefix, Remote: m.peer.Config.Address,
		Detail: "the Map-Server acknowledges others: does the site own it there?"})
}

// WithdrawNow sends a Map-Register with TTL 0, never again and whatever comes of it.
func (s *Sender) WithdrawNow(p *Peer, gone []lisp.Mapping) {
	m := Message{peer: p, Mappings: gone, Withdrawal: true}
	for m.beginRound(); ; {
		_, path := m.nextPath()
		payload, err := s.encode(&m, s.h.NextRegisterNonce())
		if err == nil {
			err = s.emit(p, path, payload)
		}
		if err != nil {
			s.h.Count(counter.RefusedEncoding)
			return
		}
		s.h.Count(counter.MapRegisterSent)
		if m.round.toGo == 0 {
			break
		}
	}
	s.tell(&m)
}
