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
package pending
