// SPDX-License-Identifier: Apache-2.0

// Package batch bounds work that is too long for one event-loop iteration: passes over large tables,
// registering and withdrawing a Database, checkpoints of a journal. Such work is done a batch per
// iteration. Between two batches it says when it wants to go on, and everything else is done.
//
// Steps does one batch. Work adds the deadline of the next one. Jobs are all works of a Node: of those
// that are due, the one that waits longest is done, one batch per iteration, so that no work holds up
// another or the deadlines of protocol timers.
package batch
