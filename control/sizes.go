// SPDX-License-Identifier: Apache-2.0

package control

// Sizes: how full the tables are, without walking them.

// Sizes counts the entries of a Node's tables.
type Sizes struct {
	MapCache      int // mappings
	Locators      int // RLOCs of the map-cache
	Pending       int // EID-Prefixes with a Map-Request under way or in its pause
	Registrations int // EID-Prefixes
}

// Sizes tells how full the tables are.
func (n *Node) Sizes() (s Sizes) {
	if n.itr != nil {
		s.MapCache, s.Pending = n.itr.cache.size(), n.itr.pending.size()
		s.Locators = len(n.itr.prober.table.byRLOC)
	}
	if n.mapServer != nil {
		s.Registrations = n.mapServer.registrations.index.size
	}
	return s
}
