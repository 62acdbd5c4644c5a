// SPDX-License-Identifier: Apache-2.0

package control

// The ETR's Database: the EID-Prefixes of this site (RFC 9301 s.5.5). A table.

import (
	"slices"

	"loci/lisp"
)

// database holds the configured mappings by EID-Prefix. It does not change.
type database struct {
	index prefixTable[DatabaseMapping]
	list  []DatabaseMapping // in order
	rlocs []databaseRLOC    // each once, and once more where its R bit is another
	first lisp.Prefix       // as configured; zero for an empty Database
}

// databaseRLOC is a locator of the Database.
type databaseRLOC struct {
	rloc      lisp.RLOC
	reachable bool
	prefix    lisp.Prefix // the first that has it, as configured
}

// newDatabase makes the table of a configuration.
func newDatabase(mappings []DatabaseMapping) *database {
	type key struct {
		rloc      lisp.RLOC
		reachable bool
	}
	d := &database{}
	known := make(map[key]bool)
	for _, m := range mappings {
		d.index.insert(m.Prefix, m)
		for _, l := range m.Locators {
			if k := (key{l.RLOC, l.Reachable}); !known[k] {
				known[k] = true
				d.rlocs = append(d.rlocs, databaseRLOC{l.RLOC, l.Reachable, m.Prefix})
			}
		}
	}
	if len(mappings) > 0 {
		d.first = mappings[0].Prefix
	}
	d.list = make([]DatabaseMapping, 0, d.index.size)
	for _, m := range d.index.all() {
		d.list = append(d.list, m)
	}
	return d
}

// after is the place in the list of what follows an EID-Prefix.
func (d *database) after(p lisp.Prefix) int {
	at, found := slices.BinarySearchFunc(d.list, p, func(m DatabaseMapping, p lisp.Prefix) int { return m.Prefix.Compare(p) })
	if found {
		at++
	}
	return at
}

// holds reports whether it has exactly that EID-Prefix.
func (d *database) holds(p lisp.Prefix) bool {
	_, ok := d.index.get(p)
	return ok
}

// has reports whether an RLOC stands in the Database.
func (d *database) has(r lisp.RLOC) bool {
	return slices.ContainsFunc(d.rlocs, func(l databaseRLOC) bool { return l.rloc == r })
}

// longest returns the most specific EID-Prefix that covers p.
func (d *database) longest(p lisp.Prefix) (lisp.Prefix, bool) {
	match, _, ok := d.index.longest(p)
	return match, ok
}
