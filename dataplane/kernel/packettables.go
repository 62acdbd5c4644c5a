// SPDX-License-Identifier: Apache-2.0

// This file answers from tables, settings and interfaces what is asked for a packet that waits, or for one that misses.

package kernel

import (
	"net/netip"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

// packetTables implements pending.Tables.
type packetTables struct{ *Engine }

// OriginOf implements pending.Tables.
func (p packetTables) OriginOf(f tap.Frame) (pending.Origin, bool) {
	record, ok := p.interfaces.RecordOf(f.Origin())
	p.mu.Lock()
	defer p.mu.Unlock()
	from := pending.Origin{
		Instance: lisp.InstanceID(record.Iid),
		Site:     record.Flags&abi.InterfaceSite != 0 || f.Is(abi.DoProxy),
		Stack:    record.Flags&abi.InterfaceStack != 0,
		Form:     p.settings.MissForm,
	}
	if f.Is(abi.DoRelay) { // of the Instance-ID that its LISP header had
		from.Instance, from.Site, from.Stack, from.Relayed = lisp.InstanceID(f.Instance()), true, false, true
	}
	from.Policy = p.settings.MissPolicyOf(from.Instance)
	return from, ok
}

// queueTells reports whether the pending-packet queue tells of misses of an Instance-ID, with
// the packet, so that the programs' own events of them are not needed.
func (p packetTables) queueTells(instance lisp.InstanceID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	policy := p.settings.MissPolicyOf(instance)
	return p.tap.TAP().Index != 0 && (policy == dataplane.MissHandOver || policy == dataplane.MissQueue && p.settings.MissForm != dataplane.MissFormEID)
}

// Covered implements pending.Tables.
func (p packetTables) Covered(to forward.Destination) bool {
	address := to.EID.Addr()
	p.mu.Lock()
	defer p.mu.Unlock()
	record, ok := p.Engine.tables.Lookup(abi.RootMapCache, abi.Family(address), uint32(to.Instance), address.AsSlice())
	return ok && (record.LocatorSet != abi.NoLocatorSet || record.Action != uint8(lisp.ActionSendMapRequest))
}

// Unhold implements pending.Tables.
func (p packetTables) Unhold(holds []pending.Release, ready func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ready() {
		return false
	}
	for _, hold := range holds {
		if hold.Held {
			p.Engine.tables.Unhold(hold.Index, hold.Generation)
		}
	}
	return true
}

// AddressOf implements pending.Tables.
func (p packetTables) AddressOf(ifindex uint32, family uint8) (netip.Addr, bool) {
	kinds := map[uint8]int{4: netlink.FAMILY_V4, 6: netlink.FAMILY_V6}
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(p.interfaces.SiteIfindex(ifindex))}}
	addresses, err := p.space.Netlink.AddrList(link, kinds[family])
	if err != nil {
		return netip.Addr{}, false
	}
	for _, one := range addresses {
		if address, ok := netip.AddrFromSlice(one.IP); ok && forward.RoutableUnicast(address.Unmap()) {
			return address.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// WayOf implements pending.Tables.
func (p packetTables) WayOf(to forward.Destination, h *forward.Header) (underlay.Way, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	way, ok := p.wayOf(to, forward.FlowHash(h))
	if !ok || p.settings.RecursionDepth < 2 {
		return way, ok
	}
	t := way.Tunnel(h.Family)
	header := t.HeaderOf(forward.FlowHash(h))
	if outer, ok := p.wayOf(forward.Destination{EID: lisp.EIDFromAddr(way.Locator.Addr())}, forward.FlowHash(&header)); ok {
		way.Outer = &outer
	}
	return way, true
}

// SecondLayer implements pending.Tables.
func (p packetTables) SecondLayer(to forward.Destination, h *forward.Header) (source, rloc lisp.RLOC, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	way, ok := p.wayOf(to, forward.FlowHash(h))
	return way.Source, way.Locator, ok && p.settings.RecursionDepth > 1
}

// wayOf is how a packet of a flow gets to its locator. The caller holds mu.
func (p packetTables) wayOf(to forward.Destination, hash uint32) (underlay.Way, bool) {
	address := to.EID.Addr()
	record, ok := p.Engine.tables.Lookup(abi.RootMapCache, abi.Family(address), uint32(to.Instance), address.AsSlice())
	if !ok || record.LocatorSet == abi.NoLocatorSet {
		return underlay.Way{}, false
	}
	buckets := forward.BucketVector(p.Engine.tables.Sets.Records[record.LocatorSet].Buckets)
	l, ok := forward.SelectLocator(p.Engine.tables.Sets.Of(record.LocatorSet), &buckets, hash)
	hop := l.NextHop()
	return underlay.Way{Source: p.Engine.tables.Sets.SourceFor(hop), Locator: hop, Instance: lisp.InstanceID(record.Iid),
		Encapsulation: p.settings.EncapsulationTo(hop)}, ok
}

// Dropped implements pending.Tables.
func (p packetTables) Dropped(f tap.Frame, reason forward.DropReason) {
	observe.RecordDrop(p.store, p.clock, f, reason)
}

// covering returns the prefix of the map-cache entry that covers an address.
func (p packetTables) covering(instance lisp.InstanceID, address netip.Addr) (lisp.Prefix, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	record, ok := p.Engine.tables.Lookup(abi.RootMapCache, abi.Family(address), uint32(instance), address.AsSlice())
	if !ok {
		return lisp.Prefix{}, false
	}
	return reader(p).prefixOf(record), true
}
