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
	heap  []deadline
	place []int32 // by id: index in heap plus one, 0 for none
}

// set gives the row a deadline, in place of the one it had; never removes it.
func (d *deadlines) set(id uint32, at instant) {
	if at == never {
		d.remove(id)
		return
	}
	for int(id) >= len(d.place) {
		d.place = append(d.place, 0)
	}
	i := int(d.place[id]) - 1
	if i < 0 {
		i = len(d.heap)
		d.heap = append(d.heap, deadline{})
	}
	d.put(i, deadline{at, id})
	d.down(d.up(i))
}

// remove takes the row's deadline away, if it has one.
func (d *deadlines) remove(id uint32) {
	if int(id) >= len(d.place) || d.place[id] == 0 {
		return
	}
	i := int(d.place[id]) - 1
	d.place[id] = 0
	last := len(d.heap) - 1
	moved := d.heap[last]
	d.heap = d.heap[:last]
	if i < last {
		d.put(i, moved)
		d.down(d.up(i))
	}
}

// due removes and returns the earliest deadline that has come.
func (d *deadlines) due(now instant) (id uint32, ok bool) {
	if len(d.heap) == 0 || d.heap[0].at > now {
		return 0, false
	}
	id = d.heap[0].id
	d.remove(id)
	return id, true
}

// next is the earliest deadline, never when there is none.
func (d *deadlines) next() instant {
	if len(d.heap) == 0 {
		return never
	}
	return d.heap[0].at
}

// of is the row's deadline, never when it has none.
func (d *deadlines) of(id uint32) instant {
	if int(id) >= len(d.place) || d.place[id] == 0 {
		return never
	}
	return d.heap[d.place[id]-1].at
}

func (d *deadlines) put(i int, e deadline) {
	d.heap[i] = e
	d.place[e.id] = int32(i) + 1
}

// before orders by time, then by row, so that equal deadlines have one order.
func (d *deadlines) before(i, j int) bool {
	a, b := d.heap[i], d.heap[j]
	return a.at < b.at || a.at == b.at && a.id < b.id
}

func (d *deadlines) swap(i, j int) {
	a, b := d.heap[i], d.heap[j]
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
		if child+1 < len(d.heap) && d.before(child+1, child) {
			child++
		}
		if child >= len(d.heap) || !d.before(child, i) {
			return
		}
		d.swap(i, child)
		i = child
	}
}
