// SPDX-License-Identifier: Apache-2.0

package control

// Sizes: how full the tables are, without walking them.

// Sizes counts the entries of a Node's tables.
type Sizes struct {
	MapCache      int // mappings
	Locators      int // RLOCs of the map-cache, hops and paths
	Pending       int // EID-Prefixes with a Map-Request under way or in its pause
	Registrations int // EID-Prefixes
}

// Sizes tells how full the tables are.
func (n *Node) Sizes() (s Sizes) {
	if n.itr != nil {
		s.MapCache, s.Pending = n.itr.Cache.Size(), n.itr.Requester.Pending.Size()
		s.Locators = n.itr.Prober.Table.Size()
	}
	if n.mapServer != nil {
		s.Registrations = n.mapServer.Registrations.Index.Size
	}
	return s
}
