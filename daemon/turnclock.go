// SPDX-License-Identifier: Apache-2.0

package daemon

// How long the loop's turns take, by three clocks. By the wall clock a turn is also as long as others
// had the processor: other processes, and a hypervisor, which on the machine of docs/benchmarks.md
// takes a virtual processor away for up to 200 ms. By the processor time of this process what its other
// goroutines and the collector did while the turn was interrupted counts, on all processors, but never
// more than went by on the wall. By the processor time of its thread, which does nothing else until the
// turn ends, it is as long as its own work, and what the kernel did to receive meanwhile.

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// longTurn is what no turn should take, on a machine with processor time to spare.
const longTurn = 5 * time.Millisecond

// turnKind is what a turn was for.
type turnKind uint8

// The kinds of turns.
const (
	turnOfMessages turnKind = iota // control messages
	turnOfPlane                    // events of the data plane
	turnOfUsage                    // what the data plane says of its map-cache's use
	turnOfCall                     // a question, a reload, a change of the host
	turnOfTimeout                  // what was due
	turnOfShutdown                 // the Node's last words
	turnKinds
)

// turnClock keeps the longest turn so far, of each kind and of all, and how many were longer than longTurn.
type turnClock struct {
	longest, longestWork, longestOwn atomic.Int64 // nanoseconds, by the wall, of processor time, and of the thread's
	long, longWork, longOwn          atomic.Uint64
	longestOfKind                    [turnKinds]atomic.Int64 // of processor time
}

// turnStart is when a turn began.
type turnStart struct {
	wall      time.Time
	work, own time.Duration
	kind      turnKind
}

// beginTurn begins a turn, for which the caller has a thread of his own until its end.
func beginTurn(kind turnKind) turnStart {
	runtime.LockOSThread()
	// The process' time first: for it the kernel brings the thread's up to date, which otherwise is as old as the last tick.
	work, own := processorTime(unix.RUSAGE_SELF), processorTime(unix.RUSAGE_THREAD)
	return turnStart{wall: time.Now(), work: work, own: own, kind: kind}
}

// end takes note of a turn.
func (c *turnClock) end(s turnStart) {
	defer runtime.UnlockOSThread()
	took := time.Since(s.wall)
	note(&c.longest, &c.long, took)
	if longest := &c.longestOfKind[s.kind]; took > time.Duration(min(longest.Load(), c.longestOwn.Load())) || took > longTurn {
		work := min(took, processorTime(unix.RUSAGE_SELF)-s.work) // first: see beginTurn
		own := processorTime(unix.RUSAGE_THREAD) - s.own
		note(&c.longestOwn, &c.longOwn, own)
		longest.Store(max(longest.Load(), int64(work)))
		note(&c.longestWork, &c.longWork, work)
	}
}

// ofKind is the longest turn of a kind, in nanoseconds of processor time.
func (c *turnClock) ofKind(kind turnKind) uint64 { return uint64(c.longestOfKind[kind].Load()) }

func note(longest *atomic.Int64, long *atomic.Uint64, took time.Duration) {
	if int64(took) > longest.Load() {
		longest.Store(int64(took))
	}
	if took > longTurn {
		long.Add(1)
	}
}

// processorTime is the processor time that all threads of this process or the caller's have had, in microseconds. Of
// the system calls that tell it, this is the one at which Go's runtime lets nobody else have the
// caller's processor.
func processorTime(whose int) time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(whose, &used) // nothing can be wrong with it
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
