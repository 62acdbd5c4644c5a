// SPDX-License-Identifier: Apache-2.0

// This file creates, pins and reopens the maps, those of bpf/maps.h and a few of
// user space alone, and gives access to their memory. The maps outlive the process;
// nothing here interprets an entry.

package kernel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// abiVersion is LISP_ABI_VERSION, which a test compares.
const abiVersion = 1

// ErrABI says that pinned maps are those of another version of Loci.
var ErrABI = errors.New("the pinned maps have another layout: detach that instance first")

// Maps of user space alone, pinned beside the programs'.
const (
	mapWords    = "user_words"    // 64-bit words, see the constants below
	mapSettings = "user_settings" // JSON behind its length in 4 octets
	mapStates   = "user_states"   // lisp_rloc_key -> LocatorState
	mapOverflow = "user_overflow" // index of a locator-set -> locators beyond maxInstalled
)

// Words of mapWords: first user space's drops by reason, as the programs have theirs.
const (
	wordHeldPackets = 64 + iota
	wordEventsLost
	wordClockOffset // wall clock ahead of the time since boot, in nanoseconds
	wordNamespace   // cookie of the network namespace that the instance is in
	words           = 128
)

const (
	maxSettingsOctets = 1 << 18
	maxLocatorStates  = 1 << 16
	overflowPlaces    = lisp.MaxLocators - maxInstalled
)

// overflowRecord is what stands aside of a set; Family 0 marks an empty place.
type overflowRecord [overflowPlaces]lisptcLispLocator

// mapLimits are the sizes that the user chooses.
type mapLimits struct{ mappings, locatorSets int }

// mapStore is the set of open maps.
type mapStore struct {
	spec *ebpf.CollectionSpec
	maps map[string]*ebpf.Map

	records []lisptcLispMapping
	sets    []lisptcLispLocatorSet
	words   []uint64
	mapped  [][]byte

	table   *fibTable   // in force
	pending []*fibTable // made since
}

// A fibTable is an inner map of fib.
type fibTable struct {
	index  uint32
	m      *ebpf.Map
	memory []byte
}

// userMapSpecs describes the maps of user space alone.
func userMapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		mapWords:    {Name: mapWords, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: words, Flags: unix.BPF_F_MMAPABLE},
		mapSettings: {Name: mapSettings, Type: ebpf.Array, KeySize: 4, ValueSize: maxSettingsOctets, MaxEntries: 1},
		mapStates: {Name: mapStates, Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(lisptcLispRlocKey{})), ValueSize: 1,
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
		mapOverflow: {Name: mapOverflow, Type: ebpf.Hash, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(overflowRecord{})),
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
	}
}

// openMapStore reopens the pinned maps of a complete instance or makes new ones.
func openMapStore(pins *pinDirectory, limits mapLimits) (s *mapStore, found bool, err error) {
	spec, err := loadLisptc()
	if err != nil {
		return nil, false, fmt.Errorf("reading the BPF object: %w", err)
	}
	s = &mapStore{spec: spec, maps: map[string]*ebpf.Map{}}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if _, err := os.Stat(pins.maps()); err == nil {
		found = true
		if err := s.reopen(pins.maps()); err != nil {
			return nil, true, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("pinned maps: %w", err)
	} else if err := s.create(pins, limits); err != nil {
		return nil, false, err
	}
	return s, found, s.mapMemory()
}

func (s *mapStore) specs() map[string]*ebpf.MapSpec {
	specs := userMapSpecs()
	for name, spec := range s.spec.Maps {
		if name[0] != '.' { // sections of the programs' constants
			specs[name] = spec
		}
	}
	return specs
}

// create makes all maps and pins them; they show under their final name together.
func (s *mapStore) create(pins *pinDirectory, limits mapLimits) error {
	for name, entries := range map[string]int{
		lisptcMapMappings: limits.mappings, lisptcMapMappingCounters: limits.mappings, lisptcMapLocatorSets: limits.locatorSets,
	} {
		s.spec.Maps[name].MaxEntries = uint32(entries)
	}
	building := pins.building()
	if err := errors.Join(os.RemoveAll(building), os.Mkdir(building, 0o700)); err != nil {
		return fmt.Errorf("pin directory: %w", err)
	}
	for name, spec := range s.specs() {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("making map %s: %w", name, err)
		}
		s.maps[name] = m
		if err := m.Pin(filepath.Join(building, name)); err != nil {
			return fmt.Errorf("pinning map %s: %w", name, err)
		}
	}
	if err := s.putSettings(lisptcLispSettings{AbiVersion: abiVersion}); err != nil {
		return err
	}
	if err := os.Rename(building, pins.maps()); err != nil {
		return fmt.Errorf("pinning the maps: %w", err)
	}
	return nil
}

// reopen opens pinned maps, whose sizes hold from then on.
func (s *mapStore) reopen(directory string) error {
	for name, spec := range s.specs() {
		m, err := ebpf.LoadPinnedMap(filepath.Join(directory, name), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("map %s is not pinned: %w", name, ErrABI)
		}
		if err != nil {
			return fmt.Errorf("opening pinned map %s: %w", name, err)
		}
		s.maps[name] = m
		if m.KeySize() != spec.KeySize || m.ValueSize() != spec.ValueSize || m.Type() != spec.Type {
			return fmt.Errorf("map %s: %w", name, ErrABI)
		}
		spec.MaxEntries = m.MaxEntries()
	}
	var settings lisptcLispSettings
	if err := s.maps[lisptcMapSettings].Lookup(uint32(0), &settings); err != nil {
		return fmt.Errorf("reading the pinned settings: %w", err)
	}
	if settings.AbiVersion != abiVersion {
		return fmt.Errorf("version %d, this one is %d: %w", settings.AbiVersion, abiVersion, ErrABI)
	}
	return nil
}

// programs loads the programs to use the maps.
func (s *mapStore) programs(decapFlags bool) (*lisptcPrograms, error) {
	spec := s.spec.Copy()
	if decapFlags {
		if err := spec.Variables[lisptcVarLispDecapL3Flags].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("preparing the BPF programs: %w", err)
		}
	}
	replacements := map[string]*ebpf.Map{}
	for name := range spec.Maps {
		if m, ok := s.maps[name]; ok {
			replacements[name] = m
		}
	}
	var programs lisptcPrograms
	if err := spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: replacements}); err != nil {
		return nil, fmt.Errorf("loading the BPF programs: %w", err)
	}
	return &programs, nil
}

// mapMemory maps the arrays that are read and written as memory.
func (s *mapStore) mapMemory() error {
	records, err := s.mmap(s.maps[lisptcMapMappings])
	if err != nil {
		return err
	}
	sets, err := s.mmap(s.maps[lisptcMapLocatorSets])
	if err != nil {
		return err
	}
	user, err := s.mmap(s.maps[mapWords])
	if err != nil {
		return err
	}
	s.mapped = [][]byte{records, sets, user}
	s.records = viewOf[lisptcLispMapping](records, s.maps[lisptcMapMappings])
	s.sets = viewOf[lisptcLispLocatorSet](sets, s.maps[lisptcMapLocatorSets])
	s.words = viewOf[uint64](user, s.maps[mapWords])
	return nil
}

func (s *mapStore) mmap(m *ebpf.Map) ([]byte, error) {
	octets := int(m.MaxEntries()) * int(m.ValueSize())
	memory, err := unix.Mmap(m.FD(), 0, octets, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d octets of map %v: %w", octets, m, err)
	}
	return memory, nil
}

// viewOf sees the memory of an array map as its values, whose sizes are multiples
// of 8 octets, so that they stand side by side.
func viewOf[T any](memory []byte, m *ebpf.Map) []T {
	if unsafe.Sizeof(*new(T))%8 != 0 || uintptr(m.ValueSize()) != unsafe.Sizeof(*new(T)) {
		panic("dataplane/kernel: a map's values are not those of abi.h")
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), m.MaxEntries())
}

// close lets go of the maps; what is pinned or used by programs lives on.
func (s *mapStore) close() error {
	var errs []error
	for _, memory := range s.mapped {
		errs = append(errs, unix.Munmap(memory))
	}
	s.mapped = nil
	for _, table := range append(s.pending, s.table) {
		if table != nil {
			errs = append(errs, table.close())
		}
	}
	s.table, s.pending = nil, nil
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

func (t *fibTable) close() error {
	return errors.Join(unix.Munmap(t.memory), t.m.Close())
}

// newTable implements tableMaps.
func (s *mapStore) newTable(nodes int) ([]uint32, error) {
	spec := s.spec.Maps[lisptcMapFib].InnerMap.Copy()
	spec.MaxEntries = uint32(nodes)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("making a forwarding table of %d nodes: %w", nodes, err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	s.pending = append(s.pending, &fibTable{m: m, memory: memory})
	return unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), nodes*nodeSlots), nil
}

// switchTable implements tableMaps.
func (s *mapStore) switchTable(roots map[lisptcLispRootKey]uint32) error {
	if len(s.pending) == 0 {
		return errors.New("there is no new forwarding table to switch to")
	}
	next := s.pending[len(s.pending)-1]
	index, err := s.freeTableIndex()
	if err != nil {
		return err
	}
	next.index = index
	fib := s.maps[lisptcMapFib]
	if err := fib.Put(index, next.m); err != nil {
		return fmt.Errorf("adding a forwarding table: %w", err)
	}
	for key, node := range roots {
		if err := s.putRootIn(next, key, node); err != nil {
			return errors.Join(err, s.takeBack(roots))
		}
	}
	previous := s.table
	s.table = next
	if err := s.deleteOtherRoots(roots); err != nil {
		return err
	}
	waitForPrograms()
	return s.deleteOtherTables(previous)
}

// takeBack undoes half a switch.
func (s *mapStore) takeBack(roots map[lisptcLispRootKey]uint32) error {
	if s.table == nil {
		return nil
	}
	var errs []error
	for key, node := range roots {
		errs = append(errs, s.putRootIn(s.table, key, node))
	}
	return errors.Join(errs...)
}

func (s *mapStore) freeTableIndex() (uint32, error) {
	fib := s.maps[lisptcMapFib]
	for index := range fib.MaxEntries() {
		var id uint32
		if err := fib.Lookup(index, &id); errors.Is(err, ebpf.ErrKeyNotExist) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("%w: %d forwarding tables", dataplane.ErrFull, fib.MaxEntries())
}

func (s *mapStore) deleteOtherRoots(roots map[lisptcLispRootKey]uint32) error {
	var key lisptcLispRootKey
	var value lisptcLispRoot
	var others []lisptcLispRootKey
	iterator := s.maps[lisptcMapRoots].Iterate()
	for iterator.Next(&key, &value) {
		if _, ok := roots[key]; !ok {
			others = append(others, key)
		}
	}
	errs := []error{iterator.Err()}
	for _, key := range others {
		errs = append(errs, s.deleteRoot(key))
	}
	return errors.Join(errs...)
}

// deleteOtherTables removes all tables but the one in force. previous is still
// mapped.
func (s *mapStore) deleteOtherTables(previous *fibTable) error {
	fib := s.maps[lisptcMapFib]
	var errs []error
	for index := range fib.MaxEntries() {
		var id uint32
		if index != s.table.index && fib.Lookup(index, &id) == nil {
			errs = append(errs, fib.Delete(index))
		}
	}
	for _, table := range append(s.pending, previous) {
		if table != nil && table != s.table {
			errs = append(errs, table.close())
		}
	}
	s.pending = nil
	return errors.Join(errs...)
}

// putRoot implements tableMaps.
func (s *mapStore) putRoot(key lisptcLispRootKey, node uint32) error {
	return s.putRootIn(s.table, key, node)
}

func (s *mapStore) putRootIn(table *fibTable, key lisptcLispRootKey, node uint32) error {
	err := s.maps[lisptcMapRoots].Put(key, lisptcLispRoot{Table: table.index, Node: node})
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%w: %d Instance-IDs, families and kinds", dataplane.ErrFull, s.maps[lisptcMapRoots].MaxEntries())
	}
	if err != nil {
		return fmt.Errorf("root of Instance-ID %d: %w", key.Iid, err)
	}
	return nil
}

// deleteRoot implements tableMaps.
func (s *mapStore) deleteRoot(key lisptcLispRootKey) error {
	if err := s.maps[lisptcMapRoots].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("root of Instance-ID %d: %w", key.Iid, err)
	}
	return nil
}

// clearUsage implements tableMaps.
func (s *mapStore) clearUsage(index uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting processors: %w", err)
	}
	if err := s.maps[lisptcMapMappingCounters].Put(index, make([]lisptcLispMappingCounters, cpus)); err != nil {
		return fmt.Errorf("clearing the counters of entry %d: %w", index, err)
	}
	return nil
}

// putOverflow implements overflow.
func (s *mapStore) putOverflow(index uint32, locators []lisptcLispLocator) error {
	var record overflowRecord
	copy(record[:], locators)
	if err := s.maps[mapOverflow].Put(index, record); err != nil {
		return fmt.Errorf("storing the locators of set %d: %w", index, err)
	}
	return nil
}

// deleteOverflow implements overflow.
func (s *mapStore) deleteOverflow(index uint32) error {
	if err := s.maps[mapOverflow].Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("removing the locators of set %d: %w", index, err)
	}
	return nil
}

// overflowOf returns what putOverflow stored.
func (s *mapStore) overflowOf(index uint32) ([]lisptcLispLocator, error) {
	var record overflowRecord
	err := s.maps[mapOverflow].Lookup(index, &record)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the locators of set %d: %w", index, err)
	}
	count := 0
	for count < len(record) && record[count].Family != 0 {
		count++
	}
	return record[:count], nil
}

// putSettings stores what the programs read.
func (s *mapStore) putSettings(settings lisptcLispSettings) error {
	if err := s.maps[lisptcMapSettings].Put(uint32(0), settings); err != nil {
		return fmt.Errorf("storing the programs' settings: %w", err)
	}
	return nil
}

// saveSettings stores the settings for the next process.
func (s *mapStore) saveSettings(settings dataplane.Settings) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if len(text) > maxSettingsOctets-4 {
		return fmt.Errorf("settings: %w: %d octets, at most %d", dataplane.ErrInvalid, len(text), maxSettingsOctets-4)
	}
	value := make([]byte, maxSettingsOctets)
	binary.BigEndian.PutUint32(value, uint32(len(text)))
	copy(value[4:], text)
	if err := s.maps[mapSettings].Put(uint32(0), value); err != nil {
		return fmt.Errorf("storing the settings: %w", err)
	}
	return nil
}

// savedSettings returns what saveSettings stored, false when it never did.
func (s *mapStore) savedSettings() (settings dataplane.Settings, ok bool, err error) {
	value, err := s.maps[mapSettings].LookupBytes(uint32(0))
	if err != nil {
		return settings, false, fmt.Errorf("reading the settings: %w", err)
	}
	octets := binary.BigEndian.Uint32(value)
	if octets == 0 {
		return settings, false, nil
	}
	if octets > uint32(len(value)-4) {
		return settings, false, fmt.Errorf("reading the settings: length %d of %d", octets, len(value)-4)
	}
	if err := json.Unmarshal(value[4:4+octets], &settings); err != nil {
		return settings, false, fmt.Errorf("reading the settings: %w", err)
	}
	return settings, true, nil
}

// saveState stores what is known of an RLOC.
func (s *mapStore) saveState(rloc lisp.RLOC, state dataplane.LocatorState) error {
	err := s.maps[mapStates].Put(rlocKey(rloc), uint8(state))
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("RLOC %v: %w: %d locator states", rloc, dataplane.ErrFull, maxLocatorStates)
	}
	if err != nil {
		return fmt.Errorf("RLOC %v: %w", rloc, err)
	}
	return nil
}

// savedStates calls yield for all states stored.
func (s *mapStore) savedStates(yield func(lisp.RLOC, dataplane.LocatorState)) error {
	var key lisptcLispRlocKey
	var state uint8
	iterator := s.maps[mapStates].Iterate()
	for iterator.Next(&key, &state) {
		yield(rlocFromKey(key), dataplane.LocatorState(state))
	}
	return iterator.Err()
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL, which waits for an RCU grace period:
// for every program that runs now.
const membarrierGlobal = 1

// waitForPrograms returns when no program runs any more that ran when it was called.
func waitForPrograms() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(restTime) // a kernel with nohz_full refuses
	}
}

// sumUsage adds up the counters of all processors.
func sumUsage(perCPU []lisptcLispMappingCounters) (sum lisptcLispMappingCounters) {
	for _, c := range perCPU {
		sum.Packets += c.Packets
		sum.Octets += c.Octets
		sum.LastUsedNs = max(sum.LastUsedNs, min(c.LastUsedNs, math.MaxInt64))
	}
	return sum
}
