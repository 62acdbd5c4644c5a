// SPDX-License-Identifier: Apache-2.0

package datapath

// Whether a mapping is in use by others than these checks. The checks of both ends, and their answers, go by the
// mappings that they check: if they counted, two routers would keep each other's mappings in use for ever. The own
// checks are known. Of answers to the checks of others it is known how many went in all: so many may have gone by
// this mapping, up to what a peer's checks cause.

import (
	"time"

	"loci/lisp"
)

const (
	// useWindow is the time in which packets are counted. More than fewPackets must go in it beyond own checks,
	// and beyond answers to those of others, of which mostAnswers count.
	useWindow   = 10 * time.Second
	fewPackets  = 2
	mostAnswers = 6
	// maxCounted bounds the mappings with the same locators that are counted.
	maxCounted = 16
	// lagFor is how long the counters of the data plane may stay behind the checks that were sent.
	lagFor = time.Minute
)

// counted is a mapping as last seen.
type counted struct {
	packets uint64
	at      time.Time
}

// use counts the packets by the mappings with the same locators.
type use struct {
	lastAt   time.Time // when they were last in use, zero for never
	mappings map[lisp.Prefix]counted
	grown    uint64 // packets that went since the first look
	own      uint64 // checks that were sent, and answers that may have gone by them
	answers  uint64 // that this host had sent in all at the last look
	taken    uint64 // of these, those in own since the window began
	most     int64  // the most that grown was ahead of own: the data plane's counters are late
	mostAt   time.Time
	began    time.Time // of the window
	before   int64     // most at its beginning
}

// take takes the count of packets that went by a mapping, and that of answers that this host has sent.
func (u *use) take(now time.Time, p lisp.Prefix, packets, answers uint64) {
	if u.mappings == nil {
		u.mappings, u.began, u.answers = map[lisp.Prefix]counted{}, now, answers
	}
	u.takeAnswers(answers)
	last, known := u.mappings[p]
	if !known && len(u.mappings) >= maxCounted {
		return
	}
	if known && packets > last.packets {
		u.grown += packets - last.packets
	}
	u.mappings[p] = counted{packets, now}
	if ahead := int64(u.grown - u.own); ahead > u.most || now.Sub(u.mostAt) > lagFor {
		if ahead < u.most {
			u.before = ahead
		}
		u.most, u.mostAt = ahead, now
	}
	if u.most-u.before > fewPackets {
		u.lastAt = now
	}
	if now.Sub(u.began) >= useWindow {
		u.before, u.began, u.taken = u.most, now, 0
		u.forget(now)
	}
}

// takeAnswers takes answers off the use.
func (u *use) takeAnswers(answers uint64) {
	if answers > u.answers {
		more := min(answers-u.answers, mostAnswers-u.taken)
		u.own, u.taken = u.own+more, u.taken+more
	}
	u.answers = answers
}

// forget forgets mappings by which nothing went lately.
func (u *use) forget(now time.Time) {
	for p, c := range u.mappings {
		if now.Sub(c.at) > usedFor {
			delete(u.mappings, p)
		}
	}
}

// other is one of the mappings that were seen last, which is not the one given; zero for none.
func (u *use) other(than lisp.Prefix) (other lisp.Prefix) {
	var at time.Time
	for p, c := range u.mappings {
		if p != than && (c.at.After(at) || c.at.Equal(at) && p.Compare(other) < 0) {
			other, at = p, c.at
		}
	}
	return other
}
