// SPDX-License-Identifier: Apache-2.0

package timing

// Token buckets: one word each, their tables bounded. They read no clock.

import (
	"fmt"
	"time"
)

// Rate is a token bucket: Burst at once, PerSecond on average.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Bucket is a token bucket as one instant: when it will be full again (the
// generic cell rate algorithm). The zero bucket is full.
type Bucket struct{ fullAt Instant }

// Take takes a token if there is one.
func (b *Bucket) Take(now Instant, r Rate) bool {
	interval := r.Interval()
	if b.fullAt > now+Instant(r.Burst-1)*interval {
		return false
	}
	b.fullAt = max(b.fullAt, now) + interval
	return true
}

// Reserve takes the next token, which is there at the instant returned. It takes none
// when that is later than the latest.
func (b *Bucket) Reserve(now Instant, r Rate, latest Instant) (at Instant, ok bool) {
	interval := r.Interval()
	at = max(now, b.fullAt-Instant(r.Burst-1)*interval)
	if at > latest {
		return 0, false
	}
	b.fullAt = max(b.fullAt, now) + interval
	return at, true
}

// Interval is how long one token takes to come back.
func (r Rate) Interval() Instant { return Instant(float64(time.Second) / r.PerSecond) }

// Refill is how long an empty bucket takes to be full.
func (r Rate) Refill() Instant { return Instant(r.Burst) * r.Interval() }

// Buckets is a bounded table of buckets. Two generations replace a sweep: a
// bucket that was not used for as long as it takes to be full is forgotten.
type Buckets[K comparable] struct {
	Current, Previous map[K]Bucket
	rotatedAt         Instant
	most              int // keys that previous ever had
}

// reusedBuckets is up to how many keys the memory of a generation is used again: to clear that
// of many takes longer than an event-loop iteration should.
const reusedBuckets = 1 << 12

// Take takes a token of the key's bucket, if there is one. It refuses new keys when the
// table is full: a flood of keys must not switch the limit off.
func (b *Buckets[K]) Take(now Instant, key K, r Rate, limit int) bool {
	_, ok := b.reserve(now, key, r, limit, now)
	return ok
}

// Next takes the next token of the key's bucket: that there is, or the first that comes back, at the
// instant returned. It takes one in advance at most, and refuses new keys as Take does.
func (b *Buckets[K]) Next(now Instant, key K, r Rate, limit int) (at Instant, ok bool) {
	return b.reserve(now, key, r, limit, now+r.Interval())
}

func (b *Buckets[K]) reserve(now Instant, key K, r Rate, limit int, latest Instant) (at Instant, ok bool) {
	if b.Current == nil || now-b.rotatedAt >= generation(r) {
		b.rotate(now, r)
	}
	state, current := b.Current[key]
	known := current
	if !current {
		state, known = b.Previous[key]
	}
	if !known && len(b.Current)+len(b.Previous) >= limit {
		return 0, false
	}
	if at, ok = state.Reserve(now, r, latest); !ok {
		return 0, false
	}
	if known && !current {
		delete(b.Previous, key)
	}
	b.Current[key] = state
	return at, true
}

// generation is how long an empty bucket takes to be full, with a token taken in advance.
func generation(r Rate) Instant { return r.Refill() + r.Interval() }

func (b *Buckets[K]) rotate(now Instant, r Rate) {
	if now-b.rotatedAt >= 2*generation(r) {
		b.Current = nil // all of them are full again
	}
	spent, most := b.Previous, b.most
	b.Previous, b.most = b.Current, len(b.Current)
	if b.Current = spent; most > reusedBuckets || spent == nil {
		b.Current = make(map[K]Bucket)
	}
	clear(b.Current)
	b.rotatedAt = now
}

// Validate says what is wrong with a rate.
func (r Rate) Validate() error {
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
