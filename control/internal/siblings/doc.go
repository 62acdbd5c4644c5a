// SPDX-License-Identifier: Apache-2.0

// Package siblings watches the other xTRs of the site (RFC 9300 s.10, RFC 9301 s.5.4: R bits).
// Siblings ask each other over a link inside the site which of their own locators are reachable. An
// xTR without a path to the core clears its own R bits and hands the site's packets to a sibling.
package siblings
