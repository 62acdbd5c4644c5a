// SPDX-License-Identifier: Apache-2.0

package dataplane

// This file is what an engine can tell of itself: which programs, tables and memory
// it has in force (`loci show datapath`). Nothing here changes anything.

// DatapathState is everything that an engine has in force.
type DatapathState struct {
	Layout   uint32 // version of the tables' layout
	Programs []ProgramState
	Maps     []MapState // by name
	Table    TableState
	Sets     LocatorSetsState
	Lists    ListsState
	Missing  []MissingFeature
}

// ProgramState is a program at an interface.
type ProgramState struct {
	Interface string
	Hook      string // "tcx ingress", "tcx egress", "clsact ingress", "clsact egress" or "xdp"
	Name      string
	ID        uint32 // of the kernel; 0 when it does not tell
	LinkID    uint32 // of the pinned link; 0 for a filter, which has none
	Runs      uint64 // and RunNs: only while kernel.bpf_stats_enabled
	RunNs     uint64
}

// MapState is a table of the kernel.
type MapState struct {
	Name       string
	Type       string
	MaxEntries uint32
	Octets     uint64 // that the kernel accounts to it
}

// TableState is the forwarding table.
type TableState struct {
	Octets      uint64 // set aside
	UsedOctets  uint64
	FreeOctets  uint64
	LimitOctets uint64
	Roots       int // pairs of an Instance-ID and a family, of the map-cache and of the Database
	Entries     int // mappings and Database entries together
	EntryLimit  int
	// SingleNextHops counts the Database's entries to all of whose addresses packets take one next hop
	// (docs/decisions/0011-single-next-hop.md).
	SingleNextHops int
}

// LocatorSetsState is how many locator-sets mappings share.
type LocatorSetsState struct {
	Sets, SetLimit         int
	Locators, LocatorLimit int
}

// ListsState is how many deny and allow lists packets are held against.
type ListsState struct{ Lists, Prefixes int }

// MissingFeature is something that the kernel lacks.
type MissingFeature struct{ Name, Lost string }

// DatapathReporter is an engine that can tell what it has in force.
type DatapathReporter interface {
	Datapath() (DatapathState, error)
}
