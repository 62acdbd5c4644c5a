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

// eventQueue is a binary heap.
type eventQueue struct {
	heap []event
	next uint64
}

func (q *eventQueue) push(e event) {
	q.next++
	e.order = q.next
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(&q.heap[i], &q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *eventQueue) pop() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0], q.heap[last] = q.heap[last], event{}
	q.heap = q.heap[:last]
	q.sink()
	return first, true
}

// sink brings the event at the top to its place.
func (q *eventQueue) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && before(&q.heap[child+1], &q.heap[child]) {
			child++
		}
		if !before(&q.heap[child], &q.heap[i]) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }
