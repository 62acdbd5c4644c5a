// SPDX-License-Identifier: Apache-2.0

// Package transport sends and receives control messages by UDP (RFC 9301 s.5).
//
// Sockets has one socket for each address. A receiver for each takes many datagrams with one system call, parses and
// authenticates them, and offers them to the event loop, directly or by a bounded queue. What the Node says leaves
// at the end of an iteration of the event loop, at once where it is little, else by a bounded outbox and one sending
// goroutine. A full queue drops and counts; nothing here ever makes the event loop wait.
//
// outbox has a lock for its messages. sender has one, which guards its sockets and scratch buffers: its holder
// sends. dataPort has one while it opens or closes its sockets.
package transport
