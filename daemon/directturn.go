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
	// restTime between two turns means that the goroutine has waited, and others could run.
	restTime = 20 * time.Microsecond
	// directRest is how long nothing came to a goroutine that takes a turn itself. What comes closer together is better
	// taken together: by the loop, while the goroutine reads what comes next.
	directRest = 500 * time.Microsecond
	// restedLook is how often it is looked whether garbage is to be collected while turns come one by one: they leave
	// little of it, and whoever gets the processor next waits meanwhile.
	restedLook = 100 * time.Millisecond
)

// oneProcessor says that goroutines never run beside each other: queues between them then only
// cost.
var oneProcessor = runtime.GOMAXPROCS(0) == 1

// tryTurn takes a turn in the caller's goroutine. It reports false, with nothing done, when
// another is in a turn, when messages wait for theirs, when the caller had one just before, or when the loop has ended.
func (l *loop) tryTurn(s *stint, kind turnKind, handle func(time.Time)) bool {
	rested := s.pause()
	if !rested && !oneProcessor || l.sockets.queued.Load() != 0 || !l.mu.TryLock() {
		return false
	}
	running := l.running
	if running {
		l.turnLocked(beginTurnAtRest(kind), handle)
	}
	l.mu.Unlock()
	if running && l.worker != nil {
		l.worker.applyHere()
	}
	l.betweenTurns(s)
	return running
}

// tellAtOnce takes events of the data plane in the goroutine that found them.
func (l *loop) tellAtOnce(s *stint, events []dataplane.Event) bool {
	return l.tryTurn(s, turnOfPlane, func(now time.Time) {
		for _, e := range events {
			l.planeEvent(now, e)
			l.drain(now)
		}
	})
}

// receiveDirectly hands a receiver's messages to the Node, and returns those that are left to the
// loop.
func (l *loop) receiveDirectly(s *stint, batch []inbound) (rest []inbound) {
	if len(batch) > directMessages && !oneProcessor {
		return batch
	}
	for rest = batch; len(rest) > 0; {
		if !l.tryTurn(s, turnOfMessages, func(now time.Time) { rest = rest[l.receiveSome(now, rest):] }) {
			return rest
		}
	}
	return nil
}

// A stint is the time that a goroutine works without waiting; it belongs to that goroutine.
type stint struct {
	began, worked time.Time
	rested        bool // before the turn there was nothing to do for directRest
}

// yieldInterval is how long a goroutine goes on before it lets the others run. Go's scheduler
// would take the processor away after 10 ms, in the middle of a turn.
const yieldInterval = 3 * time.Millisecond

// pause lets others run when the stint is long. It reports whether there was nothing to do for directRest.
func (s *stint) pause() (rested bool) {
	now := time.Now()
	away := now.Sub(s.worked)
	s.worked = now
	if away > restTime {
		s.began = now
	}
	if now.Sub(s.began) > yieldInterval {
		runtime.Gosched()
		s.began = time.Now()
	}
	s.rested = away > directRest
	return s.rested
}
