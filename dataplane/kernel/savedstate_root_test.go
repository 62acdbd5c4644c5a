// SPDX-License-Identifier: Apache-2.0

// What is known of locators, over years and restarts. The tests need root.

package kernel

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"testing"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/store"
	"loci/lisp"
)

// TestStatesOfManyLocators tells of more RLOCs that are up, or come up again, than may be down: each of those takes no place, neither when it
// is told of nor, where an earlier version stored it, after a restart.
func TestStatesOfManyLocators(t *testing.T) {
	t.Parallel()
	a := newLinks(t).routers[0]
	a.open(t, Options{})
	rloc := func(i int) lisp.RLOC {
		address := rloc6(0).As16()
		binary.BigEndian.PutUint32(address[8:], uint32(i))
		return lisp.RLOCFromAddr(netip.AddrFrom16(address))
	}
	for i := range 1<<16 + 1 {
		a.apply(t, dataplane.PutLocatorState{RLOC: rloc(i), State: dataplane.LocatorState(i % 2)}, dataplane.PutLocatorState{RLOC: rloc(i)})
	}
	down := map[lisp.Path]dataplane.LocatorState{}
	for _, r := range []lisp.RLOC{rloc(0), lisp.RLOCFromAddr(rloc4(1))} {
		down[lisp.PathTo(r)] = dataplane.LocatorDown
		a.apply(t, dataplane.PutLocatorState{RLOC: r, State: dataplane.LocatorDown})
	}
	for i := range 100 {
		must(t, a.store.Map(store.MapSavedStates).Put(abi.KeyOf(rloc(1+i)), uint8(dataplane.LocatorUp)))
	}
	must(t, a.Close())
	a.open(t, Options{})
	if got := maps.Collect(a.LocatorStates()); !maps.Equal(got, down) {
		t.Errorf("down are %v, want %v", got, down)
	}
	stored := 0
	var key abi.RLOCKey
	var state uint8
	for entries := a.store.Map(store.MapSavedStates).Iterate(); entries.Next(&key, &state); stored++ {
	}
	if stored != len(down) {
		t.Errorf("%d states are stored, want %d", stored, len(down))
	}
}
