// SPDX-License-Identifier: Apache-2.0

package world

// The rates that RFC 9301 demands, measured on the simulated wire by the sender's own
// clock, without a look into the Node: Map-Requests (s.5.3), Map-Replies (s.5.4),
// repeated Map-Registers (s.5.7), SMRs (s.6.1), RLOC-probes (s.7.1).

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/rates"
	"loci/wire"
)

const (
	requestInterval = time.Second
	requestTries    = 10
	requestPause    = 30 * time.Second
	repetitionFirst = time.Second
	rounding        = rates.Rounding
)

// watch measures a message that a router sends.
func (w *World) watch(r *Router, sent *Mail) {
	to, payload := sent.To, sent.Payload
	t := wire.MessageType(payload[0] >> 4)
	if t == wire.TypeMapNotify || t == wire.TypeEncapsulatedControlMessage && r.Site == nil {
		return // no rate is theirs
	}
	m := sent.parsed()
	if m == nil {
		_, err := wire.Parse(payload)
		w.Fail(r, invariantNoPanic, "sends octets that are not a message: %v", err)
		return
	}
	if watchInside(r, sent) || watchProbing(r, t, to, payload) {
		return
	}
	ecm, encapsulated := m.(*wire.EncapsulatedControlMessage)
	if encapsulated && r.Site != nil {
		var err error
		if m, err = (wire.Parser{}).ParseIn(&w.inner, ecm.Inner.Message); err != nil {
			w.Fail(r, invariantNoPanic, "sends an ECM of octets that are not a message: %v", err)
			return
		}
	}
	switch m := m.(type) {
	case *wire.MapRequest:
		watchMapRequest(r, to, m, encapsulated)
	case *wire.MapReply:
		watchReply(r, to, payload)
		watchDenial(r, m)
	case *wire.MapRegister:
		r.requests.registered(to, m)
	}
}

// The P bits, of a Map-Request and of a Map-Reply.
const (
	probeBit      = 0x2
	probeReplyBit = 0x8
)

// watchProbing judges RLOC-probes and their answers; false when it is something else.
func watchProbing(r *Router, t wire.MessageType, to netip.AddrPort, payload []byte) bool {
	probe := t == wire.TypeMapRequest && payload[0]&probeBit != 0
	if !probe && (t != wire.TypeMapReply || payload[0]&probeReplyBit == 0 || payload[3] == 0) {
		return false
	}
	if probe {
		watchProbe(r, to)
	} else {
		watchReply(r, to, payload)
	}
	return true
}

// watchMapRequest judges what goes under the name of a Map-Request: SMRs and RLOC-probes go
// directly, everything else through the mapping system.
func watchMapRequest(r *Router, to netip.AddrPort, m *wire.MapRequest, encapsulated bool) {
	switch {
	case encapsulated && m.Probe:
		r.W.Fail(r, invariantProbe, "an RLOC-probe in an Encapsulated Control Message to %s (RFC 9301 s.5.8)", to)
	case encapsulated && m.SMR:
		r.W.Fail(r, invariantSMR, "an SMR in an Encapsulated Control Message to %s (RFC 9301 s.6.1)", to)
	case encapsulated:
		r.requests.sent(m)
	case m.SMR && !m.DontReply:
		r.W.Fail(r, invariantSMR, "an SMR to %s without the D bit", to)
	case m.SMR && isSecondMessage(r, to, m.Nonce):
	case m.SMR && !r.solicits.Take(r.time(), rates.AddrKey(to.Addr()), defaultLimits.SMRs):
		r.W.Fail(r, invariantSMR, "too many SMRs to %s (RFC 9301 s.6.1)", to)
	case !m.SMR:
		r.W.Fail(r, invariantSMR, "a Map-Request directly to %s: it must go through the mapping system (RFC 9301 s.6.1)", to)
	}
}

// isSecondMessage reports whether a message is of the SMR that was sent before it: an SMR may be two, with one nonce.
func isSecondMessage(r *Router, to netip.AddrPort, nonce uint64) bool {
	last := r.lastSMR
	r.lastSMR = solicited{to, nonce}
	return last == r.lastSMR
}

// watchProbe judges an RLOC-probe by the rate of all and by the retry interval, the
// shortest time between two to one RLOC, with room for a new mapping and for hints.
func watchProbe(r *Router, to netip.AddrPort) {
	retry := probing(r).RetriesInterval
	if retry == 0 {
		retry = control.DefaultProbing().RetriesInterval
	}
	each := control.Rate{PerSecond: 1.25 * float64(time.Second) / float64(retry), Burst: 6}
	switch {
	case probing(r).Off:
		r.W.Fail(r, invariantProbe, "probes %s, and RLOC-probing is off", to)
	case !r.probes.Take(r.time(), rates.AddrKey(to.Addr()), each):
		r.W.Fail(r, invariantProbe, "too many RLOC-probes to %s", to)
	case !r.probesTotal.Take(r.time(), 0, defaultLimits.RLOCProbes):
		r.W.Fail(r, invariantProbe, "too many RLOC-probes in all")
	}
}

func (q *requestWatch) forget() {
	q.asked, q.nonces, q.open = map[lisp.Prefix]*askedPrefix{}, map[uint64]lisp.Prefix{}, nil
	q.registers = map[registerKey]time.Time{}
}

// sent judges a Map-Request.
func (q *requestWatch) sent(m *wire.MapRequest) {
	r, now := q.router, q.router.time()
	for i := range m.Records {
		p, err := m.Records[i].Prefix()
		if err != nil {
			r.W.Fail(r, invariantNoPanic, "asks for %s: %v", m.Records[i].EID, err)
			return
		}
		a := q.asked[p]
		if a == nil {
			a = &askedPrefix{prefix: p}
			q.asked[p] = a
		}
		gap := now.Sub(a.lastAt)
		switch {
		case gap < requestInterval-rounding:
			r.W.Fail(r, invariantRequestRate, "asks for %s again after %s", p, gap)
		case a.unanswered >= requestTries && gap < requestPause-rounding:
			r.W.Fail(r, invariantHoldDown, "asks for %s a %dth time, %s after the one before, with no answer", p, a.unanswered+1, gap)
		case gap >= requestPause-rounding:
			a.unanswered = 0
		}
		if a.lastAt = now; !a.open {
			a.open, q.open = true, append(q.open, a)
		}
		a.unanswered++
		q.nonces[m.Nonce] = p
	}
}

// answered notes a Map-Reply to one of the requests; false when it is none.
func (q *requestWatch) answered(nonce uint64) bool {
	p, ok := q.nonces[nonce]
	if !ok {
		return false
	}
	if a := q.asked[p]; a != nil {
		a.unanswered = 0
	}
	return true
}

// covered notes that a mapping came for what else was asked: that is answered too.
func (q *requestWatch) covered(by lisp.Prefix) {
	q.open = slices.DeleteFunc(q.open, func(a *askedPrefix) bool {
		if by.Covers(a.prefix) {
			a.unanswered = 0
		}
		a.open = a.unanswered > 0
		return !a.open
	})
}

// prune forgets what is too old to matter.
func (q *requestWatch) prune() {
	if len(q.nonces) < 200 {
		return
	}
	now := q.router.time()
	for nonce, p := range q.nonces {
		a := q.asked[p]
		if a != nil && now.Sub(a.lastAt) <= 2*requestPause {
			continue
		}
		if a != nil {
			a.unanswered = 0 // no longer open
		}
		delete(q.nonces, nonce)
		delete(q.asked, p)
	}
}

// registered judges a Map-Register: the same one is not repeated within a second.
func (q *requestWatch) registered(to netip.AddrPort, m *wire.MapRegister) {
	r, now := q.router, q.router.time()
	mapping, err := m.Records[0].Mapping()
	if err != nil {
		r.W.Fail(r, invariantNoPanic, "registers a malformed mapping: %v", err)
		return
	}
	key := registerKey{to, mapping.Prefix, hashLocators(mapping.Locators), len(m.Records)}
	last, known := q.registers[key]
	if gap := now.Sub(last); known && gap < repetitionFirst-rounding && !configuredSince(r, last) {
		r.W.Fail(r, invariantRegister, "registers %s at %s again after %s", mapping.Prefix, to, gap)
	}
	q.registers[key] = now
}

// configuredSince reports whether the configuration changed after that.
func configuredSince(r *Router, t time.Time) bool { return !r.configuredAt.Before(t) }

// watchReply judges a Map-Reply by the rate that the configuration gives: of one RLOC about
// one EID-Prefix.
func watchReply(r *Router, to netip.AddrPort, payload []byte) {
	rate, probe := defaultLimits.MapReplies, payload[0]&probeReplyBit != 0
	if probe {
		rate = defaultLimits.ProbeReplies
	}
	if !r.replies.Take(r.time(), rates.ReplyKey(to, payload, probe), rate) {
		r.W.Fail(r, invariantReplyRate, "too many Map-Replies to %s: %s", to, packets.Describe(payload))
	}
}

// probing is how the router probes.
func probing(r *Router) control.ProbingConfig {
	if r.Site != nil && r.Site.Siblings { // that the path behind a link is dead is learned by nothing else
		return r.Site.probing
	}
	return r.W.Flavour.probing
}
