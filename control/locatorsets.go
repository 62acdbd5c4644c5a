// SPDX-License-Identifier: Apache-2.0

package control

import (
	"loci/lisp"
	"slices"
)

// Locator-sets, each kept once, and the octets that stand for one.

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

// retain gives a set one user more.
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

// bit is the mask if set is true, else 0.
func bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}
