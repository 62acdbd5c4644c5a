// SPDX-License-Identifier: Apache-2.0

package te

// The k shortest paths by at most MaxRelays RTRs. Depth-first, one pass for each number of links, and never into what
// cannot be among the best k: the least RTT from a node by so many links is known beforehand. docs/decisions has why
// it is no library.

import (
	"math"
	"slices"
	"time"
)

const (
	// MaxRelays is how many RTRs a path has at most.
	MaxRelays = 3
	// MaxCandidates is how many paths are compared at most.
	MaxCandidates = 8

	// noLink is longer than any path, and can be added up.
	noLink = time.Duration(math.MaxInt64 / 8)
)

// Path is a way from one node of a graph to another, by the numbers of its nodes.
type Path struct {
	Nodes []int
	RTT   time.Duration // the sum of its links
}

// search is one search for the best paths.
type search struct {
	graph    *Graph
	from, to int
	relays   []int // nodes that a path may go by
	// from each node by so many links; of walks, which may meet a node twice
	least [MaxRelays + 2][]time.Duration
	met   []bool // routers on the path that is being made
	nodes []int  // of that path
	most  int
	found []Path
}

// Shortest are the k best paths between two nodes, none of them by a node to avoid: by RTT, then by the number of
// links, then by their nodes. A path meets no router twice, whatever RLOC it has there.
func (g *Graph) Shortest(from, to, k int, avoid []int) []Path {
	if g.Nodes[from].router == g.Nodes[to].router || k < 1 {
		return nil
	}
	s := &search{graph: g, from: from, to: to, most: k, met: make([]bool, len(g.Nodes))}
	for i := range g.Nodes {
		r := g.Nodes[i].router
		if r != g.Nodes[from].router && r != g.Nodes[to].router && !slices.Contains(avoid, i) {
			s.relays = append(s.relays, i)
		}
	}
	s.findLeast()
	s.nodes = append(s.nodes, from)
	for links := 1; links <= MaxRelays+1; links++ {
		s.extend(from, 0, links)
	}
	return s.found
}

// findLeast finds the least RTT from each relay to the end, for each number of links.
func (s *search) findLeast() {
	for links := 1; links <= MaxRelays; links++ {
		s.least[links] = make([]time.Duration, len(s.graph.Nodes))
		for _, v := range s.relays {
			s.least[links][v] = s.leastFrom(v, links)
		}
	}
}

func (s *search) leastFrom(v, links int) time.Duration {
	if links == 1 {
		return s.graph.rtt(v, s.to)
	}
	least := noLink
	for _, w := range s.relays {
		least = min(least, s.graph.rtt(v, w)+s.least[links-1][w])
	}
	return least
}

// extend finds the paths that go on from a node by exactly so many links.
func (s *search) extend(v int, rtt time.Duration, links int) {
	if links == 1 {
		s.add(rtt + s.graph.rtt(v, s.to))
		return
	}
	for _, w := range s.relays {
		r := s.graph.Nodes[w].router
		next := rtt + s.graph.rtt(v, w)
		if s.met[r] || next+s.least[links-1][w] >= s.bound() {
			continue
		}
		s.met[r], s.nodes = true, append(s.nodes, w)
		s.extend(w, next, links-1)
		s.met[r], s.nodes = false, s.nodes[:len(s.nodes)-1]
	}
}

// bound is what a path must be shorter than. One that is found later has more links, or later nodes, than an equal one.
func (s *search) bound() time.Duration {
	if len(s.found) < s.most {
		return noLink
	}
	return s.found[len(s.found)-1].RTT
}

func (s *search) add(rtt time.Duration) {
	if rtt >= s.bound() {
		return
	}
	if len(s.found) == s.most {
		s.found = s.found[:s.most-1]
	}
	at := len(s.found)
	for at > 0 && s.found[at-1].RTT > rtt {
		at--
	}
	s.found = slices.Insert(s.found, at, Path{Nodes: append(slices.Clone(s.nodes), s.to), RTT: rtt})
}
