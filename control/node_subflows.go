// SPDX-License-Identifier: Apache-2.0

package control

// Subflows of Multipath TCP, which are bound to locators of the map-cache.

import (
	"time"

	"loci/control/internal/subflow"
	"loci/lisp"
)

// HandleSubflow takes a TCP segment that begins or ends a subflow.
func (n *Node) HandleSubflow(now time.Time, s Subflow) {
	n.host.Advance(now)
	n.subflows.Handle(s)
}

// HandleFlows takes notice of which bound flows are in use: those that are silent are unbound. Report each use within five
// seconds. Flows that the Node does not know are unbound: that was lost.
func (n *Node) HandleFlows(now time.Time, bound []BoundFlow) {
	n.host.Advance(now)
	n.subflows.HandleUsage(bound)
}

// AdoptFlows takes over the bindings that the data plane kept through a restart, or ends them where binding is off. Call it
// right after New.
func (n *Node) AdoptFlows(now time.Time, bound []BoundFlow) {
	n.host.Advance(now)
	n.subflows.Adopt(bound)
}

// SubflowsPage is a part of the subflows that are known, in no order, as LocatorsPage is one of the locators.
func (n *Node) SubflowsPage(from uint32, most int) (page []SubflowStatus, next uint32, more bool) {
	return n.subflows.Page(from, most)
}

// SubflowOf is what is known of one flow, if it is a subflow.
func (n *Node) SubflowOf(f lisp.Flow) (SubflowStatus, bool) { return n.subflows.Of(f) }

// SubflowCount is how many subflows are known.
func (n *Node) SubflowCount() int { return n.subflows.Size() }

// subflowPaths are the locators that a flow may be bound to. Packets can take those in the best state that any of them has:
// others get none while these are there (docs/reachability.md).
func (n *Node) subflowPaths(f *lisp.Flow) (list []subflow.Candidate) {
	m, ok := n.MappingFor(f.Instance, f.Destination)
	if !ok {
		return nil
	}
	best := unusable
	ranks := make([]stateRank, 0, len(m.Locators))
	for i := range m.Locators {
		l := &m.Locators[i]
		if l.Priority == lisp.PriorityUnused || l.RLOC.IsZero() {
			continue
		}
		rank := n.rankOf(l)
		best = min(best, rank)
		ranks = append(ranks, rank)
		list = append(list, subflow.Candidate{Path: l.Path(), Priority: l.Priority})
	}
	for i := range list {
		list[i].Usable = ranks[i] == best && best != unusable
	}
	return list
}

// stateRank says before which other locators one is used, the lowest first.
type stateRank int

const (
	rankUp stateRank = iota
	rankHeard
	rankUnconfirmed
	unusable
)

// rankOf is the rank of a locator, by the state that the data plane has of it.
func (n *Node) rankOf(l *lisp.Locator) stateRank {
	s := n.itr.Prober.Table.PathStatus(l.Path())
	switch {
	case !l.Usable() || s != nil && s.Told == LocatorDown:
		return unusable
	case s != nil && s.Told == LocatorUnconfirmed:
		return rankUnconfirmed
	case s != nil && s.Told == LocatorHeard:
		return rankHeard
	}
	return rankUp
}
