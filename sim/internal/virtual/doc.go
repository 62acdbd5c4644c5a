// SPDX-License-Identifier: Apache-2.0

// Package virtual is the time and the chance of a simulated run: a queue of events by virtual
// time, streams of random numbers from the seed, clocks that are not quite right, and a trace
// whose hash identifies the run. It knows nothing of routers and reads no real clock.
package virtual
