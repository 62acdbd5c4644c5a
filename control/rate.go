// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"time"
)

// Token buckets: one word each, their tables bounded. They read no clock.

// Rate is a token bucket: Burst at once, PerSecond on average.
type Rate struct {
	PerSecond float64
	Burst     int
}

// bucket is a token bucket as one instant: when it will be full again (the
// generic cell rate algorithm). The zero bucket is full.
type bucket struct{ fullAt instant }

// take takes a token if there is one.
func (b *bucket) take(now instant, r Rate) bool {
	interval := r.interval()
	if b.fullAt > now+instant(r.Burst-1)*interval {
		return false
	}
	b.fullAt = max(b.fullAt, now) + interval
	return true
}

// reserve takes the next token, which is there at the instant returned. It takes none
// when that is later than the latest.
func (b *bucket) reserve(now instant, r Rate, latest instant) (at instant, ok bool) {
	interval := r.interval()
	at = max(now, b.fullAt-instant(r.Burst-1)*interval)
	if at > latest {
		return 0, false
	}
	b.fullAt = max(b.fullAt, now) + interval
	return at, true
}

// interval is how long one token takes to come back.
func (r Rate) interval() instant { return instant(float64(time.Second) / r.PerSecond) }

// refill is how long an empty bucket takes to be full.
func (r Rate) refill() instant { return instant(r.Burst) * r.interval() }

// buckets is a bounded table of buckets. Two generations replace a sweep: a
// bucket that nobody touched for a whole refill is full, and forgotten.
type buckets[K comparable] struct {
	current, previous map[K]bucket
	turnedAt          instant
	most              int // keys that previous ever had
}

// reusedBuckets is up to how many keys the memory of a generation is used again: to clear that
// of many takes longer than a turn should.
const reusedBuckets = 1 << 12

// take takes a token of the key's bucket, if there is one. It refuses new keys when the
// table is full: a flood of keys must not switch the limit off.
func (b *buckets[K]) take(now instant, key K, r Rate, limit int) bool {
	if b.current == nil || now-b.turnedAt >= r.refill() {
		b.turn(now, r)
	}
	state, current := b.current[key]
	known := current
	if !current {
		state, known = b.previous[key]
	}
	if !known && len(b.current)+len(b.previous) >= limit || !state.take(now, r) {
		return false
	}
	if known && !current {
		delete(b.previous, key)
	}
	b.current[key] = state
	return true
}

func (b *buckets[K]) turn(now instant, r Rate) {
	if now-b.turnedAt >= 2*r.refill() {
		b.current = nil // all of them are full again
	}
	spent, most := b.previous, b.most
	b.previous, b.most = b.current, len(b.current)
	if b.current = spent; most > reusedBuckets || spent == nil {
		b.current = make(map[K]bucket)
	}
	clear(b.current)
	b.turnedAt = now
}

// validate says what is wrong with a rate.
func (r Rate) validate() error {
	if r.PerSecond < minRatePerSecond || r.PerSecond > maxRatePerSecond || r.Burst < 1 || r.Burst > maxBurst {
		return fmt.Errorf("rate of %v a second with a burst of %d: want %v to %v, and 1 to %d",
			r.PerSecond, r.Burst, minRatePerSecond, maxRatePerSecond, maxBurst)
	}
	return nil
}

// What a Rate may be: its arithmetic is in nanoseconds of 64 bits.
const (
	minRatePerSecond = 1e-3
	maxRatePerSecond = 1e9
	maxBurst         = 1_000_000
)
