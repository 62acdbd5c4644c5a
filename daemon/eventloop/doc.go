// SPDX-License-Identifier: Apache-2.0

// Package eventloop owns the Node of a daemon.
//
// An iteration of the event loop is one event: it is given to the Node, and the effects that the Node then has are
// handed to the queues of sockets, data plane and store. Nothing in an iteration waits, and the holder of the loop's lock is the
// only one who touches the Node. Other goroutines have a function run in an iteration with Ask.
//
// When the daemon is idle, the goroutine that brings an event (a received message, a miss) runs the iteration itself
// (direct.go): to wake another thread would take longer than the work. Under load, events go through queues to the
// loop's own goroutine. Iterations are timed (clock.go), and garbage collection is begun between them (collector.go).
//
// Loop has that lock, mu, which guards the Node, what the Node says, and the timer of its deadline.
package eventloop
