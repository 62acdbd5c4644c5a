// SPDX-License-Identifier: Apache-2.0

package simplenat

// Mappings that name the hosts of their locators (s.8): an RTR sends to the port that the host's NAT has. Which ports
// there are is the RTR's; the map-cache is the ITR's.

import (
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// mappingsBatch bounds the mappings of one event-loop iteration.
const mappingsBatch = 128

// Mappings are those of the map-cache that name hosts.
type Mappings struct {
	h *system.System
	// PortOf is the UDP port that a NAT has for a host of an EID-Prefix; nil where no host is known.
	PortOf func(lisp.Prefix, Host) (port uint16, known bool)
	LookAt func(_ lisp.Prefix, news bool) // a mapping may be another one, and for news is asked for anew

	of     map[lisp.Prefix][]told
	byHost map[Host]map[lisp.Prefix]struct{}
	byName map[string]map[Host]struct{}
	names  []string        // whose mappings are to be looked at
	queued map[string]bool // and whether their hosts may have moved
	left   []lisp.Prefix   // of the name that is looked at
	news   bool            // its host may have moved
	Work   batch.Work
}

// told is a host that a mapping names, and the priority of its locator.
type told struct {
	Host
	priority uint8
}

// NewMappings makes an empty one.
func NewMappings(h *system.System, lookAt func(_ lisp.Prefix, news bool)) *Mappings {
	return &Mappings{
		h: h, LookAt: lookAt, of: map[lisp.Prefix][]told{}, byHost: map[Host]map[lisp.Prefix]struct{}{},
		byName: map[string]map[Host]struct{}{}, queued: map[string]bool{},
	}
}

// Tell keeps which hosts a Map-Reply names for an EID-Prefix.
func (n *Mappings) Tell(p lisp.Prefix, locators []message.NamedLocator) {
	n.Forget(p)
	for _, l := range locators {
		host := Host{l.Name, l.RLOC.Addr()}
		if l.Prefix != p || slices.ContainsFunc(n.of[p], func(t told) bool { return t.Host == host }) {
			continue
		}
		n.of[p] = append(n.of[p], told{host, l.Priority})
		if n.byHost[host] == nil {
			n.byHost[host] = map[lisp.Prefix]struct{}{}
		}
		n.byHost[host][p] = struct{}{}
		if n.byName[host.Name] == nil {
			n.byName[host.Name] = map[Host]struct{}{}
		}
		n.byName[host.Name][host] = struct{}{}
	}
}

// Forget is for a mapping that is gone.
func (n *Mappings) Forget(p lisp.Prefix) {
	for _, t := range n.of[p] {
		host := t.Host
		if delete(n.byHost[host], p); len(n.byHost[host]) > 0 {
			continue
		}
		delete(n.byHost, host)
		if delete(n.byName[host.Name], host); len(n.byName[host.Name]) == 0 {
			delete(n.byName, host.Name)
		}
	}
	delete(n.of, p)
}

// Translate is a mapping with the ports of its hosts, whose packets go from the data port to those: NATs let them in
// that way. A host without a known port gets none: without one they would go to the NAT's data port, which may be the
// binding of another node.
func (n *Mappings) Translate(m lisp.Mapping) lisp.Mapping {
	hosts := n.of[m.Prefix]
	if n.PortOf == nil || len(hosts) == 0 {
		return m
	}
	set := slices.Clone(m.Locators)
	for i := range set {
		l := &set[i]
		if l.Behind == "" {
			n.translate(l, m.Prefix, hosts)
		}
	}
	if sorted, err := lisp.LocatorSetOf(set); err == nil {
		m.Locators = sorted
	}
	return m
}

// translate gives a locator the port of the first host at its address that has one.
func (n *Mappings) translate(l *lisp.Locator, p lisp.Prefix, hosts []told) {
	at := l.RLOC.Addr()
	for _, t := range hosts {
		if t.At != at {
			continue
		}
		l.RLOC, l.SourcePort, l.Priority = l.RLOC.WithPort(0), 0, lisp.PriorityUnused
		if port, known := n.PortOf(p, t.Host); known {
			l.SourcePort, l.Priority = wire.DataPort, t.priority
			if port != wire.DataPort {
				l.RLOC = l.RLOC.WithPort(port)
			}
			return
		}
	}
}

// IsUsed reports whether a mapping names a host.
func (n *Mappings) IsUsed(host Host) bool { return len(n.byHost[host]) > 0 }

// HostsOf are the hosts that the mapping of an EID-Prefix names.
func (n *Mappings) HostsOf(p lisp.Prefix) (list []Host) {
	for _, t := range n.of[p] {
		list = append(list, t.Host)
	}
	return list
}

// Count is how many mappings name a host.
func (n *Mappings) Count(host Host) int { return len(n.byHost[host]) }

// Changed has the mappings of a name looked at: a host of that name has another port, or none any more. news says that
// the host may have moved.
func (n *Mappings) Changed(name string, news bool) {
	if len(n.byName[name]) == 0 {
		return
	}
	before, queued := n.queued[name]
	if n.queued[name] = before || news; !queued {
		n.names = append(n.names, name)
		n.Work.At(n.h.Now)
	}
}

// Heard is for a host that sends. Mappings that name another address of its name are asked for again, at the rate that
// such Map-Requests have.
func (n *Mappings) Heard(host Host, changed bool) {
	if news := !n.IsUsed(host); news || changed {
		n.Changed(host.Name, news)
	}
}

// AllChanged has those of all names looked at.
func (n *Mappings) AllChanged() {
	for name := range n.byName {
		n.Changed(name, false)
	}
	slices.Sort(n.names) // the order of a Go map never shows
}

// Handle does one batch.
func (n *Mappings) Handle() { n.Work.Run(n.h.Now, mappingsBatch, n.step) }

func (n *Mappings) step() (cost int, more bool) {
	if len(n.left) > 0 {
		n.LookAt(n.left[0], n.news)
		n.left = n.left[1:]
		return 1, true
	}
	if len(n.names) == 0 {
		n.names = nil
		return 0, false
	}
	name := n.names[0]
	n.names, n.news = n.names[1:], n.queued[name]
	delete(n.queued, name)
	for host := range n.byName[name] {
		for p := range n.byHost[host] {
			n.left = append(n.left, p)
		}
	}
	slices.SortFunc(n.left, lisp.Prefix.Compare)
	n.left = slices.Compact(n.left)
	return 1, true
}
