// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"testing"
	"time"

	"loci/dataplane/kernel/kerneltest"
)

// slowMaps has each removal wait for somebody, and notes it.
type slowMaps struct {
	innerMaps
	onward  chan struct{}
	removed []uint32
}

func (m *slowMaps) Delete(place any) error {
	<-m.onward
	m.removed = append(m.removed, place.(uint32))
	return nil
}

// TestNobodyWaitsForOldGroups has an earlier process leave groups whose removal takes long: a switch of tables, which waits for what is done in
// the background, does not wait for that, nor does the end of the engine wait for all of it. No group is removed twice: another one may have its number.
func TestNobodyWaitsForOldGroups(t *testing.T) {
	m := &slowMaps{onward: make(chan struct{})}
	o := &outerMap{m: m, taken: make([]uint64, 1)}
	f := &FIB{secondLevels: secondLevels{outer: o, made: map[uint32]*fibTable{2: {}}}}
	for number := range uint32(6) {
		o.mark(number + 1)
	}
	f.deleteOtherSecondLevels()
	ready := make(chan struct{})
	go func() {
		f.background.Wait()
		close(ready)
	}()
	select {
	case <-ready:
	case <-time.After(kerneltest.Patience):
		t.Fatal("a switch of tables waits for unused groups")
	}
	for range 2 {
		m.onward <- struct{}{}
	}
	kerneltest.Eventually(t, "two groups are removed", func() bool { return !o.isTaken(1) && !o.isTaken(3) })
	o.mark(1) // a new one
	f.secondLevels.made[1] = &fibTable{}
	f.deleteOtherSecondLevels()
	f.closing.Store(true)
	m.onward <- struct{}{} // it was on its way
	f.cleared.Wait()
	if want := []uint32{1, 3, 4}; !slices.Equal(m.removed, want) || !o.isTaken(1) || !o.isTaken(5) {
		t.Errorf("removed %v, want %v", m.removed, want)
	}
}

// TestNobodyWaitsForGroupsThatEnd gives up a group while its removal takes long: a table that empties gives up hundreds, one after the other.
func TestNobodyWaitsForGroupsThatEnd(t *testing.T) {
	m := &slowMaps{onward: make(chan struct{})}
	o := &outerMap{m: m, taken: make([]uint64, 1)}
	f := &FIB{secondLevels: secondLevels{outer: o, made: map[uint32]*fibTable{1: {}, 2: {}}}}
	o.mark(1)
	o.mark(2)
	ready := make(chan struct{})
	go func() {
		f.DropSecondLevels([]uint32{2})
		close(ready)
	}()
	select {
	case <-ready:
	case <-time.After(kerneltest.Patience):
		t.Fatal("who edits the tables waits for a group to be removed")
	}
	if !o.isTaken(2) || f.secondLevels.made[2] != nil {
		t.Error("the number of a group that programs may still hold is free, or the group is known")
	}
	switched := make(chan struct{})
	go func() {
		f.background.Wait() // as SwitchTable does
		close(switched)
	}()
	select {
	case <-switched:
	case <-time.After(kerneltest.Patience):
		t.Fatal("a table that becomes smaller waits for a group to be removed")
	}
	m.onward <- struct{}{}
	f.cleared.Wait()
	if !slices.Equal(m.removed, []uint32{2}) || o.isTaken(2) || !o.isTaken(1) {
		t.Errorf("removed %v, want group 2", m.removed)
	}
}
