// SPDX-License-Identifier: Apache-2.0

package transport

// The queue between the receivers and the event loop: bounded, of batches, whose memory is used again.

import (
	"sync/atomic"
	"time"
)

const (
	// inboxBatches is how many batches wait at most.
	inboxBatches = 256
	// batchMessages is how many messages the event loop takes at once: few enough to end within a
	// few milliseconds, whatever they are.
	batchMessages = 64
	// gatherTime is shorter than the event loop takes for half of its queue.
	gatherTime = 500 * time.Microsecond
)

// inbox is the queue.
type inbox struct {
	in      chan []Message
	queued  atomic.Int64   // batches that the event loop has not released
	done    chan []Message // batches to be used again
	dropped atomic.Uint64  // messages that found it full
	// direct is offered a receiver's messages first, and returns those that are for the queue.
	direct func(a *Activity, batch []Message) (rest []Message)
}

func newInbox() *inbox {
	return &inbox{
		in: make(chan []Message, inboxBatches), done: make(chan []Message, inboxBatches),
		direct: func(_ *Activity, batch []Message) []Message { return batch },
	}
}

// add queues a batch; false when there is no room for it.
func (b *inbox) add(batch []Message) bool {
	b.queued.Add(1)
	select {
	case b.in <- batch:
		return true
	default:
		b.queued.Add(-1)
		b.dropped.Add(uint64(len(batch)))
		return false
	}
}

// gatherPause is how long a receiver waits before it reads while the queue is half full, so that messages are read
// together: the queue is of batches, and batches of one message would fill it while the event loop has no processor
// for some milliseconds. Sockets have room.
func (b *inbox) gatherPause() time.Duration {
	if len(b.in) > cap(b.in)/2 {
		return gatherTime
	}
	return 0
}

// free is an empty batch, one that the loop is done with where there is one.
func (b *inbox) free() []Message {
	select {
	case batch := <-b.done:
		return batch
	default:
		return make([]Message, 0, batchMessages)
	}
}

// release gives back a batch that the loop is done with.
func (b *inbox) release(batch []Message) {
	b.queued.Add(-1)
	select {
	case b.done <- emptied(batch):
	default:
	}
}
