// SPDX-License-Identifier: Apache-2.0

// Package handover follows what the tunnel routers of a simulated site ask each other, and judges by that a router that gives the
// site's packets away: only to one that gets through, as it said since the core fell silent, or as data packets show. It reads the
// wire, and asks no Node.
package handover

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/rates"
	"loci/wire"
)

const (
	// dataSilence is for how long no data packet has come to a router that gives its packets away for that.
	dataSilence = 10 * time.Second
	// ReportsEvery is how often a data plane says when packets came, late how much later a sibling passes that on, in whole seconds.
	ReportsEvery = 2 * time.Second
	late         = ReportsEvery + 1500*time.Millisecond
	// mostQuestions bounds the questions for mappings that are remembered.
	mostQuestions = 64
	// mostAsked bounds what the core may answer yet.
	mostAsked = 1024
)

// Watch is what one router saw.
type Watch struct {
	words     map[netip.Addr]word      // by the sibling's address
	probes    map[uint64]time.Duration // when RLOC-probes through the core were sent that nothing answered yet, by nonce
	questions map[uint64][]lisp.Prefix // for mappings that a sibling offered, by nonce
	coreAt    time.Duration            // when the core last answered
	askedAt   time.Duration            // when the newest was sent that the core answered, or another message came
	asked     map[uint64]question      // what the core may answer, by nonce
	surelyAt  time.Duration            // the same of what was answered in the family that was asked
	DataAt    time.Duration            // when a data packet last came to the router, 0 for never
	reported  time.Duration            // DataAt as the data plane reported it last
}

// question is an RLOC-probe, a Map-Request or a Map-Register.
type question struct {
	at time.Duration
	to netip.Addr
}

// word is what a sibling was asked about the core, and says.
type word struct {
	nonce    uint64 // of the last question
	askedAt  time.Duration
	yes      bool          // the last answer
	answerTo time.Duration // when the question was asked that it answers
}

// Restart begins with another process; the data plane is the same.
func (w *Watch) Restart() {
	*w = Watch{DataAt: w.DataAt, asked: map[uint64]question{}, words: map[netip.Addr]word{}}
	w.probes, w.questions = map[uint64]time.Duration{}, map[uint64][]lisp.Prefix{}
}

// Sent notes a message to a sibling, by the link of the site, or into the core.
func (w *Watch) Sent(now time.Duration, to netip.Addr, inside bool, message wire.Message) {
	if nonce := nonceOf(message); nonce != 0 && !inside {
		if len(w.asked) >= mostAsked {
			clear(w.asked)
		}
		w.asked[nonce] = question{now, to}
	}
	m, ok := message.(*wire.MapRequest)
	switch {
	case !ok:
	case m.Probe && !inside:
		w.probes[m.Nonce] = now
	case m.Probe && m.MapReplyRecord != nil:
		said := w.words[to]
		said.nonce, said.askedAt = m.Nonce, now
		w.words[to] = said
	case inside && m.SMRInvoked:
		if len(w.questions) >= mostQuestions {
			clear(w.questions)
		}
		w.questions[m.Nonce] = prefixes(m)
	}
}

// nonceOf is the nonce of what the core may answer, 0 for anything else.
func nonceOf(message wire.Message) uint64 {
	switch m := message.(type) {
	case *wire.EncapsulatedControlMessage:
		if len(m.Inner.Message) >= 12 {
			return binary.BigEndian.Uint64(m.Inner.Message[4:])
		}
	case *wire.MapRegister:
		return m.Nonce
	case *wire.MapRequest:
		if m.Probe {
			return m.Nonce
		}
	}
	return 0
}

func prefixes(m *wire.MapRequest) (list []lisp.Prefix) {
	for i := range m.Records {
		if p, err := m.Records[i].Prefix(); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// Came notes an answer to an RLOC-probe, or to a question about the core.
func (w *Watch) Came(now time.Duration, from netip.Addr, inside bool, m *wire.MapReply) {
	if !inside {
		w.proves(from, m.Nonce)
	}
	if sentAt, asked := w.probes[m.Nonce]; asked && !inside {
		delete(w.probes, m.Nonce)
		w.coreAt, w.askedAt = now, max(w.askedAt, sentAt)
		return
	}
	said := w.words[from]
	if !inside || said.nonce != m.Nonce || len(m.Records) != 1 {
		return
	}
	if mapping, err := m.Records[0].Mapping(); err == nil && len(mapping.Locators) == 1 {
		said.yes, said.answerTo = mapping.Locators[0].Reachable, said.askedAt
		w.words[from] = said
	}
}

// Answered notes a Map-Reply or Map-Notify from the core that answers no RLOC-probe.
func (w *Watch) Answered(now time.Duration, from netip.Addr, nonce uint64) {
	w.askedAt = now
	w.proves(from, nonce)
}

// proves notes an answer that shows an address family to pass in both directions.
func (w *Watch) proves(from netip.Addr, nonce uint64) {
	if q, asked := w.asked[nonce]; asked && q.to.Is4() == from.Is4() {
		w.surelyAt = max(w.surelyAt, q.at)
	}
	delete(w.asked, nonce)
}

// isProven reports whether the core may have answered the router since its links came up.
func (w *Watch) isProven(upAt time.Duration) bool { return w.askedAt >= upAt }

// AskedFor reports whether a sibling was asked for a mapping under that nonce. It may answer once.
func (w *Watch) AskedFor(nonce uint64) (asked func(lisp.Prefix) bool) {
	list := w.questions[nonce]
	delete(w.questions, nonce)
	return func(p lisp.Prefix) bool { return slices.Contains(list, p) }
}

// Reported notes that the data plane says when packets came.
func (w *Watch) Reported() { w.reported = w.DataAt }

// saidYes reports whether the last word of a sibling is that the core answers it, and newer than the core's last answer to the router.
func (w *Watch) saidYes(of netip.Addr) bool {
	said := w.words[of]
	return said.yes && said.answerTo > w.coreAt
}

// Judge says what is wrong with a router that gives its packets to a sibling, whose own watch is given; nothing is empty.
func (w *Watch) Judge(now time.Duration, to netip.Addr, sibling *Watch, why control.SiblingPathReason) (wrong string) {
	switch {
	case why == control.SiblingPathNoCore && !w.words[to].yes:
		return "which did not say that the core answers it"
	case why == control.SiblingPathNoCore && !w.saidYes(to):
		return fmt.Sprintf("which said that the core answers it %s before the core answered last", w.coreAt-w.words[to].answerTo)
	case why != control.SiblingPathNoData:
		return ""
	case w.reported == 0:
		return "and no data packet ever came to it"
	case now-w.reported < dataSilence-rates.Rounding:
		return fmt.Sprintf("and a data packet came to it %s before", now-w.reported)
	case sibling.DataAt == 0 || now-sibling.DataAt > dataSilence+late:
		return "to which no data packet came lately"
	}
	for other := range w.words {
		if w.saidYes(other) {
			return "and " + other.String() + " said that the core answers it"
		}
	}
	return ""
}
