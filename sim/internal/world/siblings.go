// SPDX-License-Identifier: Apache-2.0

package world

// Sites whose tunnel routers know each other as siblings (RFC 9300 s.10): both register all locators of the
// site, each speaks for the R bits of its own, and hears of the other's over a link inside the site. Who has
// no path to the core hands the site's packets to the other one. The faults here take that path away, for a
// time or for good, noticed or not, or the link between the two.

import (
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// makeSiblings makes the tunnel routers of some sites siblings. Those whose registrations are merged register
// their own locators alone, and have nothing to say of each other's.
func makeSiblings(w *World, s *Site) {
	if len(s.XTRs) < 2 || s.merge || w.Kinds.Chance(0.35) {
		return
	}
	s.Siblings = true
	s.siblingInterval = virtual.Pick(w.Kinds, []time.Duration{0, 10 * time.Second, 10 * time.Second, 15 * time.Second})
	s.probing = virtual.Pick(w.Kinds, []control.ProbingConfig{{Interval: 30 * time.Second}, {Interval: time.Minute}, {Interval: time.Minute}})
	for _, x := range s.XTRs {
		x.Station.Inside = Link{Addr: w.NewAddress(x.Station.Links[0].Addr.Is4())}
		w.Network.Attach(&x.Station)
	}
}

// siblingsOf is the configuration of a tunnel router's siblings.
func siblingsOf(r *Router) []control.SiblingConfig {
	var list []control.SiblingConfig
	for _, x := range r.Site.XTRs {
		if r.Site.Siblings && x != r {
			list = append(list, control.SiblingConfig{Address: x.Station.Inside.Addr, Local: r.Station.Inside.Addr, Interval: r.Site.siblingInterval})
		}
	}
	return list
}

// way is the router that encapsulates what the hosts behind this one send: itself, or a sibling while it has
// no path to the core; nil while there is none.
func (r *Router) way() *Router {
	if !r.Sibling.path.IsValid() {
		return r
	}
	by := r.W.Network.RouterAt(r.Sibling.path)
	if by == nil || r.Station.Inside.Cut > 0 || by.Station.Inside.Cut > 0 || by.Sibling.path.IsValid() {
		return nil
	}
	return by
}

// said notes what the Node announces of an EID-Prefix from now on.
func (r *Router) says(p lisp.Prefix, set lisp.LocatorSet) {
	if !r.Site.Siblings {
		return
	}
	if r.Sibling.said == nil {
		r.Sibling.said = saidMappings{}
	}
	if was, known := r.Sibling.said[p]; known && !mirror.Same(was, set) {
		r.configuredAt = r.time() // it has news, by itself
	}
	r.Sibling.said[p] = slices.Clone(set)
	r.W.Truth.record(r)
}

// saying is what the Node announces of a mapping of its Database: with siblings, the R bits that they and the
// path to the core left.
func (r *Router) saying(m control.DatabaseMapping) lisp.LocatorSet {
	if said, ok := r.Sibling.said[m.Prefix]; ok && r.Site.Siblings {
		return said
	}
	return m.Locators
}

// withSiblingsUp sets the R bits of the siblings' locators: the operator of a tunnel router knows of its own
// links alone.
func withSiblingsUp(r *Router, set lisp.LocatorSet) lisp.LocatorSet {
	if !r.Site.Siblings {
		return set
	}
	for i := range set {
		l := r.Station.LinkOf(set[i].Path().Last().Addr())
		set[i].Reachable = l == nil || l.IsUp()
	}
	return set
}

// sweepSiblings looks for two siblings whose packets go to and fro. For as long as one does not hear from the
// other, or what it says is under way, that may be.
func sweepSiblings(w *World) {
	for _, s := range w.Sites {
		if !s.Siblings {
			continue
		}
		for _, x := range s.XTRs {
			checkDetour(x)
		}
	}
}

func checkDetour(r *Router) {
	state := &r.Sibling
	by := r.W.Network.RouterAt(state.path)
	if by == nil || !by.Sibling.path.IsValid() || r.Station.Inside.Cut+by.Station.Inside.Cut > 0 || r.Node == nil || by.Node == nil {
		state.toAndFro = 0
		return
	}
	if state.toAndFro == 0 {
		state.toAndFro = r.W.Now
	}
	if allowed := unasked*max(r.Site.siblingInterval, 2*time.Second) + 5*time.Second; r.W.Now-state.toAndFro > allowed {
		r.W.Fail(r, invariantNoLoop, "it and %s hand the site's packets to each other for %s", by.Name, allowed)
	}
}

const (
	// unasked is how many questions a sibling leaves unanswered before it is not relied on.
	unasked = 5
)

// takeGiven notes what a sibling gives at a handover: its mappings, which last no longer than there. The giver's right ends with the
// TTL of a Map-Reply that came to it, so that given mappings still end with a Map-Reply's TTL, by whatever hands they come.
func takeGiven(w *World, r *Router, m *Mail) {
	giver := w.Network.RouterAt(m.From.Addr())
	reply, ok := m.Message().(*wire.MapReply)
	if !ok || giver == nil {
		return
	}
	for i := range reply.Records {
		mapping, err := reply.Records[i].Mapping()
		if err != nil {
			continue
		}
		r.Mirror.Hear(mapping, r.time().Add(giver.Mirror.Heard[mapping.Prefix].Sub(giver.time())))
	}
}
