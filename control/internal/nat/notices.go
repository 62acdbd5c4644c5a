// SPDX-License-Identifier: Apache-2.0

package nat

// The steps of NAT traversal as events, for an operator to read.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/lisp"
)

// Why an RTR has a binding no more.
const (
	removedExpired    = "expired"
	removedWithdrawn  = "withdrawn"
	removedReplaced   = "replaced" // by another node
	removedConfigured = "configured"
	removedSilent     = "silent" // an RLOC, as long as another node of the EID-Prefix is not
)

// noticeReply reports what a Map-Server says, and whether a NAT is there or gone by that.
func (n *Node) noticeReply(q *inquiry, before netip.AddrPort, wasBehind bool) {
	about := effect.Notice{Prefix: q.prefix, Remote: q.peer.Address, RLOC: q.local.String()}
	rtrs := make([]string, len(q.rtrs))
	for i, r := range q.rtrs {
		rtrs[i] = r.String()
	}
	received := about
	received.Kind, received.Detail = effect.NoticeInfoReplyReceived, "seen as "+q.seen.String()+", no RTR is offered"
	if len(rtrs) > 0 {
		received.Detail = "seen as " + q.seen.String() + ", RTRs: " + strings.Join(rtrs, ", ")
	}
	n.h.Notice(received)
	switch behind := n.isBehind(q); {
	case behind && (!wasBehind || before.Addr() != q.seen.Addr()):
		about.Kind, about.Detail = effect.NoticeNATFound, "seen as "+q.seen.String()
	case wasBehind && !behind:
		about.Kind = effect.NoticeNATGone
	default:
		return
	}
	n.h.Notice(about)
}

// noticeRTRs reports by which RTRs Map-Registers go now, and by which no more. One that goes on at another RLOC is not
// left.
func (n *Node) noticeRTRs(added, gone []*keeper) {
	for _, k := range added {
		k.notice(effect.NoticeRTRChosen)
	}
	for _, k := range gone {
		if !n.IsRTR(k.rtr) {
			k.notice(effect.NoticeRTRLeft)
		}
	}
}

// notice reports something about the RTR.
func (k *keeper) notice(kind effect.NoticeKind) {
	k.h.Notice(effect.Notice{Kind: kind, Remote: netip.AddrPortFrom(k.rtr, k.h.ControlPort), RLOC: k.local.String()})
}

// noteSilence reports that the RTR is silent, or answers again.
func (k *keeper) noteSilence() {
	silent := k.isSilent()
	if silent == k.silent {
		return
	}
	if k.silent = silent; silent {
		k.notice(effect.NoticeRTRSilent)
	} else {
		k.notice(effect.NoticeRTRAnswers)
	}
	if len(k.node.keepers) > 1 || slices.ContainsFunc(k.node.asked, k.node.isPublic) {
		k.node.Changed()
	}
}

// noticeRelayed reports a Map-Register that may make or move a binding.
func (r *RTR) noticeRelayed(m *message.NATRegister) {
	if r.h.MayNotice() {
		r.h.Say(effect.Notice{
			Kind: effect.NoticeMapRegisterRelayed, Prefix: m.Mappings[0].Prefix, Remote: m.From,
			Detail: fmt.Sprintf("of %s, to Map-Server %s; %d EID-Prefixes", m.Inner.Source.Addr(), m.MapServer.Addr(), len(m.Mappings)),
		})
	}
}

// noticeBinding reports a binding that is made, or moved from an address and port.
func (t *bindings) noticeBinding(b *binding, moved bool, before netip.AddrPort) {
	if !t.h.MayNotice() {
		return
	}
	n := effect.Notice{Kind: effect.NoticeNATBindingMade, Prefix: b.prefix, Remote: b.from}
	n.Detail = fmt.Sprintf("of %s, acknowledged by Map-Server %s", b.private, b.mapServer)
	if t.isShared(b.prefix) {
		n.Detail += fmt.Sprintf(", merged; xTR-ID %x", b.node.xtr)
	}
	if moved {
		n.Kind, n.Detail = effect.NoticeNATBindingMoved, n.Detail+"; was "+before.String()
	}
	t.h.Say(n)
}

// noticeRLOCs reports which RLOCs of a node are others than before: a binding that moved led from one of them.
func (t *bindings) noticeRLOCs(b *binding, was []natRLOC, moved bool, before netip.AddrPort) {
	for i := range was {
		w := &was[i]
		if rlocOf(b.rlocs, w.private) != nil || moved && w.from == before {
			continue
		}
		why := removedWithdrawn
		if w.until <= t.h.Now {
			why = removedExpired
		}
		t.noticeRLOC(effect.NoticeNATRLOCRemoved, b, w, why)
		t.h.Count(counter.NATRLOCExpired)
	}
	if w := rlocOf(b.rlocs, b.private); w != nil && !moved && len(was) > 0 && rlocOf(was, b.private) == nil {
		t.noticeRLOC(effect.NoticeNATRLOCAdded, b, w, "")
	}
}

func (t *bindings) noticeRLOC(kind effect.NoticeKind, b *binding, w *natRLOC, why string) {
	t.h.Notice(effect.Notice{Kind: kind, Prefix: b.prefix, Remote: w.from,
		RLOC: lisp.RLOCFromAddr(w.private).String(), Reason: why})
}

// noticeUse reports to which nodes of an EID-Prefix packets do not go any more because they are silent, and to which
// they go again: those that were in use before are compared with those that are. A binding that was made or removed in
// between has an event of its own.
func (t *bindings) noticeUse(p lisp.Prefix, before []nodeID) {
	now := t.nodesInUse(p)
	for _, b := range t.each(p) {
		was, is := slices.Contains(before, b.node), slices.Contains(now, b.node)
		if was == is {
			continue
		}
		kind, why := effect.NoticeNATRLOCAdded, ""
		if was {
			kind, why = effect.NoticeNATRLOCRemoved, removedSilent
		}
		for i := range b.rlocs {
			t.noticeRLOC(kind, b, &b.rlocs[i], why)
		}
	}
}

func (t *bindings) noticeRemoved(b *binding, why string) {
	t.h.Notice(effect.Notice{Kind: effect.NoticeNATBindingRemoved, Prefix: b.prefix, Remote: b.from, Reason: why})
}
