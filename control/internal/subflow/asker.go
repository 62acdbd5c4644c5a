// SPDX-License-Identifier: Apache-2.0

package subflow

// Asking the ETR of a flow for its path: a Map-Request for each flow, sent again with growing pauses as any Map-Request
// (RFC 9301 s.5.3), and again before the answer ends. A flow waits for none of it. This file chooses no path.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// requestBackoffMax bounds the doublings of the pause between Map-Requests.
	requestBackoffMax = 3
	// rememberedNonces is to how many of the last Map-Requests of a flow an answer counts.
	rememberedNonces = 3
	// An answer is asked for again when half of its lifetime is over, between these bounds.
	leastRenewal = 15 * time.Second
	mostRenewal  = 5 * time.Minute
)

// questionRate bounds the Map-Requests for paths of flows, all together: as many as the data plane reports subflows.
// They take nothing from those for packets that wait.
func questionRate() timing.Rate { return timing.Rate{PerSecond: 5000, Burst: 5000} }

// Answer is a Map-Reply with the path of a flow.
type Answer struct {
	Nonce    uint64
	From     netip.Addr
	Flow     lisp.Flow // without its source
	Path     lisp.Path
	Lifetime time.Duration
}

// question is that for one flow.
type question struct {
	row    uint32
	tries  int // since it was last answered, or given up
	nonces [rememberedNonces]uint64
}

// Asker has the questions of all flows.
type Asker struct {
	h         *system.System
	questions table.Slab[question]
	byNonce   map[uint64]uint32
	rate      timing.Bucket
	Timers    timing.Deadlines // when the next Map-Request of a question goes

	// Send sends the Map-Request for the path of a flow after so many that were not answered. It returns its nonce,
	// and how many Map-Resolvers there are: none where there is no one to ask.
	Send func(f *lisp.Flow, unanswered int) (nonce uint64, resolvers int)
	// flowOf is the flow of a row, and whether it is worth asking for.
	flowOf func(row uint32) (f *lisp.Flow, ok bool)
}

// begin asks for the path of a row, as soon as the rate allows. It returns the number of the question plus one.
func (a *Asker) begin(row uint32) uint32 {
	if a.byNonce == nil {
		a.byNonce = map[uint64]uint32{}
	}
	id := a.questions.Add(question{row: row})
	a.HandleTimeout(id)
	return id + 1
}

// release forgets the question of a row.
func (a *Asker) release(r *row) {
	if r.question == 0 {
		return
	}
	id := r.question - 1
	r.question = 0
	a.Timers.Remove(id)
	a.forgetNonces(id)
	a.questions.Release(id)
	if len(a.byNonce) == 0 && a.Timers.Size() == 0 { // maps do not shrink
		a.questions, a.byNonce = table.Slab[question]{}, nil
	}
}

func (a *Asker) forgetNonces(id uint32) {
	q := a.questions.At(id)
	for _, nonce := range q.nonces {
		delete(a.byNonce, nonce)
	}
	q.tries, q.nonces = 0, [rememberedNonces]uint64{}
}

// askAnew asks for the path of a row at once, unless it is being asked for.
func (a *Asker) askAnew(r *row) {
	if id := r.question - 1; a.questions.At(id).tries == 0 {
		a.Timers.Set(id, a.h.Now)
	}
}

// HandleTimeout sends the next Map-Request of a question, or gives it up for a while.
func (a *Asker) HandleTimeout(id uint32) {
	q := a.questions.At(id)
	f, ok := a.flowOf(q.row)
	switch {
	case !ok:
		a.Timers.Set(id, a.h.After(settings.MapRequestHoldDown))
		return
	case q.tries == settings.MapRequestTries:
		a.forgetNonces(id)
		a.h.Count(counter.SubflowUnanswered)
		a.Timers.Set(id, a.h.After(settings.MapRequestHoldDown))
		return
	case !a.rate.Take(a.h.Now, questionRate()):
		a.h.Count(counter.RefusedRequestLimit)
		a.Timers.Set(id, a.h.After(settings.MapRequestInterval))
		return
	}
	nonce, resolvers := a.Send(f, q.tries)
	if resolvers == 0 {
		a.Timers.Set(id, a.h.After(settings.MapRequestHoldDown))
		return
	}
	a.h.Count(counter.SubflowAsked)
	oldest := &q.nonces[q.tries%rememberedNonces]
	delete(a.byNonce, *oldest)
	*oldest, a.byNonce[nonce] = nonce, id
	rounds := min(q.tries/resolvers, requestBackoffMax)
	q.tries++
	a.Timers.Set(id, a.h.After(settings.MapRequestInterval<<rounds))
}

// find is the question that a nonce answers.
func (a *Asker) find(nonce uint64) (id uint32, row uint32, ok bool) {
	if id, ok = a.byNonce[nonce]; !ok {
		return 0, 0, false
	}
	return id, a.questions.At(id).row, true
}

// settle ends a question with its answer; it is asked again before that ends.
func (a *Asker) settle(id uint32, lifetime time.Duration) {
	a.forgetNonces(id)
	a.h.Count(counter.SubflowAnswered)
	a.Timers.Set(id, a.h.After(min(max(lifetime/2, leastRenewal), mostRenewal)))
}
