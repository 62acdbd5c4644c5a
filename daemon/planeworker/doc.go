// SPDX-License-Identifier: Apache-2.0

// Package planeworker brings the Node's changes of the tables to a data plane, outside the event loop.
//
// The Worker has a queue in which changes of one entry are merged into the last, so that it never holds more than
// the tables do and no change is lost. Its goroutine applies them in batches, in order; a few are applied at once by
// the goroutine that caused them, when the data plane is idle. The other way it reports to the Node, now and
// then, which entries are in use and from which RLOCs packets came.
//
// Worker has two locks. Who holds applying takes changes and applies them; mu, taken after it, guards the changes
// that wait, their order, and those that the data plane refuses.
package planeworker
