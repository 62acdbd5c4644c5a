// SPDX-License-Identifier: Apache-2.0

package eventloop

// Turns that whoever brings an event takes himself. A message that comes to a router at rest is
// read, judged, answered and put into the tables by one thread: each hand-over to another
// goroutine would wake a thread, which takes longer than all the rest. Under load, and while
// somebody else is in a turn, events go to the loop by its queues, in order, as before.

import (
	"runtime"
	"time"

	"loci/daemon/transport"
	"loci/dataplane"
)

const (
	// directMessages is up to how many messages a receiver hands to the Node itself. Of more,
	// the loop gets them, so that the receiver goes on parsing and authenticating beside it.
	directMessages = 16
)

// oneProcessor says that goroutines never run beside each other: queues between them then only
// cost.
var oneProcessor = runtime.GOMAXPROCS(0) == 1

// tryIterate takes a turn in the caller's goroutine. It reports false, with nothing done, when
// another is in a turn, when messages wait for theirs, when the caller had one just before, or when the loop has ended.
func (l *Loop) tryIterate(a *transport.Activity, kind kind, handle func(time.Time)) bool {
	defer a.Worked()
	if !a.Rested() && !oneProcessor || l.sockets.Waiting() || !l.mu.TryLock() {
		return false
	}
	running := l.running
	if running {
		l.iterateLocked(beginIteration(kind), handle)
	}
	l.mu.Unlock()
	if running && l.worker != nil {
		l.worker.ApplyHere()
	}
	l.betweenIterations()
	return running
}

// takeDirectly takes events of the data plane in the goroutine that found them.
func (l *Loop) takeDirectly(a *transport.Activity, events []dataplane.Event) bool {
	return l.tryIterate(a, ofPlane, func(now time.Time) {
		for _, e := range events {
			l.planeEvent(now, e)
			l.drain(now)
		}
	})
}

// ReceiveDirectly hands a receiver's messages to the Node, and returns those that are left to the
// loop.
func (l *Loop) receiveDirectly(a *transport.Activity, batch []transport.Message) (rest []transport.Message) {
	if len(batch) > directMessages && !oneProcessor {
		return batch
	}
	for rest = batch; len(rest) > 0; {
		if !l.tryIterate(a, ofMessages, func(now time.Time) { rest = rest[l.receiveSome(now, rest):] }) {
			return rest
		}
	}
	return nil
}
