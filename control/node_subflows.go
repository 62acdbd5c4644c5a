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

// HandleFlows takes notice of which bound flows are in use: those that are silent are unbound. Report each use within
// six seconds. Flows that the Node does not know are unbound: that was lost.
func (n *Node) HandleFlows(now time.Time, bound []BoundFlow) {
	n.host.Advance(now)
	n.subflows.HandleUsage(bound)
}

// AdoptFlows takes over the bindings that the data plane kept through a restart, or ends them where binding is off.
// Call it right after New.
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

// subflowPaths are the locators that a flow may be bound to. As without a binding, packets take none that does not
// answer RLOC-probes while another one does (docs/reachability.md).
func (n *Node) subflowPaths(f *lisp.Flow) (list []subflow.Candidate) {
	m, ok := n.MappingFor(f.Instance, f.Destination)
	if !ok {
		return nil
	}
	answers := false
	for i := range m.Locators {
		l := &m.Locators[i]
		if l.Priority == lisp.PriorityUnused || l.RLOC.IsZero() {
			continue
		}
		c := subflow.Candidate{Path: l.Path(), Priority: l.Priority}
		c.Usable, c.Avoided = n.stateForSubflows(l)
		answers = answers || c.Usable
		list = append(list, c)
	}
	for i := range list {
		if !answers {
			list[i].Usable, list[i].Avoided = list[i].Avoided, false
		}
	}
	return list
}

// stateForSubflows says whether packets can take a locator, and whether only where no other one answers RLOC-probes.
func (n *Node) stateForSubflows(l *lisp.Locator) (usable, unconfirmed bool) {
	s := n.itr.Prober.Table.PathStatus(l.Path())
	switch {
	case !l.Usable() || !n.canSendTo(l) || s != nil && s.Told == LocatorDown:
		return false, false
	case s != nil && (s.Told == LocatorUnconfirmed || s.Told == LocatorHeard):
		return false, true
	}
	return true, false
}

// canSendTo reports whether there is an own RLOC of the family of a locator's next hop: without one the data plane has
// no packet take it. A hop that is an EID where there is no second layer is down.
func (n *Node) canSendTo(l *lisp.Locator) bool {
	_, family := n.host.RLOCOf(l.NextHop().Is4())
	return family
}
