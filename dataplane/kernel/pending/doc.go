// SPDX-License-Identifier: Apache-2.0

// Package pending keeps packets that wait for a mapping (RFC 9300 s.4), and deals with others
// that programs leave to user space. Programs send them to the TAP; Queue reads them there, lets
// them wait within bounds, and writes them back in order when a mapping has come. The
// programs encapsulate them then.
//
// Misses tells the control plane about destinations without a mapping, each once in a while.
// Backlog counts what is in the queue of the TAP by source, together with the programs, so
// that no source takes all of it. Packets that are too big for their path are answered, or go
// in fragments (RFC 9300 s.7).
//
// Queue has two locks. Who holds the first, working, works for the queue: it guards what waits and
// what is read, and which TAP that is. mu guards releases, bounds, the end, and when the reader is
// woken; it is taken after working, and so is the lock of entries. Misses has a lock for when
// destinations were reported last; EventRing has one that keeps the ring open while it is looked at.
package pending
