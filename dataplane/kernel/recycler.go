// SPDX-License-Identifier: Apache-2.0

// This file hands out indexes of BPF arrays. An index given back rests for a while
// before it is handed out again, because a program that runs on another CPU may
// still hold it (bpf/abi.h, "Forwarding table"). It never touches the arrays.

package kernel

import (
	"math"
	"time"
)

// restTime is how long a retired index stays unused: programs run for
// microseconds, so this is ample (bpf/abi.h asks for some 100 ms).
const restTime = 200 * time.Millisecond

// A recycler hands out the indexes from 0 to limit-1.
type recycler struct {
	fresh   uint32 // indexes from here on were never handed out
	limit   uint32
	ready   []uint32
	resting restQueue[uint32]
	now     func() time.Duration
	wait    func() // returns when no program holds a retired index any more
}

// newRecycler makes a recycler for indexes below limit. now is any clock that only
// grows; wait is called when only resting indexes are left.
func newRecycler(limit uint32, now func() time.Duration, wait func()) *recycler {
	return &recycler{limit: limit, now: now, wait: wait}
}

// take returns an unused index. reused says that it was in use before, so that
// what belongs to it may need clearing; ok is false when all are in use.
func (r *recycler) take() (index uint32, reused, ok bool) {
	r.wake(r.now())
	if len(r.ready) == 0 && r.fresh == r.limit && r.resting.len() > 0 {
		r.wait()
		r.rested()
	}
	if n := len(r.ready); n > 0 {
		index = r.ready[n-1]
		r.ready = r.ready[:n-1]
		return index, true, true
	}
	if r.fresh == r.limit {
		return 0, false, false
	}
	r.fresh++
	return r.fresh - 1, false, true
}

// giveBack retires an index.
func (r *recycler) giveBack(index uint32) {
	r.resting.push(index, r.now()+restTime)
}

// rested makes all retired indexes usable: the caller knows that no program can
// hold one.
func (r *recycler) rested() {
	for index, ok := r.resting.pop(never); ok; index, ok = r.resting.pop(never) {
		r.ready = append(r.ready, index)
	}
}

// available is how many indexes take could return.
func (r *recycler) available() int {
	return len(r.ready) + r.resting.len() + int(r.limit-r.fresh)
}

// inUse is how many indexes are handed out.
func (r *recycler) inUse() int {
	return int(r.fresh) - len(r.ready) - r.resting.len()
}

// adopt marks the indexes for which used holds as handed out. All others count as
// used before, by whoever had them.
func (r *recycler) adopt(used func(index uint32) bool) {
	r.fresh, r.ready, r.resting = r.limit, nil, restQueue[uint32]{}
	for index := r.limit; index > 0; index-- {
		if !used(index - 1) {
			r.ready = append(r.ready, index-1)
		}
	}
}

func (r *recycler) wake(now time.Duration) {
	for index, ok := r.resting.pop(now); ok; index, ok = r.resting.pop(now) {
		r.ready = append(r.ready, index)
	}
}

// A restQueue holds what rests, in the order in which it was retired.
type restQueue[T any] struct {
	items []restingItem[T]
	first int // of those that still rest
}

type restingItem[T any] struct {
	item  T
	until time.Duration
}

// never is no time at which anything still rests.
const never = time.Duration(math.MaxInt64)

func (q *restQueue[T]) len() int { return len(q.items) - q.first }

func (q *restQueue[T]) push(item T, until time.Duration) {
	if q.first > len(q.items)/2 { // so each is moved once, on average
		q.items, q.first = append(q.items[:0], q.items[q.first:]...), 0
	}
	q.items = append(q.items, restingItem[T]{item, until})
}

// pop takes out the first if its rest is over.
func (q *restQueue[T]) pop(now time.Duration) (item T, ok bool) {
	if q.len() == 0 || q.items[q.first].until > now {
		return item, false
	}
	q.first++
	return q.items[q.first-1].item, true
}
