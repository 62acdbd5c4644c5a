// SPDX-License-Identifier: Apache-2.0

// This file takes over the maps of an older layout (LISP_ABI_VERSION): it makes maps
// of this one beside them, and copies what is in the old ones by the names that their
// fields have in the BTF that the kernel keeps with them. Programs go on with the
// old maps until hooks.replacePrograms. It never changes an old map, and knows of
// no version but where a field has moved.

package upgrade

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
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/reclaim"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// Older are pinned maps of an older layout.
type Older struct {
	Version uint32
	Maps    map[string]*ebpf.Map
	Words   []uint64
}

// Open opens the pinned maps if they are of an older layout; nil when there are
// none, or they are of this one. The error is ErrNewer for a later one.
func Open(pins *pins.Directory) (*Older, error) {
	if err := pins.Settle(); err != nil {
		return nil, err
	}
	settings, err := ebpf.LoadPinnedMap(filepath.Join(pins.Maps(), abi.MapSettings), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // there are no maps, or reopen says what is missing
	}
	if err != nil {
		return nil, fmt.Errorf("opening the pinned settings: %w", err)
	}
	defer settings.Close()
	value, err := settings.LookupBytes(uint32(0))
	if err != nil || len(value) < 4 {
		return nil, fmt.Errorf("reading the pinned settings: %w", errors.Join(err, store.ErrABI))
	}
	version := binary.NativeEndian.Uint32(value) // first in every layout
	if version > abi.Version {
		return nil, fmt.Errorf("version %d, this one is %d: %w", version, abi.Version, store.ErrNewer)
	}
	if version == abi.Version {
		return nil, nil
	}
	o := &Older{Version: version, Maps: map[string]*ebpf.Map{}}
	if err := o.open(pins.Maps()); err != nil {
		return nil, errors.Join(fmt.Errorf("version %d, this one is %d: %w: %w", version, abi.Version, store.ErrABI, err), o.Close())
	}
	return o, nil
}

func (o *Older) open(directory string) error {
	names, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.Maps[name.Name()], err = ebpf.LoadPinnedMap(filepath.Join(directory, name.Name()), nil); err != nil {
			return fmt.Errorf("map %s: %w", name.Name(), err)
		}
	}
	for _, name := range []string{abi.MapMappings, abi.MapMappingCounters, abi.MapLocatorSets, abi.MapLocators, store.MapWords, store.MapSavedSettings} {
		if o.Maps[name] == nil {
			return fmt.Errorf("map %s is not pinned", name)
		}
	}
	o.Words = make([]uint64, store.Words)
	for i := range min(store.Words, o.Maps[store.MapWords].MaxEntries()) {
		if err := o.Maps[store.MapWords].Lookup(uint32(i), &o.Words[i]); err != nil {
			return fmt.Errorf("map %s: %w", store.MapWords, err)
		}
	}
	return nil
}

// TypesOf returns the types that a map mentions.
func TypesOf(m *ebpf.Map) (*btf.Spec, error) {
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

// Close lets go of the maps.
func (o *Older) Close() error {
	var errs []error
	for _, m := range o.Maps {
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
	FromSize, ToSize uint32
}

// translator makes one for a structure that an older map mentions.
func (o *Older) translator(spec *ebpf.CollectionSpec, m *ebpf.Map, name string) (translator, error) {
	types, err := TypesOf(m)
	if err != nil {
		return translator{}, err
	}
	return NewTranslator(types, spec.Types, name)
}

// NewTranslator makes a translator of a structure between two layouts.
func NewTranslator(from, to *btf.Spec, name string) (t translator, err error) {
	if t.from, t.FromSize, err = layoutOf(from, name); err != nil {
		return t, err
	}
	t.to, t.ToSize, err = layoutOf(to, name)
	return t, err
}

// Translate copies each member that both have, numbers and arrays from their
// low end; what is new is zero.
func (t *translator) Translate(to, from []byte) {
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

// Convert makes maps of this layout that hold what the older ones do, and puts them
// in their place.
func (o *Older) Convert(pins *pins.Directory, limits store.Limits) (*store.Store, error) {
	limits.Mappings = max(limits.Mappings, int(o.Maps[abi.MapMappings].MaxEntries()))
	limits.LocatorSets = max(limits.LocatorSets, int(o.Maps[abi.MapLocatorSets].MaxEntries()))
	s, err := store.Create(pins, limits)
	if err != nil {
		return nil, fmt.Errorf("converting version %d: %w", o.Version, err)
	}
	if err = o.fill(s); err == nil {
		err = pins.Show()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("converting version %d: %w", o.Version, err), s.Close())
	}
	return s, nil
}

func (o *Older) fill(s *store.Store) error {
	copy(s.Words[:store.WordPlacesKept], o.Words)
	for _, name := range []string{store.MapSavedSettings, store.MapSavedStates, store.MapPathStates, abi.MapBindings} {
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

// copyMap copies a map whose keys and values every layout has alike, but for room behind a value. Layouts before 38
// have no states of paths, those before 41 no flows that are bound.
func (o *Older) copyMap(s *store.Store, name string) error {
	from, to := o.Maps[name], s.Map(name)
	if from == nil && (name == store.MapPathStates || name == abi.MapBindings) {
		return nil
	}
	if from == nil || from.KeySize() != to.KeySize() || from.ValueSize() > to.ValueSize() {
		return fmt.Errorf("map %s is not what it was in any layout", name)
	}
	var key, value []byte
	iterator := from.Iterate()
	for iterator.Next(&key, &value) {
		if err := to.Put(key, append(value, make([]byte, to.ValueSize()-from.ValueSize())...)); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return iterator.Err()
}

// copyCounters copies totals; those of reasons that this layout does not have are gone.
func (o *Older) copyCounters(s *store.Store, name string) error {
	from, to := o.Maps[name], s.Map(name)
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
func (o *Older) copyMappings(s *store.Store) error {
	mappings, err1 := o.array(s.Spec, abi.MapMappings, "lisp_mapping")
	defer mappings.close()
	counters, err2 := o.array(s.Spec, abi.MapMappingCounters, "lisp_mapping_counters")
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
		record := &s.Records[index]
		mappings.Translate(octetsAt(record), old)
		if !tables.InForce(record) {
			*record = abi.Mapping{}
			continue
		}
		for processor := range counters.m.MaxEntries() / limit {
			usage, err := counters.at(processor*limit + index)
			if err != nil {
				return fmt.Errorf("counters of mapping %d: %w", index, err)
			}
			if at := int(processor)*len(s.Records) + int(index); at < len(s.Usage) {
				counters.Translate(octetsAt(&s.Usage[at]), usage)
			}
		}
	}
	return nil
}

// copyLocatorSets copies the sets that mappings refer to; each keeps its index.
func (o *Older) copyLocatorSets(s *store.Store) error {
	set, err1 := o.translator(s.Spec, o.Maps[abi.MapLocatorSets], "lisp_locator_set")
	locator, err2 := o.translator(s.Spec, o.Maps[abi.MapLocators], "lisp_locator")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	places := reclaim.NewArena(uint32(len(s.Locators)), nil, nil)
	old := make([]byte, set.FromSize)
	done := map[uint32]bool{abi.NoLocatorSet: true}
	for i := range s.Records {
		index := s.Records[i].LocatorSet
		if !tables.InForce(&s.Records[i]) || done[index] || int(index) >= len(s.Sets) {
			continue
		}
		done[index] = true
		if err := o.Maps[abi.MapLocatorSets].Lookup(index, &old); err != nil {
			return fmt.Errorf("locator-set %d: %w", index, err)
		}
		record := &s.Sets[index]
		set.Translate(octetsAt(record), old)
		if record.Count == 0 || record.Count > lisp.MaxLocators {
			continue // adoption refuses it
		}
		place, ok := places.Pick(tables.PlaceOf(record).Order)
		if !ok {
			return fmt.Errorf("%w: %d locators of all locator-sets", dataplane.ErrFull, len(s.Locators))
		}
		oldFirst := record.First
		record.First = place.Cell
		for n := range record.Count {
			from, err := o.Maps[abi.MapLocators].LookupBytes(oldFirst + n)
			if err != nil {
				return fmt.Errorf("locator-set %d: %w", index, err)
			}
			record := &s.Locators[place.Cell+n]
			locator.Translate(octetsAt(record), from)
			if err := o.copyPath(s, record, oldFirst+n, place.Cell+n); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyPath copies what is stored of a locator that is a path. Layouts before 38 have none.
func (o *Older) copyPath(s *store.Store, record *abi.Locator, from, to uint32) error {
	if record.Flags&abi.LocatorPath == 0 {
		return nil
	}
	var path tables.SavedPath
	if err := o.Maps[abi.MapPaths].Lookup(from, &path); err != nil {
		return fmt.Errorf("path of locator %d: %w", from, err)
	}
	return s.PutPath(to, path)
}
