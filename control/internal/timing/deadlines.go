// SPDX-License-Identifier: Apache-2.0

package timing

// deadlines: one deadline for each row of a slab, earliest first. A binary heap
// that knows where each row stands, so that a deadline moves instead of leaving a
// stale one behind. It holds no pointer and reads no clock.

import (
	"loci/control/internal/table"
)

type deadline struct {
	at Instant
	id uint32
}

// Deadlines keeps one deadline for each row.
type Deadlines struct {
	earliest Instant // where there is any
	Heap     table.Chunked[deadline]
	place    table.Chunked[int32] // by id: index in heap plus one, 0 for none
}

// Set gives the row a deadline, in place of the one it had; never removes it.
func (d *Deadlines) Set(id uint32, at Instant) {
	if at == Never {
		d.Remove(id)
		return
	}
	for int(id) >= d.place.Len() {
		d.place.Push(0)
	}
	i := int(*d.place.At(int(id))) - 1
	if i < 0 {
		i = d.Heap.Len()
		d.Heap.Push(deadline{})
	}
	d.settle(i, deadline{at, id})
}

// Remove takes the row's deadline away, if it has one.
func (d *Deadlines) Remove(id uint32) {
	if !d.Has(id) {
		return
	}
	i := int(*d.place.At(int(id))) - 1
	*d.place.At(int(id)) = 0
	moved := d.Heap.Pop()
	if i < d.Heap.Len() {
		d.settle(i, moved)
	}
}

// Due removes and returns the earliest deadline that has come.
func (d *Deadlines) Due(now Instant) (id uint32, ok bool) {
	if d.Next() > now || d.Heap.Len() == 0 {
		return 0, false
	}
	id = d.Heap.At(0).id
	d.Remove(id)
	return id, true
}

// Next is the earliest deadline, never when there is none.
func (d *Deadlines) Next() Instant {
	if d.Heap.Len() == 0 {
		return Never
	}
	return d.earliest
}

// Size is how many rows have one.
func (d *Deadlines) Size() int { return d.Heap.Len() }

// Row is one of the rows that have one, below Size, in no order.
func (d *Deadlines) Row(i int) uint32 { return d.Heap.At(i).id }

// First is the row with the earliest deadline, ok is false when there is none.
func (d *Deadlines) First() (id uint32, ok bool) {
	if d.Heap.Len() == 0 {
		return 0, false
	}
	return d.Heap.At(0).id, true
}

// Of is the row's deadline, never when it has none.
func (d *Deadlines) Of(id uint32) Instant {
	if !d.Has(id) {
		return Never
	}
	return d.Heap.At(int(*d.place.At(int(id))) - 1).at
}

// Has reports whether the row has a deadline.
func (d *Deadlines) Has(id uint32) bool { return int(id) < d.place.Len() && *d.place.At(int(id)) != 0 }

func (d *Deadlines) put(i int, e deadline) {
	*d.Heap.At(i) = e
	*d.place.At(int(e.id)) = int32(i) + 1
	if i == 0 {
		d.earliest = e.at
	}
}

// before orders by time, then by row, so that equal deadlines have one order.
func (e deadline) before(o deadline) bool { return e.at < o.at || e.at == o.at && e.id < o.id }

// settle gives a deadline its place, from a free one on: up past later ones, else down past earlier ones.
func (d *Deadlines) settle(i int, e deadline) {
	free := i
	for free > 0 {
		parent := *d.Heap.At((free - 1) / 2)
		if !e.before(parent) {
			break
		}
		d.put(free, parent)
		free = (free - 1) / 2
	}
	if free == i {
		free = d.sink(i, e)
	}
	d.put(free, e)
}

// sink moves earlier ones up until a deadline may stand in the free place, and returns that.
func (d *Deadlines) sink(free int, e deadline) int {
	for {
		child := 2*free + 1
		if child >= d.Heap.Len() {
			return free
		}
		least := *d.Heap.At(child)
		if child+1 < d.Heap.Len() {
			if other := *d.Heap.At(child + 1); other.before(least) {
				child, least = child+1, other
			}
		}
		if !least.before(e) {
			return free
		}
		d.put(free, least)
		free = child
	}
}
