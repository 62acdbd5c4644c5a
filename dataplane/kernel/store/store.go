// SPDX-License-Identifier: Apache-2.0

// This file creates, pins and reopens the maps, those of bpf/maps.h and a few of
// user space alone, and gives access to their memory. The maps outlive the process;
// nothing here interprets an entry.

package store

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
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/tables"
)

// ErrNewer says that pinned maps are those of a later version of Loci.
var ErrNewer = errors.New("the pinned maps are of a newer Loci: run that one, or let `loci datapath detach` remove them, which ends the forwarding by them")

// ErrABI says that pinned maps are not those of any version of Loci that this one knows.
var ErrABI = errors.New("the pinned maps are of another layout: `loci datapath detach` removes them and ends the forwarding by them")

// Maps of user space alone, pinned beside the programs'.
const (
	MapWords         = "user_words"    // 64-bit words, see the constants below
	MapSavedSettings = "user_settings" // JSON behind its length in 4 octets
	MapSavedStates   = "user_states"   // lisp_rloc_key -> LocatorState
)

// Words of mapWords: first user space's drops by reason, as the programs have theirs.
const (
	WordHeldPackets = 64 + iota
	WordEventsLost
	WordClockOffset       // wall clock ahead of the time since boot, in nanoseconds
	WordNamespace         // cookie of the network namespace that the instance is in
	WordTAPErrors         // how often the TAP could not be read, or not be made anew
	WordHandedOver        // packets given to the control plane
	WordPathErrorsRefused // ICMP errors about packets that this router did not send
	WordOuterFragmented   // packets sent in outer fragments
	WordReassembled       // outer packets that came in fragments
	WordUnreachablesSent  // Destination Unreachable sent about dropped packets

	// From here on they are about the maps themselves, which those of a later layout do not take over.
	WordPlacesKept = Words - 20 // 1: those that follow are true
	wordPlaces     = Words - 19 // placeWords
	Words          = 128
)

// Limits are the sizes that the user chooses; 0 leaves them to us.
type Limits struct{ Mappings, LocatorSets int }

// entries returns the sizes of maps on a machine of so many processors.
func (l Limits) entries(processors int) (map[string]uint32, error) {
	mappings, locatorSets := l.Mappings, l.LocatorSets
	if mappings <= 0 {
		mappings = tables.DefaultMappings
	}
	if locatorSets <= 0 {
		locatorSets = tables.DefaultLocatorSets(mappings)
	}
	if max(mappings*processors, locatorSets) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d mappings on %d processors, %d locator-sets", dataplane.ErrInvalid, mappings, processors, locatorSets)
	}
	return map[string]uint32{
		abi.MapMappings: uint32(mappings), abi.MapMappingCounters: uint32(mappings * processors),
		abi.MapLocatorSets: uint32(locatorSets), abi.MapLocators: tables.LocatorsBeside(locatorSets),
		abi.MapActions: uint32(abi.ActionsEach * processors), abi.MapFlows: uint32(abi.FlowsEach * processors),
		abi.MapMappingRuns: uint32(tables.RunWords(mappings)),
	}, nil
}

// Store is the set of open maps.
type Store struct {
	Spec *ebpf.CollectionSpec
	maps map[string]*ebpf.Map

	Records  []abi.Mapping
	Runs     []uint64
	Usage    []abi.MappingCounters // of all records for one processor after the other
	Sets     []abi.LocatorSet
	Locators []abi.Locator
	Words    []uint64
	mapped   [][]byte

	Instances      *Instances
	Slots          InterfaceSlots
	Changed        tables.Generations
	Backlog        *abi.Backlog
	table          *fibTable            // in force
	pending        []*fibTable          // made since
	prepared       *preparedTable       // for NewTable, nil when there is none
	firstLevels    map[uint32]*fibTable // those of roots, in force or made since
	nextFirstLevel *preparedFirstLevel  // for NewFirstLevel, nil when there is none
	secondLevels   map[uint32]*fibTable // by their numbers
	outer          map[string]*outerMap // by their names

	background sync.WaitGroup // those that prepare a table or take one away
	clearing   sync.Once      // of groups of an earlier process
	cleared    sync.WaitGroup // the goroutine that does that, and those that take away groups of this one
	closing    atomic.Bool
}

// userMapSpecs describes the maps of user space alone.
func userMapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		MapWords:         {Name: MapWords, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: Words, Flags: unix.BPF_F_MMAPABLE},
		MapSavedSettings: {Name: MapSavedSettings, Type: ebpf.Array, KeySize: 4, ValueSize: maxSettingsOctets, MaxEntries: 1},
		MapSavedStates: {Name: MapSavedStates, Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(abi.RLOCKey{})), ValueSize: 1,
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
	}
}

// Open reopens the pinned maps of a complete instance or makes new ones.
func Open(pins *pins.Directory, limits Limits) (s *Store, found bool, err error) {
	switch _, err := os.Stat(pins.Maps()); {
	case err == nil:
		s, err = OpenPinned(pins.Maps())
		if err == nil {
			err = s.mapMemory()
		}
		if err != nil {
			return nil, true, errors.Join(err, s.Close())
		}
		return s, true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("pinned maps: %w", err)
	}
	if s, err = Create(pins, limits); err != nil {
		return nil, false, err
	}
	if err := pins.Show(); err != nil {
		return nil, false, errors.Join(err, s.Close())
	}
	return s, false, nil
}

// Create makes all maps and pins them aside; pins.show puts them in their place.
func Create(pins *pins.Directory, limits Limits) (*Store, error) {
	s, err := empty()
	if err != nil {
		return nil, err
	}
	if err = s.create(pins, limits); err == nil {
		err = s.mapMemory()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenPinned opens the maps that are pinned in a directory, to look at them: their memory is not mapped. After
// an error the caller closes it as well.
func OpenPinned(directory string) (*Store, error) {
	s, err := empty()
	if err == nil {
		err = s.reopen(directory)
	}
	return s, err
}

func empty() (*Store, error) {
	s := &Store{maps: map[string]*ebpf.Map{}, firstLevels: map[uint32]*fibTable{}, secondLevels: map[uint32]*fibTable{}}
	var err error
	if s.Spec, err = abi.LoadTC(); err != nil {
		return s, fmt.Errorf("reading the BPF object: %w", err)
	}
	return s, nil
}

// Map returns a map by its name.
func (s *Store) Map(name string) *ebpf.Map { return s.maps[name] }

func (s *Store) specs() map[string]*ebpf.MapSpec {
	specs := userMapSpecs()
	for name, spec := range s.Spec.Maps {
		if name[0] != '.' { // sections of the programs' constants
			specs[name] = spec
		}
	}
	return specs
}

// create makes all maps and pins them aside.
func (s *Store) create(pins *pins.Directory, limits Limits) error {
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting processors: %w", err)
	}
	sizes, err := limits.entries(processors)
	if err != nil {
		return err
	}
	for name, entries := range sizes {
		s.Spec.Maps[name].MaxEntries = entries
	}
	building := pins.Building()
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
	if err := s.maps[MapWords].Put(uint32(WordPlacesKept), uint64(1)); err != nil {
		return fmt.Errorf("storing that the maps are empty: %w", err)
	}
	return s.PutSettings(abi.Settings{AbiVersion: abi.Version})
}

// reopen opens pinned maps, whose sizes hold from then on.
func (s *Store) reopen(directory string) error {
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

// Programs loads the programs to use the maps.
func (s *Store) Programs(decapFlags bool) (*abi.TCPrograms, error) {
	spec := s.Spec.Copy()
	if decapFlags {
		if err := spec.Variables[abi.VarDecapL3Flags].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("preparing the BPF programs: %w", err)
		}
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.Records))); err != nil {
		return nil, fmt.Errorf("preparing the BPF programs: %w", err)
	}
	var programs abi.TCPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the BPF programs: %w", err)
	}
	return &programs, nil
}

// XdpProgram loads the programs of the XDP hook to use the same maps, and returns the
// one to attach. A program of an earlier process that is attached calls the new ones
// from now on, which the layout that both have allows; the map keeps them loaded.
func (s *Store) XdpProgram() (*ebpf.Program, error) {
	spec, err := abi.LoadXDP()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object for XDP: %w", err)
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.Records))); err != nil {
		return nil, fmt.Errorf("preparing the XDP programs: %w", err)
	}
	var programs abi.XDPPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the XDP programs: %w", err)
	}
	defer programs.LispXdpCore.Close()
	defer programs.LispXdpSite.Close()
	defer programs.LispXdpSets.Close()
	behind := []*ebpf.Program{abi.XDPCore: programs.LispXdpCore, abi.XDPSite: programs.LispXdpSite, abi.XDPSets: programs.LispXdpSets}
	for place, program := range behind {
		if err := s.maps[abi.MapXDPPrograms].Put(uint32(place), program); err != nil {
			return nil, errors.Join(fmt.Errorf("joining the XDP programs: %w", err), programs.LispXdp.Close())
		}
	}
	return programs.LispXdp, nil
}

// sharing makes programs use our maps, whose sizes are those that count.
func (s *Store) sharing(spec *ebpf.CollectionSpec) *ebpf.CollectionOptions {
	replacements := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if own, ok := s.maps[name]; ok {
			replacements[name], m.MaxEntries = own, own.MaxEntries()
		}
	}
	return &ebpf.CollectionOptions{MapReplacements: replacements}
}

// mapMemory maps the arrays that are read and written as memory.
func (s *Store) mapMemory() error {
	of := map[string][]byte{}
	for _, name := range []string{
		abi.MapMappings, abi.MapMappingRuns, abi.MapMappingCounters, abi.MapLocatorSets, abi.MapLocators,
		MapWords, abi.MapRoots, abi.MapInterfaceSlots, abi.MapGenerations, abi.MapBacklog,
	} {
		memory, err := s.mmap(s.maps[name])
		if err != nil {
			return err
		}
		of[name] = memory
		s.mapped = append(s.mapped, memory)
	}
	s.Changed = tables.Generations{Numbers: &memoryOf[abi.Generations](s, of, abi.MapGenerations)[0]}
	s.Backlog = &memoryOf[abi.Backlog](s, of, abi.MapBacklog)[0]
	s.Records = memoryOf[abi.Mapping](s, of, abi.MapMappings)
	s.Runs = memoryOf[uint64](s, of, abi.MapMappingRuns)
	s.Usage = memoryOf[abi.MappingCounters](s, of, abi.MapMappingCounters)
	s.Sets = memoryOf[abi.LocatorSet](s, of, abi.MapLocatorSets)
	s.Locators = memoryOf[abi.Locator](s, of, abi.MapLocators)
	s.Words = memoryOf[uint64](s, of, MapWords)
	s.Slots = memoryOf[abi.InterfaceSlot](s, of, abi.MapInterfaceSlots)
	var err error
	if s.outer, err = s.outerMaps(); err != nil {
		return err
	}
	s.Instances, err = openInstances(s.maps[abi.MapInstances], memoryOf[abi.Roots](s, of, abi.MapRoots))
	return err
}

// memoryOf sees the memory of a map, one of those by their names, as its values.
func memoryOf[T any](s *Store, memory map[string][]byte, name string) []T {
	return viewOf[T](memory[name], s.maps[name])
}

func (s *Store) mmap(m *ebpf.Map) ([]byte, error) {
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

// Close lets go of the maps; what is pinned or used by programs lives on.
func (s *Store) Close() error {
	s.closing.Store(true)
	s.background.Wait()
	s.cleared.Wait()
	_ = s.takePrepared(0)
	errs := []error{s.dropNextFirstLevel()}
	for _, memory := range s.mapped {
		errs = append(errs, unix.Munmap(memory))
	}
	s.mapped = nil
	for _, table := range slices.Concat(slices.Collect(maps.Values(s.firstLevels)), s.pending, []*fibTable{s.table}, slices.Collect(maps.Values(s.secondLevels))) {
		if table != nil {
			errs = append(errs, table.close())
		}
	}
	s.table, s.pending, s.firstLevels, s.secondLevels = nil, nil, nil, nil
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// PutSettings stores what the programs read.
func (s *Store) PutSettings(settings abi.Settings) error {
	if err := s.maps[abi.MapSettings].Put(uint32(0), settings); err != nil {
		return fmt.Errorf("storing the programs' settings: %w", err)
	}
	if s.Changed.Numbers != nil { // not before there are programs
		s.Changed.All()
	}
	return nil
}

// Maps are the maps by their names, for readers.
func (s *Store) Maps() map[string]*ebpf.Map { return s.maps }
