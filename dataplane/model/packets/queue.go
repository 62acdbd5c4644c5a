// SPDX-License-Identifier: Apache-2.0

package packets

// Events on their way to the control plane. They never hold a packet up: what finds no room is counted and lost.

import "loci/dataplane"

// eventsWaiting is how many events wait for the control plane.
const eventsWaiting = 1024

// EventQueue is where they wait.
type EventQueue struct {
	events chan dataplane.Event
	lost   uint64 // for which there was no room
	closed bool   // as the Path is
}

func newEventQueue() *EventQueue {
	return &EventQueue{events: make(chan dataplane.Event, eventsWaiting)}
}

// Events is where they are read. It is closed with the Path.
func (q *EventQueue) Events() <-chan dataplane.Event { return q.events }

// Offer adds an event if there is room. After the end it does nothing.
func (q *EventQueue) Offer(event dataplane.Event) {
	if q.closed {
		return
	}
	select {
	case q.events <- event:
	default:
		q.lost++
	}
}

// offerMinor adds an event that leaves half of the room to others.
func (q *EventQueue) offerMinor(event dataplane.Event) {
	switch {
	case q.closed:
	case q.isHalfFull():
		q.lost++
	default:
		q.Offer(event)
	}
}

func (q *EventQueue) isHalfFull() bool { return len(q.events) >= cap(q.events)/2 }

func (q *EventQueue) close() {
	q.closed = true
	close(q.events)
}
