// SPDX-License-Identifier: Apache-2.0

package mapsock

// While requests or misses come one after another, each waits for the one before, and
// between two of them a processor has nothing to do. If it then goes to sleep, to wake it
// takes longer than all else that the next one costs: 30 to 60 µs in a virtual machine.
// So for as long as they come quickly, and no longer, the processors are kept from it.
// What keeps them is the caller's: nothing here knows how.

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// vigilWindow is how long notes are counted, and how long a vigil outlasts them at most twice.
	vigilWindow = 20 * time.Millisecond
	// vigilNotes within the window begin a vigil, and fewer end it: 3,200 a second.
	vigilNotes = 64
)

// vigil keeps the processors awake while it is worth while.
type vigil struct {
	keep  func() (release func()) // nil: never
	now   func() time.Time
	notes atomic.Uint32 // since the window began

	mu      sync.Mutex
	began   time.Time // of the window
	release func()    // of what is kept; nil when nothing is
	timer   *time.Timer
	closed  bool
}

// note counts something for which a processor may have been woken.
func (v *vigil) note() {
	if v.keep != nil && v.notes.Add(1)%vigilNotes == 0 {
		v.enough(v.now())
	}
}

// enough begins the vigil when the notes of a window came within it.
func (v *vigil) enough(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	quick := now.Sub(v.began) < vigilWindow
	v.began = now
	if !quick || v.release != nil || v.closed {
		return
	}
	v.release = v.keep()
	v.notes.Store(0)
	v.timer = time.AfterFunc(vigilWindow, v.look)
}

// look ends the vigil when too few notes came since it looked last.
func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.release == nil {
		return
	}
	if v.notes.Swap(0) < vigilNotes {
		v.end()
		return
	}
	v.timer.Reset(vigilWindow)
}

// end is for who holds mu.
func (v *vigil) end() {
	v.release()
	v.release = nil
}

// close ends the vigil for good.
func (v *vigil) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.release != nil {
		v.timer.Stop()
		v.end()
	}
}
