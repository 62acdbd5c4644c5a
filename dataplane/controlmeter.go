// SPDX-License-Identifier: Apache-2.0

package dataplane

// How many control messages in data packets become events. Their sources may be forged, and many. Those that the
// map-cache sends to from a port of their own are routers behind NATs that are in use: a part of the events is theirs.
// A forger has to guess the port, unless the NAT keeps ports or the source is an RTR (4341). So a source in use that
// has used up its own part shares the part of unknown sources.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// dataPort is where packets to a locator without a port go.
const dataPort = 4341

// ControlMeter bounds the events ControlPacket of an engine. The zero value is ready for use by one caller at a time.
type ControlMeter struct {
	since       time.Time
	count       int
	unknown     int
	from        map[netip.Addr]int     // of unknown sources; no more addresses than messages were allowed
	fromKnown   map[netip.AddrPort]int // of known ones, likewise
	destination map[netip.AddrPort]int // in how many mappings it stands
	byPrefix    map[lisp.Prefix][]netip.AddrPort
}

// Note takes notice of an operation that the engine has carried out.
func (m *ControlMeter) Note(o Operation) {
	switch o := o.(type) {
	case PutMapping:
		m.forget(o.Entry.Mapping.Prefix)
		m.learn(&o.Entry.Mapping)
	case DeleteMapping:
		m.forget(o.Prefix)
	case Flush:
		if o.MapCache {
			m.destination, m.byPrefix = nil, nil
		}
	}
}

// learn keeps where a mapping sends to from a port of its own.
func (m *ControlMeter) learn(mapping *lisp.Mapping) {
	for i := range mapping.Locators {
		l := &mapping.Locators[i]
		if l.SourcePort == 0 || l.Priority == lisp.PriorityUnused {
			continue
		}
		if m.byPrefix == nil {
			m.destination, m.byPrefix = map[netip.AddrPort]int{}, map[lisp.Prefix][]netip.AddrPort{}
		}
		at := netip.AddrPortFrom(l.RLOC.Addr(), l.RLOC.Port())
		if at.Port() == 0 {
			at = netip.AddrPortFrom(at.Addr(), dataPort)
		}
		m.destination[at]++
		m.byPrefix[mapping.Prefix] = append(m.byPrefix[mapping.Prefix], at)
	}
}

func (m *ControlMeter) forget(prefix lisp.Prefix) {
	if len(m.byPrefix) == 0 {
		return
	}
	for _, at := range m.byPrefix[prefix] {
		if m.destination[at]--; m.destination[at] == 0 {
			delete(m.destination, at)
		}
	}
	delete(m.byPrefix, prefix)
}

// Allow reports whether a control message of so many octets from an address and port may become an event.
func (m *ControlMeter) Allow(now time.Time, from netip.AddrPort, octets int) bool {
	if octets > MaxControlOctets {
		return false
	}
	if age := now.Sub(m.since); m.from == nil || age < 0 || age >= time.Second {
		m.since, m.count, m.unknown = now, 0, 0
		m.from, m.fromKnown = map[netip.Addr]int{}, map[netip.AddrPort]int{}
	}
	if m.count >= MaxControlPackets {
		return false
	}
	if m.destination[from] > 0 && m.fromKnown[from] < MaxControlPacketsKnown {
		m.fromKnown[from]++
		m.count++
		return true
	}
	if m.unknown >= MaxControlPacketsUnknown || m.from[from.Addr()] >= MaxControlPacketsFrom {
		return false
	}
	m.from[from.Addr()]++
	m.unknown++
	m.count++
	return true
}
