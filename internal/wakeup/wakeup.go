// SPDX-License-Identifier: Apache-2.0

// Package wakeup has the signal by which one goroutine wakes another.
package wakeup

// Signal is a wake-up that its receiver has not taken yet, or none. Several before he takes it are one.
type Signal chan struct{}

// New returns a signal that is not set.
func New() Signal { return make(Signal, 1) }

// Set sets the signal; it never waits.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
