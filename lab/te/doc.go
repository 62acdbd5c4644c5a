// SPDX-License-Identifier: Apache-2.0

// Package te chooses explicit locator paths (RFC 8060 s.4.6) for a pair of routers by the round-trip times that the
// RLOC-probes of all routers measured. A graph is made of what each router tells of the others; over it the shortest
// paths by at most three RTRs are found; of these the set is taken whose round-trip times differ least, so that the
// subflows of one connection wait little for each other.
//
// All of it are functions of their arguments: no files, no clock, no state. Equal input gives equal output.
package te
