// SPDX-License-Identifier: Apache-2.0

package table

// Values that many rows share, each kept once: what a Map-Register says of its xTR, and
// locator-sets. Rows hold numbers, so that a million of them hold no pointer and the
// garbage collector walks nothing. A value goes when no row uses it any more.

// Interned keeps values of one type.
type Interned[K comparable] struct {
	Rows Slab[internedRow[K]]
	Ids  map[K]uint32
}

type internedRow[K comparable] struct {
	value K
	Users uint32
}

// Acquire is the number of a value, which has one user more now.
func (t *Interned[K]) Acquire(value K) uint32 {
	id, known := t.Ids[value]
	if !known {
		if t.Ids == nil {
			t.Ids = make(map[K]uint32)
		}
		id = t.Rows.Add(internedRow[K]{value: value})
		t.Ids[value] = id
	}
	t.Rows.At(id).Users++
	return id
}

// Retain gives a value one user more.
func (t *Interned[K]) Retain(id uint32) { t.Rows.At(id).Users++ }

// Release takes a user off.
func (t *Interned[K]) Release(id uint32) {
	row := t.Rows.At(id)
	if row.Users--; row.Users == 0 {
		delete(t.Ids, row.value)
		t.Rows.Release(id)
	}
}

// At is good until the next acquire.
func (t *Interned[K]) At(id uint32) *K { return &t.Rows.At(id).value }
