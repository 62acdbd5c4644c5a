// SPDX-License-Identifier: Apache-2.0

package locatorset

// Locator-sets, each kept once, and the octets that stand for one.

import (
	"encoding/binary"
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

// The bits of a locator's fifth octet in AppendLocators.
const (
	LocatorLocal = 1 << iota
	LocatorProbed
	LocatorReachable
	LocatorIPv6
	LocatorWithoutRLOC
	LocatorAddress
	LocatorPath
)

// AppendLocators appends the number of locators and all that they are: priorities and weights, bits, the RLOC if there is one, the
// hops of a path, and the length and the octets of an address that says more. The journal holds
// them in this form.
func AppendLocators(b []byte, set lisp.LocatorSet) []byte {
	b = append(b, uint8(len(set)))
	for _, l := range set {
		b = append(b, l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight,
			Bit(l.Local, LocatorLocal)|Bit(l.Probed, LocatorProbed)|Bit(l.Reachable, LocatorReachable)|Bit(l.RLOC.Is6(), LocatorIPv6)|
				Bit(l.RLOC.IsZero(), LocatorWithoutRLOC)|Bit(l.Address != "", LocatorAddress)|Bit(l.Behind != "" || l.Bits[0] != 0, LocatorPath))
		if b = appendRLOC(b, l.RLOC); l.Behind != "" || l.Bits[0] != 0 {
			b = appendHops(b, &l)
		}
		if l.Address != "" {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.Address))), l.Address...)
		}
	}
	return b
}

// appendHops appends the bits of the first hop, the number of the others, and of each its bits, its family, and its address. No
// port: what is sent on the wire has none.
func appendHops(b []byte, l *lisp.Locator) []byte {
	b = append(b, uint8(l.Bits[0]), uint8(l.Behind.Len()))
	for i := range l.Behind.Len() {
		hop := l.Behind.At(i)
		b = append(b, uint8(l.Bits[i+1]), Bit(hop.Is6(), LocatorIPv6))
		b = appendRLOC(b, hop)
	}
	return b
}

func appendRLOC(b []byte, r lisp.RLOC) []byte {
	switch {
	case r.Is4():
		a := r.Addr().As4()
		return append(b, a[:]...)
	case r.Is6():
		a := r.Addr().As16()
		return append(b, a[:]...)
	}
	return b
}

// Bit is the mask if set is true, else 0.
func Bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}
