// SPDX-License-Identifier: Apache-2.0

package server

// What waits to be sent to one client. No sender waits for a place in it: what does not
// fit is lost, counted, and told as soon as the client has read the rest. Only the
// client's own requests wait, so that its answers find room.

import (
	"sync"

	"loci/mapsock"
)

// queue holds messages in order. Buffers are shared between the queues of all
// clients and never changed.
type queue struct {
	octetLimit, messageLimit int

	mu       sync.Mutex
	changed  sync.Cond
	buffers  [][]byte
	first    int // octets of buffers[0] that have been taken
	octets   int
	messages int
	lost     uint64 // since the client was last told
	ending   bool   // nothing more is put in; what is there is still sent
	ended    bool

	wake chan struct{} // for who sends what cannot be sent at once, and for the end
}

func newQueue(octets, messages int) *queue {
	q := &queue{octetLimit: octets, messageLimit: messages, wake: make(chan struct{}, 1)}
	q.changed.L = &q.mu
	return q
}

// offer puts messages in when there is room, else they are lost. After a loss
// everything is lost until the client has read what it has: then it learns where in
// the order the gap was.
func (q *queue) offer(b []byte, messages int) (lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ending:
		return false
	case q.lost > 0, q.octets+len(b) > q.octetLimit, q.messages+messages > q.messageLimit:
		q.lost += uint64(messages)
		return true
	}
	q.put(b, messages)
	return false
}

// answer puts in what the client asked for. It had to wait for room before it asked.
func (q *queue) answer(b []byte, messages int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ending && len(b) > 0 {
		q.put(b, messages)
	}
}

func (q *queue) put(b []byte, messages int) {
	q.buffers = append(q.buffers, b)
	q.octets += len(b)
	q.messages += messages
}

// rouse wakes who sends what cannot be sent at once.
func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// waits reports whether there is something to take.
func (q *queue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.ended && (len(q.buffers) > 0 || q.lost > 0)
}

// over reports whether nothing is left and nothing will come.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended || q.ending && len(q.buffers) == 0 && q.lost == 0
}

// room waits until less than half of the queue is in use; false when it ends.
func (q *queue) room() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ending && !q.halfEmpty() {
		q.changed.Wait()
	}
	return !q.ending
}

// hasRoom reports whether room would not wait.
func (q *queue) hasRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.ending && q.halfEmpty()
}

func (q *queue) halfEmpty() bool { return q.octets <= q.octetLimit/2 && q.messages <= q.messageLimit/2 }

// take puts as many messages as fit into a datagram.
func (q *queue) take(datagram []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return datagram
	}
	for len(q.buffers) > 0 {
		next := q.next()
		if len(datagram)+len(next) > mapsock.MaxDatagram {
			break
		}
		datagram = append(datagram, next...)
		q.drop(len(next))
	}
	if len(q.buffers) == 0 && q.lost > 0 && len(datagram)+lostSize <= mapsock.MaxDatagram {
		datagram = appendLost(datagram, q.lost)
		q.lost = 0
	}
	q.changed.Broadcast()
	return datagram
}

// next is the first message.
func (q *queue) next() []byte {
	b := q.buffers[0][q.first:]
	return b[:mapsock.LengthOf(b)]
}

// drop removes the first message, of so many octets.
func (q *queue) drop(octets int) {
	q.first += octets
	q.octets -= octets
	q.messages--
	if q.first < len(q.buffers[0]) {
		return
	}
	q.buffers[0], q.first = nil, 0
	if q.buffers = q.buffers[1:]; len(q.buffers) == 0 {
		q.buffers = nil
	}
}

// finish lets nothing more in; what is there may still be taken.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = true
	q.changed.Broadcast()
	q.rouse()
}

// end ends the queue with all that is in it.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending, q.ended = true, true
	q.buffers, q.first, q.octets, q.messages = nil, 0, 0, 0
	q.changed.Broadcast()
	q.rouse()
}

// lostSize is the length of the message that appendLost writes: a header and the attribute LOST.
const lostSize = mapsock.HeaderSize + 4 + 8

// appendLost says how many messages the client has lost.
func appendLost(b []byte, messages uint64) []byte {
	m := mapsock.Message{Type: mapsock.TypeLost, Lost: messages}
	m.Mark(mapsock.AttributeLost)
	b, _ = m.Append(b) // it always fits
	return b
}

// messagesIn counts messages that stand one behind the other.
func messagesIn(b []byte) (messages int) {
	for ; len(b) > 0; messages++ {
		b = b[mapsock.LengthOf(b):]
	}
	return messages
}
