// SPDX-License-Identifier: Apache-2.0

package daemon

// Turns that whoever brings an event takes himself. A message that comes to a router at rest is
// read, judged, answered and put into the tables by one thread: each hand-over to another
// goroutine would wake a thread, which takes longer than all the rest. Under load, and while
// somebody else is in a turn, events go to the loop by its queues, in order, as before.

import (
	"runtime"
	"time"

	"loci/dataplane"
)

const (
	// directMessages is up to how many messages a receiver hands to the Node itself. Of more,
	// the loop gets them, so that the receiver goes on parsing and authenticating beside it.
	directMessages = 16
	// directRest is how long nothing came to a goroutine that takes a turn itself. What comes closer together is better
	// taken together: by the loop, while the goroutine reads what comes next.
	directRest = 500 * time.Microsecond
)

// oneProcessor says that goroutines never run beside each other: queues between them then only
// cost.
var oneProcessor = runtime.GOMAXPROCS(0) == 1

// tryTurn takes a turn in the caller's goroutine. It reports false, with nothing done, when
// another is in a turn, when messages wait for theirs, when the caller had one just before, or when the loop has ended.
func (l *loop) tryTurn(a *activity, kind turnKind, handle func(time.Time)) bool {
	defer a.worked()
	if !a.rested() && !oneProcessor || l.sockets.queued.Load() != 0 || !l.mu.TryLock() {
		return false
	}
	running := l.running
	if running {
		l.turnLocked(beginTurn(kind), handle)
	}
	l.mu.Unlock()
	if running && l.worker != nil {
		l.worker.applyHere()
	}
	l.betweenTurns()
	return running
}

// tellAtOnce takes events of the data plane in the goroutine that found them.
func (l *loop) tellAtOnce(a *activity, events []dataplane.Event) bool {
	return l.tryTurn(a, turnOfPlane, func(now time.Time) {
		for _, e := range events {
			l.planeEvent(now, e)
			l.drain(now)
		}
	})
}

// receiveDirectly hands a receiver's messages to the Node, and returns those that are left to the
// loop.
func (l *loop) receiveDirectly(a *activity, batch []inbound) (rest []inbound) {
	if len(batch) > directMessages && !oneProcessor {
		return batch
	}
	for rest = batch; len(rest) > 0; {
		if !l.tryTurn(a, turnOfMessages, func(now time.Time) { rest = rest[l.receiveSome(now, rest):] }) {
			return rest
		}
	}
	return nil
}

// activity is when a goroutine that brings events last had some; it belongs to that goroutine.
type activity struct{ last time.Time }

// rested reports whether there was nothing to do for directRest.
func (a *activity) rested() bool { return time.Since(a.last) > directRest }

// worked notes the end of work.
func (a *activity) worked() { a.last = time.Now() }
