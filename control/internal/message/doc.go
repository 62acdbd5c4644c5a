// SPDX-License-Identifier: Apache-2.0

// Package message turns octets into authenticated messages (RFC 9301 s.5). Inspect needs the octets
// and an immutable Keyring, so it may run in any goroutine, outside the lock of the Node. A role gets
// parsed values, never octets; what needs a table (nonces, limits, registrations) is decided there.
package message
