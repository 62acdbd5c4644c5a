// SPDX-License-Identifier: Apache-2.0

package datapath

// Whether a mapping is in use by others than these checks. The checks of both ends, and their answers, go by the mappings that they
// check: without a threshold two routers would keep each other's mappings in use for ever.

import (
	"time"

	"loci/lisp"
)

const (
	// useWindow is the time in which packets are counted, inUse how many must go in it beyond the own checks: a peer's cause fewer
	// in answers.
	useWindow = 10 * time.Second
	inUse     = 8
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
	own      uint64 // checks that were sent
	most     int64  // the most that grown was ahead of own: own checks are counted late
	mostAt   time.Time
	began    time.Time // of the window
	before   int64     // most at its beginning
}

// take takes the count of packets that went by a mapping.
func (u *use) take(now time.Time, p lisp.Prefix, packets uint64) {
	if u.mappings == nil {
		u.mappings, u.began = map[lisp.Prefix]counted{}, now
	}
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
	if u.most-u.before > inUse {
		u.lastAt = now
	}
	if now.Sub(u.began) >= useWindow {
		u.before, u.began = u.most, now
		u.forget(now)
	}
}

// forget forgets mappings by which nothing went lately.
func (u *use) forget(now time.Time) {
	for p, c := range u.mappings {
		if now.Sub(c.at) > usedFor {
			delete(u.mappings, p)
		}
	}
}

// busiest is one of the mappings that were seen last, which is not the one given; zero for none.
func (u *use) other(than lisp.Prefix) (other lisp.Prefix) {
	var at time.Time
	for p, c := range u.mappings {
		if p != than && (c.at.After(at) || c.at.Equal(at) && p.Compare(other) < 0) {
			other, at = p, c.at
		}
	}
	return other
}
