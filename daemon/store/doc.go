// SPDX-License-Identifier: Apache-2.0

// Package store keeps on disk what has to outlive a restart.
//
// A Journal is what a Map-Server remembers of its registrations: the Node says changes and checkpoints as pieces of
// octets, and one goroutine writes them to a write-ahead log in segments (RFC 9301 s.5.6). After a crash the
// whole entries are replayed; what is damaged is cut off, or set aside as a copy. The octets mean nothing here.
//
// A NonceFile is a number that no nonce of a Map-Register went beyond, for routers whose clock may be set back.
//
// Journal has the lock, mutex, which guards what waits to be written and whether something was lost.
package store
