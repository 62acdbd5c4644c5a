// SPDX-License-Identifier: Apache-2.0

package world

// The rates that RFC 9301 demands, measured on the simulated wire by the sender's own
// clock, without a look into the Node: Map-Requests (s.5.3), Map-Replies (s.5.4),
// repeated Map-Registers (s.5.7), SMRs (s.6.1), RLOC-probes (s.7.1).

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/sim/internal/packets"
	"loci/sim/internal/rates"
	"loci/wire"
)

// watch measures a message that a router sends.
func (w *World) watch(r *Router, sent *Mail) {
	to, payload := sent.To, sent.Payload
	t := wire.MessageType(payload[0] >> 4)
	if t == wire.TypeMapNotify || t == wire.TypeEncapsulatedControlMessage && r.isServer() {
		return // no rate is theirs
	}
	m := sent.Message()
	if m == nil {
		_, err := wire.Parse(payload)
		w.Fail(r, invariantNoPanic, "sends octets that are not a message: %v", err)
		return
	}
	if watchInside(r, sent) || watchProbing(r, t, to, payload) {
		return
	}
	ecm, encapsulated := m.(*wire.EncapsulatedControlMessage)
	if encapsulated && !r.isServer() {
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
		if again := r.requests.Registered(r.time(), to, m, r.configuredAt); again != "" {
			r.W.Fail(r, invariantRegister, "%s", again)
		}
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
		if rule, what := r.requests.Sent(r.time(), m); rule != "" {
			r.W.Fail(r, rule, "%s", what)
		}
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
	if r.W.Flavour.Relays {
		return control.ProbingConfig{Interval: relayProbing}
	}
	return r.W.Flavour.probing
}
