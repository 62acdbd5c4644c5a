// SPDX-License-Identifier: Apache-2.0

package control

// Values that many rows share, each kept once: what a Map-Register says of its xTR, and
// locator-sets. Rows hold numbers, so that a million of them hold no pointer and the
// garbage collector walks nothing. A value goes when nobody uses it any more.

import (
	"slices"

	"loci/lisp"
)

// interned keeps values of one type.
type interned[K comparable] struct {
	rows slab[internedRow[K]]
	ids  map[K]uint32
}

type internedRow[K comparable] struct {
	value K
	users uint32
}

// acquire is the number of a value, which has one user more now.
func (t *interned[K]) acquire(value K) uint32 {
	id, known := t.ids[value]
	if !known {
		if t.ids == nil {
			t.ids = make(map[K]uint32)
		}
		id = t.rows.add(internedRow[K]{value: value})
		t.ids[value] = id
	}
	t.rows.at(id).users++
	return id
}

func (t *interned[K]) retain(id uint32) { t.rows.at(id).users++ }

// release takes a user off.
func (t *interned[K]) release(id uint32) {
	row := t.rows.at(id)
	if row.users--; row.users == 0 {
		delete(t.ids, row.value)
		t.rows.release(id)
	}
}

// at is good until the next acquire.
func (t *interned[K]) at(id uint32) *K { return &t.rows.at(id).value }

// locatorSets keeps locator-sets.
type locatorSets struct {
	rows    slab[sharedSet]
	ids     map[string]uint32
	scratch []byte
}

type sharedSet struct {
	set    lisp.LocatorSet
	told   uint32 // the number of the same set with no locator called local: what a Map-Server tells of it
	octets string // what it is found by
	users  uint32
}

// acquire is the number of a set, which has one user more now.
func (t *locatorSets) acquire(set lisp.LocatorSet) uint32 {
	t.scratch = appendLocators(t.scratch[:0], set)
	id, known := t.ids[string(t.scratch)]
	if !known {
		if t.ids == nil {
			t.ids = make(map[string]uint32)
		}
		id = t.add(set, string(t.scratch))
	}
	t.rows.at(id).users++
	return id
}

// add adds a set, and uses the one that is told of it, if that is another one.
func (t *locatorSets) add(set lisp.LocatorSet, octets string) uint32 {
	id := t.rows.add(sharedSet{set: set, octets: octets})
	t.ids[octets] = id
	told := id
	if slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Local || l.Probed }) {
		told = t.acquire(withoutProbeBits(withLocalBits(set, nil)))
	}
	t.rows.at(id).told = told
	return id
}

func (t *locatorSets) retain(id uint32) { t.rows.at(id).users++ }

// release takes a user off.
func (t *locatorSets) release(id uint32) {
	row := t.rows.at(id)
	if row.users--; row.users > 0 {
		return
	}
	told := row.told
	delete(t.ids, row.octets)
	t.rows.release(id)
	if told != id {
		t.release(told)
	}
}

// at is the set; it is shared.
func (t *locatorSets) at(id uint32) lisp.LocatorSet { return t.rows.at(id).set }

// told is the number of the set as others are told it. It has no user more by that.
func (t *locatorSets) told(id uint32) uint32 { return t.rows.at(id).told }

// The bits of a locator's third octet in appendLocators.
const (
	locatorLocal = 1 << iota
	locatorProbed
	locatorReachable
	locatorIPv6
)

// appendLocators appends the number of locators and all that they are. The journal holds
// them in this form.
func appendLocators(b []byte, set lisp.LocatorSet) []byte {
	b = append(b, uint8(len(set)))
	for _, l := range set {
		b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight,
			bit(l.Local, locatorLocal)|bit(l.Probed, locatorProbed)|bit(l.Reachable, locatorReachable)|bit(l.RLOC.Is6(), locatorIPv6))
		if l.RLOC.Is4() {
			a := l.RLOC.Addr().As4()
			b = append(b, a[:]...)
			continue
		}
		a := l.RLOC.Addr().As16()
		b = append(b, a[:]...)
	}
	return b
}

func bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}
