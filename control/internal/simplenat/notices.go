// SPDX-License-Identifier: Apache-2.0

package simplenat

// What an RTR learns and forgets, as events.

import (
	"net/netip"
	"strconv"

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
