// SPDX-License-Identifier: Apache-2.0

package control

// Paths of single flows, which the ETR of their destination chooses: Map-Requests and Map-Replies whose EID is
// Application Data (RFC 8060 s.5.1). They pass the mapping system by the EID inside. No answer comes into the
// map-cache.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/subflow"
	"loci/lisp"
)

// AnsweredFlowsPage is a part of the flows whose paths the ETR chose, as SubflowsPage is one of the subflows.
func (n *Node) AnsweredFlowsPage(from uint32, most int) (page []AnsweredFlow, next uint32, more bool) {
	return n.chosen.Page(from, most)
}

// sendFlowRequest asks for the path of a flow.
func (n *Node) sendFlowRequest(f *lisp.Flow, unanswered int) (nonce uint64, resolvers int) {
	if n.itr == nil {
		return 0, 0
	}
	return n.itr.Requester.SendFlow(f, unanswered)
}

// handleFlowReply takes the answer to one of these.
func (n *Node) handleFlowReply(m *message.FlowReply) {
	n.host.Count(counter.MapReplyReceived)
	n.subflows.HandleAnswer(subflow.Answer{
		Nonce: m.Nonce, From: m.From.Addr(), Flow: m.Flow, Path: m.Path, Lifetime: m.Lifetime,
	})
}

// handleFlowRequest gives a Map-Request for the path of a flow to the role that it is for.
func (n *Node) handleFlowRequest(m *message.MapRequest) {
	destination := m.Prefixes[0]
	if m.ECM == nil {
		n.answerFlow(m)
		return
	}
	n.host.Count(counter.ECMReceived)
	if n.etr != nil && n.etrIsNearest(destination) {
		n.answerFlow(m)
		return
	}
	if n.mapServer != nil {
		if owner, ok := n.mapServer.Owners.Prefixes.Lookup(destination); ok {
			n.mapServer.HandleFlowRequest(m, destination, owner)
			return
		}
	}
	if n.mapResolver == nil {
		n.host.Count(counter.RefusedNoRoute)
		return
	}
	n.mapResolver.HandleFlowRequest(m, destination)
}

// answerFlow chooses the path of a flow to an EID of ours. An RTR of one of the paths is told only what an ITR was: it
// does not choose.
func (n *Node) answerFlow(m *message.MapRequest) {
	mapping, ok := n.etr.MappingOf(m.Prefixes[0])
	if !ok {
		n.host.Count(counter.RefusedNoMapping)
		return
	}
	path, known := n.chosen.PathOf(*m.Flow)
	if !isOnPath(mapping.Locators, m.ReplyRLOCs) {
		path, known = n.chosen.Choose(*m.Flow, m.ReplyRLOCs[0].Addr(), flowCandidates(mapping.Locators))
	} else if !known {
		n.host.Count(counter.RefusedSubflowRTR)
	}
	if !known {
		return
	}
	i := slices.IndexFunc(mapping.Locators, func(l lisp.Locator) bool { return l.Path() == path })
	if i < 0 { // an RTR asks for a flow whose path has left the mapping
		n.host.Count(counter.RefusedSubflowRTR)
		return
	}
	n.etr.HandleFlowRequest(m, mapping.Locators[i], subflow.AnswerTTLMinutes)
}

// flowCandidates are the locators of our mapping that a flow may have.
func flowCandidates(set lisp.LocatorSet) (list []subflow.Candidate) {
	for i := range set {
		if l := &set[i]; l.Priority != lisp.PriorityUnused && !l.RLOC.IsZero() {
			list = append(list, subflow.Candidate{Path: l.Path(), Priority: l.Priority,
				Usable: l.Reachable})
		}
	}
	return list
}

// isOnPath reports whether one of the RLOCs is that of a router before the last hop of a path.
func isOnPath(set lisp.LocatorSet, rlocs []lisp.RLOC) bool {
	for i := range set {
		p := set[i].Path()
		for hop := range p.Len() - 1 {
			if slices.ContainsFunc(rlocs, func(r lisp.RLOC) bool { return r.Addr() == p.Hop(hop).Addr() }) {
				return true
			}
		}
	}
	return false
}
