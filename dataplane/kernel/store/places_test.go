// SPDX-License-Identifier: Apache-2.0

// This test has more Instance-IDs than there are places for, which come and go with entries and interfaces, beside a model.

package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// noMemory is the rest of lpm.Memory, which few entries never need.
type noMemory struct{ lpm.Memory }

func (noMemory) PrepareTable(cells int) int { return cells }
func (noMemory) PreparedCells() int         { return 0 }
func (noMemory) DropTable([]uint32)         {}
func (noMemory) PrepareFirstLevel()         {}

// placedMaps have their roots where programs find them: at places of Instance-IDs.
type placedMaps struct {
	noMemory
	*Instances
	found       *plainDirectory
	next, slots []uint32
}

func (m *placedMaps) PutRoot(key lpm.RootKey, begin lpm.Begin) error {
	return m.Instances.put(key, rootAt(1, begin))
}

func (m *placedMaps) DeleteRoot(key lpm.RootKey) error { return m.Instances.delete(key) }

func (m *placedMaps) NewTable(cells int) (slots []uint32, err error) {
	m.next = make([]uint32, cells*lpm.CellSlots)
	return m.next, nil
}

func (m *placedMaps) SwitchTable(roots map[lpm.RootKey]lpm.Begin) error {
	for key, begin := range roots {
		if err := m.PutRoot(key, begin); err != nil {
			return err
		}
	}
	m.Instances.keepOnly(roots)
	m.slots = m.next
	return nil
}

func (m *placedMaps) ExtendTable(roots map[lpm.RootKey]lpm.Begin) error { return m.SwitchTable(roots) }

// walkAt looks an address up by the roots of a place.
func (m *placedMaps) walkAt(place uint32, key *lpm.Key) (index uint32, found bool) {
	root := m.Instances.roots[place].Roots[key.Root().Position()]
	if root&rootInUse == 0 {
		return 0, false
	}
	return walkSlots(m.slots, uint32(root), key)
}

// walkSlots finds what a key leads to, as bpf/fib.h does.
func walkSlots(slots []uint32, slot uint32, key *lpm.Key) (index uint32, found bool) {
	const tags, node, leaf, strideShift = 0xC0000000, 0x40000000, 0x80000000, 25
	bit := 0
	next := func(n uint32) (value uint32) {
		for range n {
			value = value<<1 | uint32(key.Address[bit/8]>>(7-bit%8)&1)
			bit++
		}
		return value
	}
	for slot&tags == node {
		cell, stride := slots[slot&(1<<strideShift-1)*4:], slot&^tags>>strideShift
		if stride != 0 {
			slot = cell[next(stride)]
		} else if value := next(cell[1]); value == cell[0] { // a comparison
			slot = cell[2]
		} else {
			slot = cell[3]
		}
	}
	return slot &^ tags, slot&tags == leaf
}

// A heldPlace is what a program has read of an Instance-ID some time ago.
type heldPlace struct {
	instance, place uint32
	since           time.Duration
}

const (
	placesThere   = 6
	instancesUsed = 10
)

// placedTables are tables in plain memory whose roots have places.
type placedTables struct {
	*tables.Tables
	records []abi.Mapping
	clock   time.Duration
}

func newPlacedTables(t *testing.T) (*placedTables, *placedMaps) {
	t.Helper()
	p := &placedTables{records: make([]abi.Mapping, 200)}
	m := &placedMaps{found: &plainDirectory{places: map[uint32]uint32{}}}
	m.Instances = newInstances(m.found, make([]abi.Roots, placesThere), map[uint32]uint32{},
		reclaim.NewIndexes(placesThere, func() time.Duration { return p.clock }, func() { p.clock += reclaim.RestTime }))
	var err error
	p.Tables, err = tables.New(tables.Parts{
		Memory: m, ClearUsage: func(uint32) {}, Changed: tables.Generations{Numbers: new(abi.Generations)}, Records: p.records, Runs: make([]uint64, tables.RunWords(len(p.records))),
		Sets: make([]abi.LocatorSet, 4), Locators: make([]abi.Locator, tables.LocatorsBeside(4)), CellLimit: 1 << 12,
		Now: func() time.Duration { return p.clock }, Wait: func() {},
	})
	must(t, err)
	must(t, p.GoOnline())
	return p, m
}

func TestMoreInstanceIDsThanPlaces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 31))
		p, m := newPlacedTables(t)
		model, full, held := map[lpm.Key]bool{}, 0, []heldPlace(nil)
		for range 3000 {
			p.clock += time.Duration(random.IntN(40)) * time.Millisecond
			key := placedKey(t, random)
			switch random.IntN(8) {
			case 0, 1, 2:
				switch _, _, err := p.Put(tables.Entry{Key: key, Flags: flagIfDatabase(key)}); {
				case err == nil:
					model[key] = true
				case errors.Is(err, dataplane.ErrFull):
					full++
				default:
					t.Fatal(err)
				}
			case 3:
				must(t, m.PinOnly(map[uint32]bool{uint32(random.IntN(instancesUsed)): true}))
			default:
				existed, err := p.Delete(key)
				if err != nil || existed != model[key] {
					t.Fatalf("delete: %v, %v, want %v", existed, err, model[key])
				}
				delete(model, key)
			}
			held = m.expectPlaces(t, p, model, held)
		}
		if full == 0 {
			t.Error("there always was a place")
		}
	}
}

func placedKey(t *testing.T, random *rand.Rand) lpm.Key {
	t.Helper()
	prefix := []string{"10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0"}[random.IntN(4)]
	key, err := lpm.KeyOf([]uint8{abi.RootMapCache, abi.RootDatabase}[random.IntN(2)], lisp.MustParsePrefix(fmt.Sprintf("[%d]%s", random.IntN(instancesUsed), prefix)))
	must(t, err)
	return key
}

func flagIfDatabase(key lpm.Key) uint32 {
	if key.Kind == abi.RootDatabase {
		return abi.MappingDatabase
	}
	return 0
}

// expectPlaces wants each entry to be found by the place of its Instance-ID, and a place that a program has read just before to lead to no
// entry of another one. It returns what programs hold.
func (m *placedMaps) expectPlaces(t *testing.T, p *placedTables, model map[lpm.Key]bool, held []heldPlace) []heldPlace {
	t.Helper()
	for key := range maps.Keys(model) {
		place, ok := m.found.places[key.Instance]
		if !ok {
			t.Fatalf("Instance-ID %d has entries, and no place", key.Instance)
		}
		held = append(held, heldPlace{key.Instance, place, p.clock})
		if index, found := m.walkAt(place, &key); !found || tables.KeyOf(&p.records[index]) != key {
			t.Fatalf("%+v is not found", key)
		}
	}
	rest := held[:0]
	for _, h := range held {
		if p.clock-h.since >= reclaim.RestTime {
			continue
		}
		rest = append(rest, h)
		for position, root := range m.Instances.roots[h.place].Roots {
			key := lpm.Key{Kind: lpm.RootKeyAt(0, position).Kind, Family: lpm.RootKeyAt(0, position).Family}
			if index, found := m.walkAt(h.place, &key); root != 0 && found && p.records[index].Iid != h.instance {
				t.Fatalf("a program that holds the place of Instance-ID %d finds entries of %d", h.instance, p.records[index].Iid)
			}
		}
	}
	return rest
}
