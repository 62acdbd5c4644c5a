// SPDX-License-Identifier: Apache-2.0

// Package locatorset has what several packages do with locator-sets: the bits that depend on who
// answers (L and p, RFC 9301 s.5.4), a table that keeps equal sets once, and their octets in the
// Map-Server's journal.
package locatorset
