// SPDX-License-Identifier: Apache-2.0

package daemon

// How long the loop's turns take, by two clocks. By the wall clock a turn is also as long as others
// had the processor: other processes, and a hypervisor, which on the machine of docs/benchmarks.md
// takes a virtual processor away for up to 200 ms. By the processor time of this process it is as
// long as this daemon made it: what its other goroutines and the collector did while the turn was
// interrupted counts, on all processors, but never more than went by on the wall.

import (
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
	longest, longestWork atomic.Int64 // nanoseconds, by the wall and of processor time
	long, longWork       atomic.Uint64
	longestOfKind        [turnKinds]atomic.Int64 // of processor time
}

// turnStart is when a turn began.
type turnStart struct {
	wall time.Time
	work time.Duration
	kind turnKind
}

func beginTurn(kind turnKind) turnStart {
	work := processTime()
	return turnStart{wall: time.Now(), work: work, kind: kind}
}

// end takes note of a turn.
func (c *turnClock) end(s turnStart) {
	took := time.Since(s.wall)
	note(&c.longest, &c.long, took)
	if longest := &c.longestOfKind[s.kind]; took > time.Duration(longest.Load()) || took > longTurn {
		work := min(took, processTime()-s.work)
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

// processTime is the processor time that all threads of this process have had, in microseconds. Of
// the system calls that tell it, this is the one at which Go's runtime lets nobody else have the
// caller's processor.
func processTime() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used) // nothing can be wrong with it
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
