// SPDX-License-Identifier: Apache-2.0

package simplenat

// What an RTR learns and forgets, and what a node finds out, as events.

import (
	"net/netip"
	"strconv"
	"strings"

	"loci/control/internal/effect"
)

// Why a host is known no more.
const (
	removedExpired  = "expired"
	removedReplaced = "replaced" // by another one, which had no place else
)

// about begins an event about a host. Its name is chosen by who sends it.
func (b *known) about(kind effect.NoticeKind) effect.Notice {
	return effect.Notice{Kind: kind, Remote: b.seen(), Detail: "host " + strconv.Quote(b.Name) + " by simple-nat"}
}

func (r *RTR) noticeMade(b *known) {
	if r.h.MayNotice() {
		r.h.Say(b.about(effect.NoticeNATBindingMade))
	}
}

func (r *RTR) noticeMoved(b *known, before netip.AddrPort) {
	n := b.about(effect.NoticeNATBindingMoved)
	n.Detail += "; was " + before.String()
	r.h.Notice(n)
}

func (r *RTR) noticeRemoved(b *known, why string) {
	n := b.about(effect.NoticeNATBindingRemoved)
	n.Reason = why
	r.h.Notice(n)
}

// noticeReply reports what a Map-Server says, and whether a NAT is there or gone by that.
func (n *ownRLOC) noticeReply(s, before *server) {
	about := effect.Notice{Remote: s.at, RLOC: n.local.String(), Detail: "by simple-nat, seen as " + s.seen.String()}
	rtrs := make([]string, len(s.rtrs))
	for i, a := range s.rtrs {
		rtrs[i] = a.String()
	}
	received := about
	received.Kind = effect.NoticeInfoReplyReceived
	received.Detail += ", RTRs: " + strings.Join(rtrs, ", ")
	n.h.Notice(received)
	switch behind, was := n.isBehind(s), n.isBehind(before); {
	case behind && (!was || before.seen.Addr() != s.seen.Addr()):
		about.Kind = effect.NoticeNATFound
	case was && !behind:
		about.Kind = effect.NoticeNATGone
	default:
		return
	}
	n.h.Notice(about)
}

// noticeRTR reports something about an RTR.
func (n *ownRLOC) noticeRTR(kind effect.NoticeKind, r *nodeRTR) {
	n.h.Notice(effect.Notice{Kind: kind, Remote: netip.AddrPortFrom(r.at, n.h.ControlPort), RLOC: n.local.String()})
}
