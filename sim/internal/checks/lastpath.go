// SPDX-License-Identifier: Apache-2.0

package checks

// A router with a link that is up says of at least one RLOC that it is reachable.

import (
	"slices"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
)

// note notes which links are up, for what the router says of them.
func (u *linksUp) note(links []network.Link) {
	*u = (*u)[:0]
	for _, l := range links {
		if l.Noticed == 0 {
			*u = append(*u, lisp.RLOCFromAddr(l.Addr))
		}
	}
}

// checkLastPath: a router whose links are up says of one of them at least that it is reachable, for each EID-Prefix
// and family, unless a sibling has its packets because the core does not answer it, or has not yet since the links
// are up, or, where it answers none of them, because data packets come to that sibling only. Whether that is true,
// checkHandover and checkComeback judge.
func (r *Record) CheckLastPath() {
	if r.Node == nil || r.Site == nil {
		return
	}
	if why := r.Node.SiblingPath().Why; r.Sibling.Path.IsValid() && why != control.SiblingPathNone && why != control.SiblingPathRLOCsDown {
		return
	}
	for _, m := range r.Config.ETR.Database {
		for _, v4 := range []bool{true, false} {
			if l := r.up.unsaid(r.Sibling.saying(m), v4); l != nil {
				r.judge.Fail(r, invariantLastPath, "it says of %s that none of its RLOCs is reachable, though the link of %s is up", m.Prefix, l.Path())
			}
		}
	}
}

// unsaid is a locator of a family that is of a link that is up, where all such locators are said to be unreachable;
// nil where one is not.
func (u linksUp) unsaid(said lisp.LocatorSet, v4 bool) (last *lisp.Locator) {
	for i := range said {
		l := &said[i]
		rloc := l.Path().Last()
		if rloc.Is4() != v4 || l.Priority == lisp.PriorityUnused || !slices.Contains(u, rloc) {
			continue
		}
		if l.Reachable {
			return nil
		}
		last = l
	}
	return last
}
