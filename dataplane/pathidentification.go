// SPDX-License-Identifier: Apache-2.0

package dataplane

// How an RTR that stands on several paths of a mapping tells which of them a packet is on. The path that a packet
// names counts for that packet before the binding of its flow, and the hash last. It chooses among the locators of the
// mapping that covers the destination, nothing else, so it leads no packet to a wrong site. A packet whose path cannot
// be told goes as one that names none, and is counted (path_unidentified): its number or its outer source names no
// path of the mapping, one that this router does not stand on, or one that is down or of priority 255. Packets that
// waited for a mapping name no path any more.

import "fmt"

// PathIdentification is what an engine does about it.
type PathIdentification uint8

// With the last two, packets leave from the address by which the path names this router, where it is of the next hop's
// family.
const (
	// PathsUnidentified: nothing.
	PathsUnidentified PathIdentification = iota
	// PathsNumbered: an ITR's. In place of an Instance-ID of 0 packets carry the number of their path: its place
	// among the mapping's locators in the order of RFC 9301 s.5.5, counted from 1. Those that go to the last hop
	// of a path, or to a plain RLOC, carry the Instance-ID itself.
	PathsNumbered
	// PathsByNumber: an RTR's. The same, and of packets that are relayed an Instance-ID from 1 to
	// lisp.MaxLocators is such a number, in Instance-ID 0. Packets with a number that are not relayed are dropped
	// as those to EIDs that are not in the Database.
	PathsByNumber
	// PathsBySource: an RTR's. A packet is on the path that has its outer source before this router. From a source
	// that no path has there, it is on the first path that begins at this router.
	PathsBySource
)

var pathIdentificationNames = [...]string{
	PathsUnidentified: "off", PathsNumbered: "numbered", PathsByNumber: "pid", PathsBySource: "eld",
}

// IsValid reports whether p is one of the values.
func (p PathIdentification) IsValid() bool { return int(p) < len(pathIdentificationNames) }

// String names it; an RTR's as configuration does.
func (p PathIdentification) String() string {
	if !p.IsValid() {
		return fmt.Sprintf("path identification %d", uint8(p))
	}
	return pathIdentificationNames[p]
}

// CheckPathIdentification says what of it cannot be; ErrInvalid. Numbers of paths stand where Instance-IDs do.
func (s *Settings) CheckPathIdentification() error {
	switch p := s.PathIdentification; {
	case !p.IsValid():
		return fmt.Errorf("%s: %w", p, ErrInvalid)
	case p != PathsNumbered && p != PathsByNumber:
		return nil
	}
	for i := range s.Interfaces {
		if s.Interfaces[i].Instance != 0 {
			return fmt.Errorf("numbers of paths beside Instance-ID %d of interface %s: %w",
				s.Interfaces[i].Instance, s.Interfaces[i].Name, ErrInvalid)
		}
	}
	for i := range s.Roles {
		if s.Roles[i].Instance != 0 {
			return fmt.Errorf("numbers of paths beside Instance-ID %d of a policy of %s: %w",
				s.Roles[i].Instance, s.Roles[i].Role, ErrInvalid)
		}
	}
	return nil
}
