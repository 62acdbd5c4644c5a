// SPDX-License-Identifier: Apache-2.0

package control

// deadlines: one deadline for each row of a slab, earliest first. A binary heap
// that knows where each row stands, so that a deadline moves instead of leaving a
// stale one behind. It holds no pointer and reads no clock.

type deadline struct {
	at instant
	id uint32
}

type deadlines struct {
	heap  chunked[deadline]
	place chunked[int32] // by id: index in heap plus one, 0 for none
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
	d.put(i, deadline{at, id})
	d.down(d.up(i))
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
		d.put(i, moved)
		d.down(d.up(i))
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
	return d.heap.at(0).at
}

// of is the row's deadline, never when it has none.
func (d *deadlines) of(id uint32) instant {
	if !d.has(id) {
		return never
	}
	return d.heap.at(int(*d.place.at(int(id))) - 1).at
}

func (d *deadlines) has(id uint32) bool { return int(id) < d.place.len() && *d.place.at(int(id)) != 0 }

func (d *deadlines) put(i int, e deadline) {
	*d.heap.at(i) = e
	*d.place.at(int(e.id)) = int32(i) + 1
}

// before orders by time, then by row, so that equal deadlines have one order.
func (d *deadlines) before(i, j int) bool {
	a, b := *d.heap.at(i), *d.heap.at(j)
	return a.at < b.at || a.at == b.at && a.id < b.id
}

func (d *deadlines) swap(i, j int) {
	a, b := *d.heap.at(i), *d.heap.at(j)
	d.put(i, b)
	d.put(j, a)
}

func (d *deadlines) up(i int) int {
	for i > 0 && d.before(i, (i-1)/2) {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (d *deadlines) down(i int) {
	for {
		child := 2*i + 1
		if child+1 < d.heap.len() && d.before(child+1, child) {
			child++
		}
		if child >= d.heap.len() || !d.before(child, i) {
			return
		}
		d.swap(i, child)
		i = child
	}
}
