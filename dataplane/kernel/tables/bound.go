// SPDX-License-Identifier: Apache-2.0

// This file keeps what programs go by to send bound flows to a locator: the number of its path, and whether a binding
// may choose it (bpf/abi_paths.h). Which flows are bound it does not know.

package tables

import (
	"hash/fnv"
	"slices"

	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// PathNumber is the number that stands for a path in bindings and locators. It follows from the hops, so that a process
// after this one has the same. Where two paths have one number, a flow may take the other one, if that is in its
// mapping.
func PathNumber(path lisp.Path) uint32 {
	saved := SavePath(path)
	h := fnv.New64a()
	_, _ = h.Write(saved[:1])
	_, _ = h.Write(saved[2+lisp.MaxHops:][:path.Len()*hopOctets])
	sum := h.Sum64()
	return max(uint32(sum^sum>>32), 1)
}

// upFlag is abi.LocatorUp where a binding may choose the locator.
func (s *LocatorSets) upFlag(l *lisp.Locator) uint8 {
	_, usable := s.rank(l)
	return flagIf(usable && l.Usable(), abi.LocatorUp)
}

// refreshUp stores the flags that changed, and reports whether there are any.
func (s *LocatorSets) refreshUp(index uint32) (another bool) {
	for i, l := range s.uses[index].locators {
		record := &s.locators[int(s.Records[index].First)+i]
		if flags := record.Flags&^abi.LocatorUp | s.upFlag(&l); flags != record.Flags {
			record.Flags = flags
			another = true
		}
	}
	return another
}

// numberPaths gives the locators of a set their numbers, which older tables do not have.
func (s *LocatorSets) numberPaths(record *abi.LocatorSet, set, locators lisp.LocatorSet) {
	for i := range locators {
		l := &locators[i]
		stored := &s.locators[int(record.First)+i]
		stored.Path = PathNumber(l.Path())
		place := slices.IndexFunc(set, func(o lisp.Locator) bool { return o.IsSame(l) })
		stored.Number, stored.SentNumber = numbersOf(l, place)
		stored.Place = s.placeOn(l)
	}
}

// numbersOf are the number of a path, by its place in its set, and what packets carry of it: none to the last hop. A
// plain RLOC has none.
func numbersOf(l *lisp.Locator, place int) (number, sent uint8) {
	if l.Behind == "" {
		return 0, 0
	}
	number = uint8(place + 1)
	if l.IsSentToLast() {
		return number, 0
	}
	return number, number
}

// placeOn is which hop of a path this router is, the first of several, counted from 1; 0 where none before the next hop
// is an own RLOC.
func (s *LocatorSets) placeOn(l *lisp.Locator) uint8 {
	path := l.Path()
	for i := range min(int(l.Next), path.Len()-1) {
		if s.isOwn(path.Hop(i)) {
			return uint8(i + 1)
		}
	}
	return 0
}

func (s *LocatorSets) isOwn(hop lisp.RLOC) bool {
	return slices.ContainsFunc(s.own, func(own lisp.RLOC) bool { return own.Addr() == hop.Addr() })
}

// sourceOf is the own RLOC that packets to a locator leave from: by which its path names this router last, where that
// is asked for and of the next hop's family.
func (s *LocatorSets) sourceOf(l *lisp.Locator) lisp.RLOC {
	source, path := s.SourceFor(l.NextHop()), l.Path()
	for i := min(int(l.Next), path.Len()-1) - 1; s.named && i >= 0 && !source.IsZero(); i-- {
		if hop := path.Hop(i); hop.Is4() == source.Is4() && s.isOwn(hop) {
			return hop.WithPort(0)
		}
	}
	return source
}

// SetNamed changes whether packets leave from the address by which a path names this router. Those of sets that exist
// follow when their sources are set.
func (s *LocatorSets) SetNamed(named bool) { s.named = named }
