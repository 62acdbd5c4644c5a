// SPDX-License-Identifier: Apache-2.0

package registrar

// What Map-Servers say to the ETR: the Map-Notifies that acknowledge its Map-Registers
// and unsolicited ones (RFC 9301 s.5.7), and how things stand with each
// Map-Server. It changes no mapping: what is registered follows the Database alone.

import (
	"iter"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/wire"
)

// HandleMapNotify takes the acknowledgement of a Map-Register, and acknowledges a
// Map-Notify that answers none (RFC 9301 s.5.7).
func (r *Registrar) HandleMapNotify(m *message.MapNotify) {
	r.h.Count(counter.MapNotifyReceived)
	if p := r.Sender.HandleMapNotify(m); p != nil {
		r.forget(p)
	} else {
		r.acknowledge(m)
	}
}

// HandleMapNotify takes the acknowledgement of a Map-Register, and returns the Map-Server that it is of, nil where it
// answers none.
func (s *Sender) HandleMapNotify(m *message.MapNotify) *Peer {
	id, ok := s.byNonce[m.Nonce]
	if !ok || s.Messages.At(id).peer.Config.ID() != m.Peer {
		return nil
	}
	message := s.Messages.At(id)
	p := message.peer
	if !message.awaits(m.Nonce) {
		return p // a duplicate or a replay: nothing is registered by it
	}
	s.h.CoreAnswered(p.Config.Address.Addr(), m.From.Addr(), message.sentAt)
	complete := message.Withdrawal || message.Note(m)
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
		s.end(id)
	case complete:
		s.h.Registrations.Add(time.Duration(s.h.Now - message.since))
		s.arrived(message)
		s.complete(id)
	case message.got != nil:
		s.arrived(message)
	}
	return p
}

func (r *Registrar) acknowledge(m *message.MapNotify) {
	at := slices.IndexFunc(r.Peers, func(p *Peer) bool { return p.Config.ID() == m.Peer })
	if at < 0 {
		r.h.Count(counter.RefusedUnknownPeer)
		return
	}
	if !r.h.MayNotify(m.From.Addr()) {
		return
	}
	key, ok := r.Peers[at].Config.KeyOf(m.KeyID)
	if !ok {
		r.h.Count(counter.RefusedUnknownKey)
		return
	}
	ack := wire.MapNotifyAck(*m.MapNotify)
	ack.Authentication = make([]byte, len(m.Authentication))
	payload, err := wire.AppendSigned(r.h.Buffer(system.UsualSignedOctets+len(ack.Records)*system.UsualRecordOctets), &ack, key.Secret)
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	r.h.Send(r.h.AnswerFrom(m.Local), m.From, r.h.Used(payload))
	r.h.Count(counter.MapNotifyAckSent)
	if len(m.Records) > 0 && r.h.HasNoticeLeft() {
		r.h.Say(unsolicitedNotice(m))
	}
}

// unsolicitedNotice tells what a Map-Server says about an EID-Prefix that another xTR
// of the site has changed. Nothing else follows from it.
func unsolicitedNotice(m *message.MapNotify) effect.Notice {
	n := effect.Notice{Kind: effect.NoticeMapNotifyReceived, Remote: m.From, Detail: "unasked"}
	if mapping, err := m.Records[0].Mapping(); err == nil {
		n.Prefix, n.Detail = mapping.Prefix, "unasked: "+mapping.String()
	}
	return n
}

// Acknowledges reports whether any Map-Server was asked for Map-Notifies.
func (r *Registrar) Acknowledges() bool {
	return slices.ContainsFunc(r.Peers, func(p *Peer) bool { return p.Config.WantMapNotify })
}

// Registered reports whether all changes have arrived where Map-Notifies tell it.
func (r *Registrar) Registered() bool { return r.Sender.Awaited == 0 && !r.Busy() }

// Status yields how things stand with each Map-Server.
func (r *Registrar) Status() iter.Seq[status.MapServerStatus] {
	return func(yield func(status.MapServerStatus) bool) {
		for _, p := range r.Peers {
			if !yield(r.Sender.StatusOf(p)) {
				return
			}
		}
	}
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

// HandleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal.
func (r *Registrar) HandleTimeout(id uint32) { r.forget(r.Sender.HandleTimeout(id)) }

// HandleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal. It returns the
// Map-Server that the message is for.
func (s *Sender) HandleTimeout(id uint32) *Peer {
	m := s.Messages.At(id)
	p := m.peer
	switch {
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
