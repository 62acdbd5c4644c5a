// SPDX-License-Identifier: Apache-2.0

package control

// slab: rows with small numbers that stay theirs, in one piece of memory, so that
// indexes and deadlines hold numbers instead of pointers. A pointer from at is
// good until the next add.

type slab[T any] struct {
	rows []T
	free []uint32
}

func (s *slab[T]) add(row T) uint32 {
	if last := len(s.free) - 1; last >= 0 {
		id := s.free[last]
		s.free = s.free[:last]
		s.rows[id] = row
		return id
	}
	s.rows = append(s.rows, row)
	return uint32(len(s.rows) - 1)
}

func (s *slab[T]) at(id uint32) *T { return &s.rows[id] }

func (s *slab[T]) release(id uint32) {
	var zero T
	s.rows[id] = zero
	s.free = append(s.free, id)
}
