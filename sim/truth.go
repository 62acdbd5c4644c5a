// SPDX-License-Identifier: Apache-2.0

package sim

// What is true: which site owns which EIDs, which locators a site ever configured for
// them, and what each tunnel router had the right to register when. The tables of Nodes
// are held against this.

import (
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
)

type truth struct {
	prefixes map[lisp.Prefix]*sitePrefix
	lengths  map[lisp.EIDKind][]int // of EID-Prefixes, longest first
	perSpace map[lisp.InstanceID]int
	locators map[locatorFact]bool
	contents map[content]*validity
	inForce  map[int][]content // by router
	barred   bool              // a Map-Server was once told to forget a site
}

// locatorFact is a locator that a site configured for an EID-Prefix.
type locatorFact struct {
	prefix           lisp.Prefix
	rloc             lisp.RLOC
	priority, weight uint8
	reachable        bool
}

// content is what a tunnel router says about an EID-Prefix, its locators as a hash.
type content struct {
	router   int
	prefix   lisp.Prefix
	locators uint64
	version  uint16
}

// validity is when a content was last in force.
type validity struct {
	first         time.Duration // when it was so for the first time
	since, until  time.Duration
	authenticated bool // registered with the right key at any time
}

const inForce = time.Duration(1<<63 - 1)

func newTruth() truth {
	return truth{
		prefixes: map[lisp.Prefix]*sitePrefix{}, lengths: map[lisp.EIDKind][]int{}, perSpace: map[lisp.InstanceID]int{},
		locators: map[locatorFact]bool{}, contents: map[content]*validity{}, inForce: map[int][]content{},
	}
}

// sitesIn numbers the sites of an Instance-ID.
func (t *truth) sitesIn(id lisp.InstanceID) int {
	t.perSpace[id]++
	return t.perSpace[id]
}

// own makes an EID-Prefix a site's.
func (t *truth) own(p *sitePrefix) {
	t.prefixes[p.prefix] = p
	kind := p.prefix.Kind()
	if !slices.Contains(t.lengths[kind], p.prefix.Bits()) {
		t.lengths[kind] = append(t.lengths[kind], p.prefix.Bits())
		slices.SortFunc(t.lengths[kind], func(a, b int) int { return b - a })
	}
}

// longest is the longest EID-Prefix of a site that covers p.
func (t *truth) longest(p lisp.Prefix) (*sitePrefix, bool) {
	for _, bits := range t.lengths[p.Kind()] {
		if bits > p.Bits() {
			continue
		}
		covering, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if owner, ok := t.prefixes[covering]; ok && err == nil {
			return owner, true
		}
	}
	return nil, false
}

// record notes what a tunnel router is configured to say from now on.
func (t *truth) record(r *router) {
	if r.site == nil {
		return
	}
	t.retire(r)
	for _, m := range r.config.ETR.Database {
		said := r.saying(m)
		for _, l := range said {
			t.locators[factOf(m.Prefix, l)] = true
		}
		c := content{router: r.index, prefix: m.Prefix, locators: hashLocators(said), version: m.Version}
		v := t.contents[c]
		if v == nil {
			v = &validity{first: r.w.now}
			t.contents[c] = v
		}
		if v.until != r.w.now {
			v.since = r.w.now
		}
		v.until = inForce
		v.authenticated = v.authenticated || !r.registersWrong
		t.inForce[r.index] = append(t.inForce[r.index], c)
	}
}

// retire ends what a tunnel router said so far.
func (t *truth) retire(r *router) {
	for _, c := range t.inForce[r.index] {
		t.contents[c].until = r.w.now
	}
	t.inForce[r.index] = t.inForce[r.index][:0]
}

func factOf(p lisp.Prefix, l lisp.Locator) locatorFact {
	return locatorFact{prefix: p, rloc: l.RLOC, priority: l.Priority, weight: l.Weight, reachable: l.Reachable}
}

// hashLocators is the same for sets that say the same, L and p bits apart, which depend
// on who says it.
func hashLocators(set lisp.LocatorSet) uint64 {
	t := trace{hash: uint64(len(set))}
	for _, l := range set {
		b := l.RLOC.Addr().As16()
		t.note(0, int(l.Priority)<<8|int(l.Weight), b[:], nil)
		if l.Reachable {
			t.mix(1)
		}
	}
	return t.hash
}

// sameLocators compares what matters of two sets.
func sameLocators(a, b lisp.LocatorSet) bool {
	return slices.EqualFunc(a, b, func(a, b lisp.Locator) bool {
		return a.RLOC == b.RLOC && a.Priority == b.Priority && a.Weight == b.Weight && a.Reachable == b.Reachable
	})
}

// acceptance is what a Map-Server was seen to have accepted from each tunnel router.
type acceptance map[acceptanceKey]accepted

// accepted is a content with the time since which it was in force when it was accepted.
type accepted struct {
	content
	since time.Duration
}

// underWay is longer than any message takes: what was said so shortly before the content that is accepted may
// come after an earlier time of that one.
const underWay = time.Second

type acceptanceKey struct {
	router int
	prefix lisp.Prefix
}

// checkRegistration holds a registration against what its tunnel router had the right to
// say: that very content, with the right key, and nothing older than what the Map-Server
// had from it before (RFC 9301 s.5.6). fresh says that a Map-Register just spoke of
// it that its tunnel router sent, and not the stranger: a Map-Server that lost its store
// has no nonces, and takes replays in the order in which they were first sent.
func (w *world) checkRegistration(at *router, g control.Registration, fresh bool) {
	owner, ok := w.truth.prefixes[g.Prefix]
	if !ok {
		w.fail(at, invariantAuthentic, "%s is registered, which no site has", g.Prefix)
		return
	}
	x := owner.site.xtrs[0]
	for _, sibling := range owner.site.xtrs {
		if g.XTRID == sibling.xtrID() {
			x = sibling
		}
	}
	said := content{router: x.index, prefix: g.Prefix, locators: hashLocators(g.Mapping.Locators), version: g.Mapping.Version}
	key := acceptanceKey{x.index, g.Prefix}
	before, known := at.accepted[key]
	if known && before.content == said {
		return // it was right when it came
	}
	v := w.truth.contents[said]
	if v == nil || !v.authenticated {
		w.fail(at, invariantAuthentic, "%s is registered as %s, which %s never said with the right key", g.Prefix, g.Mapping, x.name)
		return
	}
	if at.accepted == nil {
		at.accepted = acceptance{}
	}
	if known && !owner.site.withoutXTRID && v.until < before.since-underWay {
		w.fail(at, invariantAuthentic, "%s went back to %s, which %s said before what was registered already: a replay",
			g.Prefix, g.Mapping, x.name)
	}
	since := v.since
	if !fresh { // what a store kept, or the stranger, may be of an earlier time
		since = max(v.first, before.since)
	}
	at.accepted[key] = accepted{said, since}
}
