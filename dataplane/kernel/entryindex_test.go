// SPDX-License-Identifier: Apache-2.0

// The index of entries does what a map of their keys would.

package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"loci/dataplane/kernel/abi"
)

func TestEntryIndex(t *testing.T) {
	const limit = 3000
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]abi.Mapping, limit)
	x, want := newEntryIndex(records), map[entryKey]uint32{}
	free := make([]uint32, limit)
	for i := range free {
		free[i] = uint32(i)
	}
	for step := range 30000 {
		key := entryKey{kind: kindMapCache, family: 4, bits: 32, instance: uint32(random.IntN(3))}
		binary.BigEndian.PutUint32(key.address[:], random.Uint32N(1500))
		index, known := want[key]
		if got, ok := x.get(key); ok != known || got != index {
			t.Fatalf("step %d: %v is at %d, %t; want %d, %t", step, key, got, ok, index, known)
		}
		switch {
		case known:
			x.remove(key)
			delete(want, key)
			free = append(free, index)
		case len(free) > 0:
			index, free = free[len(free)-1], free[:len(free)-1]
			records[index] = abi.Mapping{Family: key.family, PrefixLength: key.bits, Iid: key.instance, Prefix: key.address}
			x.add(index)
			want[key] = index
		}
		if x.count != len(want) {
			t.Fatalf("step %d: %d entries, want %d", step, x.count, len(want))
		}
	}
	var indexes []uint32
	for _, index := range want {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	if got := slices.Sorted(x.all()); !slices.Equal(got, indexes) {
		t.Errorf("%d entries in all, want %d", len(got), len(indexes))
	}
}
