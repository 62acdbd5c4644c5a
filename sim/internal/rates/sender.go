// SPDX-License-Identifier: Apache-2.0

package rates

// The rates that RFC 9301 demands of a sender, measured on the simulated wire by its own
// clock, without a look into the Node: Map-Requests (s.5.3), Map-Replies (s.5.4),
// repeated Map-Registers (s.5.7), SMRs (s.6.1), RLOC-probes (s.7.1).

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"loci/control"
	"loci/sim/internal/packets"
	"loci/wire"
)

// The rules that a sender may break, as docs/simulator.md names them.
const (
	RuleNoPanic   = "no-panic"             // all that is sent can be parsed
	RuleReplyRate = "map-reply-rate"       // RFC 9301 s.5.4
	RuleSMR       = "smr"                  // RFC 9301 s.6.1: rate, D bit, answers through the mapping system alone
	RuleProbe     = "rloc-probe"           // RFC 9301 s.5.8, s.7.1: rates, never encapsulated
	RuleRegister  = "map-register-backoff" // RFC 9301 s.5.7: a second before the first repetition
)

// siblingPause is the least time between two questions to a sibling about its RLOCs.
const siblingPause = 20 * time.Millisecond

// coreQuestions are those about the core that may follow each other sooner than the retry interval: some doubts last for shorter.
const coreQuestions = 3

// Sender is what a router sent lately.
type Sender struct {
	Requests Requests

	replies     Watch
	solicits    Watch // SMRs
	lastSMR     solicited
	probes      Watch // RLOC-probes to one RLOC
	probesTotal Watch
	questions   Watch // to one sibling, about the core
}

// solicited tells one SMR from another.
type solicited struct {
	to    netip.AddrPort
	nonce uint64
}

// Sent is a message that a router sends.
type Sent struct {
	At           time.Time // by its clock
	To           netip.AddrPort
	Payload      []byte
	Message      wire.Message // the payload, nil where it is none
	Room         *wire.Room   // for what an ECM carries
	Server       bool         // it is a Map-Server or Map-Resolver alone
	Inside       bool         // to a sibling, by the link of the site
	Probing      control.ProbingConfig
	ConfiguredAt time.Time
	Own          *control.ETRConfig // with its EID-Prefixes, nil for none
}

// Restart forgets what the process before sent.
func (s *Sender) Restart() {
	s.Requests.Forget()
	s.replies, s.solicits, s.probes, s.probesTotal, s.questions = Watch{}, Watch{}, Watch{}, Watch{}, Watch{}
}

// Judge says which rule a message breaks, and how; none is empty.
func (s *Sender) Judge(m Sent) (rule, what string) {
	t := wire.MessageType(m.Payload[0] >> 4)
	isProbe := t == wire.TypeMapRequest && m.Payload[0]&probeBit != 0
	switch {
	case t == wire.TypeMapNotify || t == wire.TypeEncapsulatedControlMessage && m.Server:
		return "", "" // no rate is theirs
	case m.Message == nil:
		_, err := wire.Parse(m.Payload)
		return RuleNoPanic, fmt.Sprintf("sends octets that are not a message: %v", err)
	case m.Inside && isProbe:
		return s.judgeQuestion(m)
	case m.Inside:
		return "", ""
	case isProbe:
		return s.judgeProbe(m)
	case t == wire.TypeMapReply:
		return s.judgeReply(m)
	}
	inner := m.Message
	ecm, encapsulated := inner.(*wire.EncapsulatedControlMessage)
	if encapsulated {
		var err error
		if inner, err = (wire.Parser{}).ParseIn(m.Room, ecm.Inner.Message); err != nil {
			return RuleNoPanic, fmt.Sprintf("sends an ECM of octets that are not a message: %v", err)
		}
	}
	switch inner := inner.(type) {
	case *wire.MapRequest:
		return s.judgeMapRequest(m, inner, encapsulated)
	case *wire.MapRegister:
		if again := s.Requests.Registered(m.At, m.To, inner, m.ConfiguredAt); again != "" {
			return RuleRegister, again
		}
	}
	return "", ""
}

// The P bit of a Map-Request, and that of a Map-Reply.
const (
	probeBit      = 0x2
	ProbeReplyBit = 0x8
)

// judgeQuestion judges a question to a sibling: about its RLOCs, or, with a mapping, about the core. Each has its own rate: a doubt
// about the core may begin when it is asked about its RLOCs.
func (s *Sender) judgeQuestion(m Sent) (rule, what string) {
	if asked, ok := m.Message.(*wire.MapRequest); ok && asked.MapReplyRecord != nil {
		rate := control.Rate{PerSecond: float64(time.Second) / float64(retriesInterval(m.Probing)), Burst: coreQuestions}
		if !s.questions.Take(m.At, AddrKey(m.To.Addr()), rate) {
			return RuleProbe, "too many questions to its sibling about the core"
		}
		return "", ""
	}
	rate := control.Rate{PerSecond: float64(time.Second / siblingPause), Burst: 2}
	if !s.probes.Take(m.At, AddrKey(m.To.Addr()), rate) {
		return RuleProbe, "too many questions to its sibling"
	}
	return "", ""
}

// retriesInterval is the shortest time between two RLOC-probes to one RLOC.
func retriesInterval(p control.ProbingConfig) time.Duration {
	return cmp.Or(p.RetriesInterval, control.DefaultProbing().RetriesInterval)
}

// judgeMapRequest judges what goes under the name of a Map-Request: SMRs and RLOC-probes go
// directly, everything else through the mapping system.
func (s *Sender) judgeMapRequest(sent Sent, m *wire.MapRequest, encapsulated bool) (rule, what string) {
	switch {
	case encapsulated && m.Probe:
		return RuleProbe, fmt.Sprintf("an RLOC-probe in an Encapsulated Control Message to %s (RFC 9301 s.5.8)", sent.To)
	case encapsulated && m.SMR:
		return RuleSMR, fmt.Sprintf("an SMR in an Encapsulated Control Message to %s (RFC 9301 s.6.1)", sent.To)
	case encapsulated:
		if sent.Own == nil {
			return s.Requests.Sent(sent.At, m, nil)
		}
		return s.Requests.Sent(sent.At, m, sent.Own.Database)
	case m.SMR && !m.DontReply:
		return RuleSMR, fmt.Sprintf("an SMR to %s without the D bit", sent.To)
	case m.SMR && s.isSecondMessage(sent.To, m.Nonce):
	case m.SMR && !s.solicits.Take(sent.At, AddrKey(sent.To.Addr()), control.DefaultLimits().SMRs):
		return RuleSMR, fmt.Sprintf("too many SMRs to %s (RFC 9301 s.6.1)", sent.To)
	case !m.SMR:
		return RuleSMR, fmt.Sprintf("a Map-Request directly to %s: it must go through the mapping system (RFC 9301 s.6.1)", sent.To)
	}
	return "", ""
}

// isSecondMessage reports whether a message is of the SMR that was sent before it: an SMR may be two, with one nonce.
func (s *Sender) isSecondMessage(to netip.AddrPort, nonce uint64) bool {
	last := s.lastSMR
	s.lastSMR = solicited{to, nonce}
	return last == s.lastSMR
}

// judgeProbe judges an RLOC-probe by the rate of all and by the retry interval, the
// shortest time between two to one RLOC, with room for a new mapping and for hints.
func (s *Sender) judgeProbe(m Sent) (rule, what string) {
	each := control.Rate{PerSecond: 1.25 * float64(time.Second) / float64(retriesInterval(m.Probing)), Burst: 6}
	switch {
	case m.Probing.Off:
		return RuleProbe, fmt.Sprintf("probes %s, and RLOC-probing is off", m.To)
	case !s.probes.Take(m.At, AddrKey(m.To.Addr()), each):
		return RuleProbe, fmt.Sprintf("too many RLOC-probes to %s", m.To)
	case !s.probesTotal.Take(m.At, 0, control.DefaultLimits().RLOCProbes):
		return RuleProbe, "too many RLOC-probes in all"
	}
	return "", ""
}

// judgeReply judges a Map-Reply by the rate that the configuration gives: of one RLOC about
// one EID-Prefix.
func (s *Sender) judgeReply(m Sent) (rule, what string) {
	rate, probe := control.DefaultLimits().MapReplies, m.Payload[0]&ProbeReplyBit != 0
	if probe {
		rate = control.DefaultLimits().ProbeReplies
	}
	if !s.replies.Take(m.At, ReplyKey(m.To, m.Payload, probe), rate) {
		return RuleReplyRate, fmt.Sprintf("too many Map-Replies to %s: %s", m.To, packets.Describe(m.Payload))
	}
	return "", ""
}
