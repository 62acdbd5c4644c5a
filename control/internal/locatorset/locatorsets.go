// SPDX-License-Identifier: Apache-2.0

package locatorset

// Locator-sets, each kept once, and the octets that stand for one.

import (
	"slices"

	"loci/control/internal/table"
	"loci/lisp"
)

// Sets keeps locator-sets.
type Sets struct {
	Rows    table.Slab[sharedSet]
	Ids     map[string]uint32
	scratch []byte
}

type sharedSet struct {
	set    lisp.LocatorSet
	told   uint32 // the number of the same set with no locator called local: what a Map-Server tells of it
	octets string // what it is found by
	Users  uint32
}

// Acquire is the number of a set, which has one user more now.
func (t *Sets) Acquire(set lisp.LocatorSet) uint32 {
	t.scratch = AppendLocators(t.scratch[:0], set)
	id, known := t.Ids[string(t.scratch)]
	if !known {
		if t.Ids == nil {
			t.Ids = make(map[string]uint32)
		}
		id = t.add(set, string(t.scratch))
	}
	t.Rows.At(id).Users++
	return id
}

// add adds a set, and uses the one that is told of it, if that is another one.
func (t *Sets) add(set lisp.LocatorSet, octets string) uint32 {
	id := t.Rows.Add(sharedSet{set: set, octets: octets})
	t.Ids[octets] = id
	told := id
	if slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Local || l.Probed }) {
		told = t.Acquire(WithoutProbeBits(WithLocalBits(set, nil)))
	}
	t.Rows.At(id).told = told
	return id
}

// Retain gives a set one user more.
func (t *Sets) Retain(id uint32) { t.Rows.At(id).Users++ }

// Release takes a user off.
func (t *Sets) Release(id uint32) {
	row := t.Rows.At(id)
	if row.Users--; row.Users > 0 {
		return
	}
	told := row.told
	delete(t.Ids, row.octets)
	t.Rows.Release(id)
	if told != id {
		t.Release(told)
	}
}

// At is the set; it is shared.
func (t *Sets) At(id uint32) lisp.LocatorSet { return t.Rows.At(id).set }

// Told is the number of the set as others are told it. It has no user more by that.
func (t *Sets) Told(id uint32) uint32 { return t.Rows.At(id).told }
