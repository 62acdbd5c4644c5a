// SPDX-License-Identifier: Apache-2.0

package checks

// Sites whose tunnel routers know each other as siblings (RFC 9300 s.10): both register all locators of the
// site, each speaks for the R bits of its own, and hears of the other's over a link inside the site. Who has
// no path to the core hands the site's packets to the other one. The faults here take that path away, for a
// time or for good, noticed or not, or the link between the two.

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
	"loci/sim/internal/rates"
	"loci/sim/internal/sites"
	"loci/wire"
)

// Way is the router that encapsulates what the hosts behind this one send: itself, or a sibling while it has
// no path to the core; nil while there is none.
func (r *Record) Way() *Record {
	if !r.Sibling.Path.IsValid() {
		return r
	}
	by := r.judge.Record(r.judge.Network.RouterAt(r.Sibling.Path))
	if by == nil || r.Station.Inside.Cut > 0 || by.Station.Inside.Cut > 0 || by.Sibling.Path.IsValid() {
		return nil
	}
	return by
}

// said notes what the Node announces of an EID-Prefix from now on.
func (r *Record) Says(p lisp.Prefix, set lisp.LocatorSet) {
	if !r.Site.Siblings {
		return
	}
	if r.Sibling.Said == nil {
		r.Sibling.Said = saidMappings{}
	}
	if was, known := r.Sibling.Said[p]; known && !mirror.Same(was, set) {
		r.ConfiguredAt = r.Time() // it has news, by itself
	}
	r.Sibling.Said[p] = slices.Clone(set)
	r.judge.Truth.record(r)
}

// saying is what the Node announces of a mapping of its Database: with siblings, the R bits that they and the
// path to the core left.
func (s *siblingState) saying(m control.DatabaseMapping) lisp.LocatorSet {
	if said, ok := s.Said[m.Prefix]; ok {
		return said
	}
	return m.Locators
}

// sweepSiblings looks for two siblings whose packets go to and fro. For as long as one does not hear from the
// other, or what it says is under way, that may be.
func sweepSiblings(j *Judge) {
	for _, s := range j.Sites {
		if !s.Siblings {
			continue
		}
		for _, x := range s.XTRs {
			checkDetour(j.Record(x))
			checkComeback(j.Record(x))
		}
	}
}

func checkDetour(r *Record) {
	state := &r.Sibling
	by := r.judge.Record(r.judge.Network.RouterAt(state.Path))
	if by == nil || !by.Sibling.Path.IsValid() || r.Station.Inside.Cut+by.Station.Inside.Cut > 0 || r.Node == nil || by.Node == nil {
		state.toAndFro = 0
		return
	}
	if state.toAndFro == 0 {
		state.toAndFro = r.judge.now()
	}
	if allowed := unasked*max(r.Site.SiblingInterval, 2*time.Second) + 5*time.Second; r.judge.now()-state.toAndFro > allowed {
		r.judge.Fail(r, invariantNoLoop, "it and %s hand the site's packets to each other for %s", by.Name, allowed)
	}
}

const (
	// unasked is how many questions a sibling leaves unanswered before it is not relied on.
	unasked = 5
)

// noteAnswer notes an answer to an RLOC-probe, or to a question to a sibling.
func noteAnswer(r *Record, m *network.Mail) {
	if reply, ok := m.Message().(*wire.MapReply); ok && r.IsSibling() {
		r.Sibling.Watch.Came(r.judge.now(), m.From.Addr(), r.Station.IsInside(m.To.Addr()), reply)
	}
}

// NoteSent notes what a router sends to a sibling, or into the core. What it gives lasts there no longer than here.
func (r *Record) NoteSent(m *network.Mail) {
	if !r.IsSibling() {
		return
	}
	r.Sibling.Watch.Sent(r.judge.now(), m.To.Addr(), r.Station.IsInside(m.From.Addr()), m.Message())
	reply, ok := m.Message().(*wire.MapReply)
	if !ok || reply.Probe || !r.Station.IsInside(m.From.Addr()) {
		return
	}
	for mapping := range mappingsOf(reply) {
		e, known := r.Mirror.Entries[mapping.Prefix]
		same := mirror.SameOrLeftOut(e.Mapping.Locators, mapping.Locators) || mapping.Negative() && isByProxy(r, e.Mapping)
		left := e.ExpiresAt.Sub(r.Time())
		ttl := lisp.Lifetime(mapping.TTLMinutes, lisp.MaxLifetime)
		if e.Stale && ttl == 0 { // the minutes since its TTL ended come in place of the version
			ttl = -time.Duration(mapping.Version) * time.Minute
		}
		if !known || e.Static || e.Gleaned || !same || ttl > left {
			r.judge.Fail(r, invariantTTL, "it gives a sibling %s for %s and has %s for %s", mapping, ttl, e.Mapping, left)
		}
	}
}

// mappingsOf are those of a Map-Reply.
func mappingsOf(m *wire.MapReply) iter.Seq[lisp.Mapping] {
	return func(yield func(lisp.Mapping) bool) {
		for i := range m.Records {
			if mapping, err := m.Records[i].Mapping(); err == nil && !yield(mapping) {
				return
			}
		}
	}
}

// takeGiven notes what a sibling gives at a handover, and this router asked for: noteSent judged its TTL.
func takeGiven(r *Record, m *network.Mail) {
	reply, ok := m.Message().(*wire.MapReply)
	if !ok {
		return
	}
	asked := r.Sibling.Watch.AskedFor(reply.Nonce)
	for mapping := range mappingsOf(reply) {
		if asked(mapping.Prefix) {
			r.Mirror.GivenAt[mapping.Prefix] = r.Time()
			r.Mirror.Hear(mapping, r.Time(), true)
		}
	}
}

// CheckHandover judges a router that gives its packets to a sibling, and says to which; none where it takes them
// back.
func (r *Record) CheckHandover(to netip.Addr) *sites.Router {
	by := r.judge.Record(r.judge.Network.RouterAt(to))
	if by == nil {
		return nil
	}
	if wrong := r.Sibling.Watch.Judge(r.judge.now(), to, &by.Sibling.Watch, r.Node.SiblingPath().Why); wrong != "" {
		r.judge.Fail(r, invariantHandover, "it gives its packets to %s, %s", by.Name, wrong)
	}
	return by.Router
}

// hasLinkUp reports whether the router is configured with a link that is up.
func hasLinkUp(r *Record) bool {
	return slices.ContainsFunc(r.Station.Links, func(l network.Link) bool { return l.IsUp() })
}

// noteFromCore notes what comes from the core and is no RLOC-probe's answer.
func noteFromCore(r *Record, m *network.Mail) {
	if !r.IsSibling() || r.Station.IsInside(m.To.Addr()) {
		return
	}
	switch kind := wire.MessageType(m.Payload[0] >> 4); {
	case kind == wire.TypeMapNotify, kind == wire.TypeMapReply && m.Payload[0]&rates.ProbeReplyBit == 0:
		r.Sibling.Watch.Answered(r.judge.now(), m.From.Addr(), binary.BigEndian.Uint64(m.Payload[4:]))
	}
}

// noteStanding notes how it stands with a router as a sibling.
func noteStanding(r *Record) {
	isCut := r.Station.Inside.Cut > 0
	r.Sibling.comeback.Stands(r.judge.now(), r.Node == nil || !hasLinkUp(r) || r.Sibling.Path.IsValid() || isCut, isCut)
}

// checkComeback looks for a router that does not take its packets back.
func checkComeback(r *Record) {
	noteStanding(r)
	if r.Node == nil {
		return
	}
	back := &r.Sibling.comeback
	back.NoteProof(r.judge.now(), &r.Sibling.Watch)
	if !r.Sibling.Path.IsValid() || r.Node.SiblingPath().Why != control.SiblingPathUnproven {
		return
	}
	if wrong := back.JudgeWait(r.judge.now()); wrong != "" {
		r.judge.Fail(r, invariantHandover, "its packets still go to %s, %s", r.Sibling.Path, wrong)
	}
}

// CheckTakenBack judges a router that takes its packets back; to is valid where it gives them.
func (r *Record) CheckTakenBack(to netip.Addr) {
	back := &r.Sibling.comeback
	if to.IsValid() {
		back.Gives(r.Node.SiblingPath().Why)
		return
	}
	by := r.judge.Record(r.judge.Network.RouterAt(r.Sibling.Path))
	if by == nil || len(r.Config.ETR.Database) == 0 {
		return
	}
	if r.Station.Inside.Cut > 0 {
		back.Stands(r.judge.now(), false, true)
	}
	noteStanding(by)
	silent := unasked * max(r.Site.SiblingInterval, 2*time.Second)
	if wrong := back.JudgeBack(r.judge.now(), silent, &r.Sibling.Watch, &by.Sibling.comeback); wrong != "" {
		r.judge.Fail(r, invariantHandover, "it takes its packets back from %s %s", by.Name, wrong)
	}
}
