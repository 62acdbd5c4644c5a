// SPDX-License-Identifier: Apache-2.0

// This file keeps the locator-sets that mappings share: equal sets are stored once,
// with the vector of buckets that package forward computes from priorities, weights
// and what is known of each locator (RFC 9300 s.12, RFC 9301 s.5.4). Its locators
// stand in an array of their own, as many as there are. A set that a mapping refers
// to changes in single buckets and path MTUs alone (bpf/abi.h).

package tables

import (
	"fmt"
	"math/bits"
	"slices"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/reclaim"
	"loci/forward"
	"loci/lisp"
)

// LocatorSets are the locator-sets that mappings share.
type LocatorSets struct {
	Records   []abi.LocatorSet
	changed   Generations
	Indexes   *reclaim.Indexes
	locators  []abi.Locator
	places    *reclaim.Arena // of runs of locators
	paths     PathStore
	uses      []locatorSetUse // by index
	byContent map[string]uint32
	byPath    map[lisp.Path]map[uint32]struct{}
	byNextHop map[lisp.RLOC]map[uint32]struct{}
	States    map[lisp.Path]dataplane.LocatorState
	pathMTUs  map[lisp.RLOC]pathMTU
	Source4   lisp.RLOC // what is sent comes from these
	Source6   lisp.RLOC
	own       []lisp.RLOC
	named     bool  // packets leave from the address by which a path names this router
	depth     uint8 // how many layers of encapsulation packets get at most

	encapsulation func(lisp.RLOC) dataplane.Encapsulation // nil: LISP to all
}

type locatorSetUse struct {
	set      lisp.LocatorSet
	locators lisp.LocatorSet // the same in the order of the record
	mappings int
}

func newLocatorSets(records []abi.LocatorSet, indexes *reclaim.Indexes, locators []abi.Locator, places *reclaim.Arena, paths PathStore) *LocatorSets {
	return &LocatorSets{
		Records: records, Indexes: indexes, locators: locators, places: places, paths: paths, uses: make([]locatorSetUse, len(records)),
		byContent: map[string]uint32{}, byPath: map[lisp.Path]map[uint32]struct{}{}, byNextHop: map[lisp.RLOC]map[uint32]struct{}{},
		States: map[lisp.Path]dataplane.LocatorState{}, pathMTUs: map[lisp.RLOC]pathMTU{},
	}
}

// acquire returns the index of a set for one more mapping, abi.NoLocatorSet when it is empty.
func (s *LocatorSets) acquire(set lisp.LocatorSet) (uint32, error) {
	if len(set) == 0 {
		return abi.NoLocatorSet, nil
	}
	var room [2 * contentOctets]byte
	if index, ok := s.byContent[string(appendContent(room[:0], set))]; ok {
		s.uses[index].mappings++
		return index, nil
	}
	index, err := s.write(set)
	if err != nil {
		return 0, err
	}
	s.enter(index, set, set)
	return index, nil
}

// release says that one mapping less refers to a set.
func (s *LocatorSets) release(index uint32) {
	if index == abi.NoLocatorSet {
		return
	}
	use := &s.uses[index]
	if use.mappings--; use.mappings > 0 {
		return
	}
	delete(s.byContent, contentOf(use.set))
	s.retire(index)
}

// Of returns the set at an index, nil for abi.NoLocatorSet.
func (s *LocatorSets) Of(index uint32) lisp.LocatorSet {
	if index == abi.NoLocatorSet {
		return nil
	}
	return s.uses[index].set
}

// SetState stores what is known of a locator and moves the flows it concerns.
func (s *LocatorSets) SetState(path lisp.Path, state dataplane.LocatorState) {
	if state == dataplane.LocatorUp {
		delete(s.States, path)
	} else {
		s.States[path] = state
	}
	for index := range s.byPath[path] {
		s.refresh(index)
	}
}

// SetEncapsulation changes how packets go to locators. It is one octet of each, which
// programs read once for a packet.
func (s *LocatorSets) SetEncapsulation(to func(lisp.RLOC) dataplane.Encapsulation) {
	s.encapsulation = to
	for _, index := range s.byContent {
		record := &s.Records[index]
		for i, l := range s.uses[index].locators {
			s.locators[int(record.First)+i].Encapsulation = uint8(to(l.NextHop()))
		}
	}
	s.changed.All()
}

func (s *LocatorSets) encapsulationTo(r lisp.RLOC) dataplane.Encapsulation {
	if s.encapsulation == nil {
		return dataplane.EncapsulationLISP
	}
	return s.encapsulation(r)
}

// setSources changes the own RLOCs that packets are sent from, where a set has others. It calls move with the
// sets that stand at another index since, so that mappings can follow. After an error
// some sets have the new sources and the others the old ones, until it is called with these.
func (s *LocatorSets) setSources(source4, source6 lisp.RLOC, move func(moved map[uint32]uint32)) error {
	old4, old6 := s.Source4, s.Source6
	s.Source4, s.Source6 = source4, source6
	pending := s.withOtherSources()
	for len(pending) > 0 {
		batch := pending[:min(len(pending), s.Indexes.Available(), max(int(s.places.Available())/lisp.MaxLocators, 1))]
		if len(batch) == 0 {
			s.Source4, s.Source6 = old4, old6
			return fmt.Errorf("%w: no room to change %d locator-sets", dataplane.ErrFull, len(pending))
		}
		moved, err := s.rewrite(batch)
		move(moved)
		for old := range moved {
			s.retire(old)
		}
		if err != nil {
			s.Source4, s.Source6 = old4, old6
			return err
		}
		pending = pending[len(batch):]
	}
	return nil
}

// withOtherSources are the sets that were written when own RLOCs were others: by a process that was killed before it had written all, too.
func (s *LocatorSets) withOtherSources() (indexes []uint32) {
	for _, index := range s.byContent {
		for i, l := range s.uses[index].locators {
			if s.locators[int(s.Records[index].First)+i].Source != abi.Octets(s.sourceOf(&l).Addr()) {
				indexes = append(indexes, index)
				break
			}
		}
	}
	slices.Sort(indexes)
	return indexes
}

// rewrite writes sets anew and returns the new index of each.
func (s *LocatorSets) rewrite(batch []uint32) (moved map[uint32]uint32, err error) {
	moved = make(map[uint32]uint32, len(batch))
	for _, old := range batch {
		set := s.uses[old].set
		index, err := s.write(set)
		if err != nil {
			return moved, err
		}
		s.enter(index, set, set)
		s.uses[index].mappings = s.uses[old].mappings
		moved[old] = index
	}
	return moved, nil
}

// adopt takes over the record at an index, which mappings refer to. Of two that are equal, as when a process was killed while it wrote
// sets anew, one stands for both: that is for these mappings to refer to.
func (s *LocatorSets) adopt(index uint32, mappings int) (stands uint32, err error) {
	if int(index) >= len(s.Records) {
		return 0, fmt.Errorf("locator-set %d of %d", index, len(s.Records))
	}
	record := &s.Records[index]
	if record.Count == 0 || record.Count > lisp.MaxLocators || uint64(record.First)+uint64(record.Count) > uint64(len(s.locators)) {
		return 0, fmt.Errorf("locator-set %d has %d locators from %d", index, record.Count, record.First)
	}
	locators, err := s.locatorsOf(record)
	if err != nil {
		return 0, fmt.Errorf("locator-set %d: %w", index, err)
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		return 0, fmt.Errorf("locator-set %d: %w", index, err)
	}
	if stands, twice := s.byContent[contentOf(set)]; twice {
		s.uses[stands].mappings += mappings
		return stands, nil
	}
	if !s.places.Reserve(PlaceOf(record)) {
		return 0, fmt.Errorf("locator-set %d shares its locators from %d", index, record.First)
	}
	s.enter(index, set, locators)
	s.uses[index].mappings = mappings
	s.adoptPathMTUs(record)
	s.numberPaths(record, set, locators)
	s.Records[index].StatusBits = forward.StatusBits(set) // older tables have none
	s.refresh(index)                                      // the process before may have stopped between a state and its buckets
	return index, nil
}

// write fills the record of a set that no mapping refers to yet.
func (s *LocatorSets) write(set lisp.LocatorSet) (uint32, error) {
	index, _, ok := s.Indexes.Take()
	if !ok {
		return 0, fmt.Errorf("%w: %d different locator-sets", dataplane.ErrFull, len(s.Records))
	}
	record := abi.LocatorSet{Count: uint32(len(set)), StatusBits: forward.StatusBits(set), Serial: s.Records[index].Serial + 1, Buckets: s.buckets(set)}
	place, ok := s.places.Take(PlaceOf(&record).Order)
	if !ok {
		s.Indexes.GiveBack(index)
		return 0, fmt.Errorf("%w: %d locators of all locator-sets", dataplane.ErrFull, len(s.locators))
	}
	record.First = place.Cell
	if err := s.savePaths(record.First, set); err != nil {
		s.Indexes.GiveBack(index)
		s.places.GiveBack(place)
		return 0, err
	}
	for i, l := range set {
		to := l.NextHop()
		encoded := encodeLocator(l, s.sourceOf(&l))
		encoded.Flags |= s.notOnPath(&l) | needsLookup(&l) | s.upFlag(&l)
		encoded.Path = PathNumber(l.Path())
		encoded.Number, encoded.SentNumber = numbersOf(&l, i)
		encoded.Place = s.placeOn(&l)
		encoded.Encapsulation = uint8(s.encapsulationTo(to))
		encoded.PathMtu = pathMTUField(s.pathMTUs[to.WithPort(0)].octets)
		s.locators[int(place.Cell)+i] = encoded
	}
	s.Records[index] = record
	return index, nil
}

// PlaceOf is the block in which a set's locators are.
func PlaceOf(record *abi.LocatorSet) reclaim.Block {
	return reclaim.Block{Cell: record.First, Order: uint8(bits.Len32(record.Count - 1))}
}

// locatorsOf decodes the locators of a record, in the order of its buckets.
func (s *LocatorSets) locatorsOf(record *abi.LocatorSet) (lisp.LocatorSet, error) {
	locators := make(lisp.LocatorSet, record.Count)
	for i := range locators {
		var err error
		if locators[i], err = s.readLocator(record.First + uint32(i)); err != nil {
			return nil, err
		}
	}
	return locators, nil
}

// refresh stores the buckets that changed, one by one: each alone is an answer. So is each locator's flag for bound
// flows.
func (s *LocatorSets) refresh(index uint32) {
	record := &s.Records[index]
	another := s.refreshUp(index)
	for i, bucket := range s.buckets(s.uses[index].locators) {
		if record.Buckets[i] != bucket {
			record.Buckets[i] = bucket
			another = true
		}
	}
	if another {
		s.changed.All()
	}
}

func (s *LocatorSets) buckets(set lisp.LocatorSet) [forward.BucketCount]uint8 {
	return forward.Buckets(set, s.rank)
}

// rank is forward.Rank: the state of a locator decides, whether there is an own RLOC to send
// from, and a second layer where it is an EID.
func (s *LocatorSets) rank(l *lisp.Locator) (rank int, usable bool) {
	rank, usable = s.States[l.Path()].Rank()
	return rank, usable && !s.SourceFor(l.NextHop()).IsZero() && (s.depth > 1 || !forward.NeedsLookup(l))
}

// SourceOf returns the first RLOC of a family, the zero RLOC when there is none.
func SourceOf(rlocs []lisp.RLOC, is4 bool) lisp.RLOC {
	for _, r := range rlocs {
		if r.Is4() == is4 {
			return r
		}
	}
	return lisp.RLOC{}
}

// SourceFor is the own RLOC from which packets to an RLOC are sent; the zero RLOC when there is none of its family.
func (s *LocatorSets) SourceFor(rloc lisp.RLOC) lisp.RLOC {
	if rloc.Is4() {
		return s.Source4
	}
	return s.Source6
}

// enter notes a set that one mapping refers to, and its locators in the order of the record.
func (s *LocatorSets) enter(index uint32, set, locators lisp.LocatorSet) {
	s.uses[index] = locatorSetUse{set: set, locators: locators, mappings: 1}
	s.byContent[contentOf(set)] = index
	for _, l := range set {
		addIndex(s.byPath, l.Path(), index)
		addIndex(s.byNextHop, l.NextHop().WithPort(0), index)
	}
}

// retire gives a set's index back. The record stays as it is while programs may
// still read it.
func (s *LocatorSets) retire(index uint32) {
	for _, l := range s.uses[index].set {
		dropIndex(s.byPath, l.Path(), index)
		dropIndex(s.byNextHop, l.NextHop().WithPort(0), index)
	}
	s.forgetPaths(s.Records[index].First, s.uses[index].locators)
	s.uses[index] = locatorSetUse{}
	s.Indexes.GiveBack(index)
	s.places.GiveBack(PlaceOf(&s.Records[index]))
}

func addIndex[K comparable](sets map[K]map[uint32]struct{}, key K, index uint32) {
	if sets[key] == nil {
		sets[key] = map[uint32]struct{}{}
	}
	sets[key][index] = struct{}{}
}

func dropIndex[K comparable](sets map[K]map[uint32]struct{}, key K, index uint32) {
	delete(sets[key], index)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
