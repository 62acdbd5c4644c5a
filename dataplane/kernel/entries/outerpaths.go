// SPDX-License-Identifier: Apache-2.0

// This file answers from the tables what is asked about packets between RLOCs: errors about them, and what their paths
// carry.

package entries

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

// sentWindow is how long ago a mapping may have been used for an error to be about its packets.
const sentWindow = 30 * time.Second

// MaySend implements underlay.PathTables.
func (e *Entries) MaySend(now time.Time, about *forward.OuterError) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return false
	}
	return e.guarded.maySend(now, about)
}

func (c *contents) maySend(now time.Time, about *forward.OuterError) bool {
	c.followClock()
	if !about.Consistent || !slices.Contains(c.settings.LocalRLOCs, lisp.RLOCFromAddr(about.Source)) {
		return false
	}
	address, instance := about.Inner.Destination, uint32(about.Instance)
	index, ok := c.tables.LookupIndex(abi.RootMapCache, abi.Family(address), instance, address.AsSlice())
	if !ok {
		return false
	}
	set := c.tables.Records[index].LocatorSet
	if set == abi.NoLocatorSet {
		return false
	}
	rloc := lisp.RLOCFromAddr(about.Destination)
	sentTo := func(l lisp.Locator) bool {
		to := l.NextHop()
		return to.Addr() == rloc.Addr() && about.Port == dataPortTo(&c.settings, to) &&
			about.LeftFor(l.SourcePort)
	}
	if !slices.ContainsFunc(c.tables.Sets.Of(set), sentTo) {
		return false
	}
	// The record itself does not have packets that are pending yet.
	used := c.store.UsageOf(index).Nanoseconds(uint64(now.UnixNano()) - c.clock.Ahead())
	return used != 0 && now.Sub(c.clock.FromBoot(used)) < sentWindow
}

// dataPortTo is where packets to an RLOC go.
func dataPortTo(s *dataplane.Settings, rloc lisp.RLOC) uint16 {
	if rloc.Port() != 0 {
		return rloc.Port()
	}
	if s.EncapsulationTo(rloc) == dataplane.EncapsulationVXLANGPE {
		return forward.VXLANGPEPort
	}
	return forward.DataPort
}

// LowerPathMTU implements underlay.PathTables.
func (e *Entries) LowerPathMTU(rloc lisp.RLOC, octets int, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.tables.Sets.LowerPathMTU(rloc, octets, now)
}

// EndPathMTUs implements underlay.PathTables.
func (e *Entries) EndPathMTUs(now time.Time) []lisp.RLOC {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.tables.Sets.EndPathMTUs(now)
}

// PathMTU is what a path to an RLOC was found to carry, false where nothing was learnt.
func (e *Entries) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.tables.Sets.PathMTU(rloc)
}
