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
	id, ok := r.byNonce[m.Nonce]
	if !ok || r.Messages.At(id).peer.Config.ID() != m.Peer {
		r.acknowledge(m)
		return
	}
	message := r.Messages.At(id)
	if !message.awaits(m.Nonce) {
		return // a duplicate or a replay: nothing is registered by it
	}
	r.h.CoreAnswered(message.peer.Config.Address.Addr(), m.From.Addr(), message.sentAt)
	p := message.peer
	complete := message.Withdrawal || message.Note(m)
	if p.lastNotifyAt == 0 || message.tries >= silentAfter || message.refused && complete {
		r.h.Notice(effect.Notice{Kind: effect.NoticeMapNotifyReceived, Prefix: message.Mappings[0].Prefix, Remote: m.From})
	}
	if p.unacknowledged >= silentAfter {
		r.Hasten()
	}
	if p.question != 0 {
		p.backAt, p.question = r.h.Now, 0
	}
	p.lastNotifyAt, p.unacknowledged = r.h.Now, 0
	switch {
	case message.Withdrawal:
		r.end(id)
	case complete:
		r.h.Registrations.Add(time.Duration(r.h.Now - message.since))
		r.arrived(message)
		r.complete(id)
	case message.got != nil:
		r.arrived(message)
	}
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
func (r *Registrar) Registered() bool { return r.Awaited == 0 && !r.Busy() }

// Status yields how things stand with each Map-Server.
func (r *Registrar) Status() iter.Seq[status.MapServerStatus] {
	return func(yield func(status.MapServerStatus) bool) {
		for _, p := range r.Peers {
			if !yield(r.peerStatus(p)) {
				return
			}
		}
	}
}

func (r *Registrar) peerStatus(p *Peer) status.MapServerStatus {
	s := status.MapServerStatus{Address: p.Config.Address, Site: p.Config.Site, State: status.MapServerIdle, Prefixes: p.Prefixes, Unacknowledged: p.unacknowledged}
	if p.lastSentAt != 0 {
		s.State, s.LastSentAt = status.MapServerSent, r.h.Time(p.lastSentAt)
	}
	if p.lastNotifyAt != 0 {
		s.LastNotifyAt = r.h.Time(p.lastNotifyAt)
	}
	next, acknowledged, others := timing.Never, true, true
	for _, id := range p.Messages {
		m := r.Messages.At(id)
		next = min(next, r.Timers.Of(id))
		acknowledged = acknowledged && m.acknowledged
		others = others && (m.acknowledged || m.got != nil || m.refused)
	}
	if next != timing.Never {
		s.NextSendAt = r.h.Time(next)
	}
	if p.Config.WantMapNotify && len(p.Messages) > 0 {
		s.State = status.MapServerWaiting
		switch {
		case acknowledged:
			s.State = status.MapServerRegistered
		case others:
			s.State = status.MapServerPartial
		}
	}
	s.Lacking, s.LackingCount = r.unacknowledged(p)
	return s
}

// HandleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal.
func (r *Registrar) HandleTimeout(id uint32) {
	m := r.Messages.At(id)
	switch {
	case m.got != nil: // no other Map-Notify came with the rest
		parter{r}.part(id)
		return
	case r.mayPart(m):
		parter{r}.partAll(id)
		return
	case m.Withdrawal && m.tries >= WithdrawTries:
		r.end(id)
		return
	}
	if !m.peer.Config.WantMapNotify && !m.Withdrawal {
		m.tries = 0 // without Map-Notifies every message is a refresh
	}
	r.send(id)
}
