// SPDX-License-Identifier: Apache-2.0

package subflow

// The Binder: what each segment that the data plane reports makes of a subflow, and what follows for the data plane.

import (
	"errors"
	"net/netip"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/report"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

// protocolTCP is TCP's number among the protocols of IP.
const protocolTCP = 6

// Binder knows the subflows and binds them.
type Binder struct {
	h      *system.System
	on     bool
	asks   bool // for paths, instead of choosing them
	flows  flows
	Timers timing.Deadlines
	Asker  Asker
	Work   batch.Work // the pass over all subflows
	pass   pass

	// Candidates are the locators of the mapping that covers a flow's destination, in the order of RFC 9301, whose
	// priority is not 255; none where there is no mapping.
	Candidates func(*lisp.Flow) []Candidate
}

// New makes a Binder that is off.
func New(h *system.System) *Binder {
	b := &Binder{h: h, Candidates: func(*lisp.Flow) []Candidate { return nil }}
	b.flows.initialise()
	b.Asker = Asker{h: h, Send: func(*lisp.Flow, int) (uint64, int) { return 0, 0 }}
	b.Asker.flowOf = func(id uint32) (*lisp.Flow, bool) {
		r := b.flows.rows.At(id)
		return &r.flow, r.state != closing
	}
	return b
}

// Configure switches binding on or off, and says whether the ETRs are asked for paths. Off, what was bound is unbound,
// a batch at a time.
func (b *Binder) Configure(on, asks bool) {
	switch {
	case b.on && !on:
		b.pass = pass{unbinds: true}
		b.Work.At(b.h.Now)
	case on && b.pass.unbinds:
		b.pass = pass{}
		b.Work.End()
	}
	changes := b.asks != asks
	b.on, b.asks = on, asks
	if changes {
		b.StatesChanged()
	}
}

// Handle takes a segment that begins or ends a subflow.
func (b *Binder) Handle(r report.Subflow) {
	b.h.Count(counter.SubflowReceived)
	switch {
	case !b.on:
		b.h.Count(counter.RefusedRole)
		return
	case r.Flow.Protocol != protocolTCP || r.Flow.Valid() != nil:
		b.h.Count(counter.RefusedEID)
		return
	}
	s, err := Parse(r.TCP)
	switch {
	case errors.Is(err, ErrVersion):
		b.h.Count(counter.RefusedSubflowVersion)
	case err != nil:
		b.h.Count(counter.RefusedSubflowOption)
	default:
		b.take(r, &s)
	}
}

func (b *Binder) take(r report.Subflow, s *Segment) {
	flow := r.Flow
	if r.FromCore {
		flow = flow.Reverse()
	}
	switch {
	case s.RST:
		b.reset(flow, s)
	case s.SYN && s.FIN:
		b.h.Count(counter.RefusedSubflowOption)
	case s.FIN:
		b.finish(flow, r.FromCore)
	case !s.SYN || s.Kind != KindCapable && s.Kind != KindJoin:
	case !r.FromCore:
		b.begin(flow, s)
	case s.ACK:
		b.answered(flow, s)
	case s.Kind == KindJoin:
		b.expect(flow, s)
	}
}

// begin takes a SYN or SYN/ACK of a host in the site. One that is sent again changes nothing; another one takes the
// place of an older connection with the same addresses and ports.
func (b *Binder) begin(flow lisp.Flow, s *Segment) {
	id, r, known := b.flows.get(flow)
	switch {
	case known && r.state == expected && s.Kind == KindJoin && s.ACK && s.Acknowledged == r.sequence+1:
		b.admit(id, s)
		return
	case known && r.state != expected && r.sequence == s.Sequence && !r.isAdopted:
		if r.state == opened {
			r.askedAt = b.h.Now
		}
		return
	case known:
		b.end(id, "reused")
	}
	if !b.flows.hasRoom(&flow) {
		b.h.Count(counter.RefusedSubflowTable)
		return
	}
	row := row{flow: flow, sequence: s.Sequence, state: opened, openedAt: b.h.Now, askedAt: b.h.Now}
	row.session, row.why = b.sessionOf(&flow, s)
	row.isFirst = s.Kind == KindCapable
	b.bindTo(b.add(row), b.Candidates(&flow))
}

// sessionOf is the session that a subflow opens or joins, and by what its path is chosen.
func (b *Binder) sessionOf(flow *lisp.Flow, s *Segment) (number uint32, why status.SubflowReason) {
	if s.Kind == KindCapable {
		number = b.flows.newSession(flow.Instance)
		if s.ACK {
			b.flows.learn(number, TokenOf(s.Key))
		}
		return number, status.SubflowFirst
	}
	if !s.ACK {
		number = b.flows.find(flow, s.Token)
	}
	if number == 0 && !b.asks {
		b.h.Count(counter.SubflowUnknownSession)
	}
	if number == 0 {
		return 0, status.SubflowEIDs
	}
	return number, status.SubflowSession
}

// expect notes a join from the core whose token is known: the answer of the host in the site does not have it.
func (b *Binder) expect(flow lisp.Flow, s *Segment) {
	number := b.flows.find(&flow, s.Token)
	if number == 0 {
		return // the answer is bound by its EIDs
	}
	id, r, known := b.flows.get(flow)
	switch {
	case known && r.state != expected:
		return // only the host in the site can end what it has
	case known && r.session == number && r.sequence == s.Sequence:
		return // it is sent again
	case known:
		b.forget(id)
	}
	if number = b.flows.find(&flow, s.Token); number == 0 {
		return
	}
	if !b.flows.hasRoom(&flow) {
		b.h.Count(counter.RefusedSubflowTable)
		return
	}
	b.add(row{flow: flow, session: number, sequence: s.Sequence, state: expected, why: status.SubflowSession,
		openedAt: b.h.Now})
}

// admit binds an expected join that the host in the site answers.
func (b *Binder) admit(id uint32, s *Segment) {
	r := b.flows.rows.At(id)
	r.sequence, r.openedAt, r.askedAt = s.Sequence, b.h.Now, b.h.Now
	b.flows.setState(r, opened)
	b.Timers.Set(id, r.deadline())
	b.bindTo(id, b.Candidates(&r.flow))
}

// answered takes a SYN/ACK from the core: the peer is there, and its key is the session's. It must acknowledge the SYN,
// whose sequence number who forges it does not see.
func (b *Binder) answered(flow lisp.Flow, s *Segment) {
	id, r, known := b.flows.get(flow)
	if !known || r.isAdopted || r.state == expected || s.Acknowledged != r.sequence+1 {
		b.h.Count(counter.RefusedSubflowAnswer)
		return
	}
	if s.Kind == KindCapable && r.isFirst {
		b.flows.learn(r.session, TokenOf(s.Key))
	}
	b.heard(id, b.h.Now)
}

// heard notes that something of a subflow was heard of.
func (b *Binder) heard(id uint32, at timing.Instant) {
	r := b.flows.rows.At(id)
	r.heardAt = max(r.heardAt, at)
	if r.state == opened {
		b.flows.setState(r, followed)
		b.Timers.Set(id, r.deadline())
	}
}

// finish takes a FIN. The last packets of a subflow follow the second one, and keep its path.
func (b *Binder) finish(flow lisp.Flow, fromCore bool) {
	id, r, known := b.flows.get(flow)
	if !known || r.state == expected {
		return
	}
	by := uint8(finOwn)
	if fromCore {
		by = finCore
	}
	if r.fins |= by; r.fins == finBoth {
		b.close(id, "fin")
	}
}

// reset takes a RST. With MP_FASTCLOSE and the responder's key it is for the whole session (RFC 8684 s.3.5).
func (b *Binder) reset(flow lisp.Flow, s *Segment) {
	id, r, known := b.flows.get(flow)
	if !known || r.state == expected {
		return
	}
	if s.Kind == KindFastClose && r.session != 0 {
		if of := b.flows.session(r); of.hasToken && of.token == TokenOf(s.Key) {
			for _, other := range of.flows {
				b.close(other, "fastclose")
			}
			return
		}
	}
	b.close(id, "rst")
}

// close lets a subflow end soon, unless its packets go on: the segment may be forged.
func (b *Binder) close(id uint32, by string) {
	r := b.flows.rows.At(id)
	if r.state == closing || r.state == expected {
		return
	}
	r.ended, r.closingAt = by, b.h.Now
	b.flows.setState(r, closing)
	b.Timers.Set(id, r.deadline())
}

// HandleTimeout ends a subflow, unless it was used meanwhile.
func (b *Binder) HandleTimeout(id uint32) {
	r := b.flows.rows.At(id)
	if r.isRevived() {
		r.fins = 0
		b.flows.setState(r, followed)
	}
	if at := r.deadline(); at > b.h.Now {
		b.Timers.Set(id, at)
		return
	}
	switch r.state {
	case expected:
		b.forget(id)
	case opened:
		b.end(id, "unanswered")
	case closing:
		b.end(id, r.ended)
	default:
		b.end(id, "silent")
	}
}

// add makes a row, and gives it its deadline.
func (b *Binder) add(r row) uint32 {
	id := b.flows.add(r)
	b.Timers.Set(id, b.flows.rows.At(id).deadline())
	return id
}

// forget forgets a row, whatever the data plane has.
func (b *Binder) forget(id uint32) {
	b.Timers.Remove(id)
	b.Asker.release(b.flows.rows.At(id))
	b.flows.remove(id)
}

// end ends a subflow, here and in the data plane.
func (b *Binder) end(id uint32, why string) {
	r := *b.flows.rows.At(id)
	b.forget(id)
	if r.path.IsZero() {
		return
	}
	b.h.Count(counter.SubflowEnded)
	b.h.Emit(effect.UnbindFlow{Flow: r.flow})
	b.notice(effect.NoticeSubflowEnded, &r, why)
}

// bindTo gives a subflow the path that suits it now, or none, or asks for it.
func (b *Binder) bindTo(id uint32, candidates []Candidate) {
	r := b.flows.rows.At(id)
	if b.asks {
		b.ask(id, candidates)
		return
	}
	was := r.path
	if r.peer.IsValid() || r.why == status.SubflowAsked { // ETRs were asked before
		r.peer, r.why = netip.Addr{}, status.SubflowEIDs
	}
	b.flows.setPath(id, lisp.Path{})
	path, ok := choose(candidates, b.loads(r)...)
	switch {
	case ok && was.IsZero():
		b.bindPath(id, path, effect.NoticeSubflowBound, string(r.why))
	case ok:
		b.bindPath(id, path, effect.NoticeSubflowMoved, "gone")
	default:
		b.h.Count(counter.SubflowUnbound)
		if !was.IsZero() {
			b.h.Emit(effect.UnbindFlow{Flow: r.flow})
		}
	}
	b.seekPaths()
}

// bindPath binds a subflow to a path.
func (b *Binder) bindPath(id uint32, p lisp.Path, kind effect.NoticeKind, why string) {
	b.flows.setPath(id, p)
	r := b.flows.rows.At(id)
	b.h.Count(counter.SubflowBound)
	b.h.Emit(effect.BindFlow{Flow: r.flow, Path: p})
	b.notice(kind, r, why)
}

// loads are what counts for the path of a subflow.
func (b *Binder) loads(r *row) []load {
	switch {
	case r.isFirst:
		return nil
	case r.session == 0:
		return []load{b.flows.pairs[pairOf(&r.flow)]}
	}
	return []load{b.flows.session(r).load, b.flows.pairs[pairOf(&r.flow)]}
}

func (b *Binder) notice(kind effect.NoticeKind, r *row, why string) {
	if !b.h.MayNotice() {
		return
	}
	b.h.Say(effect.Notice{
		Kind: kind, Prefix: lisp.HostPrefix(r.flow.Instance, r.flow.Destination), RLOC: r.path.String(),
		Reason: why, Detail: r.flow.String(),
	})
}
