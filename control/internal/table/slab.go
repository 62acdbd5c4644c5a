// SPDX-License-Identifier: Apache-2.0

package table

// slab: rows with small numbers that stay theirs, so that indexes and deadlines hold
// numbers instead of pointers. A pointer from at is good until the next add.

// Slab keeps rows by their numbers.
type Slab[T any] struct {
	rows Chunked[T]
	Free Chunked[uint32]
}

// Add keeps a row and returns its number.
func (s *Slab[T]) Add(row T) uint32 {
	if s.Free.Len() > 0 {
		id := s.Free.Pop()
		*s.At(id) = row
		return id
	}
	s.rows.Push(row)
	return uint32(s.rows.Len() - 1)
}

// At is the row of a number.
func (s *Slab[T]) At(id uint32) *T { return s.rows.At(int(id)) }

// Len is one more than the highest number in use; numbers below may be free.
func (s *Slab[T]) Len() int { return s.rows.Len() }

// Release frees a row; add uses its number again.
func (s *Slab[T]) Release(id uint32) {
	var zero T
	*s.At(id) = zero
	s.Free.Push(id)
}
