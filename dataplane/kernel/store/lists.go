// SPDX-License-Identifier: Apache-2.0

// This file puts deny and allow lists in force, and the policies of roles: their prefixes as a
// generation beside the one that programs ask, then that generation's number in the settings, so that
// each packet is judged by the old ones or by the new ones. It never judges a packet.

package store

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
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

// rulesOf are the entries of all lists and policies, the RTRs among them, and the kinds that have any, a bit for each.
func rulesOf(s *dataplane.Settings) (rules listRules, kinds uint16) {
	rules = listRules{}
	for i := range s.Lists {
		l := &s.Lists[i]
		for prefix, denied := range l.Rules() {
			entry := abi.ListPermits
			if denied {
				entry = abi.ListDenies
			}
			rules[listKey(listKind(l), l.Instance, prefix)] = entry
			kinds |= 1 << listKind(l)
		}
	}
	for i := range s.Roles {
		p := &s.Roles[i]
		kinds |= rules.permit(roleKinds[p.Role], p.Instance, p.EIDs)
		if p.Role == dataplane.RolePITR {
			sources := p.Sources
			if len(sources) == 0 {
				sources = allAddresses
			}
			kinds |= rules.permit(abi.ListPITRSource, p.Instance, sources)
		}
	}
	if len(s.RTRs) > 0 {
		kinds |= rules.permit(abi.ListControl, 0, prefixesOf(s.RTRs))
	}
	return rules, kinds
}

// prefixesOf are those of RTRs.
func prefixesOf(rtrs []lisp.RLOC) (list []netip.Prefix) {
	for _, r := range rtrs {
		bits := r.Addr().BitLen()
		if r == dataplane.AnyIPv4 {
			bits = 0
		}
		list = append(list, netip.PrefixFrom(r.Addr(), bits))
	}
	return list
}

var (
	roleKinds = map[dataplane.Role]abi.ListKind{
		dataplane.RoleRTR: abi.ListRTR, dataplane.RolePITR: abi.ListPITR, dataplane.RolePETR: abi.ListPETR,
	}
	allAddresses = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
)

// permit adds the prefixes of a policy, which denies all others of the Instance-ID, and returns the bit of its kind.
func (r listRules) permit(kind abi.ListKind, instance lisp.InstanceID, prefixes []netip.Prefix) uint16 {
	for _, prefix := range allAddresses {
		r[listKey(uint8(kind), instance, prefix)] = abi.ListDenies
	}
	for _, prefix := range prefixes {
		r[listKey(uint8(kind), instance, prefix)] = abi.ListPermits
	}
	return 1 << kind
}

func listKey(kind uint8, instance lisp.InstanceID, p netip.Prefix) abi.ListKey {
	key := abi.ListKey{Bits: uint32(listFixedBits + p.Bits()), Kind: kind, Family: 6, Iid: uint32(instance)}
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

// Lists is what programs are told of lists and policies: kinds that have entries, a bit for
// each, and the generation that they ask.
type Lists struct {
	Kinds      uint16
	Generation uint8
}

// Flag is set when there are lists, so that programs ask no map for none.
func (l Lists) Flag() uint32 {
	if l.Kinds&(1<<abi.ListRTR-1) == 0 {
		return 0
	}
	return abi.SettingLists
}

// PutLists makes a generation that holds these lists and policies, which the caller puts into the
// programs' settings: the one in force where nothing changes. Programs ask that one until then,
// and for moments more, so it stays.
func (s *Store) PutLists(of *dataplane.Settings) (Lists, error) {
	rules, kinds := rulesOf(of)
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
