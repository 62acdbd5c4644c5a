// SPDX-License-Identifier: Apache-2.0

// This file answers from the tables what is asked about packets between RLOCs: errors about them, and what their paths carry.

package kernel

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

// sentWindow is how long ago a mapping may have been used for an error to be about its packets.
const sentWindow = 30 * time.Second

// outerTables implements underlay.PathTables.
type outerTables struct{ *Engine }

// MaySend implements underlay.PathTables.
func (p outerTables) MaySend(now time.Time, about *forward.OuterError) bool {
	e := p.Engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.followClock()
	if !about.Consistent || !slices.Contains(e.settings.LocalRLOCs, lisp.RLOCFromAddr(about.Source)) {
		return false
	}
	address := about.Inner.Destination
	index, ok := e.tables.LookupIndex(abi.RootMapCache, abi.Family(address), uint32(about.Instance), address.AsSlice())
	if !ok {
		return false
	}
	set := e.tables.Records[index].LocatorSet
	if set == abi.NoLocatorSet {
		return false
	}
	rloc := lisp.RLOCFromAddr(about.Destination)
	sentTo := func(l lisp.Locator) bool {
		to := l.NextHop()
		return to.Addr() == rloc.Addr() && about.Port == dataPortTo(&e.settings, to)
	}
	if !slices.ContainsFunc(e.tables.Sets.Of(set), sentTo) {
		return false
	}
	used := e.store.UsageOf(index).Nanoseconds(uint64(now.UnixNano()) - e.clock.Ahead()) // the record alone does not know yet of packets that are pending
	return used != 0 && now.Sub(e.clock.FromBoot(used)) < sentWindow
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
func (p outerTables) LowerPathMTU(rloc lisp.RLOC, octets int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Engine.tables.Sets.LowerPathMTU(rloc, octets, now)
}

// EndPathMTUs implements underlay.PathTables.
func (p outerTables) EndPathMTUs(now time.Time) []lisp.RLOC {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Engine.tables.Sets.EndPathMTUs(now)
}

// PathMTU implements dataplane.PathReporter.
func (e *Engine) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	e.mu.Lock()
	known, learnt := e.tables.Sets.PathMTU(rloc)
	e.mu.Unlock()
	route, err := underlay.RouteMTU(e.space, rloc)
	switch {
	case err != nil:
		return 0, false
	case learnt && known < route:
		return known, true
	}
	return route, false
}

// isCore reports whether an interface leads to the core.
func (e *Engine) isCore(ifindex uint32) bool {
	record, _ := e.interfaces.RecordOf(ifindex)
	return record.Flags&abi.InterfaceCore != 0
}
