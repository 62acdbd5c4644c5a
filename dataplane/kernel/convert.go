// SPDX-License-Identifier: Apache-2.0

// This file takes over the maps of an older layout (LISP_ABI_VERSION): it makes maps
// of this one beside them, and copies what is in the old ones by the names that their
// fields have in the BTF that the kernel keeps with them. Programs go on with the
// old maps until hooks.replacePrograms. It never changes an old map, and knows of
// no version but where a field has moved.

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/reclaim"
	"loci/lisp"
)

// olderMaps are pinned maps of an older layout.
type olderMaps struct {
	version uint32
	maps    map[string]*ebpf.Map
	words   []uint64
}

// openOlder opens the pinned maps if they are of an older layout; nil when there are
// none, or they are of this one. The error is ErrNewer for a later one.
func openOlder(pins *pinDirectory) (*olderMaps, error) {
	if err := pins.settle(); err != nil {
		return nil, err
	}
	settings, err := ebpf.LoadPinnedMap(filepath.Join(pins.maps(), abi.MapSettings), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // there are no maps, or reopen says what is missing
	}
	if err != nil {
		return nil, fmt.Errorf("opening the pinned settings: %w", err)
	}
	defer settings.Close()
	value, err := settings.LookupBytes(uint32(0))
	if err != nil || len(value) < 4 {
		return nil, fmt.Errorf("reading the pinned settings: %w", errors.Join(err, ErrABI))
	}
	version := binary.NativeEndian.Uint32(value) // first in every layout
	if version > abi.Version {
		return nil, fmt.Errorf("version %d, this one is %d: %w", version, abi.Version, ErrNewer)
	}
	if version == abi.Version {
		return nil, nil
	}
	o := &olderMaps{version: version, maps: map[string]*ebpf.Map{}}
	if err := o.open(pins.maps()); err != nil {
		return nil, errors.Join(fmt.Errorf("version %d, this one is %d: %w: %w", version, abi.Version, ErrABI, err), o.close())
	}
	return o, nil
}

func (o *olderMaps) open(directory string) error {
	names, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.maps[name.Name()], err = ebpf.LoadPinnedMap(filepath.Join(directory, name.Name()), nil); err != nil {
			return fmt.Errorf("map %s: %w", name.Name(), err)
		}
	}
	for _, name := range []string{abi.MapMappings, abi.MapMappingCounters, abi.MapLocatorSets, abi.MapLocators, mapWords, mapSettings} {
		if o.maps[name] == nil {
			return fmt.Errorf("map %s is not pinned", name)
		}
	}
	o.words = make([]uint64, words)
	for i := range min(words, o.maps[mapWords].MaxEntries()) {
		if err := o.maps[mapWords].Lookup(uint32(i), &o.words[i]); err != nil {
			return fmt.Errorf("map %s: %w", mapWords, err)
		}
	}
	return nil
}

// typesOf returns the types that a map mentions.
func typesOf(m *ebpf.Map) (*btf.Spec, error) {
	info, err := m.Info()
	if err != nil {
		return nil, err
	}
	id, ok := info.BTFID()
	if !ok {
		return nil, errors.New("the maps have no BTF")
	}
	handle, err := btf.NewHandleFromID(id)
	if err != nil {
		return nil, fmt.Errorf("BTF of the maps: %w", err)
	}
	defer handle.Close()
	return handle.Spec(nil)
}

func (o *olderMaps) close() error {
	var errs []error
	for _, m := range o.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// A field is where a member of a structure lies.
type field struct{ offset, octets uint32 }

// layoutOf returns the members of a structure by their names.
func layoutOf(types *btf.Spec, name string) (map[string]field, uint32, error) {
	var s *btf.Struct
	if err := types.TypeByName(name, &s); err != nil {
		return nil, 0, fmt.Errorf("struct %s: %w", name, err)
	}
	fields := make(map[string]field, len(s.Members))
	for _, m := range s.Members {
		octets, err := btf.Sizeof(m.Type)
		if err != nil {
			return nil, 0, fmt.Errorf("struct %s: %w", name, err)
		}
		fields[m.Name] = field{m.Offset.Bytes(), uint32(octets)}
	}
	return fields, s.Size, nil
}

// A translator writes structures of this layout from those of an older one.
type translator struct {
	from, to         map[string]field
	fromSize, toSize uint32
}

// translator makes one for a structure that an older map mentions.
func (o *olderMaps) translator(spec *ebpf.CollectionSpec, m *ebpf.Map, name string) (translator, error) {
	types, err := typesOf(m)
	if err != nil {
		return translator{}, err
	}
	return newTranslator(types, spec.Types, name)
}

func newTranslator(from, to *btf.Spec, name string) (t translator, err error) {
	if t.from, t.fromSize, err = layoutOf(from, name); err != nil {
		return t, err
	}
	t.to, t.toSize, err = layoutOf(to, name)
	return t, err
}

// translate copies each member that both have, numbers and arrays from their
// low end; what is new is zero.
func (t *translator) translate(to, from []byte) {
	for name, source := range t.from {
		if target, ok := t.to[name]; ok {
			n := min(source.octets, target.octets)
			copy(to[target.offset:target.offset+n], from[source.offset:source.offset+n])
		}
	}
}

// octetsAt is the memory of a value whose layout is t.to.
func octetsAt[T any](value *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

// convert makes maps of this layout that hold what the older ones do, and puts them
// in their place.
func (o *olderMaps) convert(pins *pinDirectory, limits mapLimits) (*mapStore, error) {
	spec, err := abi.LoadTC()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object: %w", err)
	}
	limits.mappings = max(limits.mappings, int(o.maps[abi.MapMappings].MaxEntries()))
	limits.locatorSets = max(limits.locatorSets, int(o.maps[abi.MapLocatorSets].MaxEntries()))
	s := &mapStore{spec: spec, maps: map[string]*ebpf.Map{}, blocks: map[uint32]*fibTable{}, groups: map[uint32]*fibTable{}}
	err = s.create(pins, limits)
	if err == nil {
		err = s.mapMemory()
	}
	if err == nil {
		err = o.fill(s)
	}
	if err == nil {
		err = pins.show()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("converting version %d: %w", o.version, err), s.close())
	}
	return s, nil
}

func (o *olderMaps) fill(s *mapStore) error {
	copy(s.words[:wordPlacesKept], o.words)
	for _, name := range []string{mapSettings, mapStates} {
		if err := o.copyMap(s, name); err != nil {
			return err
		}
	}
	for _, name := range []string{abi.MapDrops, abi.MapCounters} {
		if err := o.copyCounters(s, name); err != nil {
			return err
		}
	}
	if err := o.copyMappings(s); err != nil {
		return err
	}
	return o.copyLocatorSets(s)
}

// copyMap copies a map whose keys and values every layout has alike.
func (o *olderMaps) copyMap(s *mapStore, name string) error {
	from, to := o.maps[name], s.maps[name]
	if from == nil || from.KeySize() != to.KeySize() || from.ValueSize() != to.ValueSize() {
		return fmt.Errorf("map %s is not what it was in any layout", name)
	}
	var key, value []byte
	iterator := from.Iterate()
	for iterator.Next(&key, &value) {
		if err := to.Put(key, value); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return iterator.Err()
}

// copyCounters copies totals; those of reasons that this layout does not have are gone.
func (o *olderMaps) copyCounters(s *mapStore, name string) error {
	from, to := o.maps[name], s.maps[name]
	if from == nil || from.ValueSize() != to.ValueSize() {
		return nil
	}
	for index := range min(from.MaxEntries(), to.MaxEntries()) {
		var perCPU []abi.Counter
		if err := from.Lookup(index, &perCPU); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		if err := to.Put(index, perCPU); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return nil
}

// copyMappings copies the records in force and their counters; each keeps its index.
func (o *olderMaps) copyMappings(s *mapStore) error {
	mappings, err1 := o.array(s.spec, abi.MapMappings, "lisp_mapping")
	defer mappings.close()
	counters, err2 := o.array(s.spec, abi.MapMappingCounters, "lisp_mapping_counters")
	defer counters.close()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	limit := mappings.m.MaxEntries()
	for index := range limit {
		old, err := mappings.at(index)
		if err != nil {
			return fmt.Errorf("mapping %d: %w", index, err)
		}
		record := &s.records[index]
		mappings.translate(octetsAt(record), old)
		if !inForce(record) {
			*record = abi.Mapping{}
			continue
		}
		for processor := range counters.m.MaxEntries() / limit {
			usage, err := counters.at(processor*limit + index)
			if err != nil {
				return fmt.Errorf("counters of mapping %d: %w", index, err)
			}
			if at := int(processor)*len(s.records) + int(index); at < len(s.usage) {
				counters.translate(octetsAt(&s.usage[at]), usage)
			}
		}
	}
	return nil
}

// copyLocatorSets copies the sets that mappings refer to; each keeps its index.
func (o *olderMaps) copyLocatorSets(s *mapStore) error {
	set, err1 := o.translator(s.spec, o.maps[abi.MapLocatorSets], "lisp_locator_set")
	locator, err2 := o.translator(s.spec, o.maps[abi.MapLocators], "lisp_locator")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	places := reclaim.NewArena(uint32(len(s.locators)), nil, nil)
	old := make([]byte, set.fromSize)
	done := map[uint32]bool{abi.NoLocatorSet: true}
	for i := range s.records {
		index := s.records[i].LocatorSet
		if !inForce(&s.records[i]) || done[index] || int(index) >= len(s.sets) {
			continue
		}
		done[index] = true
		if err := o.maps[abi.MapLocatorSets].Lookup(index, &old); err != nil {
			return fmt.Errorf("locator-set %d: %w", index, err)
		}
		record := &s.sets[index]
		set.translate(octetsAt(record), old)
		if record.Count == 0 || record.Count > lisp.MaxLocators {
			continue // adoption refuses it
		}
		place, ok := places.Pick(placeOf(record).Order)
		if !ok {
			return fmt.Errorf("%w: %d locators of all locator-sets", dataplane.ErrFull, len(s.locators))
		}
		oldFirst := record.First
		record.First = place.Cell
		for n := range record.Count {
			from, err := o.maps[abi.MapLocators].LookupBytes(oldFirst + n)
			if err != nil {
				return fmt.Errorf("locator-set %d: %w", index, err)
			}
			locator.translate(octetsAt(&s.locators[place.Cell+n]), from)
		}
	}
	return nil
}
