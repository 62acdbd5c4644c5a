// SPDX-License-Identifier: Apache-2.0

package transport

// What the Node said and the sender has not sent yet: bounded, in the order in which it was
// said. Few messages leave in the loop's own turn when nothing waits before them, because to
// wake the sender takes longer than to send them; many are the sender's. Neither ever makes
// the loop wait.

import (
	"sync"

	"loci/control"
	"loci/internal/wakeup"
)

const (
	// outboxMessages wait at most, of up to a few hundred octets each.
	outboxMessages = 1 << 15
	// sentAtOnce is up to how many messages of a turn leave within it.
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

// isHalfFull says that who can wait should.
func (o *outbox) isHalfFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages) > outboxMessages/2
}
