// SPDX-License-Identifier: Apache-2.0

package subflow

// Subflows whose paths the ETR of their destination chooses: they are asked for, and followed. The answer chooses among
// the locators of the mapping only, and none comes into the map-cache.

import (
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/status"
	"loci/lisp"
)

// ask asks for the path of a subflow, where its mapping has several.
func (b *Binder) ask(id uint32, candidates []Candidate) {
	r := b.flows.rows.At(id)
	_, several := choose(candidates)
	switch {
	case !several:
		b.h.Count(counter.SubflowUnbound)
	case r.question == 0:
		r.question = b.Asker.begin(id)
	}
	if r.question != 0 {
		r.why = status.SubflowAsked
	}
	b.seekPaths()
}

// HandleAnswer takes the path of a subflow that was asked for. Another answer than that is refused; one that is right
// may follow.
func (b *Binder) HandleAnswer(a Answer) {
	question, id, known := b.Asker.find(a.Nonce)
	if !known {
		b.h.Count(counter.RefusedNonce)
		return
	}
	r := b.flows.rows.At(id)
	asked := r.flow
	asked.Source = lisp.EID{}
	chosen := find(b.Candidates(&r.flow), a.Path)
	if a.Flow != asked || chosen == nil {
		b.h.Count(counter.RefusedSubflowReply)
		return
	}
	b.Asker.settle(question, a.Lifetime)
	r.why, r.peer = status.SubflowAnswered, a.From
	b.follow(id, chosen, string(status.SubflowAnswered))
}

// follow binds a subflow to the path that its ETR chose. While that answers no RLOC-probes and others do, the subflow
// has none.
func (b *Binder) follow(id uint32, chosen *Candidate, why string) {
	r := b.flows.rows.At(id)
	was := r.path
	if r.home = (lisp.Path{}); chosen.Avoided {
		r.home = chosen.Path
	}
	switch {
	case chosen.Avoided && !was.IsZero():
		b.flows.setPath(id, lisp.Path{})
		b.h.Count(counter.SubflowEnded)
		b.h.Emit(effect.UnbindFlow{Flow: r.flow})
		b.notice(effect.NoticeSubflowEnded, r, "unconfirmed")
		b.seekPaths()
	case chosen.Avoided, was == chosen.Path:
	case was.IsZero():
		b.bindPath(id, chosen.Path, effect.NoticeSubflowBound, why)
	default:
		b.move(id, chosen.Path, why)
	}
}

// reviewAsked asks for the path of a subflow that was not asked for, or whose path left the mapping. While nothing is
// answered, its binding leads nowhere else. Else it looks whether the path can be followed.
func (b *Binder) reviewAsked(id uint32, candidates []Candidate) {
	r := b.flows.rows.At(id)
	chosen := r.path
	if chosen.IsZero() {
		chosen = r.home
	}
	now := find(candidates, chosen)
	switch {
	case len(candidates) == 0:
	case r.question == 0:
		if _, several := choose(candidates); several {
			b.ask(id, candidates)
		}
	case chosen.IsZero():
	case now == nil:
		b.Asker.askAnew(r)
	default:
		b.follow(id, now, "returned")
	}
}
