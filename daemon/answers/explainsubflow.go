// SPDX-License-Identifier: Apache-2.0

package answers

// The path of a flow that is bound to one, for `loci explain`.

import (
	"fmt"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
)

// flowBinding is what binds the flow that is asked about.
type flowBinding struct {
	flow    lisp.Flow    // zero for none
	subflow *api.Subflow // nil where the Node knows none
	path    lisp.Path    // as the data plane has it; zero where the flow is not bound
}

// bindingOf asks the Node; it runs in the loop.
func bindingOf(q *api.ExplainQuery, node *control.Node) (b flowBinding) {
	if q.From.IsZero() {
		return b
	}
	b.flow = lisp.Flow{
		Instance: q.InstanceID, Source: q.From, Destination: q.EID, Protocol: q.Protocol,
		SourcePort: q.SourcePort, DestinationPort: q.DestinationPort,
	}
	if s, known := node.SubflowOf(b.flow); known {
		document := subflowDocument(&s)
		b.subflow = &document
	}
	return b
}

// find looks for the flow among those that the data plane has bound.
func (b *flowBinding) find(plane dataplane.Plane) {
	if b.flow.Protocol == 0 {
		return
	}
	for f := range plane.Flows() {
		if f.Flow == b.flow {
			b.path = f.Path
			return
		}
	}
}

// locator is that which the flow is bound to, where packets can take it.
func (b *flowBinding) locator(set lisp.LocatorSet, mayUse func(*lisp.Locator) bool) (lisp.Locator, bool) {
	for i := range set {
		if l := set[i]; l.Path() == b.path && l.Usable() && mayUse(&l) {
			return l, true
		}
	}
	return lisp.Locator{}, false
}

// whyBound says by what the path of a subflow was chosen.
var whyBound = map[string]string{
	"first":   "the first subflow of its session gets the best path",
	"session": "its session has the fewest subflows there",
	"eids":    "its two EIDs have the fewest subflows there, and its session is not known",
	"adopted": "an earlier run of this daemon bound it",
	"asked":   "its ETR is asked for its path, and has not answered yet",
}

// whyBoundTo says by what the path of a subflow was chosen, and by whom.
func whyBoundTo(s *api.Subflow) string {
	if s.AnsweredBy != nil && s.Why == "answered" {
		return fmt.Sprintf("its ETR %s chose it when it was asked", s.AnsweredBy)
	}
	return whyBound[s.Why]
}

// why says by what the flow goes; empty where nothing binds it.
func (b *flowBinding) why(bound bool) string {
	switch {
	case bound && b.subflow != nil:
		return fmt.Sprintf("the flow is a subflow of Multipath TCP, bound to %s: %s", b.path,
			whyBoundTo(b.subflow))
	case bound:
		return fmt.Sprintf("the flow is bound to %s, by another control plane", b.path)
	case !b.path.IsZero():
		return fmt.Sprintf("the flow is bound to %s, which is down or not in the mapping: its hash chooses",
			b.path)
	case b.subflow != nil && b.subflow.RLOC != nil:
		return fmt.Sprintf("the flow is to be bound to %s, and the data plane does not have it: its hash chooses",
			b.subflow.PathText())
	case b.subflow != nil && b.subflow.Why == "asked":
		return "the flow is a subflow of Multipath TCP whose ETR is asked for its path, and has not answered: its hash chooses"
	case b.subflow != nil && b.subflow.AnsweredBy != nil:
		return fmt.Sprintf("the flow is a subflow of Multipath TCP whose ETR %s chose a path that answers no RLOC-probes: its hash chooses",
			b.subflow.AnsweredBy)
	case b.subflow != nil:
		return "the flow is a subflow of Multipath TCP that is not bound: its mapping had fewer than two usable paths"
	}
	return ""
}
