// SPDX-License-Identifier: Apache-2.0

// This file holds what was retired, in order, until no program can hold it any more.

package reclaim

import (
	"math"
	"time"
)

// RestTime is how long a retired index stays unused: programs run for
// microseconds, so this is ample (bpf/abi.h asks for some 100 ms).
const RestTime = 200 * time.Millisecond

// A Queue holds what rests, in the order in which it was retired.
type Queue[T any] struct {
	items []restingItem[T]
	first int // of those that still rest
}

type restingItem[T any] struct {
	item  T
	until time.Duration
}

// Never is no time at which anything still rests.
const Never = time.Duration(math.MaxInt64)

// Len is how much rests.
func (q *Queue[T]) Len() int { return len(q.items) - q.first }

// Push adds what rests until a time, which is no earlier than that of the last one.
func (q *Queue[T]) Push(item T, until time.Duration) {
	if q.first > len(q.items)/2 { // so each is moved once, on average
		q.items, q.first = append(q.items[:0], q.items[q.first:]...), 0
	}
	q.items = append(q.items, restingItem[T]{item, until})
}

// Pop takes out the first if its rest is over.
func (q *Queue[T]) Pop(now time.Duration) (item T, ok bool) {
	if q.Len() == 0 || q.items[q.first].until > now {
		return item, false
	}
	q.first++
	return q.items[q.first-1].item, true
}
