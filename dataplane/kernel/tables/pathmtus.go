// SPDX-License-Identifier: Apache-2.0

// This file keeps what the paths to locators carry where that is less than their routes say, and stores it where
// programs read it.

package tables

import (
	"time"

	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

const (
	// pathMTULife is after how long a path may carry more again (RFC 1191 s.6.3, RFC 8201 s.4).
	pathMTULife = 10 * time.Minute
	// maxPathMTUs bounds the RLOCs whose paths carry less than their routes say.
	maxPathMTUs = 4096
)

// pathMTU is what the path to an RLOC carries, and until when that is believed.
type pathMTU struct {
	octets int
	until  time.Time
}

// PathMTU is what the path to an RLOC carries, whatever its port, if it is known to be less than its route says.
func (s *LocatorSets) PathMTU(rloc lisp.RLOC) (octets int, known bool) {
	mtu, known := s.pathMTUs[rloc.WithPort(0)]
	return mtu.octets, known
}

// LowerPathMTU notes that the path to an RLOC carries so many octets for some time, and no more. It
// reports false when that is no news, or there is no room for more.
func (s *LocatorSets) LowerPathMTU(rloc lisp.RLOC, octets int, now time.Time) bool {
	known, ok := s.pathMTUs[rloc]
	if ok && known.octets < octets || !ok && len(s.pathMTUs) >= maxPathMTUs {
		return false
	}
	s.pathMTUs[rloc] = pathMTU{octets, now.Add(pathMTULife)}
	s.StorePathMTU(rloc, octets)
	return !ok || known.octets != octets
}

// EndPathMTUs forgets what is old, and returns which RLOCs that concerns.
func (s *LocatorSets) EndPathMTUs(now time.Time) (ended []lisp.RLOC) {
	for rloc, known := range s.pathMTUs {
		if now.Before(known.until) {
			continue
		}
		delete(s.pathMTUs, rloc)
		s.StorePathMTU(rloc, 0)
		ended = append(ended, rloc)
	}
	return ended
}

// StorePathMTU writes it where programs read it: a single aligned store each.
func (s *LocatorSets) StorePathMTU(rloc lisp.RLOC, octets int) {
	for index := range s.byNextHop[rloc] {
		record := &s.Records[index]
		for i, l := range s.uses[index].locators {
			if l.NextHop().WithPort(0) == rloc {
				s.locators[int(record.First)+i].PathMtu = pathMTUField(octets)
			}
		}
	}
	s.changed.All()
}

// pathMTUField is an MTU as the record has it; there 0 stands for no limit.
func pathMTUField(octets int) uint16 { return uint16(min(octets, 1<<16-1)) }

// adoptPathMTUs takes over what an earlier process knew.
func (s *LocatorSets) adoptPathMTUs(record *abi.LocatorSet) {
	for i := range record.Count {
		l := &s.locators[record.First+i]
		rloc := DecodeLocator(l).RLOC.WithPort(0)
		if l.PathMtu != 0 && len(s.pathMTUs) < maxPathMTUs {
			s.pathMTUs[rloc] = pathMTU{int(l.PathMtu), time.Now().Add(pathMTULife)}
		}
	}
}
