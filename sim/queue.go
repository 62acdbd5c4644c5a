// SPDX-License-Identifier: Apache-2.0

package sim

// The queue of events by virtual time; those of one moment come in the order in which
// they were put. That order is part of a run's identity.

import "time"

type eventKind uint8

const (
	eventArrival eventKind = iota // mail reaches a router
	eventTimer                    // a Node's deadline
	eventDo                       // anything else
)

type event struct {
	at     time.Duration
	kind   eventKind
	router *router
	mail   *mail
	do     func()
}

// eventQueue is a heap of four children a node, which has half the levels of a binary one. What
// moves in it is when an event comes and where it stands meanwhile.
type eventQueue struct {
	heap   []queued
	events []event
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

func (q *eventQueue) push(e event) {
	q.next++
	added := queued{at: e.at, order: q.next, place: q.store(e)}
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
func (q *eventQueue) store(e event) uint32 {
	if last := len(q.free) - 1; last >= 0 {
		place := q.free[last]
		q.free = q.free[:last]
		q.events[place] = e
		return place
	}
	q.events = append(q.events, e)
	return uint32(len(q.events) - 1)
}

func (q *eventQueue) pop() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	place := q.heap[0].place
	first := q.events[place]
	q.events[place] = event{}
	q.free = append(q.free, place)
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap = q.heap[:last]
	q.sink(moved)
	return first, true
}

// sink finds a place for an event, from the top, which is free.
func (q *eventQueue) sink(e queued) {
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
