// SPDX-License-Identifier: Apache-2.0

package database

// The ETR's Database: the EID-Prefixes of this site (RFC 9301 s.5.5). A table.

import (
	"slices"

	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/lisp"
)

// Database holds the configured mappings by EID-Prefix. It does not change.
type Database struct {
	Index table.Prefixes[settings.DatabaseMapping]
	List  []settings.DatabaseMapping // in order
	RLOCs []RLOC                     // each once, and once more where its R bit is another
	First lisp.Prefix                // as configured; zero for an empty Database
}

// RLOC is a locator of the Database, of a path the last hop.
type RLOC struct {
	RLOC      lisp.RLOC
	Reachable bool
	Prefix    lisp.Prefix // the first that has it, as configured
}

// New makes the table of a configuration.
func New(mappings []settings.DatabaseMapping) *Database {
	type key struct {
		rloc      lisp.RLOC
		reachable bool
	}
	d := &Database{}
	known := make(map[key]bool)
	for _, m := range mappings {
		d.Index.Insert(m.Prefix, m)
		for _, l := range m.Locators {
			last := l.Path().Last()
			if k := (key{last, l.Reachable}); !known[k] {
				known[k] = true
				d.RLOCs = append(d.RLOCs, RLOC{last, l.Reachable, m.Prefix})
			}
		}
	}
	if len(mappings) > 0 {
		d.First = mappings[0].Prefix
	}
	d.List = make([]settings.DatabaseMapping, 0, d.Index.Size)
	for _, m := range d.Index.All() {
		d.List = append(d.List, m)
	}
	return d
}

// After is the place in the list of what follows an EID-Prefix.
func (d *Database) After(p lisp.Prefix) int {
	at, found := slices.BinarySearchFunc(d.List, p, func(m settings.DatabaseMapping, p lisp.Prefix) int { return m.Prefix.Compare(p) })
	if found {
		at++
	}
	return at
}

// Holds reports whether it has exactly that EID-Prefix.
func (d *Database) Holds(p lisp.Prefix) bool {
	_, ok := d.Index.Get(p)
	return ok
}

// Has reports whether an RLOC stands in the Database.
func (d *Database) Has(r lisp.RLOC) bool {
	return slices.ContainsFunc(d.RLOCs, func(l RLOC) bool { return l.RLOC == r })
}

// Longest returns the most specific EID-Prefix that covers p.
func (d *Database) Longest(p lisp.Prefix) (lisp.Prefix, bool) {
	match, _, ok := d.Index.Longest(p)
	return match, ok
}
