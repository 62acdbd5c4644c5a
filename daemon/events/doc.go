// SPDX-License-Identifier: Apache-2.0

// Package events tells what happened: to the clients of `loci monitor` and to the log.
//
// The event loop hands every notice of the Node and every event of the data plane to a Hub, which has a bounded
// queue for each client. A client that does not read loses events and is told how many. A NoticeLog writes the
// notices that operators need at the log's usual level, a bounded number of lines of each kind, in a goroutine of
// its own, so that the event loop never waits for the log.
//
// Hub has a lock for its subscribers, what they lost, and the last events; NoticeLog has one for how many notices
// of a kind there were.
package events
