// SPDX-License-Identifier: Apache-2.0

package subflow

// The ETR's side: paths of flows to EIDs of the site, chosen for the ITRs that ask. It sees no session, only flows: the
// path with the fewest flows between the two EIDs, then the lowest priority, then the order of RFC 9301 s.5.5.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// AnswerTTLMinutes is how long an answer holds. An ITR asks again while the flow lasts.
	AnswerTTLMinutes = 2
	// remembered is how long a flow is known after the last Map-Request for it.
	remembered = AnswerTTLMinutes*time.Minute + 10*time.Second
)

// Answerer chooses the paths of flows, and remembers them.
type Answerer struct {
	h      *system.System
	flows  flows
	Timers timing.Deadlines
}

// NewAnswerer makes one that knows no flow.
func NewAnswerer(h *system.System) *Answerer {
	a := &Answerer{h: h}
	a.flows.initialise()
	return a
}

// PathOf is the path of a flow that is known.
func (a *Answerer) PathOf(f lisp.Flow) (p lisp.Path, known bool) {
	_, r, known := a.flows.get(f)
	if known {
		p = r.path
	}
	return p, known
}

// Choose is the path of a flow that an ITR asks for: the one that it has, or while that is none of the candidates
// another one. ok is false where there is none, or no room.
func (a *Answerer) Choose(f lisp.Flow, by netip.Addr, candidates []Candidate) (p lisp.Path, ok bool) {
	id, r, known := a.flows.get(f)
	if known && find(candidates, r.path) != nil {
		a.asked(id, by)
		return r.path, true
	}
	p, usable := best(candidates, []load{a.flows.pairs[pairOf(&f)]})
	switch {
	case usable == 0:
		a.h.Count(counter.SubflowUnbound)
		return p, false
	case !known && !a.flows.hasRoom(&f):
		a.h.Count(counter.RefusedSubflowTable)
		return p, false
	case !known:
		id = a.flows.add(row{flow: f, state: followed, openedAt: a.h.Now})
	}
	a.flows.setPath(id, p)
	a.asked(id, by)
	return p, true
}

// asked notes that a flow lasts.
func (a *Answerer) asked(id uint32, by netip.Addr) {
	r := a.flows.rows.At(id)
	r.askedAt, r.peer = a.h.Now, by
	a.Timers.Set(id, a.h.After(remembered))
}

// HandleTimeout forgets a flow.
func (a *Answerer) HandleTimeout(id uint32) { a.flows.remove(id) }

// Size is how many flows are known.
func (a *Answerer) Size() int { return len(a.flows.byFlow) }

// Page is a part of the flows, as that of a Binder.
func (a *Answerer) Page(from uint32, most int) (page []status.AnsweredFlow, next uint32, more bool) {
	rows := uint32(a.flows.rows.Len())
	for next = from; next < rows && len(page) < most && next-from < pageRows; next++ {
		r := a.flows.rows.At(next)
		if r.flow.Protocol == 0 { // a free row
			continue
		}
		page = append(page, status.AnsweredFlow{
			Flow: r.flow, Path: r.path, AskedBy: r.peer, ChosenAt: a.h.Time(r.openedAt),
			AskedAt: a.h.Time(r.askedAt),
		})
	}
	return page, next, next < rows
}
