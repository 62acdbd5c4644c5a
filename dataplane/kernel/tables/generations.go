// SPDX-License-Identifier: Apache-2.0

// This file tells programs that something changed on which their flow-cache entries depend
// (bpf/abi.h, lisp_generations): after the change, never before, so that a program that
// sees the new number finds what is new. It knows nothing of the entries.

package tables

import (
	"encoding/binary"
	"sync/atomic"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
)

// Generations is the memory of that map.
type Generations struct{ Numbers *abi.Generations }

// Bits by which destinations have their numbers, and how many numbers are raised one
// by one: of a prefix that is shorter by more bits than fit, all decisions end.
const (
	generationBits4    = 24
	generationBits6    = 48
	generationRaises   = 8 // as a power of two
	generationHash     = 0x9E3779B1
	generationHashBits = 20 // of 32 that are dropped, so that LISP_GENERATIONS remain
)

// All ends all decisions.
func (g Generations) All() { atomic.AddUint32(&g.Numbers.Epoch, 1) }

// Of ends the decisions that an entry of the tables may have to do with.
func (g Generations) Of(key *lpm.Key) {
	x, bits := uint64(binary.BigEndian.Uint32(key.Address[:]))>>(32-generationBits4), generationBits4
	if key.Family == 6 {
		x, bits = binary.BigEndian.Uint64(key.Address[:])>>(64-generationBits6), generationBits6
	}
	shorter := max(bits-int(key.Bits), 0)
	if key.Kind != abi.RootMapCache || shorter > generationRaises {
		g.All()
		return
	}
	for end := x + 1<<shorter; x < end; x++ {
		place := uint32(x^x>>32) * generationHash >> generationHashBits
		atomic.AddUint32(&g.Numbers.Destinations[place], 1)
	}
}
