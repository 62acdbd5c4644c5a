// SPDX-License-Identifier: Apache-2.0

// Package bootclock converts between the time of day, which the control plane uses, and
// nanoseconds since boot, which the pinned maps hold: those go on over a step of the clock
// and over a restart of the daemon.
package bootclock
