// SPDX-License-Identifier: Apache-2.0

package hostnet

// What plans are made from: the host as it is, and what is remembered of it. An address
// that an interface lost stays a locator, though an unreachable one, until there is
// another: an EID-Prefix without any locator would let the site's packets out without
// encapsulation.

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"loci/config"
	"loci/lisp"
)

// Host is the host as plans see it. The zero value knows nothing.
type Host struct {
	View
	Down    map[netip.Addr]bool     // own RLOCs that are not used
	Missing map[string]time.Time    // by interface that is not there: when that was found first
	lost    map[string][]netip.Addr // by interface: the last ones of the families that it has none of now
	owned   []netip.Addr            // own RLOCs of the current plan
	Sibling netip.Addr              // the sibling that the site's packets go to, zero for none
	RTRs    []lisp.RLOC             // that send this node control messages in data packets
	XTRID   [16]byte                // that this router registers with where its configuration has none, zero for none
}

// MissingLink is an interface that the host does not have, though the configuration names it.
type MissingLink struct {
	Name  string
	Since time.Time
}

// IsOwn reports whether an address is this host's, or was when the current plan was
// made: its interface may come back.
func (h Host) IsOwn(a netip.Addr) bool { return h.Holds(a) || slices.Contains(h.owned, a) }

// AddressesOf are the usable addresses of an interface, or those it lost where it has
// none that counts.
func (h Host) AddressesOf(name string, family config.AddressFamily) []netip.Addr {
	inFamily := func(list []netip.Addr) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool {
			return family == config.FamilyIPv4 && !a.Is4() || family == config.FamilyIPv6 && a.Is4()
		})
	}
	link, _ := h.Link(name)
	if present := inFamily(link.Addresses); len(present) > 0 {
		return present
	}
	return inFamily(h.lost[name])
}

// Memory is what is kept from one look at the host to the next. It is not safe for
// concurrent use.
type Memory struct {
	seen    map[seenKey][]netip.Addr // of the interfaces that the configuration names
	missing map[string]time.Time     // of these, since when each is not there
	Owned   []netip.Addr             // own RLOCs of the current plan
	States  RLOCStates
}

// seenKey is a family at an interface.
type seenKey struct {
	link string
	is4  bool
}

// NewMemory returns a Memory that remembers nothing.
func NewMemory() *Memory {
	return &Memory{seen: map[seenKey][]netip.Addr{}, States: newRLOCStates()}
}

// Recall adds to a view of the host what is remembered of the interfaces named.
func (m *Memory) Recall(now time.Time, view View, named []string) Host {
	view = view.eachOnce(named)
	present := map[seenKey][]netip.Addr{}
	for _, l := range view.Links {
		if !slices.Contains(named, l.Name) {
			continue
		}
		for _, a := range l.Addresses {
			key := seenKey{l.Name, a.Is4()}
			present[key] = append(present[key], a)
		}
	}
	m.moveTo(present)
	maps.Copy(m.seen, present)
	maps.DeleteFunc(m.seen, func(key seenKey, _ []netip.Addr) bool { return !slices.Contains(named, key.link) })
	host := Host{View: view, lost: map[string][]netip.Addr{}, owned: m.Owned}
	host.Missing = m.noteMissing(now, view, named)
	for key, addresses := range m.seen {
		if len(present[key]) == 0 {
			host.lost[key.link] = append(host.lost[key.link], addresses...)
		}
	}
	host.Down = m.States.Down()
	return host
}

// moveTo forgets addresses of interfaces that others have now: networks behind NATs may give out the same address.
func (m *Memory) moveTo(present map[seenKey][]netip.Addr) {
	for key, seen := range m.seen {
		m.seen[key] = slices.DeleteFunc(seen, func(a netip.Addr) bool {
			for other, addresses := range present {
				if other.link != key.link && slices.Contains(addresses, a) {
					return true
				}
			}
			return false
		})
	}
}

// noteMissing notes since when interfaces are not there.
func (m *Memory) noteMissing(now time.Time, view View, named []string) map[string]time.Time {
	missing := map[string]time.Time{}
	for _, name := range named {
		if !view.Has(name) {
			since, known := m.missing[name]
			if !known {
				since = now
			}
			missing[name] = since
		}
	}
	m.missing = missing
	return missing
}

// OwnRLOC is an own RLOC as a plan found it.
type OwnRLOC struct {
	RLOC lisp.RLOC
	Link string
	RLOCState
}

// OwnRLOCs describes own RLOCs by what is remembered of them.
func (m *Memory) OwnRLOCs(rlocs []netip.Addr, view View) []OwnRLOC {
	var list []OwnRLOC
	for _, rloc := range rlocs {
		if state, known := m.States.of(rloc); known {
			list = append(list, OwnRLOC{lisp.RLOCFromAddr(rloc), view.InterfaceOf(rloc), state})
		}
	}
	return list
}
