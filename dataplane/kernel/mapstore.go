// SPDX-License-Identifier: Apache-2.0

// This file creates, pins and reopens the maps, those of bpf/maps.h and a few of
// user space alone, and gives access to their memory. The maps outlive the process;
// nothing here interprets an entry.

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// ErrNewer says that pinned maps are those of a later version of Loci.
var ErrNewer = errors.New("the pinned maps are of a newer Loci: run that one, or let `loci datapath detach` remove them, which ends the forwarding by them")

// ErrABI says that pinned maps are not those of any version of Loci that this one knows.
var ErrABI = errors.New("the pinned maps are of another layout: `loci datapath detach` removes them and ends the forwarding by them")

// Maps of user space alone, pinned beside the programs'.
const (
	mapWords    = "user_words"    // 64-bit words, see the constants below
	mapSettings = "user_settings" // JSON behind its length in 4 octets
	mapStates   = "user_states"   // lisp_rloc_key -> LocatorState
)

// Words of mapWords: first user space's drops by reason, as the programs have theirs.
const (
	wordHeldPackets = 64 + iota
	wordEventsLost
	wordClockOffset       // wall clock ahead of the time since boot, in nanoseconds
	wordNamespace         // cookie of the network namespace that the instance is in
	wordTAPErrors         // how often the TAP could not be read, or not be made anew
	wordHandedOver        // packets given to the control plane
	wordPathErrorsRefused // ICMP errors about packets that this router did not send
	wordOuterFragmented   // packets sent in outer fragments
	wordReassembled       // outer packets that came in fragments
	wordUnreachablesSent  // Destination Unreachable sent about dropped packets

	// From here on they are about the maps themselves, which those of a later layout do not take over.
	wordPlacesKept = words - 20 // 1: those that follow are true
	wordPlaces     = words - 19 // placeWords
	words          = 128
)

// mapLimits are the sizes that the user chooses; 0 leaves them to us.
type mapLimits struct{ mappings, locatorSets int }

// entries returns the sizes of maps on a machine of so many processors.
func (l mapLimits) entries(processors int) (map[string]uint32, error) {
	mappings, locatorSets := l.mappings, l.locatorSets
	if mappings <= 0 {
		mappings = DefaultMappingLimit
	}
	if locatorSets <= 0 {
		locatorSets = DefaultLocatorSetLimit(mappings)
	}
	if max(mappings*processors, locatorSets) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d mappings on %d processors, %d locator-sets", dataplane.ErrInvalid, mappings, processors, locatorSets)
	}
	return map[string]uint32{
		abi.MapMappings: uint32(mappings), abi.MapMappingCounters: uint32(mappings * processors),
		abi.MapLocatorSets: uint32(locatorSets), abi.MapLocators: locatorsBeside(locatorSets),
		abi.MapActions: uint32(actionsEach * processors), abi.MapFlows: uint32(flowsEach * processors),
		abi.MapMappingPages: uint32(wordsOfPages(mappings)),
	}, nil
}

// actionsEach is LISP_ACTIONS, flowsEach LISP_FLOWS.
const (
	actionsEach = 8192
	flowsEach   = 8192
)

// locatorsBeside is how many locators so many locator-sets may have together: two
// each, which is what most have at most, and some for the few that have many.
func locatorsBeside(locatorSets int) uint32 {
	const spare = 1 << 10
	return uint32(min(2*locatorSets+spare, math.MaxUint32))
}

// mapStore is the set of open maps.
type mapStore struct {
	spec *ebpf.CollectionSpec
	maps map[string]*ebpf.Map

	records  []abi.Mapping
	pages    []uint64
	usage    []abi.MappingCounters // of all records for one processor after the other
	sets     []abi.LocatorSet
	locators []abi.Locator
	words    []uint64
	mapped   [][]byte

	instances *instances
	slots     interfaceSlots
	changed   generations
	unread    unread
	table     *fibTable            // in force
	pending   []*fibTable          // made since
	prepared  *preparedTable       // for NewTable, nil when there is none
	blocks    map[uint32]*fibTable // those of roots, in force or made since
	nextBlock *preparedBlock       // for NewFirstLevel, nil when there is none
	groups    map[uint32]*fibTable // by their numbers
	outer     map[string]*outerMap // by their names

	background sync.WaitGroup // those that prepare a table or take one away
	clearing   sync.Once      // of groups of an earlier process
	cleared    sync.WaitGroup // whoever does that, or takes away groups of this one
	closing    atomic.Bool
}

// userMapSpecs describes the maps of user space alone.
func userMapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		mapWords:    {Name: mapWords, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: words, Flags: unix.BPF_F_MMAPABLE},
		mapSettings: {Name: mapSettings, Type: ebpf.Array, KeySize: 4, ValueSize: maxSettingsOctets, MaxEntries: 1},
		mapStates: {Name: mapStates, Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(abi.RLOCKey{})), ValueSize: 1,
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
	}
}

// openMapStore reopens the pinned maps of a complete instance or makes new ones.
func openMapStore(pins *pinDirectory, limits mapLimits) (s *mapStore, found bool, err error) {
	spec, err := abi.LoadTC()
	if err != nil {
		return nil, false, fmt.Errorf("reading the BPF object: %w", err)
	}
	opened := &mapStore{spec: spec, maps: map[string]*ebpf.Map{}, blocks: map[uint32]*fibTable{}, groups: map[uint32]*fibTable{}}
	defer func() {
		if err != nil {
			_ = opened.close()
		}
	}()
	if _, err := os.Stat(pins.maps()); err == nil {
		found = true
		if err := opened.reopen(pins.maps()); err != nil {
			return nil, true, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("pinned maps: %w", err)
	} else if err := opened.create(pins, limits); err != nil {
		return nil, false, err
	} else if err := pins.show(); err != nil {
		return nil, false, err
	}
	return opened, found, opened.mapMemory()
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

// create makes all maps and pins them aside; pins.show puts them in their place.
func (s *mapStore) create(pins *pinDirectory, limits mapLimits) error {
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting processors: %w", err)
	}
	sizes, err := limits.entries(processors)
	if err != nil {
		return err
	}
	for name, entries := range sizes {
		s.spec.Maps[name].MaxEntries = entries
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
	if err := s.maps[mapWords].Put(uint32(wordPlacesKept), uint64(1)); err != nil {
		return fmt.Errorf("storing that the maps are empty: %w", err)
	}
	return s.putSettings(abi.Settings{AbiVersion: abi.Version})
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
	var settings abi.Settings
	if err := s.maps[abi.MapSettings].Lookup(uint32(0), &settings); err != nil {
		return fmt.Errorf("reading the pinned settings: %w", err)
	}
	if settings.AbiVersion != abi.Version {
		return fmt.Errorf("version %d, this one is %d: %w", settings.AbiVersion, abi.Version, ErrABI)
	}
	return nil
}

// programs loads the programs to use the maps.
func (s *mapStore) programs(decapFlags bool) (*abi.TCPrograms, error) {
	spec := s.spec.Copy()
	if decapFlags {
		if err := spec.Variables[abi.VarDecapL3Flags].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("preparing the BPF programs: %w", err)
		}
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.records))); err != nil {
		return nil, fmt.Errorf("preparing the BPF programs: %w", err)
	}
	var programs abi.TCPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the BPF programs: %w", err)
	}
	return &programs, nil
}

// Places of the map of XDP programs (bpf/maps.h).
const (
	xdpCore = iota
	xdpSite
	xdpSets
	xdpPrograms
)

// xdpProgram loads the programs of the XDP hook to use the same maps, and returns the
// one to attach. A program of an earlier process that is attached calls the new ones
// from now on, which the layout that both have allows; the map keeps them loaded.
func (s *mapStore) xdpProgram() (*ebpf.Program, error) {
	spec, err := abi.LoadXDP()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object for XDP: %w", err)
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.records))); err != nil {
		return nil, fmt.Errorf("preparing the XDP programs: %w", err)
	}
	var programs abi.XDPPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the XDP programs: %w", err)
	}
	defer programs.LispXdpCore.Close()
	defer programs.LispXdpSite.Close()
	defer programs.LispXdpSets.Close()
	behind := []*ebpf.Program{xdpCore: programs.LispXdpCore, xdpSite: programs.LispXdpSite, xdpSets: programs.LispXdpSets}
	for place, program := range behind {
		if err := s.maps[abi.MapXDPPrograms].Put(uint32(place), program); err != nil {
			return nil, errors.Join(fmt.Errorf("joining the XDP programs: %w", err), programs.LispXdp.Close())
		}
	}
	return programs.LispXdp, nil
}

// sharing makes programs use our maps, whose sizes are those that count.
func (s *mapStore) sharing(spec *ebpf.CollectionSpec) *ebpf.CollectionOptions {
	replacements := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if own, ok := s.maps[name]; ok {
			replacements[name], m.MaxEntries = own, own.MaxEntries()
		}
	}
	return &ebpf.CollectionOptions{MapReplacements: replacements}
}

// mapMemory maps the arrays that are read and written as memory.
func (s *mapStore) mapMemory() error {
	of := map[string][]byte{}
	for _, name := range []string{
		abi.MapMappings, abi.MapMappingPages, abi.MapMappingCounters, abi.MapLocatorSets, abi.MapLocators,
		mapWords, abi.MapRoots, abi.MapInterfaceSlots, abi.MapGenerations, abi.MapUnread,
	} {
		memory, err := s.mmap(s.maps[name])
		if err != nil {
			return err
		}
		of[name] = memory
		s.mapped = append(s.mapped, memory)
	}
	s.changed = generations{&memoryOf[abi.Generations](s, of, abi.MapGenerations)[0]}
	s.unread = unread{&memoryOf[abi.Unread](s, of, abi.MapUnread)[0]}
	s.records = memoryOf[abi.Mapping](s, of, abi.MapMappings)
	s.pages = memoryOf[uint64](s, of, abi.MapMappingPages)
	s.usage = memoryOf[abi.MappingCounters](s, of, abi.MapMappingCounters)
	s.sets = memoryOf[abi.LocatorSet](s, of, abi.MapLocatorSets)
	s.locators = memoryOf[abi.Locator](s, of, abi.MapLocators)
	s.words = memoryOf[uint64](s, of, mapWords)
	s.slots = memoryOf[abi.InterfaceSlot](s, of, abi.MapInterfaceSlots)
	var err error
	if s.outer, err = s.outerMaps(); err != nil {
		return err
	}
	s.instances, err = openInstances(s.maps[abi.MapInstances], memoryOf[abi.Roots](s, of, abi.MapRoots))
	return err
}

// memoryOf sees the memory of a map, one of those by their names, as its values.
func memoryOf[T any](s *mapStore, memory map[string][]byte, name string) []T {
	return viewOf[T](memory[name], s.maps[name])
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
	s.closing.Store(true)
	s.background.Wait()
	s.cleared.Wait()
	_ = s.takePrepared(0)
	errs := []error{s.dropNextBlock()}
	for _, memory := range s.mapped {
		errs = append(errs, unix.Munmap(memory))
	}
	s.mapped = nil
	for _, table := range slices.Concat(slices.Collect(maps.Values(s.blocks)), s.pending, []*fibTable{s.table}, slices.Collect(maps.Values(s.groups))) {
		if table != nil {
			errs = append(errs, table.close())
		}
	}
	s.table, s.pending, s.blocks, s.groups = nil, nil, nil, nil
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// putSettings stores what the programs read.
func (s *mapStore) putSettings(settings abi.Settings) error {
	if err := s.maps[abi.MapSettings].Put(uint32(0), settings); err != nil {
		return fmt.Errorf("storing the programs' settings: %w", err)
	}
	if s.changed.numbers != nil { // not before there are programs
		s.changed.all()
	}
	return nil
}
