// SPDX-License-Identifier: Apache-2.0

package datapath

// Watch is the table of the data paths in use: which is checked when, and what became of it. It knows no clock and no
// socket.

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
)

const (
	// maxPaths bounds the paths that are watched.
	maxPaths = 512
	// checksPerSecond bounds the checks in all.
	checksPerSecond = 10
	// Where more than fewPaths are watched, and many checks stay unanswered, they may be paths to one router,
	// which answers one a second (net.ipv4.icmp_ratelimit, net.ipv6.icmp.ratelimit): so many go then, until few
	// stay unanswered.
	slowPerSecond, fewPaths = 0.8, 6
	// Both are of checks of routers that answered before, as a moving average to which each adds its share: three in a
	// row suffice.
	manyUnanswered, newShare = 0.25, 0.1
	fewUnanswered            = 0.1
	// factsInterval is the time between two looks at what the control plane knows of a path, factsAtOnce how many
	// are looked at together.
	factsInterval = 2 * time.Second
	factsAtOnce   = 64
)

// key is what mappings with the same data path have in common: their locators, and the family of their EIDs. Where
// packets take several of these, each is a path: the zero locator is the one that the first path's EID leads to.
type key struct {
	locators uint64
	is4      bool
	locator  lisp.Path
}

// Check is one to send: echo requests of a size, one for each TTL.
type Check struct {
	ID     uint64
	key    key
	Size   Size
	To     netip.Addr
	Octets int
	TTLs   []int
}

// Kind says what came back.
type Kind int

// The kinds. Of errors of this router itself nothing is learnt.
const (
	Far    Kind = iota // an answer of the other site: Time Exceeded, Destination Unreachable, an echo reply
	TooBig             // Packet Too Big
)

// Answer is what came back for an echo request.
type Answer struct {
	Check  Check
	TTL    int // that the echo request was sent with
	Kind   Kind
	From   netip.Addr
	Octets int // of Packet Too Big
}

// Counts are totals since the start.
type Counts struct{ Sent, Answered, Unanswered uint64 }

// Watch is the table. The zero value is not ready: NewWatch.
type Watch struct {
	paths    map[key]*path
	seed     maphash.Seed
	nextID   uint64
	tokens   float64
	tokensAt time.Time
	sources  map[bool]netip.Addr // the own EIDs of this host that checks come from: IPv4
	counts   Counts

	remembered map[place]remembered
	answers    map[bool]uint64 // that this host has sent to checks of others: IPv4

	unanswered float64 // the part of the checks of routers that answered before, lately
	slow       bool
}

// NewWatch has no paths.
func NewWatch() *Watch {
	return &Watch{
		paths: map[key]*path{}, remembered: map[place]remembered{}, answers: map[bool]uint64{},
		seed: maphash.MakeSeed(), tokens: checksPerSecond, sources: map[bool]netip.Addr{},
	}
}

// SetSources says from which own EIDs of this host checks go; zero for none of a family.
func (w *Watch) SetSources(v4, v6 netip.Addr) { w.sources[true], w.sources[false] = v4, v6 }

// SetAnswers says how many echo requests of others this host has answered in all, of a family.
func (w *Watch) SetAnswers(is4 bool, total uint64) { w.answers[is4] = total }

func (w *Watch) keyOf(m *lisp.Mapping) key {
	k := key{is4: m.Prefix.EID().Addr().Is4()}
	for i := range m.Locators {
		if m.Locators[i].Usable() {
			k.locators += maphash.Comparable(w.seed, m.Locators[i].Path()) // in any order
		}
	}
	return k
}

// Use takes how many packets went by a mapping of the data plane since it was installed.
func (w *Watch) Use(now time.Time, m *lisp.Mapping, packets uint64) {
	if m.Prefix.Instance() != 0 || !m.Prefix.EID().IsIP() || len(m.Locators) == 0 {
		return // this host's own packets are of Instance-ID 0
	}
	k := w.keyOf(m)
	p := w.paths[k]
	if p == nil {
		if len(w.paths) >= maxPaths {
			return
		}
		p = &path{key: k, told: NotKnown, use: &use{}}
		p.choose(m.Prefix)
		w.paths[k] = p
	}
	p.use.take(now, m.Prefix, packets, w.answers[k.is4])
}

// choose takes a mapping to check.
func (p *path) choose(prefix lisp.Prefix) { p.prefix, p.to = prefix, eidWithin(prefix) }

// Question asks what the control plane knows of a path.
type Question struct {
	key    key
	Prefix lisp.Prefix
	To     netip.Addr // an EID of it to begin with
	Source netip.Addr // of the checks; zero where none can be sent
}

// Wanted are paths of which the control plane is to be asked, those asked longest ago first. It forgets those that
// are not in use.
func (w *Watch) Wanted(now time.Time) (list []Question) {
	var due []*path
	for k, p := range w.paths {
		p.use.forget(now)
		switch {
		case p.isWatched(now):
			if now.Sub(p.askAt) >= factsInterval {
				due = append(due, p)
			}
		case len(p.use.mappings) == 0, !p.use.lastAt.IsZero():
			delete(w.paths, k)
		}
	}
	byAge := func(a, b *path) int { return cmp.Or(a.askAt.Compare(b.askAt), a.prefix.Compare(b.prefix)) }
	slices.SortFunc(due, byAge)
	for _, p := range due[:min(len(due), factsAtOnce)] {
		p.askAt = now
		list = append(list, Question{p.key, p.prefix, p.to, w.sources[p.key.is4]})
	}
	return list
}

// Learn takes what the control plane knows.
func (w *Watch) Learn(q Question, f Facts) {
	p := w.paths[q.key]
	if p == nil || p.prefix != q.Prefix {
		return
	}
	isFirst := q.key.locator.IsZero()
	if !isFirst && (!f.Known || !f.Up) { // no packet takes it any more
		delete(w.paths, q.key)
		return
	}
	if !f.Known { // it is gone, or others cover its EIDs: one with the same locators may do
		if !f.To.IsValid() {
			f.To = eidWithin(p.prefix)
		}
		p.to = f.To
		if other := p.use.other(p.prefix); !other.IsZero() {
			delete(p.use.mappings, p.prefix)
			p.choose(other)
		}
		f = Facts{}
	}
	if p.learn(f) {
		w.recall(p)
	}
	p.judge()
	if isFirst {
		w.follow(p)
	}
}

// follow watches the other locators that packets of the same mapping take, and those no longer that the first path
// took over.
func (w *Watch) follow(first *path) {
	for _, taken := range first.facts.Taken {
		k := first.key
		k.locator = taken
		delete(w.paths, k)
	}
	for _, other := range first.facts.Others {
		k := first.key
		k.locator = other
		if w.paths[k] == nil && len(w.paths) < maxPaths {
			w.paths[k] = &path{key: k, told: NotKnown, use: first.use, prefix: first.prefix, to: first.to}
		} else if p := w.paths[k]; p != nil && p.prefix != first.prefix {
			delete(w.paths, k)
		}
	}
}

// Expire notes the checks that stay unanswered.
func (w *Watch) Expire(now time.Time) {
	for _, p := range w.paths {
		unanswered := p.expire(now)
		w.counts.Unanswered += unanswered
		if unanswered > 0 && !p.small.answeredAt.IsZero() {
			w.note(1)
		}
	}
	for _, p := range w.paths {
		if p.judge(); p.small.isLost() || p.full.isLost() {
			w.remember(now, p)
		}
	}
}

// note adds the outcome of a check to the part that stays unanswered. What was not answered before the checks slowed
// down does not count.
func (w *Watch) note(unanswered float64) {
	w.unanswered += (unanswered - w.unanswered) * newShare
	switch {
	case w.slow:
		w.slow = w.unanswered > fewUnanswered
	case w.unanswered > manyUnanswered && len(w.paths) > fewPaths:
		w.slow, w.tokens = true, 0
		for _, p := range w.paths {
			p.small.forgive()
			p.full.forgive()
		}
	}
}

// Next are the checks to send now, the oldest first.
func (w *Watch) Next(now time.Time) (list []Check) {
	w.refill(now)
	var all []due
	for _, p := range w.paths {
		isReady := w.sources[p.key.is4].IsValid() && p.facts.Known && p.facts.Up
		if !isReady || !p.isWatched(now) || !p.to.IsGlobalUnicast() {
			continue
		}
		if at, ok := p.smallDueAt(now); ok && !at.After(now) {
			all = append(all, due{p, at, Small, p.small.missed == 0 || p.small.isLost()})
		}
		if at, ok := p.fullDueAt(now, len(w.paths) > manyPaths); ok && !at.After(now) {
			all = append(all, due{p, at, Full, p.full.missed == 0 || p.full.isLost()})
		}
	}
	slices.SortFunc(all, compareDue)
	for _, d := range all {
		if w.tokens < 1 {
			break
		}
		w.tokens--
		w.nextID++
		w.counts.Sent++
		list = append(list, d.p.send(now, d.size, w.nextID))
	}
	return list
}

// due is a check to send.
type due struct {
	p    *path
	at   time.Time
	size Size
	late bool // it does not follow one that was not answered
}

// compareDue has checks that follow unanswered ones first, then the oldest, and small ones before those of full size.
func compareDue(a, b due) int {
	if a.late != b.late {
		return map[bool]int{false: -1, true: 1}[a.late]
	}
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.size, b.size), a.p.prefix.Compare(b.p.prefix))
}

// refill has as many checks go as the time since the last call allows.
func (w *Watch) refill(now time.Time) {
	rate, most := float64(checksPerSecond), float64(checksPerSecond)
	if w.slow {
		rate, most = slowPerSecond, 1
	}
	w.tokens = min(w.tokens+rate*max(now.Sub(w.tokensAt), 0).Seconds(), most)
	w.tokensAt = now
}

// Answer takes what came back.
func (w *Watch) Answer(now time.Time, a Answer) {
	p := w.paths[a.Check.key]
	if p == nil || p.to != a.Check.To {
		return
	}
	l := &p.small
	if a.Check.Size == Full {
		l = &p.full
	}
	waited := l.check == a.Check.ID
	isFirst := p.small.answeredAt.IsZero() // which counts as little as those before it that were not answered
	p.take(now, a, a.Check.Size, waited)
	w.remember(now, p)
	if waited && l.check == 0 {
		w.counts.Answered++
		if !isFirst {
			w.note(0)
		}
	}
}

// Unsent notes that this host did not send a check: nothing is learnt of it.
func (w *Watch) Unsent(c Check) {
	p := w.paths[c.key]
	switch {
	case p == nil:
	case c.Size == Full && p.full.check == c.ID:
		p.full.passed()
	case c.Size == Small && p.small.check == c.ID:
		p.small.passed()
	}
}

// Counts are the totals.
func (w *Watch) Counts() Counts { return w.counts }
