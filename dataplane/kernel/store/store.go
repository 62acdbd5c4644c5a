// SPDX-License-Identifier: Apache-2.0

// This file creates, pins and reopens the maps, those of bpf/maps.h and a few of
// user space alone, and gives access to their memory. The maps outlive the process;
// nothing here interprets an entry.

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/tables"
)

// Store is the set of open maps.
type Store struct {
	Spec *ebpf.CollectionSpec
	maps map[string]*ebpf.Map
	// boundOf is how many flows of a source EID are bound (bindings.go)
	boundOf map[abi.BindingKey]int

	Records  []abi.Mapping
	Runs     []uint64
	Usage    []abi.MappingCounters // of all records for one processor after the other
	Sets     []abi.LocatorSet
	Locators []abi.Locator
	Words    []uint64
	mapped   [][]byte

	FIB       *FIB
	Instances *Instances
	Slots     InterfaceSlots
	Changed   tables.Generations
	Backlog   *abi.Backlog
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
	s := &Store{maps: map[string]*ebpf.Map{}, boundOf: map[abi.BindingKey]int{}}
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

// mapMemory maps the arrays that are read and written as memory.
func (s *Store) mapMemory() error {
	of := map[string][]byte{}
	for _, name := range []string{
		abi.MapMappings, abi.MapMappingRuns, abi.MapMappingCounters, abi.MapLocatorSets, abi.MapLocators,
		MapWords, abi.MapRoots, abi.MapInterfaceSlots, abi.MapGenerations, abi.MapBacklog,
	} {
		memory, err := mmap(s.maps[name])
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
	outer, err := openOuterMaps(s.maps, &s.Words[WordPlacesKept], s.Words[wordPlaces:])
	if err != nil {
		return err
	}
	if s.Instances, err = openInstances(s.maps[abi.MapInstances], memoryOf[abi.Roots](s, of, abi.MapRoots)); err != nil {
		return err
	}
	s.FIB = newFIB(s.Spec.Maps, outer, s.Instances)
	return nil
}

// memoryOf sees the memory of a map, one of those by their names, as its values.
func memoryOf[T any](s *Store, memory map[string][]byte, name string) []T {
	return viewOf[T](memory[name], s.maps[name])
}

// Close lets go of the maps; what is pinned or used by programs lives on.
func (s *Store) Close() error {
	var errs []error
	if s.FIB != nil {
		errs = append(errs, s.FIB.release())
	}
	for _, memory := range s.mapped {
		errs = append(errs, unix.Munmap(memory))
	}
	s.mapped = nil
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
