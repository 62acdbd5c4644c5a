// SPDX-License-Identifier: Apache-2.0

package eventloop

// Iterations in the goroutine that brings an event. When the router is idle, one thread reads a message,
// parses it, answers it and writes the tables: waking another thread would take longer than all of that.
// Under load, and while another goroutine is in an iteration, events go through queues to the loop's own goroutine, in order.

import (
	"runtime"
	"time"

	"loci/daemon/transport"
	"loci/dataplane"
)

const (
	// directMessages is how many messages a receiver hands to the Node itself at most. Larger batches go to the loop,
	// so that the receiver can parse and authenticate at the same time.
	directMessages = 16
)

// oneProcessor says that goroutines never run in parallel: queues between them are then only overhead.
var oneProcessor = runtime.GOMAXPROCS(0) == 1

// tryIterate runs an iteration in the caller's goroutine. It reports false, with nothing done, when another goroutine
// is in an iteration, when messages wait in the queue, when the caller was busy just before, or when the loop has ended.
func (l *Loop) tryIterate(a *transport.Activity, handle func(time.Time)) bool {
	defer a.Worked()
	if !a.Rested() && !oneProcessor || l.sockets.Waiting() || !l.mu.TryLock() {
		return false
	}
	running := l.running
	if running {
		l.iterateLocked(handle)
	}
	l.mu.Unlock()
	if running && l.worker != nil {
		l.worker.ApplyHere()
	}
	l.betweenIterations()
	return running
}

// takeDirectly hands events of the data plane to the Node, in the goroutine that found them.
func (l *Loop) takeDirectly(a *transport.Activity, events []dataplane.Event) bool {
	return l.tryIterate(a, func(now time.Time) {
		l.traffic.Add(1)
		for _, e := range events {
			l.planeEvent(now, e)
			l.drain(now)
		}
	})
}

// receiveDirectly hands a receiver's messages to the Node, and returns those that are left to the
// loop.
func (l *Loop) receiveDirectly(a *transport.Activity, batch []transport.Message) (rest []transport.Message) {
	if len(batch) > directMessages && !oneProcessor {
		return batch
	}
	for rest = batch; len(rest) > 0; {
		if !l.tryIterate(a, func(now time.Time) { rest = rest[l.receiveSome(now, rest):] }) {
			return rest
		}
	}
	return nil
}
