// SPDX-License-Identifier: Apache-2.0

package te

// The choice: of the candidates within a ratio of the shortest RTT, the set with the least differential RTT. That is
// the smallest difference of RTT between two of its paths. Without the ratio paths that are equally slow would win.

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Policy is what is wanted.
type Policy struct {
	From, To     int
	Candidates   int     // how many paths are compared
	Ratio        float64 // of the longest RTT that is taken to the shortest one
	Paths        int     // how many are wanted
	LinkDisjoint bool    // no two of them share a link, in either direction
	Avoid        []int
}

// Set is some paths, the shortest first.
type Set struct {
	Paths        []Path
	Differential time.Duration // the smallest difference of RTT between two of them
	Spread       time.Duration // the largest one
}

func newSet(paths []Path) Set {
	s := Set{Paths: paths, Differential: noLink}
	for i := 1; i < len(paths); i++ {
		s.Differential = min(s.Differential, paths[i].RTT-paths[i-1].RTT)
	}
	if len(paths) < 2 {
		s.Differential = 0
		return s
	}
	s.Spread = paths[len(paths)-1].RTT - paths[0].RTT
	return s
}

func (s *Set) total() (sum time.Duration) {
	for _, p := range s.Paths {
		sum += p.RTT
	}
	return sum
}

// compare orders sets by the differential RTT, then by the largest difference, then by the sum.
func (s *Set) compare(o *Set) int {
	return cmp.Or(cmp.Compare(s.Differential, o.Differential), cmp.Compare(s.Spread, o.Spread),
		cmp.Compare(s.total(), o.total()))
}

// figure is what one set has less of than a worse one: of a single path its RTT.
func (s *Set) figure() time.Duration {
	if len(s.Paths) == 1 {
		return s.Paths[0].RTT
	}
	return s.Differential
}

// Choice is what was chosen, of what, and why.
type Choice struct {
	Candidates []Path // the shortest first
	Within     int    // so many of them are within the ratio
	Sets       int    // of so many sets
	Chosen     Set
	Kept       bool // it is the set from before
	Reason     string
}

// NoChoiceError says why there is no set of paths as it is wanted.
type NoChoiceError struct{ Reason string }

func (e *NoChoiceError) Error() string { return e.Reason }

// Choose chooses a set of paths. The error is a NoChoiceError.
func (g *Graph) Choose(p Policy) (*Choice, error) {
	c := &Choice{Candidates: g.Shortest(p.From, p.To, p.Candidates, p.Avoid)}
	if len(c.Candidates) == 0 {
		return nil, &NoChoiceError{fmt.Sprintf("no path by at most %d RTRs leads from %s to %s",
			MaxRelays, g.Nodes[p.From].RLOC, g.Nodes[p.To].RLOC)}
	}
	for c.Within < len(c.Candidates) && p.isWithin(c.Candidates[c.Within], c.Candidates[0]) {
		c.Within++
	}
	found := false
	c.eachSet(p.Paths, func(paths []Path) {
		if p.LinkDisjoint && shareLink(paths) {
			return
		}
		c.Sets++
		if s := newSet(slices.Clone(paths)); !found || s.compare(&c.Chosen) < 0 {
			c.Chosen, found = s, true
		}
	})
	if !found {
		return nil, &NoChoiceError{c.lack(p)}
	}
	c.Reason = c.why(p)
	return c, nil
}

func (p *Policy) isWithin(path, shortest Path) bool {
	return float64(path.RTT) <= p.Ratio*float64(shortest.RTT)
}

// eachSet yields the sets of so many candidates within the ratio, in order.
func (c *Choice) eachSet(size int, yield func([]Path)) {
	var set []Path
	var extend func(next int)
	extend = func(next int) {
		if len(set) == size {
			yield(set)
			return
		}
		for i := next; i < c.Within; i++ {
			set = append(set, c.Candidates[i])
			extend(i + 1)
			set = set[:len(set)-1]
		}
	}
	extend(0)
}

// shareLink reports whether two of the paths have a link in common, in either direction.
func shareLink(paths []Path) bool {
	seen := map[[2]int]bool{}
	for _, p := range paths {
		for i := 1; i < len(p.Nodes); i++ {
			link := [2]int{min(p.Nodes[i-1], p.Nodes[i]), max(p.Nodes[i-1], p.Nodes[i])}
			if seen[link] {
				return true
			}
			seen[link] = true
		}
	}
	return false
}

// lack says why there is no set.
func (c *Choice) lack(p Policy) string {
	text := fmt.Sprintf("%d of %d candidates are within %g times the shortest RTT, %s", c.Within, len(c.Candidates),
		p.Ratio, rttText(c.Candidates[0].RTT))
	if c.Within >= p.Paths {
		return fmt.Sprintf("%s; every %d of them share a link", text, p.Paths)
	}
	return fmt.Sprintf("%s; %d paths are wanted", text, p.Paths)
}

func (c *Choice) why(p Policy) string {
	disjoint := ""
	if p.LinkDisjoint {
		disjoint = " without a common link"
	}
	text := fmt.Sprintf("%d of %d candidates are within %g times the shortest RTT, %s", c.Within, len(c.Candidates),
		p.Ratio, rttText(c.Candidates[0].RTT))
	if p.Paths == 1 {
		return text + "; the shortest is chosen"
	}
	return fmt.Sprintf("%s; of these, %d sets of %d paths%s can be made, and this one has the least differential RTT, %s", text, c.Sets, p.Paths, disjoint, rttText(c.Chosen.Differential))
}

// Keep puts a set from before, each path by its hops from the first RTR to the end, in place of the one that was
// chosen, unless it cannot be used any more or the new one is better by a share of gain.
func (c *Choice) Keep(g *Graph, p Policy, old [][]netip.Addr, gain float64) {
	was, problem := g.oldSet(c, p, old)
	is := c.Chosen.figure()
	name := "differential RTT"
	if p.Paths == 1 {
		name = "RTT"
	}
	switch {
	case problem != "":
		c.Reason = "the set from before is left: " + problem + "; " + c.Reason
	case isSame(was.Paths, c.Chosen.Paths):
		c.Kept, c.Reason = true, "the set from before is the best one still; "+c.Reason
	case is < was.figure() && float64(is) <= (1-gain)*float64(was.figure()):
		c.Reason = fmt.Sprintf("the set from before is left: its %s is %s, that of the new one is less by %.3g %% or more; %s", name, rttText(was.figure()), 100*gain, c.Reason)
	default:
		c.Reason = fmt.Sprintf("the set from before stays: its %s is %s, that of the best set is %s, which is not less by %.3g %%", name, rttText(was.figure()), rttText(is), 100*gain)
		c.Chosen, c.Kept = was, true
	}
}

// oldSet is the set from before as the graph has it now, or why it cannot be used any more.
func (g *Graph) oldSet(c *Choice, p Policy, old [][]netip.Addr) (Set, string) {
	var paths []Path
	for _, hops := range old {
		path, problem := g.pathBy(p, hops)
		switch {
		case problem != "":
		case !p.isWithin(path, c.Candidates[0]):
			problem = fmt.Sprintf("its RTT, %s, is more than %g times the shortest one", rttText(path.RTT),
				p.Ratio)
		case isIn(path, paths):
			problem = "it stands there twice"
		}
		if problem != "" {
			return Set{}, fmt.Sprintf("path %s: %s", hopsText(hops), problem)
		}
		paths = append(paths, path)
	}
	switch {
	case len(paths) != p.Paths:
		return Set{}, fmt.Sprintf("it has %d paths", len(paths))
	case p.LinkDisjoint && shareLink(paths):
		return Set{}, "two of its paths share a link"
	}
	slices.SortStableFunc(paths, func(a, b Path) int { return cmp.Compare(a.RTT, b.RTT) })
	return newSet(paths), ""
}

// pathBy is the path by these hops, or why there is none.
func (g *Graph) pathBy(p Policy, hops []netip.Addr) (path Path, problem string) {
	path.Nodes = append(path.Nodes, p.From)
	met := map[int]bool{g.Nodes[p.From].router: true}
	for _, hop := range hops {
		i, known := g.Find(hop)
		last := path.Nodes[len(path.Nodes)-1]
		switch {
		case !known:
			return path, hop.String() + " is no node"
		case slices.Contains(p.Avoid, i) && i != p.To:
			return path, hop.String() + " is to be avoided"
		case met[g.Nodes[i].router]:
			return path, "it meets a router twice"
		case g.rtt(last, i) == noLink:
			return path, fmt.Sprintf("there is no link from %s to %s", g.Nodes[last].RLOC, hop)
		}
		met[g.Nodes[i].router] = true
		path.Nodes, path.RTT = append(path.Nodes, i), path.RTT+g.rtt(last, i)
	}
	switch {
	case path.Nodes[len(path.Nodes)-1] != p.To:
		return path, "it does not end at " + g.Nodes[p.To].RLOC.String()
	case len(path.Nodes) > MaxRelays+2:
		return path, fmt.Sprintf("it has more than %d RTRs", MaxRelays)
	}
	return path, ""
}

// isIn reports whether a path is one of some.
func isIn(p Path, some []Path) bool {
	return slices.ContainsFunc(some, func(o Path) bool { return slices.Equal(o.Nodes, p.Nodes) })
}

// isSame reports whether two sets have the same paths.
func isSame(a, b []Path) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p Path) bool { return !isIn(p, b) })
}

func hopsText(hops []netip.Addr) string {
	words := make([]string, len(hops))
	for i, h := range hops {
		words[i] = h.String()
	}
	return strings.Join(words, " -> ")
}
