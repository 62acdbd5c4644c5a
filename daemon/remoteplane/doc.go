// SPDX-License-Identifier: Apache-2.0

// Package remoteplane is a data plane in another process, reached through its mapping socket.
package remoteplane
