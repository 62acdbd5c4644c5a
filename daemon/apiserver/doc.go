// SPDX-License-Identifier: Apache-2.0

// Package apiserver serves the control socket: HTTP with JSON on a Unix socket, with the documents of daemon/api.
//
// A Source gives the answers. Lists are sent as they are read, without being held in memory. The number of clients is
// bounded; an idle one makes room for the next.
//
// clients has the lock, which guards how many there may be and since when each is idle.
package apiserver
