// SPDX-License-Identifier: Apache-2.0

// This file answers from tables, settings and interfaces what is asked for a packet that waits, or for one that
// misses.

package entries

import (
	"net/netip"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

// Interfaces are asked about an interface that a packet came in by.
type Interfaces interface {
	// RecordOf returns what programs know of an interface, false when it is none of ours.
	RecordOf(ifindex uint32) (abi.Interface, bool)
	// SiteIfindex returns the interface that routes to a site lead to: for a VLAN another one than its index
	// says.
	SiteIfindex(index uint32) uint32
}

// Origin is what is known of where a packet came from.
type Origin struct {
	Instance lisp.InstanceID
	Site     bool // not this host's own packet
	Stack    bool // the host's IP forwarding has seen it
	Relayed  bool // it came encapsulated: its source is reached only by LISP
	Policy   dataplane.MissPolicy
	Form     dataplane.MissForm
}

// OriginOf returns what is known of where a frame came from, false when that is none of our interfaces.
func (e *Entries) OriginOf(interfaces Interfaces, f tap.Frame) (Origin, bool) {
	record, ok := interfaces.RecordOf(f.Origin())
	e.mu.Lock()
	defer e.mu.Unlock()
	from := Origin{
		Instance: lisp.InstanceID(record.Iid),
		Site:     record.Flags&abi.InterfaceSite != 0 || f.Is(abi.DoProxy),
		Stack:    record.Flags&abi.InterfaceStack != 0,
		Form:     e.guarded.settings.MissForm,
	}
	if f.Is(abi.DoRelay) { // of the Instance-ID that its LISP header had
		from.Instance, from.Site, from.Stack, from.Relayed = lisp.InstanceID(f.Instance()), true, false, true
	}
	from.Policy = e.guarded.settings.MissPolicyOf(from.Instance)
	return from, ok
}

// QueueReports reports whether the pending-packet queue reports misses of an Instance-ID, with
// the packet, so that the programs' own events of them are not needed.
func (e *Entries) QueueReports(instance lisp.InstanceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.guarded.settings.MissPolicyOf(instance) {
	case dataplane.MissHandOver:
		return true
	case dataplane.MissQueue:
		return e.guarded.settings.MissForm != dataplane.MissFormEID
	}
	return false
}

// Covered reports whether a mapping says what to do with packets to a destination.
func (e *Entries) Covered(to forward.Destination) bool {
	address := to.EID.Addr()
	e.mu.Lock()
	defer e.mu.Unlock()
	family := abi.Family(address)
	record, ok := e.guarded.tables.Lookup(abi.RootMapCache, family, uint32(to.Instance), address.AsSlice())
	return ok && (record.LocatorSet != abi.NoLocatorSet || record.Action != uint8(lisp.ActionSendMapRequest))
}

// Unhold lets programs forward by mappings if ready says so, at that very moment.
func (e *Entries) Unhold(holds []Release, ready func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !ready() {
		return false
	}
	for _, hold := range holds {
		if hold.Held {
			e.guarded.tables.Unhold(hold.Index, hold.Generation)
		}
	}
	return true
}

// AddressOf returns an address of an interface, of a family.
func (e *Entries) AddressOf(interfaces Interfaces, ifindex uint32, family uint8) (netip.Addr, bool) {
	kinds := map[uint8]int{4: netlink.FAMILY_V4, 6: netlink.FAMILY_V6}
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(interfaces.SiteIfindex(ifindex))}}
	addresses, err := e.space.Netlink.AddrList(link, kinds[family])
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

// WayOf returns how a packet would leave, with its header.
func (e *Entries) WayOf(to forward.Destination, h *forward.Header) (underlay.Way, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	way, ok := e.guarded.wayOf(to, forward.FlowHash(h))
	if !ok || e.guarded.settings.RecursionDepth < 2 {
		return way, ok
	}
	t := way.Tunnel(h.Family)
	header := t.HeaderOf(forward.FlowHash(h))
	second := forward.Destination{EID: lisp.EIDFromAddr(way.Locator.Addr())}
	if outer, ok := e.guarded.wayOf(second, forward.FlowHash(&header)); ok {
		way.Outer = &outer
	}
	return way, true
}

// SecondLayer returns own RLOC and RLOC of a packet with one layer, with its header: with two layers the RLOC may be
// an EID.
func (e *Entries) SecondLayer(to forward.Destination, h *forward.Header) (source, rloc lisp.RLOC, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	way, ok := e.guarded.wayOf(to, forward.FlowHash(h))
	return way.Source, way.Locator, ok && e.guarded.settings.RecursionDepth > 1
}

// wayOf is how a packet of a flow gets to its locator.
func (c *contents) wayOf(to forward.Destination, hash uint32) (underlay.Way, bool) {
	address := to.EID.Addr()
	record, ok := c.tables.Lookup(abi.RootMapCache, abi.Family(address), uint32(to.Instance), address.AsSlice())
	if !ok || record.LocatorSet == abi.NoLocatorSet {
		return underlay.Way{}, false
	}
	buckets := forward.BucketVector(c.tables.Sets.Records[record.LocatorSet].Buckets)
	l, ok := forward.SelectLocator(c.tables.Sets.Of(record.LocatorSet), &buckets, hash)
	hop := l.NextHop()
	return underlay.Way{Source: c.tables.Sets.SourceFor(hop), Locator: hop, SourcePort: l.SourcePort, Instance: lisp.InstanceID(record.Iid),
		Encapsulation: c.settings.EncapsulationTo(hop)}, ok
}

// Dropped has a capture of drops see a frame that was dropped.
func (e *Entries) Dropped(f tap.Frame, reason forward.DropReason) {
	observe.RecordDrop(e.store, e.clock, f, reason)
}

// Covering returns the prefix of the map-cache entry that covers an address.
func (e *Entries) Covering(instance lisp.InstanceID, address netip.Addr) (lisp.Prefix, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	family := abi.Family(address)
	record, ok := e.guarded.tables.Lookup(abi.RootMapCache, family, uint32(instance), address.AsSlice())
	if !ok {
		return lisp.Prefix{}, false
	}
	return prefixOf(e.log, record), true
}
