// SPDX-License-Identifier: Apache-2.0

package datapath

// The checks of one data path: those of small packets, and those of full size. What they mean is decided here.

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
)

const (
	// silentInterval is the time between two checks while no data packet comes from the other site, heardInterval
	// while some do.
	silentInterval = 10 * time.Second
	heardInterval  = time.Minute
	// silentAfter is when a router from which data packets came is silent.
	silentAfter = 10 * time.Second
	// fullInterval is the time between two checks of full size, fullIntervalOfMany where many paths are watched.
	fullInterval       = 15 * time.Second
	fullIntervalOfMany = time.Minute
	manyPaths          = 64
	// retryInterval is the time between checks after one that was not answered, lostInterval once the path is lost.
	retryInterval = 3 * time.Second
	lostInterval  = 5 * time.Second
	// answerWait is how long the answer of a check may take.
	answerWait = 2500 * time.Millisecond
	// missedTell is how many checks in a row must stay unanswered.
	missedTell = 3
	// everyTTL: of a lost path each so many-th check tries all TTLs, since the way there may have changed.
	everyTTL = 6
	// maxHops is how far away the other site's router is looked for.
	maxHops = 24
	// longestPause is the longest between two searches for a router that never answered.
	longestPause = 10 * time.Minute
	// usedFor is for how long a mapping is in use after packets went by it, lostFor where its path is lost.
	usedFor = time.Minute
	lostFor = 10 * time.Minute
	// mtuFor is for how long a Packet Too Big counts, as in Linux (net.ipv4.route.mtu_expires).
	mtuFor = 10 * time.Minute
)

// searches are the TTLs that are tried one set after another to find the other site's router.
var searches = [][]int{span(2, 5), span(6, 9), span(10, 14), span(15, 19), span(20, maxHops)}

func span(from, to int) (list []int) {
	for ttl := max(from, 2); ttl <= min(to, maxHops); ttl++ {
		list = append(list, ttl)
	}
	return list
}

// Size says which of a path's checks one is.
type Size int

// The sizes.
const (
	Small Size = iota
	Full
)

// leg is the checks of one size.
type leg struct {
	sentAt     time.Time // of the last one
	check      uint64    // the one whose answer is waited for, 0 for none
	until      time.Time // that one is unanswered
	answeredAt time.Time // of the last answer; zero for never
	counts     bool      // that one counts if it stays unanswered: the router's limit allows an answer
	missed     int       // of those that count, in a row
	suspected  bool      // one that does not count stayed unanswered
	missedAt   time.Time // when the first check that stayed unanswered was sent
	lostSince  time.Time // zero where it is not lost
	lostBefore time.Time // it was lost since then when it was checked last; zero where it was not
	unsure     bool      // what is known is remembered: no check was answered since
	searches   int       // before the first answer
	octets     int       // of the last one
}

func (l *leg) isLost() bool { return !l.lostSince.IsZero() }

// dueAt is when the next check goes, while nothing waits for an answer.
func (l *leg) dueAt(interval time.Duration) time.Time {
	switch {
	case l.sentAt.IsZero():
		return time.Time{}
	case l.isLost():
		return l.sentAt.Add(lostInterval)
	case l.missed > 0 || l.suspected:
		return l.sentAt.Add(retryInterval)
	}
	return l.sentAt.Add(interval)
}

// doubt is how near a verdict is: 0 where the last check was answered, or enough were not.
func (l *leg) doubt() int {
	switch {
	case l.isLost() || l.missed >= missedTell:
		return 0
	case l.suspected:
		return l.missed + 1
	}
	return l.missed
}

// answered notes an answer.
func (l *leg) answered(now time.Time) {
	*l = leg{sentAt: l.sentAt, octets: l.octets, answeredAt: now}
}

// isMissing reports whether enough checks in a row were not answered since which the router answered an RLOC-probe.
func (l *leg) isMissing(probedAt time.Time) bool {
	return !l.isLost() && l.missed >= missedTell && probedAt.After(l.missedAt)
}

// forgive has the checks that were not answered count no more, unless the path is lost.
func (l *leg) forgive() {
	if !l.isLost() {
		l.passed()
	}
}

// passed notes that a check did not go, or did not tell anything.
func (l *leg) passed() {
	l.check, l.missed, l.suspected, l.missedAt, l.lostSince = 0, 0, false, time.Time{}, time.Time{}
}

// expire notes that the answer did not come.
func (l *leg) expire(now time.Time) (missed bool) {
	if l.check == 0 || now.Before(l.until) {
		return false
	}
	l.check = 0
	if l.answeredAt.IsZero() {
		l.searches++
		return true
	}
	if l.missed == 0 && !l.suspected {
		l.missedAt = l.sentAt
	}
	if l.counts {
		l.missed++
	} else {
		l.suspected = true
	}
	return true
}

// Facts are what the control plane knows of a mapping and its routers.
type Facts struct {
	Known     bool         // the map-cache has the mapping, and packets to the checked EID go by it
	To        netip.Addr   // the EID to check
	Taken     []lisp.Path  // the locator that packets to it take now; those, where it is not known which
	Others    []lisp.Path  // that packets to other EIDs of the mapping take
	NextHops  []lisp.RLOC  // where packets go that take them
	Addresses []netip.Addr // of all locators and hops
	Up        bool         // those that packets take are up
	ProbedAt  time.Time    // of the oldest of their last answers to RLOC-probes; zero where one never answered
	hasProbed bool
	HeardAt   time.Time // when a data packet last came from a locator or hop
	Octets    int       // of the largest packet to the EID that the path is said to carry; 0 for not known
}

// path is a data path that is watched: that of the mappings with the same locators.
type path struct {
	key    key
	prefix lisp.Prefix // the mapping that is checked
	to     netip.Addr  // an EID of it
	use    *use
	facts  Facts
	askAt  time.Time // when the facts were asked for last

	small, full leg
	hops        int // the TTL that ends at the other site's router, 0 where that is not known
	hurry       bool
	from        netip.Addr // that answered last
	passedFull  int        // octets of the last check of full size that was answered
	limit       int        // octets, as a Packet Too Big says
	limitUntil  time.Time
	told        Outcome // as last published
}

// learn takes new facts. Other locators are another path, which begins anew.
func (p *path) learn(f Facts) (isOther bool) {
	isOther = !slices.Equal(p.facts.Taken, f.Taken)
	if isOther {
		p.small, p.full, p.hops, p.limit, p.passedFull, p.from = leg{}, leg{}, 0, 0, 0, netip.Addr{}
	}
	p.facts = f
	if f.To.IsValid() {
		p.to = f.To
	}
	if !f.Up { // other problems tell that
		for _, l := range []*leg{&p.small, &p.full} {
			l.missed, l.suspected, l.lostSince = 0, false, time.Time{}
		}
	}
	return isOther
}

// isSilent reports whether no data packet comes from the other site.
func (p *path) isSilent(now time.Time) bool {
	return p.facts.HeardAt.IsZero() || now.Sub(p.facts.HeardAt) >= silentAfter
}

// isWatched reports whether checks are to go: the mapping is in use, or it was while its path was lost.
func (p *path) isWatched(now time.Time) bool {
	kept := usedFor
	if p.small.isLost() || p.full.isLost() {
		kept = lostFor
	}
	return !p.use.lastAt.IsZero() && now.Sub(p.use.lastAt) < kept
}

// smallDueAt is when the next small check goes.
func (p *path) smallDueAt(now time.Time) (at time.Time, ok bool) {
	l := &p.small
	switch {
	case l.check != 0:
		return at, false
	case p.hurry:
		return now, true
	case l.answeredAt.IsZero() && l.searches%len(searches) != 0:
		return l.sentAt.Add(retryInterval), true
	case l.answeredAt.IsZero():
		return l.dueAt(pauseAfter(l.searches / len(searches))), true
	case p.isSilent(now):
		return l.dueAt(silentInterval), true
	}
	return l.dueAt(heardInterval), true
}

// pauseAfter is the pause after so many attempts in vain.
func pauseAfter(attempts int) time.Duration {
	return min(silentInterval<<min(attempts, 10), longestPause)
}

// fullOctets is how large a check of full size is, 0 for none.
func (p *path) fullOctets(now time.Time) int {
	octets := p.facts.Octets
	if p.limit != 0 && now.Before(p.limitUntil) {
		octets = min(octets, p.limit)
	}
	if octets <= smallOctets(p.to) {
		return 0
	}
	return octets
}

// fullDueAt is when the next check of full size goes: small ones have to pass.
func (p *path) fullDueAt(now time.Time, many bool) (at time.Time, ok bool) {
	l := &p.full
	passes := !p.small.answeredAt.IsZero() && !p.small.unsure && p.small.missed == 0 && !p.small.suspected
	if l.check != 0 || !passes || p.fullOctets(now) == 0 {
		return at, false
	}
	interval := fullInterval
	if many {
		interval = fullIntervalOfMany
	}
	if l.answeredAt.IsZero() {
		interval = max(interval, pauseAfter(l.searches))
	}
	return l.dueAt(interval), true
}

// ttls are those that a check tries.
func (p *path) ttls(size Size) []int {
	switch {
	case p.hops == 0:
		return searches[p.small.searches%len(searches)]
	case size == Full && p.full.missed == 0, size == Small && p.small.missed == 0:
		return []int{p.hops}
	case size == Full, p.small.missed == 1:
		return span(p.hops-1, p.hops+2)
	case p.small.missed == 2, p.small.missed%everyTTL == 0:
		return span(2, maxHops)
	}
	return []int{p.hops}
}

// send begins a check.
func (p *path) send(now time.Time, size Size, id uint64, counts bool) Check {
	l, octets := &p.small, smallOctets(p.to)
	if size == Full {
		l, octets = &p.full, p.fullOctets(now)
	} else {
		p.hurry = false
	}
	c := Check{ID: id, key: p.key, Size: size, To: p.to, Octets: octets, TTLs: p.ttls(size)}
	l.check, l.sentAt, l.until, l.octets, l.counts = id, now, now.Add(answerWait), octets, counts
	p.use.own += uint64(len(c.TTLs))
	return c
}

// expire notes checks that were not answered, and returns how many.
func (p *path) expire(now time.Time) (unanswered uint64) {
	if p.small.expire(now) {
		unanswered++
		p.full.forgive() // what was lost with small ones says nothing about the size
	}
	if p.full.expire(now) {
		unanswered++
		p.hurry = true // a small one tells whether it is the size
	}
	return unanswered
}

// judge decides whether the path is lost.
func (p *path) judge() {
	if !p.facts.Known || !p.facts.Up {
		return
	}
	if l := &p.small; l.isMissing(p.facts.ProbedAt) {
		l.lostSince = cmp.Or(l.lostBefore, l.missedAt)
		p.full.passed()
	}
	if l := &p.full; l.isMissing(p.facts.ProbedAt) && p.small.answeredAt.After(l.missedAt) && p.small.missed == 0 {
		l.lostSince = cmp.Or(l.lostBefore, l.missedAt)
	}
}

// take notes an answer to a check, sent with this TTL.
func (p *path) take(now time.Time, a Answer, size Size, current bool) {
	if a.Kind == TooBig {
		p.limit, p.limitUntil = a.Octets, now.Add(mtuFor)
		if size == Full && current {
			p.full.passed()
		}
		return
	}
	if !p.isFar(a.From) {
		return
	}
	if size == Small && (p.hops == 0 || p.small.missed > 0 || a.TTL < p.hops) || current && a.TTL < p.hops {
		p.hops = a.TTL
	}
	p.from = a.From
	p.small.answered(now)
	if size == Full {
		p.full.answered(now)
		p.passedFull = a.Check.Octets
		p.small.sentAt = p.full.sentAt // it tells what a small one would
	}
}

// isFar reports whether an address is one of the other site's routers or hosts.
func (p *path) isFar(a netip.Addr) bool {
	host := lisp.HostPrefix(p.prefix.Instance(), lisp.EIDFromAddr(a))
	return p.prefix.Covers(host) || slices.Contains(p.facts.Addresses, a)
}
