// SPDX-License-Identifier: Apache-2.0

// This file puts deny and allow lists in force: their prefixes as a generation beside
// the one that programs ask, then that generation's number in the settings, so that
// each packet is judged by the old lists or by the new ones. It never judges a packet.

package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// listFixedBits is LISP_LIST_FIXED_BITS.
const listFixedBits = 64

// listRules are the entries of a generation, whose number in the keys is 0.
type listRules map[abi.ListKey]abi.ListEntry

func listKind(l *dataplane.AccessList) uint8 {
	kind := uint8(l.Address)
	if l.Packets == dataplane.ListDecapsulated {
		kind |= uint8(abi.ListDecapsulated)
	}
	return kind
}

// rulesOf are the entries of all lists, and the kinds that have any, a bit for each.
func rulesOf(lists []dataplane.AccessList) (rules listRules, kinds uint8) {
	rules = listRules{}
	for i := range lists {
		l := &lists[i]
		for prefix, denied := range l.Rules() {
			entry := abi.ListPermits
			if denied {
				entry = abi.ListDenies
			}
			rules[listKey(listKind(l), uint32(l.Instance), prefix)] = entry
			kinds |= 1 << listKind(l)
		}
	}
	return rules, kinds
}

func listKey(kind uint8, instance uint32, p netip.Prefix) abi.ListKey {
	key := abi.ListKey{Bits: uint32(listFixedBits + p.Bits()), Kind: kind, Family: 6, Iid: instance}
	if p.Addr().Is4() {
		key.Family = 4
	}
	copy(key.Address[:], p.Addr().AsSlice())
	return key
}

// generations reads all entries, by the number of their generation.
func (s *Store) generations() (map[uint8]listRules, error) {
	found := map[uint8]listRules{}
	var key abi.ListKey
	var entry uint32
	iterator := s.maps[abi.MapLists].Iterate()
	for iterator.Next(&key, &entry) {
		generation := key.Generation
		key.Generation = 0
		if found[generation] == nil {
			found[generation] = listRules{}
		}
		found[generation][key] = abi.ListEntry(entry)
	}
	return found, iterator.Err()
}

// Lists is what programs are told of the lists: kinds that have entries, a bit for
// each, and the generation that they ask.
type Lists struct{ Kinds, Generation uint8 }

// Flag is set when there are any, so that programs ask no map for none.
func (l Lists) Flag() uint32 {
	if l.Kinds == 0 {
		return 0
	}
	return abi.SettingLists
}

// PutLists makes a generation that holds these lists, which the caller puts into the
// settings: the one in force where nothing changes. Programs ask that one until then,
// and for moments more, so it stays.
func (s *Store) PutLists(lists []dataplane.AccessList) (Lists, error) {
	rules, kinds := rulesOf(lists)
	var settings abi.Settings
	if err := s.maps[abi.MapSettings].Lookup(uint32(0), &settings); err != nil {
		return Lists{}, fmt.Errorf("reading the programs' settings: %w", err)
	}
	current := settings.ListGeneration
	found, err := s.generations()
	if err != nil {
		return Lists{}, fmt.Errorf("reading the lists: %w", err)
	}
	if maps.Equal(found[current], rules) {
		return Lists{kinds, current}, nil
	}
	var errs []error
	for generation, old := range found {
		if generation == current {
			continue
		}
		for key := range old {
			key.Generation = generation
			errs = append(errs, s.maps[abi.MapLists].Delete(key))
		}
	}
	for key, entry := range rules {
		key.Generation = current + 1
		errs = append(errs, s.maps[abi.MapLists].Put(key, uint32(entry)))
	}
	if err := errors.Join(errs...); err != nil {
		return Lists{}, fmt.Errorf("lists: %w", err)
	}
	return Lists{kinds, current + 1}, nil
}
