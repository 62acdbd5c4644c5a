// SPDX-License-Identifier: Apache-2.0

package virtual

// Chance, all of it from the seed. Each router has a stream of its own, so that what one
// draws does not move what another gets.

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Random is a stream of random numbers.
type Random struct{ *rand.Rand }

// NewRandom is one of the streams of a seed.
func NewRandom(seed, stream uint64) Random { return Random{rand.New(rand.NewPCG(seed, stream))} }

// Chance is true with probability p.
func (r Random) Chance(p float64) bool { return p > 0 && r.Float64() < p }

// Between is a duration from a up to b.
func (r Random) Between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// Fill is what a Node draws its nonces from.
func (r Random) Fill(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// Pick is one of a list, which must not be empty.
func Pick[T any](r Random, list []T) T { return list[r.IntN(len(list))] }
