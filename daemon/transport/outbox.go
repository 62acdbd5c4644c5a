// SPDX-License-Identifier: Apache-2.0

package transport

// Messages that the Node wants sent and the sender has not sent yet: bounded, in order. A few messages are sent within
// the iteration when none waits before them, because waking the sender takes longer than sending them; many are left to
// the sender. Neither makes the event loop wait.

import (
	"sync"

	"loci/control"
	"loci/internal/wakeup"
)

const (
	// outboxMessages wait at most, of up to a few hundred octets each.
	outboxMessages = 1 << 15
	// sentAtOnce is how many messages of an iteration are sent within it at most.
	sentAtOnce = 4
)

// outbox is the queue between the loop and the sender.
type outbox struct {
	mu       sync.Mutex
	messages []control.SendPacket
	wake     wakeup.Signal
}

func newOutbox() *outbox { return &outbox{wake: wakeup.New()} }

// add queues messages and returns how many found no room.
func (o *outbox) add(said []control.SendPacket) (refused int) {
	o.mu.Lock()
	room := min(len(said), outboxMessages-len(o.messages))
	o.messages = append(o.messages, said[:room]...)
	o.mu.Unlock()
	o.wake.Set()
	return len(said) - room
}

// take returns what waits. The memory of what was taken before, if any, is used again.
func (o *outbox) take(before []control.SendPacket) []control.SendPacket {
	clear(before)
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.messages
	o.messages = before[:0]
	return taken
}

func (o *outbox) isEmpty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages) == 0
}

// isHalfFull says that callers which can wait should.
func (o *outbox) isHalfFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages) > outboxMessages/2
}
