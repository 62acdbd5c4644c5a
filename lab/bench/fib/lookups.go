// SPDX-License-Identifier: Apache-2.0

// The programs that look addresses up, and the maps they do it in: those of an engine by their pins, an LPM_TRIE, a HASH and
// an array of their own. It never changes the engine's maps.

package fib

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
)

const (
	// fillBatch is how many elements a system call adds.
	fillBatch = 4096
	// trialRuns tell how long a run takes.
	trialRuns = 200
	// arrayEntryOctets is the size of a value of the floor's array.
	arrayEntryOctets = 8
	// testFrame is as long as a test run demands.
	testFrame = 64
)

// lookupArm is a program that looks addresses up.
type lookupArm struct {
	name    string
	program *ebpf.Program
	sum     checkSum // of one pass over all addresses
}

type lookups struct {
	arms                      []*lookupArm // the first looks up nothing
	blocks, trie, hash, state *ebpf.Map
	array                     *ebpf.Map // of the floor; nil until loadFloor
	pinned                    []*ebpf.Map
	keyOctets                 int
	directory                 string // of the engine's pins
}

// enginesMaps are those that lookups need.
var enginesMaps = []string{"fib", "first_level4", "first_level6", "second_level6", "roots", "instances", "mappings", "mapping_counters"}

// newLookups loads the programs over the maps that are pinned in a directory.
func newLookups(pins string, t fibTable) (*lookups, error) {
	spec, err := loadFib()
	if err != nil {
		return nil, fmt.Errorf("read the BPF object: %w", err)
	}
	l := &lookups{keyOctets: 4, directory: pins}
	if t.v6 {
		l.keyOctets = 16
	}
	replacements := map[string]*ebpf.Map{}
	for _, name := range enginesMaps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pins, name), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open map %s: %w", name, err), l.close())
		}
		l.pinned = append(l.pinned, m)
		replacements[name] = m
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	if err := spec.Variables["lisp_mapping_limit"].Set(spec.Maps["mappings"].MaxEntries); err != nil {
		return nil, errors.Join(fmt.Errorf("number of counters: %w", err), l.close())
	}
	for name, octets := range map[string]int{"bench_trie": 4 + l.keyOctets, "bench_hash": l.keyOctets} {
		m := spec.Maps[name]
		m.KeySize, m.Key, m.MaxEntries = uint32(octets), nil, uint32(t.entries)
	}
	var loaded struct {
		None    *ebpf.Program `ebpf:"bench_no_lookup"`
		FIB     *ebpf.Program `ebpf:"bench_fib"`
		Mapping *ebpf.Program `ebpf:"bench_mapping"`
		Counted *ebpf.Program `ebpf:"bench_counted"`
		Trie    *ebpf.Program `ebpf:"bench_lpm_trie"`
		Hash    *ebpf.Program `ebpf:"bench_hash_lookup"`
		Blocks  *ebpf.Map     `ebpf:"bench_blocks"`
		TrieMap *ebpf.Map     `ebpf:"bench_trie"`
		HashMap *ebpf.Map     `ebpf:"bench_hash"`
		State   *ebpf.Map     `ebpf:"bench_states"`
	}
	if err := spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: replacements}); err != nil {
		return nil, errors.Join(fmt.Errorf("load the BPF programs: %w", err), l.close())
	}
	l.arms = []*lookupArm{{name: "loop", program: loaded.None}, {name: armMapping, program: loaded.Mapping},
		{name: armFIB, program: loaded.FIB}, {name: armTrie, program: loaded.Trie}, {name: armHash, program: loaded.Hash},
		{name: armCounted, program: loaded.Counted}}
	l.blocks, l.trie, l.hash, l.state = loaded.Blocks, loaded.TrieMap, loaded.HashMap, loaded.State
	return l, nil
}

// loadFloor adds the arm that reads an array of so much memory at random places, one read for each address.
func (l *lookups) loadFloor(octets uint64) error {
	spec, err := loadFib()
	if err != nil {
		return fmt.Errorf("read the BPF object: %w", err)
	}
	entries := uint32(max(octets/arrayEntryOctets, 1))
	spec.Maps["bench_array"].MaxEntries = entries
	if err := spec.Variables["bench_array_entries"].Set(entries); err != nil {
		return fmt.Errorf("size of the array: %w", err)
	}
	var loaded struct {
		Read  *ebpf.Program `ebpf:"bench_array_read"`
		Array *ebpf.Map     `ebpf:"bench_array"`
	}
	replacements := map[string]*ebpf.Map{"bench_blocks": l.blocks, "bench_states": l.state}
	if err := spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: replacements}); err != nil {
		return fmt.Errorf("load the program of the floor: %w", err)
	}
	l.array = loaded.Array
	l.arms = append(l.arms, &lookupArm{name: armArray, program: loaded.Read})
	return fillArray(l.array)
}

// fillArray makes every value 1, so that reads can be counted.
func fillArray(m *ebpf.Map) error {
	keys, values := make([]uint32, fillBatch), make([]uint64, fillBatch)
	for i := range values {
		values[i] = 1
	}
	for from := uint32(0); from < m.MaxEntries(); from += fillBatch {
		count := min(fillBatch, m.MaxEntries()-from)
		for i := range count {
			keys[i] = from + i
		}
		if _, err := m.BatchUpdate(keys[:count], values[:count], nil); err != nil {
			return fmt.Errorf("fill %s: %w", m, err)
		}
	}
	return nil
}

func (l *lookups) close() error {
	var all []error
	for _, arm := range l.arms {
		all = append(all, arm.program.Close())
	}
	for _, m := range append(l.pinned, l.blocks, l.trie, l.hash, l.state, l.array) {
		if m != nil {
			all = append(all, m.Close())
		}
	}
	return errors.Join(all...)
}

// aim says what is looked up from here on.
func (l *lookups) aim(destinations []netip.Addr) error {
	keys := make([]uint32, lookupAddresses/lookupsPerRun)
	values := make([][lookupsPerRun][16]byte, len(keys))
	for i := range keys {
		keys[i] = uint32(i)
	}
	for i, a := range destinations {
		copy(values[i/lookupsPerRun][i%lookupsPerRun][:], a.AsSlice())
	}
	if _, err := l.blocks.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("list of destinations: %w", err)
	}
	return nil
}

// time returns the nanoseconds for one lookup, loop included.
func (l *lookups) time(arm *lookupArm, length time.Duration) (float64, error) {
	if _, err := l.run(arm, trialRuns); err != nil {
		return 0, err
	}
	trial, err := l.run(arm, trialRuns)
	if err != nil {
		return 0, err
	}
	runs := max(int(length/max(trial, 1)), trialRuns)
	each, err := l.run(arm, runs)
	return float64(each.Nanoseconds()) / lookupsPerRun, err
}

// run runs a program from the first address on, and returns the time for a run.
func (l *lookups) run(arm *lookupArm, runs int) (time.Duration, error) {
	family := uint32(4)
	if l.keyOctets == 16 {
		family = 6
	}
	var begun error
	begin := func() { begun = l.state.Put(uint32(0), fibBenchState{Family: family}) } // again where a signal ends the runs
	begin()
	_, each, err := arm.program.Benchmark(make([]byte, testFrame), runs, begin)
	if err = errors.Join(err, begun); err != nil {
		return 0, fmt.Errorf("%s: %w", arm.name, err)
	}
	return each, nil
}

// compare looks all addresses up once in every arm. The trie must find the same as the data plane, and the hash something.
func (l *lookups) compare() error {
	for _, arm := range l.arms[1:] {
		if _, err := l.run(arm, lookupAddresses/lookupsPerRun); err != nil {
			return err
		}
		var state fibBenchState
		if err := l.state.Lookup(uint32(0), &state); err != nil {
			return err
		}
		arm.sum = checkSum{state.Found, state.LengthSum}
		if state.Found != lookupAddresses {
			return fmt.Errorf("%s found %d of %d addresses", arm.name, state.Found, lookupAddresses)
		}
	}
	if l.arms[1].sum != l.arms[3].sum {
		return fmt.Errorf("%s and %s do not agree: %v, %v", l.arms[1].name, l.arms[3].name, l.arms[1].sum, l.arms[3].sum)
	}
	return nil
}

// Keys of the tries: the length of the prefix, then its address.
type (
	trieKey4 struct {
		Length  uint32
		Address [4]byte
	}
	trieKey6 struct {
		Length  uint32
		Address [16]byte
	}
)

// fillTrie adds all prefixes and returns the time for one, and the octets that the kernel accounts to the map.
func (l *lookups) fillTrie(prefixes []netip.Prefix) (nsEach float64, octets uint64, err error) {
	if l.keyOctets == 4 {
		return fillMap(l.trie, prefixes, func(p netip.Prefix) trieKey4 { return trieKey4{uint32(p.Bits()), p.Addr().As4()} })
	}
	return fillMap(l.trie, prefixes, func(p netip.Prefix) trieKey6 { return trieKey6{uint32(p.Bits()), p.Addr().As16()} })
}

// fillHash adds the first address of each prefix.
func (l *lookups) fillHash(prefixes []netip.Prefix) (nsEach float64, octets uint64, err error) {
	if l.keyOctets == 4 {
		return fillMap(l.hash, prefixes, func(p netip.Prefix) [4]byte { return p.Addr().As4() })
	}
	return fillMap(l.hash, prefixes, func(p netip.Prefix) [16]byte { return p.Addr().As16() })
}

func fillMap[K any](m *ebpf.Map, prefixes []netip.Prefix, keyOf func(netip.Prefix) K) (nsEach float64, octets uint64, err error) {
	var spent time.Duration
	for from := 0; from < len(prefixes); from += fillBatch {
		part := prefixes[from:min(from+fillBatch, len(prefixes))]
		keys, values := make([]K, len(part)), make([]uint32, len(part))
		for i, p := range part {
			keys[i], values[i] = keyOf(p), uint32(p.Bits())
		}
		began := time.Now()
		if _, err := m.BatchUpdate(keys, values, nil); err != nil {
			return 0, 0, fmt.Errorf("fill %s: %w", m, err)
		}
		spent += time.Since(began)
	}
	octets, err = octetsOf(m)
	return float64(spent.Nanoseconds()) / float64(len(prefixes)), octets, err
}

// engineOctets is what the kernel accounts to all maps of the engine, and to the table that is in force.
func (l *lookups) engineOctets() (uint64, error) {
	names, err := os.ReadDir(l.directory)
	if err != nil {
		return 0, err
	}
	sum, err := l.tableOctets()
	for _, name := range names {
		if err != nil {
			return 0, err
		}
		var m *ebpf.Map
		if m, err = ebpf.LoadPinnedMap(filepath.Join(l.directory, name.Name()), nil); err != nil {
			return 0, err
		}
		var octets uint64
		octets, err = octetsOf(m)
		err = errors.Join(err, m.Close())
		sum += octets
	}
	return sum, err
}

// tableOctets is what the kernel accounts to the tables that a lookup walks.
func (l *lookups) tableOctets() (sum uint64, err error) {
	for _, outer := range l.pinned[:4] { // fib, wide, numbers and groups
		for index := range outer.MaxEntries() {
			var table *ebpf.Map
			if outer.Lookup(index, &table) != nil {
				continue
			}
			octets, err := octetsOf(table)
			if err := errors.Join(err, table.Close()); err != nil {
				return 0, err
			}
			sum += octets
		}
	}
	return sum, nil
}

func octetsOf(m *ebpf.Map) (uint64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	octets, _ := info.Memlock()
	return octets, nil
}
