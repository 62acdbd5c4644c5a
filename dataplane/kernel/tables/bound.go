// SPDX-License-Identifier: Apache-2.0

// This file keeps what programs go by to send bound flows to a locator: the number of its path, and whether a binding
// may choose it (bpf/abi_paths.h). Which flows are bound it does not know.

package tables

import (
	"hash/fnv"

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
func (s *LocatorSets) numberPaths(record *abi.LocatorSet, locators lisp.LocatorSet) {
	for i := range locators {
		s.locators[int(record.First)+i].Path = PathNumber(locators[i].Path())
	}
}
