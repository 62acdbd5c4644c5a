// SPDX-License-Identifier: Apache-2.0

package control

// What Map-Servers say to the ETR: the Map-Notifies that acknowledge its Map-Registers
// and those that nobody asked for (RFC 9301 s.5.7), and how things stand with each
// Map-Server. It changes no mapping: what is registered is registrar.go's.

import (
	"iter"
	"slices"

	"loci/wire"
)

// handleMapNotify takes the acknowledgement of a Map-Register, and acknowledges a
// Map-Notify that answers none (RFC 9301 s.5.7).
func (r *registrar) handleMapNotify(m *mapNotify) {
	r.h.count(MapNotifyReceived)
	id, ok := r.byNonce[m.Nonce]
	if !ok || r.messages.at(id).peer.config.id() != m.peer {
		r.acknowledge(m)
		return
	}
	message := r.messages.at(id)
	if !message.awaits(m.Nonce) {
		return // a duplicate, or somebody's replay: nothing is registered by it
	}
	p := message.peer
	complete := message.withdrawal || message.note(m)
	if p.lastNotifyAt == 0 || message.tries >= silentAfter || message.refused && complete {
		r.h.notice(Notice{Kind: NoticeMapNotifyReceived, Prefix: message.mappings[0].Prefix, Remote: m.from})
	}
	p.lastNotifyAt, p.unacknowledged = r.h.now, 0
	switch {
	case message.withdrawal:
		r.end(id)
	case complete:
		r.arrived(message)
		r.complete(id)
	case message.got != nil:
		r.arrived(message)
	}
}

// awaits reports whether a Map-Notify with that nonce acknowledges anything: it
// must answer one of the messages since the last Map-Notify. Older nonces are kept
// to tell a late copy from an unsolicited Map-Notify.
func (m *registerMessage) awaits(nonce uint64) bool {
	since := max(len(m.nonces)-m.tries, 0)
	return slices.Contains(m.nonces[since:], nonce)
}

func (r *registrar) acknowledge(m *mapNotify) {
	at := slices.IndexFunc(r.peers, func(p *registrationPeer) bool { return p.config.id() == m.peer })
	if at < 0 {
		r.h.count(RefusedUnknownPeer)
		return
	}
	if !r.h.mayNotify(m.from.Addr()) {
		return
	}
	key, ok := r.peers[at].config.keyOf(m.KeyID)
	if !ok {
		r.h.count(RefusedUnknownKey)
		return
	}
	ack := wire.MapNotifyAck(*m.MapNotify)
	ack.Authentication = make([]byte, len(m.Authentication))
	payload, err := wire.AppendSigned(r.h.room(usualSignedOctets+len(ack.Records)*usualRecordOctets), &ack, key.Secret)
	if err != nil {
		r.h.count(RefusedEncoding)
		return
	}
	r.h.send(r.h.answerFrom(m.local), m.from, r.h.used(payload))
	r.h.count(MapNotifyAckSent)
	if len(m.Records) > 0 && r.h.hasNoticeLeft() {
		r.h.say(unsolicitedNotice(m))
	}
}

// unsolicitedNotice tells what a Map-Server says about an EID-Prefix that another xTR
// of the site has changed. Nothing else follows from it.
func unsolicitedNotice(m *mapNotify) Notice {
	n := Notice{Kind: NoticeMapNotifyReceived, Remote: m.from, Detail: "unasked"}
	if mapping, err := m.Records[0].Mapping(); err == nil {
		n.Prefix, n.Detail = mapping.Prefix, "unasked: "+mapping.String()
	}
	return n
}

// acknowledges reports whether any Map-Server was asked for Map-Notifies.
func (r *registrar) acknowledges() bool {
	return slices.ContainsFunc(r.peers, func(p *registrationPeer) bool { return p.config.WantMapNotify })
}

// registered reports whether all changes have arrived where Map-Notifies tell it.
func (r *registrar) registered() bool { return r.awaited == 0 && !r.busy() }

// status yields how things stand with each Map-Server.
func (r *registrar) status() iter.Seq[MapServerStatus] {
	return func(yield func(MapServerStatus) bool) {
		for _, p := range r.peers {
			if !yield(r.peerStatus(p)) {
				return
			}
		}
	}
}

func (r *registrar) peerStatus(p *registrationPeer) MapServerStatus {
	s := MapServerStatus{Address: p.config.Address, Site: p.config.Site, State: MapServerIdle, Prefixes: p.prefixes, Unacknowledged: p.unacknowledged}
	if p.lastSentAt != 0 {
		s.State, s.LastSentAt = MapServerSent, r.h.time(p.lastSentAt)
	}
	if p.lastNotifyAt != 0 {
		s.LastNotifyAt = r.h.time(p.lastNotifyAt)
	}
	next, acknowledged, others := never, true, true
	for _, id := range p.messages {
		m := r.messages.at(id)
		next = min(next, r.timers.of(id))
		acknowledged = acknowledged && m.acknowledged
		others = others && (m.acknowledged || m.got != nil || m.refused)
	}
	if next != never {
		s.NextSendAt = r.h.time(next)
	}
	if p.config.WantMapNotify && len(p.messages) > 0 {
		s.State = MapServerWaiting
		switch {
		case acknowledged:
			s.State = MapServerRegistered
		case others:
			s.State = MapServerPartial
		}
	}
	s.Lacking, s.LackingCount = r.unacknowledged(p)
	return s
}
