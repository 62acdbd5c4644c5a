// SPDX-License-Identifier: Apache-2.0

// Package remoteplane is a data plane in another process, reached through its mapping socket.
//
// Plane has the lock, which guards how the other process is brought up to date, and whether
// that is due.
package remoteplane
