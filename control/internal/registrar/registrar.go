// SPDX-License-Identifier: Apache-2.0

package registrar

// Registration with Map-Servers: Map-Registers within the size of control
// messages, authenticated, sent again until a Map-Notify comes, refreshed every
// interval, withdrawn when a prefix leaves the Database (RFC 9301 s.5.6, s.5.7,
// s.8.2). Every message, also a repeated one, has a nonce of its own: a Map-Server
// drops what it has seen. It never answers Map-Requests.

import (
	"net/netip"
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
	// quickPeriod is how long after a start or a change Map-Registers come at the
	// quick interval (RFC 9301 s.8.2), QuickMessages up to how many of them: a large
	// Database relies on Map-Notifies.
	quickPeriod   = 5 * time.Minute
	QuickMessages = 64 // Map-Registers
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

// Registrar registers mappings with all Map-Servers.
type Registrar struct {
	h         *system.System
	Peers     []*Peer
	Leaving   []*Peer        // configured no more; they are told so
	Work      []*registering // Map-Servers whose registration is being brought into line
	Messages  table.Slab[Message]
	byNonce   map[uint64]uint32
	Timers    timing.Deadlines
	quick     time.Duration  // the quick interval, negative for never
	Hastening batch.Work     // sending what is not acknowledged, when the mapping system is back
	hastened  uint32         // the rows that are done
	Awaited   int            // messages with changes that no Map-Notify has answered yet
	ChangeAt  timing.Instant // when the last message with changes goes that no Map-Notify answers
}

// New makes a registrar without Map-Servers.
func New(h *system.System) *Registrar { return &Registrar{h: h, byNonce: make(map[uint64]uint32)} }

// Under is what is to be withdrawn from a Map-Server and was taken back to be sent anew.
func (r *Registrar) Under(p *Peer) *table.Chunked[lisp.Prefix] {
	for _, w := range r.Work {
		if w.peer == p {
			return &w.Under
		}
	}
	return &table.Chunked[lisp.Prefix]{}
}

// tell tells of a Map-Register that says something new.
func (r *Registrar) tell(m *Message) {
	r.h.Notice(effect.Notice{Kind: effect.NoticeMapRegisterSent, Prefix: m.Mappings[0].Prefix, Remote: m.peer.Config.Address, Detail: registerDetail(*m)})
}

func (r *Registrar) add(m Message) {
	r.queue(m)
	r.tell(&m)
}

// queue schedules a message.
func (r *Registrar) queue(m Message) (id uint32) {
	at := r.firstAt(&m)
	if m.awaited && !m.peer.Config.WantMapNotify {
		m.awaited, r.ChangeAt = false, max(r.ChangeAt, at)
	}
	if m.awaited {
		r.Awaited++
	}
	if m.alone {
		m.peer.Alone++
	}
	id = r.Messages.Add(m)
	r.list(id)
	if at > r.h.Now {
		r.Timers.Set(id, at)
	} else {
		r.send(id)
	}
	return id
}

// firstAt gives a message its place among those for its Map-Server, and the time at which
// it goes. Where Map-Notifies are wanted all go at once: what one of them lacks is sent again.
func (r *Registrar) firstAt(m *Message) timing.Instant {
	before := len(m.peer.Messages)
	m.place = before % gapMessages
	at := m.peer.slot(r.h.Now, r.h.Limits.MapRegisters)
	if !m.peer.Config.WantMapNotify {
		at += timing.Instant(min(before, gapMessages)) * timing.Instant(registerGap)
	}
	return at
}

// interval is how long after an acknowledged Map-Register the next one follows.
func (r *Registrar) interval(p *Peer) time.Duration {
	if r.h.Now < p.QuickUntil {
		return min(p.Config.RegistrationInterval, r.quick)
	}
	return p.Config.RegistrationInterval
}

func (r *Registrar) drop(id uint32) {
	m := r.Messages.At(id)
	for _, nonce := range m.nonces {
		delete(r.byNonce, nonce)
	}
	r.arrived(m)
	if m.Withdrawal {
		m.peer.withdrawals--
	}
	if r.setAlone(m, false); m.peer.joined == id+1 {
		m.peer.joined = 0
	}
	if m.peer.question == id+1 {
		m.peer.question = 0
	}
	if m.sentAt == 0 { // its slot is free again
		m.peer.pace -= r.h.Limits.MapRegisters.Interval()
	}
	r.Timers.Remove(id)
	r.Messages.Release(id)
}

// arrived notes that the message needs no Map-Notify any more.
func (r *Registrar) arrived(m *Message) {
	if m.awaited {
		m.awaited = false
		r.Awaited--
	}
}

// send sends a message with the next nonce and sets its deadline: the
// retransmission when a Map-Notify is wanted, else the next refresh.
func (r *Registrar) send(id uint32) {
	m := r.Messages.At(id)
	p := m.peer
	nonce := r.h.NextRegisterNonce()
	payload, err := r.encode(m, nonce)
	if err != nil { // not ours to repair: a value that no message can hold
		r.h.Count(counter.RefusedEncoding)
		r.Timers.Set(id, r.h.After(p.Config.RegistrationInterval))
		return
	}
	if m.tries > 0 {
		r.h.Count(counter.MapRegisterRetransmitted)
	}
	r.remember(id, nonce)
	m.tries++
	m.sentAt = r.h.Now
	if m.since == 0 {
		m.since = r.h.Now
	}
	m.acknowledged = m.acknowledged && m.tries < silentAfter
	p.lastSentAt = r.h.Now
	r.h.Send(netip.AddrPort{}, p.Config.Address, payload)
	r.h.Count(counter.MapRegisterSent)
	r.Timers.Set(id, r.h.After(r.wait(id)))
	r.noteSilence(p, m)
}

// wait is how long after a Map-Register the next one follows, a Map-Notify not
// counted in (RFC 9301 s.5.7: one second, doubling, a minute at most), and no longer than the
// registration interval: a Map-Server that was away has all again after one. Part of that is
// chance, so that not all who lost it come back at the same moment.
func (r *Registrar) wait(id uint32) time.Duration {
	m := r.Messages.At(id)
	p := m.peer
	if !p.Config.WantMapNotify && !m.Withdrawal {
		return r.refreshAfter(m)
	}
	if m.refused {
		return p.waitRefused(r.h.Below)
	}
	most := min(settings.RegisterRetransmitMax, p.Config.RegistrationInterval)
	if p.isQuestion(id, m) {
		most = min(most, settings.RegisterQuestionMax)
	}
	if wait := settings.RegisterRetransmitFirst << min(m.tries-1, 6); wait < most {
		return wait + time.Duration(m.place)*registerGap
	}
	return r.jittered(most)
}

func (r *Registrar) jittered(most time.Duration) time.Duration {
	return max(most-r.h.Below(most/registerJitterPart), settings.RegisterRetransmitFirst)
}

// refreshAfter is how long after a Map-Register its refresh follows. The first of them go
// apart from each other, and stay so.
func (r *Registrar) refreshAfter(m *Message) time.Duration {
	interval := r.interval(m.peer)
	if m.apart {
		return interval
	}
	m.apart = true
	return interval + time.Duration(m.place)*interval/refreshGapPart
}

func (r *Registrar) remember(id uint32, nonce uint64) {
	m := r.Messages.At(id)
	m.nonces = append(m.nonces, nonce)
	r.byNonce[nonce] = id
	if len(m.nonces) > registerNonces {
		delete(r.byNonce, m.nonces[0])
		m.nonces = slices.Delete(m.nonces, 0, 1)
	}
}

func (r *Registrar) noteSilence(p *Peer, m *Message) {
	if !p.Config.WantMapNotify {
		return
	}
	p.unacknowledged++
	switch {
	case p.answers(m.since):
		if m.alone && m.tries >= silentAfter && !m.refused {
			r.tellRefused(m)
		}
	case m.tries == silentAfter && !m.alone:
		r.h.Notice(effect.Notice{Kind: effect.NoticeMapServerSilent, Prefix: m.Mappings[0].Prefix, Remote: p.Config.Address,
			Detail: "no Map-Notify: is the address right, do the keys agree, does the site own the EID-Prefix?"})
	}
}

func (r *Registrar) encode(m *Message, nonce uint64) ([]byte, error) {
	p := &m.peer.Config
	message := &wire.MapRegister{
		ProxyReply: p.ProxyReply, UseTTL: p.UseTTL, MergeRequest: p.MergeRequest, WantMapNotify: p.WantMapNotify,
		Nonce: nonce, KeyID: p.Key.ID, AlgorithmID: p.Key.Algorithm, Authentication: make([]byte, p.Key.MACOctets()),
		Records: make([]wire.Record, len(m.Mappings)),
	}
	if r.h.XTRID != ([16]byte{}) {
		message.XTRIDPresent, message.XTRID, message.SiteID = true, r.h.XTRID, r.h.SiteID
	}
	for i, mapping := range m.Mappings {
		message.Records[i] = wire.RecordOf(mapping)
	}
	payload, err := wire.AppendSigned(r.h.Buffer(system.UsualSignedOctets+len(m.Mappings)*system.UsualRecordOctets), message, p.Key.Secret)
	return r.h.Used(payload), err
}

// list puts a message behind the others to its Map-Server.
func (r *Registrar) list(id uint32) {
	m := r.Messages.At(id)
	m.number = m.peer.cut + len(m.peer.Messages)
	m.peer.Messages = append(m.peer.Messages, id)
	if m.Withdrawal {
		m.peer.withdrawals++
	}
}

// end is for a withdrawal that arrived, or did not for too long: the last message takes its place.
func (r *Registrar) end(id uint32) {
	m := r.Messages.At(id)
	p, last := m.peer, len(m.peer.Messages)-1
	moved := p.Messages[last]
	p.Messages[m.number-p.cut], r.Messages.At(moved).number = moved, m.number
	p.Messages = p.Messages[:last]
	r.drop(id)
	r.forget(p)
}

// Numbered is a Map-Server by its number: those that leave are behind the others.
func (r *Registrar) Numbered(i int) *Peer {
	if i < len(r.Peers) {
		return r.Peers[i]
	}
	return r.Leaving[i-len(r.Peers)]
}

// PackingFor is an empty packing of the size that a Map-Register to the peer may have.
func (r *Registrar) PackingFor(p *Peer) Packing {
	const headOctets, xtrIDOctets = 16, 24
	return Packing{room: system.ControlOctets(p.Config.Address.Addr()) - headOctets - xtrIDOctets - p.Config.Key.MACOctets()}
}

// forget ends what is known of a Map-Server that leaves when nothing is left to be withdrawn.
func (r *Registrar) forget(p *Peer) {
	if p.Leaves && len(p.Messages) == 0 && !slices.ContainsFunc(r.Work, func(w *registering) bool { return w.peer == p }) {
		r.Leaving = slices.DeleteFunc(r.Leaving, func(l *Peer) bool { return l == p })
	}
}

func (r *Registrar) setAlone(m *Message, alone bool) {
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
func (r *Registrar) tellRefused(m *Message) {
	m.refused = true
	r.h.Count(counter.EIDNotAcknowledged)
	r.h.Notice(effect.Notice{Kind: effect.NoticeEIDNotAcknowledged, Prefix: m.Mappings[0].Prefix, Remote: m.peer.Config.Address,
		Detail: "the Map-Server acknowledges others: does the site own it there?"})
}
