// SPDX-License-Identifier: Apache-2.0

// Package hops chooses the hop of an explicit locator path that this router sends packets to (RFC 8060 s.4.6). It is a pure function
// of the path, its bits, our own RLOCs and what is known of the hops. It judges no hop itself.
package hops
