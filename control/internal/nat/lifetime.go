// SPDX-License-Identifier: Apache-2.0

package nat

// How a binding of an RTR is made, renewed, moved, and ended, and when its node is silent.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// verify makes a binding, renews it, moves it, or ends it.
func (r *RTR) verify(p *pending, rec record, key settings.Key) {
	c := claim{rec.prefix, p.node}
	seen := r.seenOf(c)
	if seen.isReplay(p.nonce, p.from) { // another one came first
		r.h.Count(counter.RefusedNATReplay)
		return
	}
	seen.saw(p.nonce, p.from)
	id, b := r.find(c)
	if rec.lifetime == 0 { // of a node without a binding it ends nothing of others
		if b != nil {
			b.seen = seen
			r.drop(id, removedWithdrawn)
		}
		return
	}
	r.replaceOthers(c, p)
	if r.config == nil || !r.config.Takes(rec.prefix) { // a reload came between
		return
	}
	if !rec.hasRoomFor(p) || b == nil && r.Bindings.isFull(c) {
		r.h.Count(counter.RefusedNATTable)
		return
	}
	used := r.Bindings.nodesInUse(rec.prefix)
	if b == nil {
		id = r.Bindings.add(binding{prefix: rec.prefix, pending: *p, since: r.h.Now})
		r.h.Count(counter.NATBindingAdded)
	}
	b = r.Bindings.rows.At(id)
	b.seen, b.key, b.generation = seen, key, r.generation
	r.renew(id, p, &rec, used)
}

// replaceOthers ends the bindings of nodes that are gone, and that do not share an EID-Prefix with the one that
// registered it.
func (r *RTR) replaceOthers(c claim, p *pending) {
	for id, b := range r.current(c.prefix) {
		if b.node != c.node && !b.shares(p.merges, p.mapServer) {
			r.drop(id, removedReplaced)
		}
	}
}

// renew takes over what a Map-Register says, and has packets go there. Of the EID-Prefix these nodes were in use.
func (r *RTR) renew(id uint32, p *pending, rec *record, used []nodeID) {
	b := r.Bindings.rows.At(id)
	was, wasSilent := b.rlocs, b.silent
	r.Bindings.setSilent(id, false)
	r.Bindings.noticeUse(b.prefix, used)
	moved, before := b.merge(p, rec, r.h.Now)
	if moved {
		b.moves++
		r.h.Count(counter.NATBindingMoved)
		if rlocOf(was, p.private) != nil {
			r.noteChange(b)
		} else { // its NAT is another one, or keeps a binding of its own for that address
			b.changes = timing.Changes{}
		}
	}
	b.pending, b.verifiedAt = *p, r.h.Now
	b.records = nil
	r.noteAlive(b.node)
	r.watch(b.prefix)
	if len(was) == 0 || moved {
		r.Bindings.noticeBinding(b, moved, before)
	}
	r.Bindings.noticeRLOCs(b, was, moved, before)
	if !sameRLOCs(was, b.rlocs) || wasSilent {
		r.forward(b.prefix)
	}
}

// watch sets when the bindings of an EID-Prefix are looked at next: at once where a node is silent no more.
func (r *RTR) watch(p lisp.Prefix) {
	for id, b := range r.Bindings.each(p) {
		at := b.expiresAt()
		switch {
		case b.silent && !r.Bindings.isSilent(b, r.h.Now):
			at = r.h.Now
		case !b.silent && r.Bindings.isShared(p):
			at = min(at, r.Bindings.silentAt(b.node))
		}
		r.Expiry.Set(id, at)
	}
}

// drop ends a binding. The other nodes of the EID-Prefix carry on.
func (r *RTR) drop(id uint32, why string) {
	b := r.Bindings.rows.At(id)
	r.Bindings.noticeRemoved(b, why)
	prefix, used := b.prefix, r.Bindings.nodesInUse(b.prefix)
	r.Expiry.Remove(id)
	r.ended.add(claim{prefix, b.node}, b.seen, r.h.Now)
	r.Bindings.remove(id)
	r.h.Count(counter.NATBindingExpired)
	r.Bindings.noticeUse(prefix, used)
	if _, shared := r.Bindings.first[prefix]; shared {
		r.forward(prefix)
	} else {
		r.Stop(prefix)
	}
}

// HandleExpiry ends a binding that no Map-Register renewed, or one of the RLOCs that it leads to. Packets do not go to
// a node that is silent while another one is not, and go there again when it is heard.
func (r *RTR) HandleExpiry(id uint32) {
	b := r.Bindings.rows.At(id)
	was := b.rlocs
	b.rlocs = slices.DeleteFunc(slices.Clone(was), func(w natRLOC) bool { return w.until <= r.h.Now })
	if len(b.rlocs) == 0 {
		r.drop(id, removedExpired)
		return
	}
	r.Bindings.noticeRLOCs(b, was, false, netip.AddrPort{})
	used := r.Bindings.nodesInUse(b.prefix)
	r.Bindings.setSilent(id, r.Bindings.isSilent(b, r.h.Now))
	r.Bindings.noticeUse(b.prefix, used)
	r.watch(b.prefix)
	r.forward(b.prefix)
}

// noteAlive notes a sign of life of a node. All its bindings that were silent are looked at again at once, a batch at a
// time: a keepalive names one EID-Prefix only.
func (r *RTR) noteAlive(n nodeID) {
	for _, id := range r.Bindings.hear(n, r.h.Now) {
		if b := r.Bindings.rows.At(id); b.silent && b.node == n {
			r.Expiry.Set(id, r.h.Now)
		}
	}
}
