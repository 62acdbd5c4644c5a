// SPDX-License-Identifier: Apache-2.0

package control

// EID-Prefixes of ours that another router registers too, without either knowing of the other.

import "loci/control/internal/message"

// configureDuplicates takes over a configuration: without an ITR nothing is asked.
func (n *Node) configureDuplicates(p *Prepared) {
	c := p.config.ETR
	if n.itr == nil {
		c = nil
	}
	n.duplicates.Configure(c, p.database)
}

// isAboutOwn reports whether a Map-Reply answers what we asked about an EID-Prefix of our own; it is not for the map-cache.
func (n *Node) isAboutOwn(m *message.MapReply) bool {
	to, took, ok := n.duplicates.Takes(m)
	if ok && n.itr != nil {
		n.itr.Requester.Resolvers.Answered(to, took)
	}
	return ok
}

// DuplicateEIDs lists EID-Prefixes of ours for which the mapping system has RLOCs of another router alone, some dozens at most.
func (n *Node) DuplicateEIDs() []DuplicateEID { return n.duplicates.Known() }
