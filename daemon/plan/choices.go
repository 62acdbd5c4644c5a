// SPDX-License-Identifier: Apache-2.0

package plan

// Which own RLOCs stand in for each other: those of one family in a locator-set that other
// sites use, and those that this router sends from. control.HoldDown never holds down the
// last one of them. It asks nothing and changes nothing.

import (
	"slices"

	"loci/config"
	"loci/lisp"
)

// choices are the own RLOCs that stand in for each other.
type choices struct {
	list  [][]lisp.RLOC
	named map[string]bool // locator-sets, by name, that are in it
}

// addSet adds the own locators of a set that other sites may use. A set that has a name, or none, counts once.
func (c *choices) addSet(r config.RLOCs, set lisp.LocatorSet) {
	if len(r.Locators) == 0 {
		if c.named[r.Name] {
			return
		}
		if c.named == nil {
			c.named = map[string]bool{}
		}
		c.named[r.Name] = true
	}
	var own []lisp.RLOC
	for i := range set {
		if l := &set[i]; l.Local && l.Usable() && !slices.Contains(own, lastHop(l)) {
			own = append(own, lastHop(l))
		}
	}
	c.add(own)
}

// add adds own RLOCs that stand in for each other, those of a family.
func (c *choices) add(rlocs []lisp.RLOC) {
	for _, is4 := range []bool{true, false} {
		family := slices.DeleteFunc(slices.Clone(rlocs), func(r lisp.RLOC) bool { return r.Is4() != is4 })
		if len(family) > 0 {
			c.list = append(c.list, family)
		}
	}
}
