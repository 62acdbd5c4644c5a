// SPDX-License-Identifier: Apache-2.0

package eventloop

// How long iterations of the event loop take, by three clocks.
// The wall clock also counts the time of other processes and of a hypervisor. The processor time of the process
// also counts its other goroutines while the iteration was interrupted, but never more than the wall clock. The processor time
// of the thread, which does nothing else until the iteration ends, is the iteration's own work, and what the
// kernel did to receive meanwhile.

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// longIteration is longer than an iteration should take on a machine with processor time to spare.
const longIteration = 5 * time.Millisecond

// kind is the kind of event that an iteration was for.
type kind uint8

// The kinds.
const (
	ofMessages kind = iota // control messages
	ofPlane                // events of the data plane
	ofUsage                // what the data plane says of its map-cache's use
	ofCall                 // a question, a reload, a change of the host
	ofTimeout              // what was due
	ofShutdown             // the Node's last words
	kinds
)

// iterationClock keeps the longest iteration so far, of each kind and of all, and how many were longer than longIteration.
type iterationClock struct {
	longest, longestWork, longestOwn atomic.Int64 // nanoseconds, by the wall, of processor time, and of the thread's
	long, longWork, longOwn          atomic.Uint64
	ofKind                           [kinds]kindClock
	faults, switches                 atomic.Uint64 // of the iteration that had longestOwn
	traffic                          atomic.Uint64 // iterations for messages and for events of the data plane
}

// kindClock is the longest iteration of a kind, in nanoseconds of processor time of the process and of the thread.
type kindClock struct{ longestWork, longestOwn atomic.Int64 }

// iterationStart is when an iteration began, by each clock.
type iterationStart struct {
	wall   time.Time
	work   time.Duration
	thread unix.Rusage
	kind   kind
}

// beginIteration begins an iteration. The calling goroutine keeps its thread to itself until end.
func beginIteration(kind kind) iterationStart {
	runtime.LockOSThread()
	// The process' time first: asking for it makes the kernel update the thread's, which otherwise is as old as the last tick.
	work, thread := used(unix.RUSAGE_SELF), used(unix.RUSAGE_THREAD)
	return iterationStart{wall: time.Now(), work: processorTime(&work), thread: thread, kind: kind}
}

// end records an iteration.
func (c *iterationClock) end(s iterationStart) {
	defer runtime.UnlockOSThread()
	if s.kind == ofMessages || s.kind == ofPlane {
		c.traffic.Add(1)
	}
	took := time.Since(s.wall)
	note(&c.longest, &c.long, took)
	kind := &c.ofKind[s.kind]
	if took <= time.Duration(kind.longestOwn.Load()) && took <= longIteration {
		return
	}
	all, thread := used(unix.RUSAGE_SELF), used(unix.RUSAGE_THREAD) // in this order: see beginIteration
	work, own := min(took, processorTime(&all)-s.work), processorTime(&thread)-processorTime(&s.thread)
	raise(&kind.longestWork, work)
	raise(&kind.longestOwn, own)
	note(&c.longestWork, &c.longWork, work)
	if note(&c.longestOwn, &c.longOwn, own) {
		c.faults.Store(uint64(thread.Minflt - s.thread.Minflt + thread.Majflt - s.thread.Majflt))
		c.switches.Store(uint64(thread.Nvcsw - s.thread.Nvcsw + thread.Nivcsw - s.thread.Nivcsw))
	}
}

// Times are the longest iterations, and how many took longer than longIteration, by each clock.
type Times struct {
	Wall, Processor, Thread ClockTimes
	PageFaults, Switches    uint64 // of the longest by its thread's clock
	// of each kind
	Messages, Plane, Usage, Call, Timeout, Shutdown KindTimes
}

// ClockTimes are those by one clock.
type ClockTimes struct {
	Longest time.Duration
	Long    uint64
}

// KindTimes are the longest of one kind.
type KindTimes struct{ Processor, Thread time.Duration }

func (c *iterationClock) times() Times {
	by := func(longest *atomic.Int64, long *atomic.Uint64) ClockTimes {
		return ClockTimes{time.Duration(longest.Load()), long.Load()}
	}
	of := func(kind kind) KindTimes {
		k := &c.ofKind[kind]
		return KindTimes{time.Duration(k.longestWork.Load()), time.Duration(k.longestOwn.Load())}
	}
	return Times{
		Wall: by(&c.longest, &c.long), Processor: by(&c.longestWork, &c.longWork), Thread: by(&c.longestOwn, &c.longOwn),
		PageFaults: c.faults.Load(), Switches: c.switches.Load(),
		Messages: of(ofMessages), Plane: of(ofPlane), Usage: of(ofUsage), Call: of(ofCall),
		Timeout: of(ofTimeout), Shutdown: of(ofShutdown),
	}
}

// note records an iteration by one of the clocks, and reports whether it is the longest so far.
func note(longest *atomic.Int64, long *atomic.Uint64, took time.Duration) bool {
	if took > longIteration {
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

// used is the resource usage of the process or of the calling thread. Of the system calls that report it, Go's runtime
// does not give the caller's processor away at this one.
func used(whose int) (u unix.Rusage) {
	_ = unix.Getrusage(whose, &u) // nothing can be wrong with it
	return u
}

// processorTime is in microseconds.
func processorTime(u *unix.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
