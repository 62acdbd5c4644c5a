// SPDX-License-Identifier: Apache-2.0

package system

// Map-Replies: where they go, how many, and their size (RFC 9301 s.5.4, s.5.5).
// ETR and Map-Server both send them; what they say is theirs.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/lisp"
	"loci/wire"
)

const (
	// mapReplyOctets is a Map-Reply without records.
	mapReplyOctets = 12
	// UsualSignedOctets is a Map-Register or a Map-Notify without records, with xTR-ID and the longest MAC.
	UsualSignedOctets = 16 + 32 + 24
	// UsualRecordOctets is enough for most records.
	UsualRecordOctets = 96
)

// Reply is a Map-Reply to be sent.
type Reply struct {
	Sent     counter.Counter // what it is counted as
	Notice   effect.NoticeKind
	Mappings []lisp.Mapping // the answer first
	Probe    bool
	negative bool
	Echoes   bool // E: the ETR that sends it echoes nonces (RFC 9300 s.10.1)
	// Flow is what was asked for where that is the path of a flow, nil otherwise. The answer is the first locator.
	Flow *wire.RequestRecord
}

// appendTo appends the Map-Reply.
func (r *Reply) appendTo(b []byte, head *wire.MapReply) ([]byte, error) {
	if r.Flow == nil {
		return wire.AppendMapReply(b, head, r.Mappings)
	}
	m := &r.Mappings[0]
	head.Records = []wire.Record{wire.FlowRecord(*r.Flow, m.TTLMinutes, m.Locators[0])}
	return head.AppendTo(b)
}

// key is what the reply is limited by.
func (r *Reply) key(to lisp.RLOC) replyKey {
	key := replyKey{rloc: to, prefix: r.Mappings[0].Prefix}
	if r.Flow != nil {
		key.ports = wire.FlowPorts(r.Flow.EID)
	}
	return key
}

// Reply sends a Map-Reply to one of the request's ITR-RLOCs, within the rates. A
// Map-Request with a forged ITR-RLOC makes us send to whom it names: the rates
// bound what that is worth.
func (h *System) Reply(to *message.MapRequest, r Reply) {
	rloc, ok := h.ReplyRLOC(to)
	if !ok {
		h.Count(counter.RefusedFamily)
		return
	}
	if !h.mayReply(r.key(rloc), r) {
		return
	}
	head := wire.MapReply{Probe: r.Probe, EchoNonce: r.Echoes, Nonce: to.Nonce}
	payload, err := r.appendTo(h.Buffer(mapReplyOctets+len(r.Mappings)*UsualRecordOctets), &head)
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return
	}
	remote := netip.AddrPortFrom(rloc.Addr(), to.ReplyPort)
	h.Send(h.replyLocal(to, rloc), remote, h.Used(payload))
	h.Count(r.Sent)
	if r.Flow != nil {
		h.Count(counter.SubflowPathSent)
	}
	if h.MayNotice() {
		h.Say(effect.Notice{Kind: r.Notice, Prefix: r.Mappings[0].Prefix, Remote: remote, Detail: r.Mappings[0].String()})
	}
}

// replyLocal answers a direct Map-Request from the address that it came to, so that
// firewalls and reverse path checks see one conversation.
func (h *System) replyLocal(to *message.MapRequest, rloc lisp.RLOC) netip.AddrPort {
	if to.ECM != nil || to.Local.Addr().Is4() != rloc.Is4() {
		return h.FromControlPort()
	}
	return h.AnswerFrom(to.Local)
}

// ReplyRLOC chooses the ITR-RLOC that the reply goes to: the one that the request
// came from, else the first of the family that it came to, else the first of
// another family of ours.
func (h *System) ReplyRLOC(to *message.MapRequest) (lisp.RLOC, bool) {
	if from := lisp.RLOCFromAddr(to.From.Addr()); to.ECM == nil && slices.Contains(to.ReplyRLOCs, from) {
		return from, true
	}
	arrivedBy4 := to.From.Addr().Is4()
	for _, r := range to.ReplyRLOCs {
		if r.Is4() == arrivedBy4 {
			return r, true
		}
	}
	for _, r := range to.ReplyRLOCs {
		if _, ok := h.RLOCOf(r.Is4()); ok {
			return r, true
		}
	}
	return lisp.RLOC{}, false
}

// MayAnswerProbe takes from the buckets of answers to RLOC-probes, for an answer that Reply does not send.
func (h *System) MayAnswerProbe(to lisp.RLOC, asked lisp.Prefix) bool {
	return h.mayReply(replyKey{rloc: to, prefix: asked}, Reply{Probe: true})
}

// MayReplyToInfo takes from the buckets of Info-Replies, of whatever protocol.
func (h *System) MayReplyToInfo(to netip.Addr) bool {
	total := h.infoTotal
	if !total.Take(h.Now, settings.InfoRepliesTotal()) ||
		!h.infoReplies.Take(h.Now, to, settings.InfoReplies(), h.Limits.RateTable) {
		h.Count(counter.RefusedInfoLimit)
		return false
	}
	h.infoTotal = total
	return true
}

// mayReply takes from all buckets that a reply needs, or from none.
func (h *System) mayReply(key replyKey, r Reply) bool {
	l := &h.Limits
	each, rate := &h.ReplyLimit, l.MapReplies
	if r.Probe {
		each, rate = &h.ProbeLimit, l.ProbeReplies
	}
	total, negatives, flows := h.replyTotal, h.negativeTotal, h.flowTotal
	switch {
	case !total.Take(h.Now, l.MapRepliesTotal), r.Flow != nil && !flows.Take(h.Now, settings.FlowReplies()):
		h.Count(counter.RefusedReplyTotalLimit)
	case r.negative && !negatives.Take(h.Now, l.NegativeReplies):
		h.Count(counter.RefusedNegativeLimit)
	case !each.Take(h.Now, key, rate, l.RateTable):
		h.Count(counter.RefusedReplyLimit)
	default:
		h.replyTotal, h.negativeTotal, h.flowTotal = total, negatives, flows
		return true
	}
	return false
}

// ReplyNegative says that the prefix has no locators.
func (h *System) ReplyNegative(to *message.MapRequest, hole lisp.Prefix, ttlMinutes uint32) {
	h.ReplyWithout(to, lisp.Mapping{Prefix: hole, TTLMinutes: ttlMinutes, Action: lisp.ActionNativelyForward})
}

// ReplyWithout sends a mapping that has an action and no locators.
func (h *System) ReplyWithout(to *message.MapRequest, negative lisp.Mapping) {
	h.Reply(to, Reply{Sent: counter.NegativeMapReplySent, Notice: effect.NoticeNegativeMapReplySent, negative: true, Mappings: []lisp.Mapping{negative}})
}

// Complete is the answer to a request for asked: best, the longest match, with all
// its more-specifics, in one message and with one TTL (RFC 9301 s.5.5). Where those
// are too many, or one of them must not be told, it is best alone, narrowed to the
// least specific prefix around the asked EID in which taken finds no more-specific:
// as true, and small.
func (h *System) Complete(to *message.MapRequest, asked lisp.Prefix, all []lisp.Mapping, taken func(lisp.Prefix) bool) []lisp.Mapping {
	if len(all) == 1 {
		return all
	}
	best := all[0]
	specifics := all[1:]
	if len(all) <= h.Limits.MoreSpecificsPerReply && !slices.ContainsFunc(specifics, untold) && h.fits(to, all) {
		shareTTL(all)
		return all
	}
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	best.Prefix = table.LeastSpecificHole(host, best.Prefix.Bits(), taken)
	return []lisp.Mapping{best}
}

// untold marks a more-specific that others must answer for: it has no prefix.
func untold(m lisp.Mapping) bool { return m.Prefix.IsZero() }

// fits reports whether a Map-Reply with these records may be sent without knowing
// the path's MTU (RFC 9301 s.5).
func (h *System) fits(to *message.MapRequest, all []lisp.Mapping) bool {
	rloc, ok := h.ReplyRLOC(to)
	return ok && mapReplyOctets+RecordOctets(all...) <= ControlOctets(rloc.Addr())
}

// shareTTL gives all mappings the smallest TTL, so that they time out together.
func shareTTL(all []lisp.Mapping) {
	shortest := all[0].TTLMinutes
	for _, m := range all {
		shortest = min(shortest, m.TTLMinutes)
	}
	for i := range all {
		all[i].TTLMinutes = shortest
	}
}

// RecordOctets is how long the records of the mappings are. A record that cannot
// be encoded is longer than anything.
func RecordOctets(mappings ...lisp.Mapping) int {
	total := 0
	for _, m := range mappings {
		b, err := (&wire.MapReply{Records: []wire.Record{wire.RecordOf(m)}}).AppendTo(nil)
		if err != nil {
			return settings.MaxMessageOctets
		}
		total += len(b) - mapReplyOctets
	}
	return total
}
