// SPDX-License-Identifier: Apache-2.0

package virtual

// The queue of events by virtual time; those of one moment come in the order in which
// they were put. That order is part of a run's identity.

import "time"

// Queue is a heap of four children a node, which has half the levels of a binary one. What
// moves in it is when an event comes and where it stands meanwhile.
type Queue[E any] struct {
	heap   []queued
	events []E
	free   []uint32 // places in events
	next   uint64
}

// queued is an event's place by its time, and by its number among those of one moment.
type queued struct {
	at    time.Duration
	order uint64
	place uint32
}

// children of a node of the heap.
const children = 4

// Push puts an event in.
func (q *Queue[E]) Push(at time.Duration, e E) {
	q.next++
	added := queued{at: at, order: q.next, place: q.store(e)}
	q.heap = append(q.heap, added)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !before(&added, &q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = added
}

// store gives an event a place.
func (q *Queue[E]) store(e E) uint32 {
	if last := len(q.free) - 1; last >= 0 {
		place := q.free[last]
		q.free = q.free[:last]
		q.events[place] = e
		return place
	}
	q.events = append(q.events, e)
	return uint32(len(q.events) - 1)
}

// Pop takes the first event out; false when there is none.
func (q *Queue[E]) Pop() (at time.Duration, first E, ok bool) {
	var none E
	if len(q.heap) == 0 {
		return 0, none, false
	}
	place := q.heap[0].place
	at, first = q.heap[0].at, q.events[place]
	q.events[place] = none
	q.free = append(q.free, place)
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap = q.heap[:last]
	q.sink(moved)
	return at, first, true
}

// sink finds a place for an event, from the top, which is free.
func (q *Queue[E]) sink(e queued) {
	i := 0
	for {
		first := children*i + 1
		if first >= len(q.heap) {
			break
		}
		child := first
		for c := first + 1; c < min(first+children, len(q.heap)); c++ {
			if before(&q.heap[c], &q.heap[child]) {
				child = c
			}
		}
		if !before(&q.heap[child], &e) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	if i < len(q.heap) {
		q.heap[i] = e
	}
}

func before(a, b *queued) bool { return a.at < b.at || a.at == b.at && a.order < b.order }
