// SPDX-License-Identifier: Apache-2.0

package control

// Map-Replies: where they go, how many, and their size (RFC 9301 s.5.4, s.5.5).
// ETR and Map-Server both send them; what they say is theirs.

import (
	"net/netip"
	"slices"

	"loci/lisp"
	"loci/wire"
)

const (
	// mapReplyOctets is a Map-Reply without records.
	mapReplyOctets = 12
	// usualSignedOctets is a Map-Register or a Map-Notify without records, with xTR-ID and the longest MAC.
	usualSignedOctets = 16 + 32 + 24
	// usualRecordOctets is enough for most records.
	usualRecordOctets = 96
)

// reply is a Map-Reply to be sent.
type reply struct {
	sent     Counter // what it is counted as
	notice   NoticeKind
	mappings []lisp.Mapping // the answer first
	probe    bool
	negative bool
	echoes   bool // E: the ETR that sends it echoes nonces (RFC 9300 s.10.1)
}

// reply sends a Map-Reply to one of the request's ITR-RLOCs, within the rates. A
// Map-Request with a forged ITR-RLOC makes us send to whom it names: the rates
// bound what that is worth.
func (h *host) reply(to *mapRequest, r reply) {
	rloc, ok := h.replyRLOC(to)
	if !ok {
		h.count(RefusedFamily)
		return
	}
	if !h.mayReply(replyKey{rloc, r.mappings[0].Prefix}, r) {
		return
	}
	head := wire.MapReply{Probe: r.probe, EchoNonce: r.echoes, Nonce: to.Nonce}
	payload, err := wire.AppendMapReply(h.room(mapReplyOctets+len(r.mappings)*usualRecordOctets), &head, r.mappings)
	if err != nil {
		h.count(RefusedEncoding)
		return
	}
	remote := netip.AddrPortFrom(rloc.Addr(), to.replyPort)
	h.send(h.replyLocal(to, rloc), remote, h.used(payload))
	h.count(r.sent)
	if h.mayNotice() {
		h.say(Notice{Kind: r.notice, Prefix: r.mappings[0].Prefix, Remote: remote, Detail: r.mappings[0].String()})
	}
}

// replyLocal answers a direct Map-Request from the address that it came to, so that
// firewalls and reverse path checks see one conversation.
func (h *host) replyLocal(to *mapRequest, rloc lisp.RLOC) netip.AddrPort {
	if to.ecm != nil || to.local.Addr().Is4() != rloc.Is4() {
		return h.fromControlPort()
	}
	return h.answerFrom(to.local)
}

// replyRLOC chooses the ITR-RLOC that the reply goes to: the one that the request
// came from, else the first of the family that it came to, else the first of
// another family of ours.
func (h *host) replyRLOC(to *mapRequest) (lisp.RLOC, bool) {
	if from := lisp.RLOCFromAddr(to.from.Addr()); to.ecm == nil && slices.Contains(to.itrRLOCs, from) {
		return from, true
	}
	arrivedBy4 := to.from.Addr().Is4()
	for _, r := range to.itrRLOCs {
		if r.Is4() == arrivedBy4 {
			return r, true
		}
	}
	for _, r := range to.itrRLOCs {
		if _, ok := h.rlocOf(r.Is4()); ok {
			return r, true
		}
	}
	return lisp.RLOC{}, false
}

// mayReply takes from all buckets that a reply needs, or from none.
func (h *host) mayReply(key replyKey, r reply) bool {
	l := &h.limits
	each, rate := &h.replyLimit, l.MapReplies
	if r.probe {
		each, rate = &h.probeLimit, l.ProbeReplies
	}
	total, negatives := h.replyTotal, h.negativeTotal
	switch {
	case !total.take(h.now, l.MapRepliesTotal):
		h.count(RefusedReplyTotalLimit)
	case r.negative && !negatives.take(h.now, l.NegativeReplies):
		h.count(RefusedNegativeLimit)
	case !each.take(h.now, key, rate, l.RateTable):
		h.count(RefusedReplyLimit)
	default:
		h.replyTotal, h.negativeTotal = total, negatives
		return true
	}
	return false
}

// replyNegative says that the prefix has no locators.
func (h *host) replyNegative(to *mapRequest, hole lisp.Prefix, ttlMinutes uint32) {
	h.replyWithout(to, lisp.Mapping{Prefix: hole, TTLMinutes: ttlMinutes, Action: lisp.ActionNativelyForward})
}

// replyWithout sends a mapping that has an action and no locators.
func (h *host) replyWithout(to *mapRequest, negative lisp.Mapping) {
	h.reply(to, reply{sent: NegativeMapReplySent, notice: NoticeNegativeMapReplySent, negative: true, mappings: []lisp.Mapping{negative}})
}

// complete is the answer to a request for asked: best, the longest match, with all
// its more-specifics, in one message and with one TTL (RFC 9301 s.5.5). Where those
// are too many, or one of them must not be told, it is best alone, narrowed to the
// least specific prefix around the asked EID in which taken finds no more-specific:
// as true, and small.
func (h *host) complete(to *mapRequest, asked lisp.Prefix, all []lisp.Mapping, taken func(lisp.Prefix) bool) []lisp.Mapping {
	if len(all) == 1 {
		return all
	}
	best := all[0]
	specifics := all[1:]
	if len(all) <= h.limits.MoreSpecificsPerReply && !slices.ContainsFunc(specifics, untold) && h.fits(to, all) {
		shareTTL(all)
		return all
	}
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	best.Prefix = leastSpecificHole(host, best.Prefix.Bits(), taken)
	return []lisp.Mapping{best}
}

// untold marks a more-specific that others must answer for: it has no prefix.
func untold(m lisp.Mapping) bool { return m.Prefix.IsZero() }

// fits reports whether a Map-Reply with these records may be sent without knowing
// the path's MTU (RFC 9301 s.5).
func (h *host) fits(to *mapRequest, all []lisp.Mapping) bool {
	rloc, ok := h.replyRLOC(to)
	return ok && mapReplyOctets+recordOctets(all...) <= controlOctets(rloc.Addr())
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

// recordOctets is how long the records of the mappings are. A record that cannot
// be encoded is longer than anything.
func recordOctets(mappings ...lisp.Mapping) int {
	total := 0
	for _, m := range mappings {
		b, err := (&wire.MapReply{Records: []wire.Record{wire.RecordOf(m)}}).AppendTo(nil)
		if err != nil {
			return maxMessageOctets
		}
		total += len(b) - mapReplyOctets
	}
	return total
}
