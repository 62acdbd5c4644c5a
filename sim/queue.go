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
	order  uint64
	kind   eventKind
	router *router
	mail   *mail
	do     func()
}

// eventQueue is a heap of four children a node, which has half the levels of a binary one.
type eventQueue struct {
	heap []event
	next uint64
}

// children of a node of the heap.
const children = 4

func (q *eventQueue) push(e event) {
	q.next++
	e.order = q.next
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !before(&e, &q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

func (q *eventQueue) pop() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	q.sink(moved)
	return first, true
}

// sink finds a place for an event, from the top, which is free.
func (q *eventQueue) sink(e event) {
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

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }
