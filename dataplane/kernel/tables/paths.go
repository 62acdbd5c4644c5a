// SPDX-License-Identifier: Apache-2.0

// This file keeps what the records of locators have no room for: the hops of a path, its bits, and which hop is next (RFC 8060
// s.4.6). Programs know the next hop alone, and whether an own RLOC stands before it.

package tables

import (
	"encoding/binary"
	"fmt"
	"slices"

	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

// PathStore keeps paths for the process after this one, each by the index of its locator's record.
type PathStore interface {
	PutPath(at uint32, path SavedPath) error
	Path(at uint32) (SavedPath, error)
	DeletePath(at uint32) error
	// PathIndexes are the indexes that have one.
	PathIndexes() ([]uint32, error)
}

const (
	hopOctets  = 1 + 2 + 16 // family, port, address
	pathOctets = 2 + lisp.MaxHops*(1+hopOctets)
)

// SavedPath is a path as it is stored: the number of hops, Next, the bits of each, the hops.
type SavedPath [pathOctets]byte

// isPath reports whether a locator is more than its RLOC.
func isPath(l *lisp.Locator) bool { return !l.Path().IsPlain() || l.Bits != lisp.PathBits{} }

func savePath(l *lisp.Locator) (saved SavedPath) {
	path := l.Path()
	saved[0], saved[1] = uint8(path.Len()), l.Next
	for i, bits := range l.Bits {
		saved[2+i] = uint8(bits)
	}
	for i := range path.Len() {
		hop := path.Hop(i)
		octets := saved[2+lisp.MaxHops+i*hopOctets:]
		octets[0] = abi.Family(hop.Addr())
		binary.BigEndian.PutUint16(octets[1:], hop.Port())
		address := abi.Octets(hop.Addr())
		copy(octets[3:], address[:])
	}
	return saved
}

// SavePath is a path without what a locator says of it.
func SavePath(path lisp.Path) SavedPath {
	return savePath(&lisp.Locator{RLOC: path.RLOC, Behind: path.Behind})
}

// Path is the path that was stored.
func (p *SavedPath) Path() (lisp.Path, error) {
	if p[0] == 0 || p[0] > lisp.MaxHops {
		return lisp.Path{}, fmt.Errorf("path of %d hops", p[0])
	}
	hops := make([]lisp.RLOC, p[0])
	for i := range hops {
		octets := p[2+lisp.MaxHops+i*hopOctets:]
		address := abi.Addr(octets[0], [16]byte(octets[3:]))
		hops[i] = lisp.RLOCFromAddr(address).WithPort(binary.BigEndian.Uint16(octets[1:]))
	}
	return lisp.NewPath(hops...)
}

// Complete gives a locator whose record says that it is a path what is stored of it.
func (p *SavedPath) Complete(l *lisp.Locator) error {
	path, err := p.Path()
	if err != nil {
		return err
	}
	complete := *l
	complete.RLOC, complete.Behind, complete.Next = path.RLOC, path.Behind, p[1]
	for i := range complete.Bits {
		complete.Bits[i] = lisp.HopBits(p[2+i])
	}
	if int(p[1]) >= path.Len() || complete.NextHop() != l.RLOC {
		return fmt.Errorf("hop %d of %s is not %s", p[1]+1, path, l.RLOC)
	}
	*l = complete
	return nil
}

// readLocator is the locator that the record at an index holds.
func (s *LocatorSets) readLocator(at uint32) (lisp.Locator, error) {
	record := &s.locators[at]
	l := DecodeLocator(record)
	if record.Flags&abi.LocatorPath == 0 {
		return l, nil
	}
	saved, err := s.paths.Path(at)
	if err == nil {
		err = saved.Complete(&l)
	}
	return l, err
}

// savePaths stores the paths of a set's locators, whose records begin at an index, before programs may meet them.
func (s *LocatorSets) savePaths(first uint32, set lisp.LocatorSet) error {
	for i := range set {
		if !isPath(&set[i]) {
			continue
		}
		if err := s.paths.PutPath(first+uint32(i), savePath(&set[i])); err != nil {
			s.forgetPaths(first, set[:i])
			return err
		}
	}
	return nil
}

// forgetPaths removes the paths of locators that no mapping refers to. One that stays behind is removed by the next process.
func (s *LocatorSets) forgetPaths(first uint32, locators lisp.LocatorSet) {
	for i := range locators {
		if isPath(&locators[i]) {
			_ = s.paths.DeletePath(first + uint32(i))
		}
	}
}

// forgetUnusedPaths removes the paths that a process which was killed left behind.
func (s *LocatorSets) forgetUnusedPaths() error {
	indexes, err := s.paths.PathIndexes()
	if err != nil {
		return err
	}
	used := map[uint32]bool{}
	for _, index := range s.byContent {
		for i := range s.uses[index].locators {
			used[s.Records[index].First+uint32(i)] = isPath(&s.uses[index].locators[i])
		}
	}
	for _, at := range indexes {
		if !used[at] {
			if err := s.paths.DeletePath(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetOwn changes the own RLOCs, by which programs are told whether this router is on a path.
func (s *LocatorSets) SetOwn(rlocs []lisp.RLOC) {
	s.own = slices.Clone(rlocs)
	another := false
	for _, index := range s.byContent {
		for i, l := range s.uses[index].locators {
			record := &s.locators[int(s.Records[index].First)+i]
			flags := record.Flags&^(abi.LocatorNotOnPath|abi.LocatorLookup) | s.notOnPath(&l) | needsLookup(&l)
			if place := s.placeOn(&l); flags != record.Flags || place != record.Place {
				record.Flags, record.Place = flags, place
				another = true
			}
		}
	}
	if another {
		s.changed.All()
	}
}

// notOnPath is abi.LocatorNotOnPath where no own RLOC is a hop before the next one of a path.
func (s *LocatorSets) notOnPath(l *lisp.Locator) uint8 {
	path := l.Path()
	for i := range min(int(l.Next), path.Len()) {
		if s.isOwn(path.Hop(i)) {
			return 0
		}
	}
	return flagIf(!path.IsPlain(), abi.LocatorNotOnPath)
}

// needsLookup is abi.LocatorLookup where the next hop is an EID.
func needsLookup(l *lisp.Locator) uint8 { return flagIf(forward.NeedsLookup(l), abi.LocatorLookup) }

// SetDepth changes how many layers of encapsulation packets get at most: with one, a hop that is an EID cannot be used.
func (s *LocatorSets) SetDepth(layers uint8) {
	if s.depth == layers {
		return
	}
	s.depth = layers
	for _, index := range s.byContent {
		s.refresh(index)
	}
}

// memoryPaths is a PathStore that ends with the process.
type memoryPaths map[uint32]SavedPath

func (m memoryPaths) PutPath(at uint32, path SavedPath) error {
	m[at] = path
	return nil
}

func (m memoryPaths) Path(at uint32) (SavedPath, error) {
	path, ok := m[at]
	if !ok {
		return path, fmt.Errorf("no path is stored for locator %d", at)
	}
	return path, nil
}

func (m memoryPaths) DeletePath(at uint32) error {
	delete(m, at)
	return nil
}

func (m memoryPaths) PathIndexes() (indexes []uint32, _ error) {
	for at := range m {
		indexes = append(indexes, at)
	}
	return indexes, nil
}
