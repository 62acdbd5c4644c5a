// SPDX-License-Identifier: Apache-2.0

// The index of entries does what a map of their keys would.

package tables

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
)

func TestEntryIndex(t *testing.T) {
	const limit = 3000
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]abi.Mapping, limit)
	x, want := newEntryIndex(records), map[lpm.Key]uint32{}
	free := make([]uint32, limit)
	for i := range free {
		free[i] = uint32(i)
	}
	for step := range 30000 {
		key := lpm.Key{Kind: abi.RootMapCache, Family: 4, Bits: 32, Instance: uint32(random.IntN(3))}
		binary.BigEndian.PutUint32(key.Address[:], random.Uint32N(1500))
		index, known := want[key]
		if got, ok := x.Get(key); ok != known || got != index {
			t.Fatalf("step %d: %v is at %d, %t; want %d, %t", step, key, got, ok, index, known)
		}
		switch {
		case known:
			x.remove(key)
			delete(want, key)
			free = append(free, index)
		case len(free) > 0:
			index, free = free[len(free)-1], free[:len(free)-1]
			records[index] = abi.Mapping{Family: key.Family, PrefixLength: key.Bits, Iid: key.Instance, Prefix: key.Address}
			x.add(index)
			want[key] = index
		}
		if x.Count != len(want) {
			t.Fatalf("step %d: %d entries, want %d", step, x.Count, len(want))
		}
	}
	if got := maps.Collect(x.All()); !maps.Equal(got, want) {
		t.Errorf("%d entries in all, want %d", len(got), len(want))
	}
}
