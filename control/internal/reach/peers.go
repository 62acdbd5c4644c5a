// SPDX-License-Identifier: Apache-2.0

package reach

// Peers: RLOCs of the configuration that are probed though no mapping names them, so that routers measure the
// round-trip times between each other. Such an RLOC-probe has no EID: RTRs answer it, and ETRs with a mapping of the
// probed RLOC. What a peer answers changes no mapping, and the data plane is told nothing of it.

import (
	"slices"

	"loci/lisp"
)

// ProbedPeers are those of the configuration.
type ProbedPeers struct {
	table *Table
	list  []lisp.RLOC
}

// Set takes over other peers. They have rows also where the table is full: the configuration bounds them.
func (p *ProbedPeers) Set(peers []lisp.RLOC) {
	for _, r := range p.list {
		if id, l, known := p.table.Get(r); known && !slices.Contains(peers, r) {
			l.peer = false
			p.table.removeUnused(id)
		}
	}
	for _, r := range peers {
		if !slices.Contains(p.list, r) {
			p.add(r)
		}
	}
	p.list = slices.Clone(peers)
}

func (p *ProbedPeers) add(r lisp.RLOC) {
	id, known := p.table.ByRLOC[r]
	if !known {
		id = p.table.add(r, lisp.Prefix{})
	}
	p.table.Rows.At(id).peer = true
	if !known {
		p.table.begin(id)
	}
}

// isPeerOnly reports whether a row is a peer's that neither a mapping nor a path names.
func (l *Locator) isPeerOnly() bool { return l.peer && !l.isNamed() }

// forgetMappings forgets which mappings a row was in, where it stays as a peer's.
func (l *Locator) forgetMappings() {
	if l.isPeerOnly() {
		l.Prefix, l.sites, l.Probes.Differing = lisp.Prefix{}, [2]lisp.Prefix{}, nil
	}
}
