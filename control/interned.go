// SPDX-License-Identifier: Apache-2.0

package control

// Values that many rows share, each kept once: what a Map-Register says of its xTR, and
// locator-sets. Rows hold numbers, so that a million of them hold no pointer and the
// garbage collector walks nothing. A value goes when nobody uses it any more.

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

// retain gives a value one user more.
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
