// SPDX-License-Identifier: Apache-2.0

package control

// deadlines: one deadline for each row of a slab, earliest first. A binary heap
// that knows where each row stands, so that a deadline moves instead of leaving a
// stale one behind. It holds no pointer and reads no clock.

type deadline struct {
	at instant
	id uint32
}

// deadlines keeps one deadline for each row.
type deadlines struct {
	earliest instant // where there is any
	heap     chunked[deadline]
	place    chunked[int32] // by id: index in heap plus one, 0 for none
}

// set gives the row a deadline, in place of the one it had; never removes it.
func (d *deadlines) set(id uint32, at instant) {
	if at == never {
		d.remove(id)
		return
	}
	for int(id) >= d.place.len() {
		d.place.push(0)
	}
	i := int(*d.place.at(int(id))) - 1
	if i < 0 {
		i = d.heap.len()
		d.heap.push(deadline{})
	}
	d.settle(i, deadline{at, id})
}

// remove takes the row's deadline away, if it has one.
func (d *deadlines) remove(id uint32) {
	if !d.has(id) {
		return
	}
	i := int(*d.place.at(int(id))) - 1
	*d.place.at(int(id)) = 0
	moved := d.heap.pop()
	if i < d.heap.len() {
		d.settle(i, moved)
	}
}

// due removes and returns the earliest deadline that has come.
func (d *deadlines) due(now instant) (id uint32, ok bool) {
	if d.next() > now || d.heap.len() == 0 {
		return 0, false
	}
	id = d.heap.at(0).id
	d.remove(id)
	return id, true
}

// next is the earliest deadline, never when there is none.
func (d *deadlines) next() instant {
	if d.heap.len() == 0 {
		return never
	}
	return d.earliest
}

// of is the row's deadline, never when it has none.
func (d *deadlines) of(id uint32) instant {
	if !d.has(id) {
		return never
	}
	return d.heap.at(int(*d.place.at(int(id))) - 1).at
}

// has reports whether the row has a deadline.
func (d *deadlines) has(id uint32) bool { return int(id) < d.place.len() && *d.place.at(int(id)) != 0 }

func (d *deadlines) put(i int, e deadline) {
	*d.heap.at(i) = e
	*d.place.at(int(e.id)) = int32(i) + 1
	if i == 0 {
		d.earliest = e.at
	}
}

// before orders by time, then by row, so that equal deadlines have one order.
func (e deadline) before(o deadline) bool { return e.at < o.at || e.at == o.at && e.id < o.id }

// settle gives a deadline its place, from a free one on: up past later ones, else down past earlier ones.
func (d *deadlines) settle(i int, e deadline) {
	free := i
	for free > 0 {
		parent := *d.heap.at((free - 1) / 2)
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
func (d *deadlines) sink(free int, e deadline) int {
	for {
		child := 2*free + 1
		if child >= d.heap.len() {
			return free
		}
		least := *d.heap.at(child)
		if child+1 < d.heap.len() {
			if other := *d.heap.at(child + 1); other.before(least) {
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
