// SPDX-License-Identifier: Apache-2.0

// Package nexthop finds out which EID-Prefixes of the site have a single next hop for all
// addresses, so that programs keep one for all of them (docs/decisions/0011-single-next-hop.md),
// and whether routes look at more of a packet than its addresses.
//
// Watcher marks such entries of the Database. A mark is taken away as soon as the kernel
// tells of a route, rule or link that might make a difference, and given back after a look at
// all routes. It changes no route.
//
// Watcher has the lock, which guards the latest judge, what it marked, and what it knows of news and
// edits. It asks the entries with it held.
package nexthop
