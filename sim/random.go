// SPDX-License-Identifier: Apache-2.0

package sim

// Chance, all of it from the seed. Each router has a stream of its own, so that what one
// draws does not move what another gets.

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

type random struct{ *rand.Rand }

func newRandom(seed, stream uint64) random { return random{rand.New(rand.NewPCG(seed, stream))} }

// chance is true with probability p.
func (r random) chance(p float64) bool { return p > 0 && r.Float64() < p }

// between is a duration from a up to b.
func (r random) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// fill is what a Node draws its nonces from.
func (r random) fill(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// pick is one of a list, which must not be empty.
func pick[T any](r random, list []T) T { return list[r.IntN(len(list))] }
