// SPDX-License-Identifier: Apache-2.0

package mapregister

// A Map-Server with the Map-Registers for it, and what is left to be registered with it. Nothing here sends.

import (
	"slices"
	"time"

	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// silentAfter unacknowledged Map-Registers the Map-Server is called silent.
	silentAfter = 3
	// aloneAtOnce is about how many EID-Prefixes are registered apart in half a registration interval, while they
	// are refused. A Map-Server that acknowledges nothing at all has no more than those of a few Map-Registers
	// tried apart: it may as well be down.
	aloneAtOnce = 64
)

// Peer is a Map-Server and how things stand with it.
type Peer struct {
	Config         settings.MapServerPeer
	Messages       []uint32
	cut            int  // messages that are gone from the front: numbers of the others do not change
	withdrawals    int  // of the messages
	Leaves         bool // it is configured no more
	Prefixes       int
	lastSentAt     timing.Instant
	lastNotifyAt   timing.Instant
	unacknowledged int
	backAt         timing.Instant // when it acknowledged something again after it had been silent
	QuickUntil     timing.Instant
	pace           timing.Instant                 // when its bucket of Map-Registers is full again
	Alone          int                            // of the messages
	retried        int                            // the place among them where the last one was that was tried again early
	joined         uint32                         // the message that takes what is acknowledged alone, and 1; 0 for none
	question       uint32                         // the message that finds out that it is back, and 1; 0 for none
	Refused        map[lisp.Prefix]timing.Instant // while all is registered anew: what was alone, and since when
}

// Message is a Map-Register that is sent again and again.
type Message struct {
	peer         *Peer
	Mappings     []lisp.Mapping
	Withdrawal   bool
	awaited      bool        // it has changes, and no Map-Notify came yet
	nonces       []sentNonce // of the last messages
	round        round
	tries        int // since the last Map-Notify
	sentAt       timing.Instant
	since        timing.Instant // the first that no Map-Notify answered, 0 for none
	got          []bool         // which mappings the Map-Notifies since have, nil for none
	alone        bool           // an EID-Prefix that is not acknowledged
	refused      bool           // although others are: that was told
	joined       bool           // its mappings were acknowledged alone before
	aloneUntil   timing.Instant // it was not acknowledged with others; 0 for never
	acknowledged bool           // at least once, and not silent since
	place        int            // among those of the same registration, below gapMessages
	apart        bool           // its refreshes have gone apart from the others'
	number       int            // its place in peer.messages, and peer.cut
}

// NewMessage registers mappings with a Map-Server; awaited: they have changed, and registered means that it has them.
func NewMessage(p *Peer, mappings []lisp.Mapping, awaited bool) Message {
	return Message{peer: p, Mappings: mappings, awaited: awaited}
}

// AsWithdrawal is a message that withdraws its mappings, all at once.
func (m Message) AsWithdrawal() Message {
	m.Withdrawal, m.awaited, m.alone, m.refused = true, !m.peer.Leaves, false, false
	return m
}

// slot is when the next Map-Register of many may go to the Map-Server. Refreshes and
// repetitions follow the spacing that it gives.
func (p *Peer) slot(now timing.Instant, r timing.Rate) timing.Instant {
	p.pace = max(p.pace, now) + r.Interval()
	return max(p.pace-r.Refill(), now)
}

func registerDetail(m Message) string {
	text := "registering"
	if m.Withdrawal {
		text = "withdrawing"
	}
	if more := len(m.Mappings) - 1; more > 0 {
		return text + " with others in one message"
	}
	return text
}

// answers reports whether a Map-Server sent a Map-Notify since a time.
func (p *Peer) answers(since timing.Instant) bool { return p.lastNotifyAt > since }

// isQuestion reports whether a message finds out that the Map-Server is back: one does, of those to one that
// acknowledges nothing. The first Map-Notify has all others sent at once, so that their backoff delays nothing.
func (p *Peer) isQuestion(id uint32, m *Message) bool {
	if p.question == 0 && m.tries >= silentAfter && !m.Withdrawal && !p.answers(m.since) {
		p.question = id + 1
	}
	return p.question == id+1
}

// waitRefused is how long after an EID-Prefix was registered alone and refused it is tried again: half an interval at
// least, and as long as it takes to try the others meanwhile.
func (p *Peer) waitRefused(below func(time.Duration) time.Duration) time.Duration {
	half := p.Config.RegistrationInterval / 2
	most := 2 * half * time.Duration(1+p.Alone/aloneAtOnce)
	return max(half+below(most-half), settings.RegisterRetransmitFirst)
}

// keepRefused remembers, while everything is registered anew, what has to be registered alone.
func (p *Peer) keepRefused(m *Message) {
	if !m.refused {
		return
	}
	if p.Refused == nil {
		p.Refused = make(map[lisp.Prefix]timing.Instant)
	}
	p.Refused[m.Mappings[0].Prefix] = m.since
}

// TakeRefused is the message for a mapping whose EID-Prefix is to be registered, or withdrawn, alone, and whether it
// is.
func (p *Peer) TakeRefused(m lisp.Mapping) (alone Message, refused bool) {
	since, refused := p.Refused[m.Prefix]
	if !refused {
		return Message{}, false
	}
	delete(p.Refused, m.Prefix)
	return Message{peer: p, Mappings: []lisp.Mapping{m}, alone: true, refused: true, since: since}, true
}

// StartAnew is for a Map-Server that all is registered with anew, once its messages are dropped.
func (p *Peer) StartAnew() { p.Messages, p.cut, p.unacknowledged = nil, 0, 0 }

// lacks reports whether a mapping of a message is not acknowledged, for longer than a Map-Notify takes.
func (m *Message) lacks(i int) bool {
	return !m.Withdrawal && (m.got != nil && !m.got[i] || m.alone || m.tries >= silentAfter)
}

// Note notes which mappings a Map-Notify acknowledges, and reports whether that is all of them by now. One
// without records acknowledges all.
func (m *Message) Note(n *message.MapNotify) (complete bool) {
	if len(n.Records) == 0 {
		return true
	}
	if m.got == nil {
		m.got = make([]bool, len(m.Mappings))
	}
	at := 0 // mostly they come as they were sent
	for i := range n.Records {
		p, err := n.Records[i].Prefix()
		if err != nil {
			continue
		}
		if at >= len(m.Mappings) || m.Mappings[at].Prefix != p {
			if at = slices.IndexFunc(m.Mappings, func(k lisp.Mapping) bool { return k.Prefix == p }); at < 0 {
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

// HasWithdrawals reports whether any are under way.
func (p *Peer) HasWithdrawals() bool { return p.withdrawals > 0 }

// HasAnother reports whether the same Map-Server is configured for another site.
func (p *Peer) HasAnother(peers []settings.MapServerPeer) bool {
	return slices.ContainsFunc(peers, func(c settings.MapServerPeer) bool { return c.Address == p.Config.Address && c.Site != p.Config.Site })
}
