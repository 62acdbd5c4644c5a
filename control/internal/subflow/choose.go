// SPDX-License-Identifier: Apache-2.0

package subflow

// Which path a subflow gets. The first of a session gets the best one; a join that which the fewest subflows of its
// session have, then the fewest of its two EIDs, then the lowest priority, then the order of RFC 9301 s.5.5.

import (
	"slices"

	"loci/lisp"
)

// Candidate is a locator of a mapping that a subflow may be bound to: any whose priority is not 255.
type Candidate struct {
	Path     lisp.Path
	Priority uint8
	Usable   bool // packets can take it now, and none of the others is in a better state
	Avoided  bool // it answers no RLOC-probes, and others do
}

// leastPaths is how many usable paths a mapping must have: with one there is nothing to choose.
const leastPaths = 2

// choose returns the path of a new subflow. Candidates stand in the order of RFC 9301, loads with what counts first. ok
// is false where there are not two usable paths.
func choose(candidates []Candidate, loads ...load) (path lisp.Path, ok bool) {
	path, usable := best(candidates, loads)
	if usable < leastPaths {
		return lisp.Path{}, false
	}
	return path, true
}

// best is the path that choose would return, and how many are usable; the zero Path where none is.
func best(candidates []Candidate, loads []load) (path lisp.Path, usable int) {
	var chosen *Candidate
	for i := range candidates {
		c := &candidates[i]
		if !c.Usable {
			continue
		}
		if usable++; chosen == nil || isBetter(c, chosen, loads) {
			chosen = c
		}
	}
	if chosen != nil {
		path = chosen.Path
	}
	return path, usable
}

func isBetter(c, than *Candidate, loads []load) bool {
	for _, l := range loads {
		if a, b := l.of(c.Path), l.of(than.Path); a != b {
			return a < b
		}
	}
	return c.Priority < than.Priority
}

// find is the candidate of a path, whether packets can take it now or not; nil for none.
func find(candidates []Candidate, p lisp.Path) *Candidate {
	if i := slices.IndexFunc(candidates, func(c Candidate) bool { return c.Path == p }); i >= 0 {
		return &candidates[i]
	}
	return nil
}

// load is how many subflows have each path, of those that have any.
type load []pathLoad

type pathLoad struct {
	path  lisp.Path
	flows int
}

func (l load) of(p lisp.Path) int {
	if i := l.index(p); i >= 0 {
		return l[i].flows
	}
	return 0
}

func (l load) index(p lisp.Path) int {
	return slices.IndexFunc(l, func(e pathLoad) bool { return e.path == p })
}

func (l *load) add(p lisp.Path) {
	if i := l.index(p); i >= 0 {
		(*l)[i].flows++
		return
	}
	*l = append(*l, pathLoad{p, 1})
}

func (l *load) remove(p lisp.Path) {
	i := l.index(p)
	if (*l)[i].flows--; (*l)[i].flows == 0 {
		*l = slices.Delete(*l, i, i+1)
	}
}
