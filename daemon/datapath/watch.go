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
	// A router may limit its answers: Linux to one a second to each address, after a burst of six
	// (net.ipv4.icmp_ratelimit, net.ipv6.icmp.ratelimit). All paths may lead to one router, so that only a check
	// that keeps to a lower limit counts if it stays unanswered. While a path is in doubt, all checks keep to it.
	limitPerSecond, limitBurst = 0.8, 5
	// Each doubt lowers the rate of the checks that follow it, each answer raises it.
	slowdown, speedup = 0.7, 1.05
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
	tokens   float64 // of the checks at rate
	limit    float64 // tokens of the checks that count
	tokensAt time.Time
	rate     float64             // of the checks a second while no path is in doubt
	inDoubt  bool                // a path is
	sources  map[bool]netip.Addr // the own EIDs of this host that checks come from: IPv4
	counts   Counts

	remembered map[place]remembered
	answers    map[bool]uint64 // that this host has sent to checks of others: IPv4
}

// NewWatch has no paths.
func NewWatch() *Watch {
	return &Watch{
		paths: map[key]*path{}, remembered: map[place]remembered{}, answers: map[bool]uint64{},
		seed: maphash.MakeSeed(), sources: map[bool]netip.Addr{},
		tokens: checksPerSecond, limit: limitBurst, rate: checksPerSecond,
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
		w.counts.Unanswered += p.expire(now)
		if p.judge(); p.small.isLost() || p.full.isLost() {
			w.remember(now, p)
		}
	}
}

// Next are the checks to send now, the oldest first.
func (w *Watch) Next(now time.Time) (list []Check) {
	w.refill(now)
	all, inDoubt := w.due(now)
	if inDoubt && !w.inDoubt {
		w.rate = max(w.rate*slowdown, limitPerSecond)
	}
	w.inDoubt = inDoubt
	for _, d := range all {
		if !w.maySend() {
			break
		}
		w.nextID++
		w.counts.Sent++
		c := d.p.send(now, d.size, w.nextID, w.limit >= 1)
		w.limit = max(w.limit-float64(len(c.TTLs)), 0)
		list = append(list, c)
	}
	return list
}

// due are the checks that may go now, in their order, and whether a path is in doubt.
func (w *Watch) due(now time.Time) (all []due, inDoubt bool) {
	for _, p := range w.paths {
		isReady := w.sources[p.key.is4].IsValid() && p.facts.Known && p.facts.Up
		if !isReady || !p.isWatched(now) || !p.to.IsGlobalUnicast() {
			continue
		}
		inDoubt = inDoubt || p.small.doubt() > 0 || p.full.doubt() > 0
		if at, ok := p.smallDueAt(now); ok && !at.After(now) {
			d := due{p, at, Small, p.small.doubt()}
			if p.hurry {
				d.doubt = missedTell
			}
			all = append(all, d)
		}
		if at, ok := p.fullDueAt(now, len(w.paths) > manyPaths); ok && !at.After(now) {
			all = append(all, due{p, at, Full, p.full.doubt()})
		}
	}
	slices.SortFunc(all, compareDue)
	return all, inDoubt
}

// due is a check to send.
type due struct {
	p     *path
	at    time.Time
	size  Size
	doubt int
}

// compareDue has checks of paths in doubt first, those where a verdict is nearest, then the oldest, and small ones
// before those of full size.
func compareDue(a, b due) int {
	return cmp.Or(b.doubt-a.doubt, a.at.Compare(b.at), cmp.Compare(a.size, b.size), a.p.prefix.Compare(b.p.prefix))
}

// refill has as many checks go as the time since the last call allows.
func (w *Watch) refill(now time.Time) {
	elapsed := max(now.Sub(w.tokensAt), 0).Seconds()
	w.tokens = min(w.tokens+w.rate*elapsed, max(w.rate, 1))
	w.limit = min(w.limit+limitPerSecond*elapsed, limitBurst)
	w.tokensAt = now
}

// maySend takes a token for a check.
func (w *Watch) maySend() bool {
	if w.inDoubt {
		w.tokens = 0
		return w.limit >= 1
	}
	if w.tokens < 1 {
		return false
	}
	w.tokens--
	return true
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
	p.take(now, a, a.Check.Size, waited)
	w.remember(now, p)
	if waited && l.check == 0 {
		w.counts.Answered++
		if !w.inDoubt {
			w.rate = min(w.rate*speedup, checksPerSecond)
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
