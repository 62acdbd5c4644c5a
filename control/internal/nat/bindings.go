// SPDX-License-Identifier: Apache-2.0

package nat

// The bindings of an RTR: one for each router and EID-Prefix. An EID-Prefix has several where a Map-Server merges what
// several routers register (s.5.3: the xTR-ID tells them apart). One that is silent gets no packets while another one
// is not.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// claimLasts is how long after a node's last sign of life another one may not have its EID-Prefix: two
	// keepalives and a bit.
	claimLasts = time.Minute
	// silentAfter is how long after its last sign of life a node is silent, where others have its EID-Prefix:
	// longer than between its Map-Registers, for one that sends no keepalives.
	silentAfter = 75 * time.Second
	// noBinding is after the last binding of an EID-Prefix.
	noBinding = ^uint32(0)
)

// binding is where the packets of an EID-Prefix go, to one node.
type binding struct {
	prefix     lisp.Prefix
	pending    // the last Map-Register; its records are not stored
	rlocs      []natRLOC
	since      timing.Instant
	verifiedAt timing.Instant
	moves      uint64
	changes    timing.Changes
	seen       nonces
	key        settings.Key // of the last Map-Notify
	generation uint64       // of the RTR
	silent     bool         // its node was, when there were others
	next       uint32       // of the EID-Prefix
}

// shares reports whether the Map-Server merges what the node registers with what another one does by it.
func (b *binding) shares(merges bool, mapServer netip.Addr) bool {
	return merges && b.merges && b.mapServer == mapServer
}

// bindings are those of an RTR.
type bindings struct {
	h     *system.System
	rows  table.Slab[binding]
	first map[lisp.Prefix]uint32 // the oldest one
	count int
	sites map[nodeID]int       // bindings of a site, or of a node of no site
	nodes map[nodeID]nodeState // with a binding
}

// nodeState is what is known of a node whatever its EID-Prefixes.
type nodeState struct {
	bindings int
	heardAt  timing.Instant // the last sign of life
	silent   []uint32       // bindings that went silent since then; some may have ended
}

func newBindings(h *system.System) bindings {
	return bindings{h: h, first: map[lisp.Prefix]uint32{}, sites: map[nodeID]int{}, nodes: map[nodeID]nodeState{}}
}

// each are the bindings of an EID-Prefix, the oldest first. Each may be removed in its turn.
func (t *bindings) each(p lisp.Prefix) iter.Seq2[uint32, *binding] {
	return func(yield func(uint32, *binding) bool) {
		id, known := t.first[p]
		for known && id != noBinding {
			b := t.rows.At(id)
			next := b.next
			if !yield(id, b) {
				return
			}
			id = next
		}
	}
}

// isFull reports whether a node may have no more bindings, or an EID-Prefix no more nodes.
func (t *bindings) isFull(c claim) bool {
	nodes := 0
	for range t.each(c.prefix) {
		nodes++
	}
	return nodes >= settings.NATRouters || t.count >= settings.NATBindings ||
		t.sites[siteOf(c.node)] >= settings.NATBindingsPerSite
}

// add makes a binding of a node, behind those of others.
func (t *bindings) add(b binding) uint32 {
	b.next = noBinding
	id := t.rows.Add(b)
	last := noBinding
	for at := range t.each(b.prefix) {
		last = at
	}
	if last == noBinding {
		t.first[b.prefix] = id
	} else {
		t.rows.At(last).next = id
	}
	t.count++
	t.sites[siteOf(b.node)]++
	state := t.nodes[b.node]
	state.bindings++
	t.nodes[b.node] = state
	return id
}

// remove takes a binding out.
func (t *bindings) remove(id uint32) {
	b := *t.rows.At(id)
	before := noBinding
	for at, other := range t.each(b.prefix) {
		if other.next == id {
			before = at
		}
	}
	switch {
	case before != noBinding:
		t.rows.At(before).next = b.next
	case b.next != noBinding:
		t.first[b.prefix] = b.next
	default:
		delete(t.first, b.prefix)
	}
	t.count--
	leave(t.sites, siteOf(b.node))
	state := t.nodes[b.node]
	if state.bindings--; state.bindings > 0 {
		t.nodes[b.node] = state
	} else {
		delete(t.nodes, b.node)
	}
	t.rows.Release(id)
}

// hear notes a sign of life of a node that has a binding, and returns those of its bindings that were silent. Some may
// have ended.
func (t *bindings) hear(n nodeID, now timing.Instant) (silent []uint32) {
	state := t.nodes[n]
	silent, state.silent = state.silent, nil
	state.heardAt = now
	t.nodes[n] = state
	return silent
}

// setSilent says whether the node of a binding is silent while other nodes have the EID-Prefix.
func (t *bindings) setSilent(id uint32, silent bool) {
	b := t.rows.At(id)
	if silent && !b.silent {
		state := t.nodes[b.node]
		state.silent = append(state.silent, id)
		t.nodes[b.node] = state
	}
	b.silent = silent
}

// isSilent reports whether the node of a binding is silent now while other nodes have the EID-Prefix.
func (t *bindings) isSilent(b *binding, now timing.Instant) bool {
	return t.isShared(b.prefix) && now >= t.silentAt(b.node)
}

// isAlive reports whether a node gave a sign of life lately.
func (t *bindings) isAlive(n nodeID, now timing.Instant) bool {
	return now-t.nodes[n].heardAt < timing.Instant(claimLasts)
}

// silentAt is when a node is silent, without another sign of life.
func (t *bindings) silentAt(n nodeID) timing.Instant {
	return t.nodes[n].heardAt + timing.Instant(silentAfter)
}

// isShared reports whether several nodes have an EID-Prefix.
func (t *bindings) isShared(p lisp.Prefix) bool {
	id, known := t.first[p]
	return known && t.rows.At(id).next != noBinding
}

// inUse are the bindings that packets go to: of the nodes that are not silent, or of all where each one is.
func (t *bindings) inUse(p lisp.Prefix) (list []*binding) {
	all := 0
	for _, b := range t.each(p) {
		if all++; !b.silent {
			list = append(list, b)
		}
	}
	if len(list) > 0 || all == 0 {
		return list
	}
	for _, b := range t.each(p) {
		list = append(list, b)
	}
	return list
}

// nodesInUse are the nodes of those bindings.
func (t *bindings) nodesInUse(p lisp.Prefix) (list []nodeID) {
	for _, b := range t.inUse(p) {
		list = append(list, b.node)
	}
	return list
}

// mapping is how packets reach the nodes of an EID-Prefix: from the control port, as they sent to that. It has room for
// the RLOCs of its oldest nodes.
func (t *bindings) mapping(p lisp.Prefix, controlPort uint16) lisp.Mapping {
	var all []lisp.Locator
	for _, b := range t.inUse(p) {
		for _, w := range b.rlocs {
			l := w.locator(controlPort)
			if len(all) < lisp.MaxLocators &&
				!slices.ContainsFunc(all, func(o lisp.Locator) bool { return o.RLOC == l.RLOC }) {
				all = append(all, l)
			}
		}
	}
	set, _ := lisp.NewLocatorSet(all...)
	return lisp.Mapping{Prefix: p, TTLMinutes: lisp.TTLUnlimited, Locators: set}
}

// locator is how packets reach an RLOC behind its NAT.
func (w *natRLOC) locator(controlPort uint16) lisp.Locator {
	to := lisp.RLOCFromAddr(w.from.Addr())
	if w.from.Port() != wire.DataPort {
		to = to.WithPort(w.from.Port())
	}
	l := lisp.NewLocator(to)
	l.SourcePort = controlPort
	l.Priority, l.Weight = w.priority, w.weight
	return l
}

// siteOf is what bindings are limited by: the Site-ID, or the node where there is none.
func siteOf(n nodeID) nodeID {
	if n.site != 0 {
		n.xtr = [16]byte{}
	}
	return n
}
