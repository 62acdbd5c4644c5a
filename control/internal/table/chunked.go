// SPDX-License-Identifier: Apache-2.0

package table

// chunked: a sequence that grows in pieces of a fixed length, so that growing never copies a
// million rows in one event-loop iteration. It knows nothing of what it holds.

const (
	chunkBits = 12
	chunkMask = 1<<chunkBits - 1
)

// Chunked is a slice in pieces. The first grows like a slice and is found by one step less: most tables are small.
type Chunked[T any] struct {
	first  []T
	chunks [][]T // the others
	length int
}

// Len is the number of values.
func (c *Chunked[T]) Len() int { return c.length }

// At is good until the next push.
func (c *Chunked[T]) At(i int) *T {
	if i < len(c.first) {
		return &c.first[i]
	}
	return &c.chunks[i>>chunkBits-1][i&chunkMask]
}

// Push adds a value at the end.
func (c *Chunked[T]) Push(v T) {
	c.length++
	if len(c.first) <= chunkMask {
		c.first = append(c.first, v)
		return
	}
	i := (c.length-1)>>chunkBits - 1
	if i == len(c.chunks) {
		c.chunks = append(c.chunks, make([]T, 0, 1<<chunkBits))
	}
	c.chunks[i] = append(c.chunks[i], v)
}

// Pop takes the last one off. The pieces stay: what was full once will be again.
func (c *Chunked[T]) Pop() T {
	c.length--
	piece := &c.first
	if i := c.length >> chunkBits; i > 0 {
		piece = &c.chunks[i-1]
	}
	last := len(*piece) - 1
	v := (*piece)[last]
	var zero T
	(*piece)[last] = zero
	*piece = (*piece)[:last]
	return v
}
