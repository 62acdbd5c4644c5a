// SPDX-License-Identifier: Apache-2.0

package sim

// Sites whose tunnel routers know each other as siblings (RFC 9300 s.10): both register all locators of the
// site, each speaks for the R bits of its own, and hears of the other's over a link inside the site. Who has
// no path to the core hands the site's packets to the other one. The faults here take that path away, for a
// time or for good, noticed or not, or the link between the two.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/wire"
)

const (
	// insideDelay is how long a message takes inside a site.
	insideDelay = time.Millisecond
	// siblingPause is the least time between two questions to a sibling.
	siblingPause = 20 * time.Millisecond
	// lostForever is in how many of the runs with siblings one of them is without the core to the end.
	lostForever = 0.7
	// unasked is how many questions a sibling leaves unanswered before nobody relies on it.
	unasked = 5
)

// siblingState is what a tunnel router with siblings has more than others.
type siblingState struct {
	link     link          // to the others, inside the site
	coreLost int           // faults that cut it off the core
	said     saidMappings  // what its Node announces now
	detour   netip.Addr    // whom the site's packets go to, none when it encapsulates them itself
	toAndFro time.Duration // since when two siblings make a detour by each other, 0 for not
}

// saidMappings is what a Node announces: with the R bits as it sees them.
type saidMappings map[lisp.Prefix]lisp.LocatorSet

// makeSiblings makes the tunnel routers of some sites siblings. Those whose registrations are merged register
// their own locators alone, and have nothing to say of each other's.
func (w *world) makeSiblings(s *site) {
	if len(s.xtrs) < 2 || s.merge || w.kinds.chance(0.35) {
		return
	}
	s.siblings = true
	s.siblingInterval = pick(w.kinds, []time.Duration{0, 10 * time.Second, 10 * time.Second, 15 * time.Second})
	s.probing = pick(w.kinds, []control.ProbingConfig{{Interval: 30 * time.Second}, {Interval: time.Minute}, {Interval: time.Minute}})
	for _, x := range s.xtrs {
		x.sibling.link = link{addr: w.newAddress(x.links[0].addr.Is4())}
		w.network.setOwner(x.sibling.link.addr, x)
	}
}

// siblingsOf is the configuration of a tunnel router's siblings.
func (r *router) siblingsOf() []control.SiblingConfig {
	var list []control.SiblingConfig
	for _, x := range r.site.xtrs {
		if r.site.siblings && x != r {
			list = append(list, control.SiblingConfig{Address: x.sibling.link.addr, Local: r.sibling.link.addr, Interval: r.site.siblingInterval})
		}
	}
	return list
}

// probing is how the router probes.
func (r *router) probing() control.ProbingConfig {
	if r.site != nil && r.site.siblings { // that the path behind a link is dead is learned by nothing else
		return r.site.probing
	}
	return r.w.flavour.probing
}

// sendsStatusBits reports whether data packets carry Locator-Status-Bits, and those that come are heeded. Where
// registrations are merged nobody may: a tunnel router's own locators are others by number than those of the
// mapping that peers have.
func (r *router) sendsStatusBits() bool {
	return r.w.flavour.statusBits && (!r.site.merge || len(r.site.xtrs) == 1)
}

// isInside reports whether an address is the router's on the link to its siblings.
func (r *router) isInside(a netip.Addr) bool {
	return r.site != nil && r.site.siblings && a == r.sibling.link.addr
}

// carryInside brings mail from one sibling to another. Nobody else is on that link.
func (n *network) carryInside(from, to *router, m *mail) {
	if from == nil || from.site != to.site {
		n.lose(m)
		return
	}
	n.underWay++
	m.copies++
	n.w.queue.push(event{at: n.w.now + insideDelay, kind: eventArrival, router: to, mail: m})
}

// way is the router that encapsulates what the hosts behind this one send: itself, or a sibling while it has
// no path to the core; nil while there is none.
func (r *router) way() *router {
	if !r.sibling.detour.IsValid() {
		return r
	}
	by := r.w.network.owner(r.sibling.detour)
	if by == nil || r.sibling.link.cut > 0 || by.sibling.link.cut > 0 || by.sibling.detour.IsValid() {
		return nil
	}
	return by
}

// said notes what the Node announces of an EID-Prefix from now on.
func (r *router) says(p lisp.Prefix, set lisp.LocatorSet) {
	if !r.site.siblings {
		return
	}
	if r.sibling.said == nil {
		r.sibling.said = saidMappings{}
	}
	if was, known := r.sibling.said[p]; known && !sameLocators(was, set) {
		r.configuredAt = r.time() // it has news, by itself
	}
	r.sibling.said[p] = slices.Clone(set)
	r.w.truth.record(r)
}

// saying is what the Node announces of a mapping of its Database: with siblings, the R bits that they and the
// path to the core left.
func (r *router) saying(m control.DatabaseMapping) lisp.LocatorSet {
	if said, ok := r.sibling.said[m.Prefix]; ok && r.site.siblings {
		return said
	}
	return m.Locators
}

// withSiblingsUp sets the R bits of the siblings' locators: the operator of a tunnel router knows of its own
// links alone.
func (r *router) withSiblingsUp(set lisp.LocatorSet) lisp.LocatorSet {
	if !r.site.siblings {
		return set
	}
	for i := range set {
		l := r.linkOf(set[i].RLOC.Addr())
		set[i].Reachable = l == nil || l.isUp()
	}
	return set
}

// watchInside judges a message to a sibling; false for every other one.
func (r *router) watchInside(sent *mail) bool {
	if !r.isInside(sent.from.Addr()) {
		return false
	}
	if question := wire.MessageType(sent.payload[0]>>4) == wire.TypeMapRequest && sent.payload[0]&probeBit != 0; !question {
		return true
	}
	rate := control.Rate{PerSecond: float64(time.Second / siblingPause), Burst: 2}
	if !r.probes.take(r.time(), addrKey(sent.to.Addr()), rate) {
		r.w.fail(r, invariantProbe, "too many questions to its sibling")
	}
	return true
}

// sweepSiblings looks for two siblings whose packets go to and fro. For as long as one does not hear from the
// other, or what it says is under way, that may be.
func (w *world) sweepSiblings() {
	for _, s := range w.sites {
		if !s.siblings {
			continue
		}
		for _, x := range s.xtrs {
			x.checkDetour()
		}
	}
}

func (r *router) checkDetour() {
	state := &r.sibling
	by := r.w.network.owner(state.detour)
	if by == nil || !by.sibling.detour.IsValid() || state.link.cut+by.sibling.link.cut > 0 || r.node == nil || by.node == nil {
		state.toAndFro = 0
		return
	}
	if state.toAndFro == 0 {
		state.toAndFro = r.w.now
	}
	if allowed := unasked*max(r.site.siblingInterval, 2*time.Second) + 5*time.Second; r.w.now-state.toAndFro > allowed {
		r.w.fail(r, invariantNoLoop, "it and %s hand the site's packets to each other for %s", by.name, allowed)
	}
}

func siblingFaults() []fault {
	return []fault{
		{"core-link-lost", 60 * time.Second, func(w *world) (string, func()) { return w.loseCore(true, false) }},
		{"core-path-lost", 120 * time.Second, func(w *world) (string, func()) { return w.loseCore(false, false) }},
		{"both-core-links-lost", 20 * time.Second, func(w *world) (string, func()) { return w.loseCore(true, true) }},
		{"both-core-paths-lost", 60 * time.Second, func(w *world) (string, func()) { return w.loseCore(false, true) }},
		{"site-link", 40 * time.Second, (*world).cutSiteLink},
	}
}

// pickSibling draws a tunnel router that has siblings, nil when there is none.
func (w *world) pickSibling() *router {
	var all []*router
	for _, x := range w.xtrs {
		if x.site.siblings {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(w.kinds, all)
}

// loseCore takes a tunnel router its paths to the core, or all of a site theirs. It notices that its links are
// gone, or has to find out that nobody answers.
func (w *world) loseCore(noticed, all bool) (string, func()) {
	x := w.pickSibling()
	if x == nil {
		return "", nil
	}
	hit := []*router{x}
	if all {
		hit = x.site.xtrs
	}
	var ends []func()
	for _, r := range hit {
		ends = append(ends, r.loseCore(noticed))
	}
	return fmt.Sprintf("%s, noticed: %t, all of the site: %t", x.name, noticed, all), func() {
		for _, end := range ends {
			end()
		}
	}
}

func (r *router) loseCore(noticed bool) (end func()) {
	r.sibling.coreLost++
	turn := func(by int) {
		for i := range r.links {
			r.links[i].cut += by
		}
		if !noticed {
			return
		}
		r.w.after(r.w.kinds.between(0, time.Second), func() {
			for i := range r.links {
				r.links[i].noticed += by
			}
			r.site.configure()
		})
	}
	turn(1)
	return func() {
		r.sibling.coreLost--
		turn(-1)
	}
}

// loseCoreForever leaves one tunnel router of some site without the core to the end of the run: its sibling
// goes on for it.
func (w *world) loseCoreForever() {
	end := w.options.faultsEnd()
	if end == 0 || !w.kinds.chance(lostForever) {
		return
	}
	noticed := w.kinds.chance(0.5)
	w.after(w.kinds.between(end/2, end), func() {
		if x := w.pickSibling(); x != nil {
			w.stats.Faults["core-lost-for-good"]++
			w.trace.note(w.now, x.index, nil, func() string { return fmt.Sprintf("FAULT %s has lost the core for good, noticed: %t", x.name, noticed) })
			x.loseCore(noticed)
		}
	})
}

// cutSiteLink cuts the link between siblings.
func (w *world) cutSiteLink() (string, func()) {
	x := w.pickSibling()
	if x == nil {
		return "", nil
	}
	x.sibling.link.cut++
	return x.name, func() { x.sibling.link.cut-- }
}
