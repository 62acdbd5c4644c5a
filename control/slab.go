// SPDX-License-Identifier: Apache-2.0

package control

// slab: rows with small numbers that stay theirs, so that indexes and deadlines hold
// numbers instead of pointers. A pointer from at is good until the next add.

// slab keeps rows by their numbers.
type slab[T any] struct {
	rows chunked[T]
	free chunked[uint32]
}

// add keeps a row and returns its number.
func (s *slab[T]) add(row T) uint32 {
	if s.free.len() > 0 {
		id := s.free.pop()
		*s.at(id) = row
		return id
	}
	s.rows.push(row)
	return uint32(s.rows.len() - 1)
}

// at is the row of a number.
func (s *slab[T]) at(id uint32) *T { return s.rows.at(int(id)) }

// len is one more than the highest number in use; numbers below may be free.
func (s *slab[T]) len() int { return s.rows.len() }

// release frees a row; add uses its number again.
func (s *slab[T]) release(id uint32) {
	var zero T
	*s.at(id) = zero
	s.free.push(id)
}
