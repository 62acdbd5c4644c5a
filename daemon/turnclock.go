// SPDX-License-Identifier: Apache-2.0

package daemon

// How long the loop's turns take, by three clocks. By the wall clock a turn is also as long as others
// had the processor: other processes, and a hypervisor, which on the machine of docs/benchmarks.md
// takes a virtual processor away for up to 200 ms. By the processor time of this process what its other
// goroutines and the collector did while the turn was interrupted counts, on all processors, but never
// more than went by on the wall. By the processor time of its thread, which does nothing else until the
// turn ends, it is as long as its own work, what the kernel did to receive meanwhile, and what a hypervisor
// took without telling the kernel.

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
	ofKind                           [turnKinds]kindClock
	faults, switches                 atomic.Uint64 // of the turn that had longestOwn
}

// kindClock is the longest turn of a kind: nanoseconds of processor time, and of the thread's.
type kindClock struct{ longestWork, longestOwn atomic.Int64 }

// turnStart is when a turn began.
type turnStart struct {
	wall   time.Time
	work   time.Duration
	thread unix.Rusage
	kind   turnKind
}

// beginTurn begins a turn, for which the caller has a thread of his own until its end.
func beginTurn(kind turnKind) turnStart {
	runtime.LockOSThread()
	// The process' time first: for it the kernel brings the thread's up to date, which otherwise is as old as the last tick.
	work, thread := used(unix.RUSAGE_SELF), used(unix.RUSAGE_THREAD)
	return turnStart{wall: time.Now(), work: processorTime(&work), thread: thread, kind: kind}
}

// end takes note of a turn.
func (c *turnClock) end(s turnStart) {
	defer runtime.UnlockOSThread()
	took := time.Since(s.wall)
	note(&c.longest, &c.long, took)
	kind := &c.ofKind[s.kind]
	if took <= time.Duration(kind.longestOwn.Load()) && took <= longTurn {
		return
	}
	all, thread := used(unix.RUSAGE_SELF), used(unix.RUSAGE_THREAD) // in this order: see beginTurn
	work, own := min(took, processorTime(&all)-s.work), processorTime(&thread)-processorTime(&s.thread)
	raise(&kind.longestWork, work)
	raise(&kind.longestOwn, own)
	note(&c.longestWork, &c.longWork, work)
	if note(&c.longestOwn, &c.longOwn, own) {
		c.faults.Store(uint64(thread.Minflt - s.thread.Minflt + thread.Majflt - s.thread.Majflt))
		c.switches.Store(uint64(thread.Nvcsw - s.thread.Nvcsw + thread.Nivcsw - s.thread.Nivcsw))
	}
}

// ofKinds are the longest turns of each kind, in nanoseconds of processor time and of the thread's.
func (c *turnClock) ofKinds() (work, own [turnKinds]uint64) {
	for kind := range c.ofKind {
		work[kind], own[kind] = uint64(c.ofKind[kind].longestWork.Load()), uint64(c.ofKind[kind].longestOwn.Load())
	}
	return work, own
}

// note takes note of a turn by one of the clocks, and reports whether it is the longest so far.
func note(longest *atomic.Int64, long *atomic.Uint64, took time.Duration) bool {
	if took > longTurn {
		long.Add(1)
	}
	return raise(longest, took)
}

func raise(longest *atomic.Int64, took time.Duration) bool {
	if int64(took) <= longest.Load() {
		return false
	}
	longest.Store(int64(took))
	return true
}

// used is what all threads of this process or the caller's have had. Of the system calls that tell it, this is
// the one at which Go's runtime lets nobody else have the caller's processor.
func used(whose int) (u unix.Rusage) {
	_ = unix.Getrusage(whose, &u) // nothing can be wrong with it
	return u
}

// processorTime is in microseconds.
func processorTime(u *unix.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
