// SPDX-License-Identifier: Apache-2.0

// Package reach knows which locators of the map-cache can be used (RFC 9301 s.7, RFC 9300 s.10). It
// keeps one row for each RLOC, sends RLOC-probes, and takes hints: Locator-Status-Bits, Echo-Nonce,
// ICMP, and the times at which data packets came from a locator.
//
// Hysteresis keeps a path that flaps from moving the traffic each time. Unanswered probes make a
// locator unconfirmed, not down: its control plane may be dead while its data plane forwards.
package reach
