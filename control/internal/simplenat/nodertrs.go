// SPDX-License-Identifier: Apache-2.0

package simplenat

// The RTRs of an own RLOC. Each gets an Info-Request and an RLOC-probe at its data port, from the data port: they keep
// the NAT's binding, tell the RTR of a new one, and the answer comes by it. An RTR that answered and does not any more
// is neither registered nor used, as long as another one may be. lispers.net's RTR need not answer.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/indata"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// silentProbes unanswered an RTR that answered before is called silent.
	silentProbes = 2
	// answerTime is how long an RLOC-probe may take to be answered: another one may be sent before.
	answerTime = 2 * time.Second
)

// nodeRTR is an RTR of a node.
type nodeRTR struct {
	at         netip.Addr
	nonce      uint64 // of the last RLOC-probe, 0 where it was answered
	unanswered int
	sentAt     timing.Instant
	answeredAt timing.Instant // 0 for never
	since      timing.Instant
	silent     bool
}

// setRTRs takes over other RTRs, and reports whether one is new, and whether they are others.
func (n *ownRLOC) setRTRs(all []netip.Addr) (added, changed bool) {
	before := n.rtrs
	n.rtrs = nil
	for _, a := range all {
		at := slices.IndexFunc(before, func(r *nodeRTR) bool { return r.at == a })
		if at >= 0 {
			n.rtrs = append(n.rtrs, before[at])
			continue
		}
		r := &nodeRTR{at: a, since: n.h.Now}
		n.rtrs, added, changed = append(n.rtrs, r), true, true
		n.noticeRTR(effect.NoticeRTRChosen, r)
	}
	for _, r := range before {
		if !slices.Contains(n.rtrs, r) {
			changed = true
			n.noticeRTR(effect.NoticeRTRLeft, r)
		}
	}
	return added, changed
}

// inUse are the RTRs that are not silent; all of them where each is. Where this protocol is not the only one they are
// those that have answered: a Map-Server that speaks it may offer RTRs that do not.
func (n *ownRLOC) inUse() []netip.Addr {
	known := slices.Clone(n.rtrs)
	if n.node.config.Protocol == settings.NATAuto {
		known = slices.DeleteFunc(known, func(r *nodeRTR) bool { return r.answeredAt == 0 })
	}
	if heard := slices.DeleteFunc(slices.Clone(known), func(r *nodeRTR) bool { return r.silent }); len(heard) > 0 {
		known = heard
	}
	return addresses(known)
}

// isSilent reports whether none of the RTRs answers any more; isHeard, whether one does.
func (n *ownRLOC) isSilent() bool {
	return !slices.ContainsFunc(n.rtrs, func(r *nodeRTR) bool { return !r.silent })
}

func (n *ownRLOC) isHeard() bool {
	return slices.ContainsFunc(n.rtrs, func(r *nodeRTR) bool { return r.answeredAt != 0 && !r.silent })
}

func addresses(rtrs []*nodeRTR) (list []netip.Addr) {
	for _, r := range rtrs {
		list = append(list, r.at)
	}
	return list
}

// keep sends each RTR what keeps the NAT's binding.
func (n *ownRLOC) keep() {
	if n.node.config.Keepalive > 0 {
		n.node.Timers.Set(n.row(keepTimer), n.h.After(n.node.config.Keepalive))
	}
	for _, r := range n.rtrs {
		if r.nonce != 0 && n.h.Now >= r.sentAt+timing.Instant(answerTime) {
			r.unanswered++
			n.h.Count(counter.NATKeepaliveUnanswered)
		}
		n.noteSilence(r)
		n.probe(r)
	}
	n.evaluate()
}

// registered is for a registration that is acknowledged: what is new in it RTRs ask for when they hear of its host.
func (n *ownRLOC) registered() {
	if n.fresh && n.path != nil {
		n.fresh = false
		n.keep()
	}
}

// probe sends one RTR both messages.
func (n *ownRLOC) probe(r *nodeRTR) {
	if r.nonce == 0 || n.h.Now >= r.sentAt+timing.Instant(answerTime) {
		r.nonce, r.sentAt = n.h.Nonce(), n.h.Now
	} // else the answer to the one before counts, which may be on its way: the RTR limits its answers
	ask := wire.InfoRequest{Nonce: n.h.Nonce(), EID: wire.NoAddress{}, HostName: wire.DistinguishedName(n.name())}
	payload, err := wire.DataHeader{Instance: true, InstanceID: lisp.ControlInstanceID}.AppendTo(n.h.Buffer(system.UsualECMOctets))
	if err == nil {
		payload, err = ask.AppendTo(payload)
	}
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	n.toRTR(r.at, payload)
	m := wire.MapRequest{
		Probe: true, Nonce: r.nonce, SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{wire.RLOCAddress(n.local)},
		Records: []wire.RequestRecord{{MaskLen: uint8(n.about.Bits()), EID: wire.AddressOf(n.about)}},
	}
	if payload, err = m.AppendTo(nil); err == nil {
		from := netip.AddrPortFrom(n.local.Addr(), n.h.ControlPort)
		payload, err = wire.AppendControlInData(n.h.Buffer(system.UsualECMOctets+len(payload)), from, netip.AddrPortFrom(r.at, n.h.ControlPort), payload)
	}
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	n.toRTR(r.at, payload)
	n.h.Count(counter.NATKeepaliveSent)
}

// toRTR sends what NATs take for data.
func (n *ownRLOC) toRTR(rtr netip.Addr, payload []byte) {
	n.h.SendNAT(netip.AddrPortFrom(n.local.Addr(), wire.DataPort), netip.AddrPortFrom(rtr, wire.DataPort), n.h.Used(payload))
}

// handleProbeReply takes an RTR's answer; false where it answers nothing.
func (n *ownRLOC) handleProbeReply(from netip.Addr, m *wire.MapReply) bool {
	at := slices.IndexFunc(n.rtrs,
		func(r *nodeRTR) bool { return r.at == from && r.nonce != 0 && r.nonce == m.Nonce })
	if at < 0 || !m.Probe {
		return false
	}
	r := n.rtrs[at]
	first := r.answeredAt == 0
	r.nonce, r.unanswered, r.answeredAt = 0, 0, n.h.Now
	if first {
		n.noticeRTR(effect.NoticeRTRConfirmed, r)
	}
	n.noteSilence(r)
	n.evaluate()
	return true
}

// answerProbe answers an RLOC-probe of an RTR about an EID-Prefix of ours, by the NAT's binding for data.
func (n *ownRLOC) answerProbe(from netip.AddrPort, inner wire.InnerPacket, m *wire.MapRequest, asked lisp.Prefix) {
	if n.path == nil {
		return
	}
	answer := indata.ProbedMapping(asked, n.path.Seen, lisp.DefaultTTLMinutes)
	if indata.AnswerProbe(n.h, backTo(from, n.local.Addr(), inner.Source, n.h), m.Nonce, answer) {
		n.h.Count(counter.RLOCProbeReplySent)
	}
}

// noteSilence reports that an RTR is silent, or answers again.
func (n *ownRLOC) noteSilence(r *nodeRTR) {
	silent := r.answeredAt != 0 && r.unanswered >= silentProbes
	if silent == r.silent {
		return
	}
	if r.silent = silent; silent {
		n.noticeRTR(effect.NoticeRTRSilent, r)
		return
	}
	n.noticeRTR(effect.NoticeRTRAnswers, r)
}
