// SPDX-License-Identifier: Apache-2.0

package control

// EID-Prefixes that a Map-Server does not acknowledge. Ours leaves them out of its Map-Notify and takes the
// others (RFC 9301 s.5.7); other implementations refuse the whole Map-Register without a word. So what is not
// acknowledged is registered apart, each EID-Prefix in a Map-Register of its own, and joins the others again
// when it is. This file sends nothing itself.

import (
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// aloneAtOnce is about how many EID-Prefixes are registered apart in half a registration interval, while they
	// are refused. A Map-Server that acknowledges nothing at all has no more than those of a few Map-Registers
	// tried apart: it may as well be down.
	aloneAtOnce = 64
	// aloneAgain is how long an EID-Prefix stays alone that was not acknowledged after it had joined others.
	aloneAgain = time.Hour
	// unacknowledgedListed bounds the EID-Prefixes that a status lists.
	unacknowledgedListed = 100
)

// answers reports whether a Map-Server sent a Map-Notify since a time.
func (p *registrationPeer) answers(since instant) bool { return p.lastNotifyAt > since }

// note notes which mappings a Map-Notify acknowledges, and reports whether that is all of them by now. One
// without records acknowledges all.
func (m *registerMessage) note(n *mapNotify) (complete bool) {
	if len(n.Records) == 0 {
		return true
	}
	if m.got == nil {
		m.got = make([]bool, len(m.mappings))
	}
	at := 0 // mostly they come as they were sent
	for i := range n.Records {
		p, err := n.Records[i].Prefix()
		if err != nil {
			continue
		}
		if at >= len(m.mappings) || m.mappings[at].Prefix != p {
			if at = slices.IndexFunc(m.mappings, func(k lisp.Mapping) bool { return k.Prefix == p }); at < 0 {
				continue
			}
		}
		m.got[at] = true
		at++
	}
	if slices.Contains(m.got, false) {
		if !slices.Contains(m.got, true) {
			m.got = nil
		}
		return false
	}
	m.got = nil
	return true
}

// complete is for a message whose mappings are all acknowledged: it is refreshed from now on.
func (r *registrar) complete(id uint32) {
	m := r.messages.at(id)
	m.acknowledged, m.tries, m.since = true, 0, 0
	r.timers.set(id, max(m.sentAt+instant(r.refreshAfter(m)), r.h.now))
	if m.alone || m.aloneUntil != 0 && m.aloneUntil <= r.h.now {
		r.join(id)
	}
}

// join lets a mapping that is acknowledged alone go with others that were.
func (r *registrar) join(id uint32) {
	m := r.messages.at(id)
	p := m.peer
	if m.refused {
		r.tryOthers(p)
	}
	r.setAlone(m, false)
	m.refused = false
	if m.aloneUntil > r.h.now {
		return
	}
	m.aloneUntil = 0
	if p.joined != 0 && p.joined != id+1 {
		others := r.messages.at(p.joined - 1)
		if others.tries == 0 && others.acknowledged && r.hasRoom(others, m.mappings[0]) {
			others.mappings = append(others.mappings[:len(others.mappings):len(others.mappings)], m.mappings[0])
			r.timers.set(p.joined-1, max(r.timers.of(p.joined-1), m.sentAt+instant(registerRetransmitFirst)))
			r.end(id)
			return
		}
	}
	m.joined, p.joined = true, id+1
}

// tryOthers tries a few of those that were refused before their time, because one of them is not any more.
func (r *registrar) tryOthers(p *registrationPeer) {
	const looks, tries = 32, 2
	tried := 0
	for range min(looks, len(p.messages)) {
		p.retried = (p.retried + 1) % len(p.messages)
		id := p.messages[p.retried]
		m := r.messages.at(id)
		if !m.refused || r.h.now-m.sentAt < instant(registerRetransmitFirst) {
			continue
		}
		r.timers.set(id, min(r.timers.of(id), p.slot(r.h.now, r.h.limits.MapRegisters)))
		if tried++; tried == tries {
			return
		}
	}
}

func (r *registrar) hasRoom(m *registerMessage, more lisp.Mapping) bool {
	octets := recordOctets(more)
	for _, mapping := range m.mappings {
		octets += recordOctets(mapping)
	}
	return octets <= r.packingFor(m.peer).room && len(m.mappings) < wire.MaxRecords
}

func (r *registrar) setAlone(m *registerMessage, alone bool) {
	if m.alone == alone {
		return
	}
	m.alone = alone
	m.peer.alone--
	if alone {
		m.peer.alone += 2
	}
}

// part keeps the mappings of a message that were acknowledged. The others go apart.
func (r *registrar) part(id uint32) {
	m := *r.messages.at(id)
	var kept, rest []lisp.Mapping
	for i, mapping := range m.mappings {
		if m.got[i] {
			kept = append(kept, mapping)
		} else {
			rest = append(rest, mapping)
		}
	}
	r.messages.at(id).mappings, r.messages.at(id).got = kept, nil
	r.complete(id)
	r.sendApart(m, rest)
}

// mayPart reports whether mappings of a message that nobody acknowledges are to be tried apart.
func (r *registrar) mayPart(m *registerMessage) bool {
	p := m.peer
	switch {
	case m.alone || m.tries < silentAfter || !p.config.WantMapNotify:
		return false
	case m.withdrawal:
		return len(m.mappings) > 1 && p.answers(m.since)
	}
	return p.answers(m.since) || p.alone < aloneAtOnce
}

// partAll registers all mappings of a message apart.
func (r *registrar) partAll(id uint32) {
	m := *r.messages.at(id)
	if len(m.mappings) == 1 {
		r.setAlone(r.messages.at(id), true)
		r.send(id)
		return
	}
	r.sendApart(m, m.mappings)
	r.end(id)
}

// sendApart sends mappings of a message again, each in a message of its own.
func (r *registrar) sendApart(m registerMessage, mappings []lisp.Mapping) {
	for i := range mappings {
		one := registerMessage{peer: m.peer, mappings: mappings[i : i+1 : i+1], withdrawal: m.withdrawal, since: m.since, alone: !m.withdrawal}
		if m.joined {
			one.aloneUntil = r.h.after(aloneAgain)
		}
		id := r.queue(one)
		if left := r.messages.at(id); m.got != nil && left.alone { // it was left out of a Map-Notify
			r.tellRefused(left)
		}
	}
}

// tellRefused tells of an EID-Prefix that is not acknowledged although others are.
func (r *registrar) tellRefused(m *registerMessage) {
	m.refused = true
	r.h.count(EIDNotAcknowledged)
	r.h.notice(Notice{Kind: NoticeEIDNotAcknowledged, Prefix: m.mappings[0].Prefix, Remote: m.peer.config.Address,
		Detail: "the Map-Server acknowledges others: does the site own it there?"})
}

// waitRefused is how long after an EID-Prefix was registered alone and refused it is tried again: half an interval at least,
// and as long as the others take whose turn comes meanwhile.
func (p *registrationPeer) waitRefused(below func(time.Duration) time.Duration) time.Duration {
	half := p.config.RegistrationInterval / 2
	most := 2 * half * time.Duration(1+p.alone/aloneAtOnce)
	return max(half+below(most-half), registerRetransmitFirst)
}

// keepRefused remembers, while everything is registered anew, what has to be registered alone.
func (p *registrationPeer) keepRefused(m *registerMessage) {
	if !m.refused {
		return
	}
	if p.refused == nil {
		p.refused = make(map[lisp.Prefix]instant)
	}
	p.refused[m.mappings[0].Prefix] = m.since
}

// takeRefused reports whether an EID-Prefix is to be registered, or withdrawn, alone, and since when it has
// not been acknowledged.
func (p *registrationPeer) takeRefused(prefix lisp.Prefix) (since instant, refused bool) {
	since, refused = p.refused[prefix]
	delete(p.refused, prefix)
	return since, refused
}

// lacks reports whether a mapping of a message is not acknowledged, for longer than a Map-Notify takes.
func (m *registerMessage) lacks(i int) bool {
	return !m.withdrawal && (m.got != nil && !m.got[i] || m.alone || m.tries >= silentAfter)
}

// unacknowledged are the EID-Prefixes that a Map-Server does not acknowledge, the first of them in order, and how many there are.
func (r *registrar) unacknowledged(p *registrationPeer) (list []UnacknowledgedEID, count int) {
	if !p.config.WantMapNotify {
		return nil, 0
	}
	for _, id := range p.messages {
		m := r.messages.at(id)
		for i := range m.mappings {
			if !m.lacks(i) {
				continue
			}
			count++
			if len(list) < unacknowledgedListed {
				list = append(list, UnacknowledgedEID{Prefix: m.mappings[i].Prefix, Since: r.h.time(m.since)})
			}
		}
	}
	slices.SortFunc(list, func(a, b UnacknowledgedEID) int { return a.Prefix.Compare(b.Prefix) })
	return list, count
}
