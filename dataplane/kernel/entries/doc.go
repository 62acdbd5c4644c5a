// SPDX-License-Identifier: Apache-2.0

// Package entries has the map-cache, the Database and the states of locators in force: it carries
// out operations on them, each whole or not at all, reads them back, and answers from them what is
// asked for a packet (RFC 9300 s.4, s.5, s.7). It attaches nothing, and never expires an entry.
//
// Entries has the lock, which guards the tables, the clock's comparison, the settings that entries
// obey, and whether the memory of the maps is still there. Its methods take it; those of what it
// guards expect it. It is taken after the engine's, the pending-packet queue's and that of the
// watcher of single next hops, and no other is taken while it is held but that of misses.
package entries
