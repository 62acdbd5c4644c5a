// SPDX-License-Identifier: Apache-2.0

package control

// chunked: a sequence that grows in pieces of a fixed length, so that growing never copies a
// million rows in one turn of the loop. It knows nothing of what it holds.

const (
	chunkBits = 12
	chunkMask = 1<<chunkBits - 1
)

// chunked is a slice in pieces. The first grows like a slice: most tables are small.
type chunked[T any] struct {
	chunks [][]T
	length int
}

func (c *chunked[T]) len() int { return c.length }

// at is good until the next push.
func (c *chunked[T]) at(i int) *T { return &c.chunks[i>>chunkBits][i&chunkMask] }

func (c *chunked[T]) push(v T) {
	i := c.length >> chunkBits
	if i == len(c.chunks) {
		var chunk []T
		if i > 0 {
			chunk = make([]T, 0, 1<<chunkBits)
		}
		c.chunks = append(c.chunks, chunk)
	}
	c.chunks[i] = append(c.chunks[i], v)
	c.length++
}

// pop takes the last one off. The pieces stay: what was full once will be again.
func (c *chunked[T]) pop() T {
	c.length--
	i := c.length >> chunkBits
	last := len(c.chunks[i]) - 1
	v := c.chunks[i][last]
	var zero T
	c.chunks[i][last] = zero
	c.chunks[i] = c.chunks[i][:last]
	return v
}
