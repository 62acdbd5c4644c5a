// SPDX-License-Identifier: Apache-2.0

package lisp

// Locator and LocatorSet: the RLOCs of a mapping with what decides between them
// (RFC 9301 s.5.4, s.5.5).

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// PriorityUnused is the priority that MUST NOT be used for forwarding
// (RFC 9301 s.5.4).
const PriorityUnused = 255

// PriorityRTR is the priority that simple-nat gives to the RTRs of a site behind a NAT
// (draft-farinacci-lisp-lispers-net-nat s.5).
const PriorityRTR = 254

// MaxLocators is how many locators one mapping may have: an EID-Record counts
// them in 8 bits, Locator-Status-Bits name 32 (RFC 9300 s.5.3).
const MaxLocators = 32

// Locator is one locator of a mapping: an RLOC, or a path of several hops. Lower priorities win; weights share the
// traffic among equal priorities.
//
// It is the one list of a locator's attributes: name, type and, except for addresses and single bits, range (of
// numbers, or of how many hops, bits or octets). Whatever encodes locators carries each attribute, or its test lists
// why not (internal/attributes).
type Locator struct {
	RLOC              RLOC     // of a path: its first hop
	Behind            Hops     `range:"0..7"`  // the other hops of a path; its identity is all hops
	Bits              PathBits `range:"0..15"` // L, P and S of the hops
	Next              uint8    `range:"0..7"`  // the hop that packets go to, as the control plane decided
	Priority          uint8    `range:"0..255"`
	Weight            uint8    `range:"0..255"`
	MulticastPriority uint8    `range:"0..255"`
	MulticastWeight   uint8    `range:"0..255"`
	Local             bool     // L: an address of the ETR that answers
	Probed            bool     // p: the locator that an RLOC-probe asked about
	Reachable         bool     // R: the ETR has a route to it
	// SourcePort is the UDP port that this router sends data packets to the locator from, by which a NAT knows
	// them: 4341 behind one, 4342 from an RTR to a node behind one. 0: that of each packet's flow.
	SourcePort uint16 `range:"0..65535"`
	// Address is what a Map-Server keeps of an address that says more than an RLOC or a path (a replication list,
	// a name, ...): its octets on the wire, from the AFI on (RFC 8060). Empty for a plain IP address. RLOC is then
	// zero where no packet can be sent to the address by itself.
	Address string `range:"0..4096"`
}

// NewLocator is a plain locator of which nothing else is known: reachable, of the best priority, and not for multicast.
func NewLocator(r RLOC) Locator {
	return Locator{RLOC: r, Priority: 1, Weight: 100, MulticastPriority: PriorityUnused, Reachable: true}
}

// Path is the locator's identity.
func (l *Locator) Path() Path { return Path{RLOC: l.RLOC, Behind: l.Behind} }

// NextHop is where this router sends the packets of the locator: the RLOC, or the hop of a path that Next names.
func (l *Locator) NextHop() RLOC { return l.Path().Hop(min(int(l.Next), l.Behind.Len())) }

// IsSentToLast reports whether packets go to the last hop, the ETR: so they do to a plain RLOC.
func (l *Locator) IsSentToLast() bool { return int(l.Next) >= l.Behind.Len() }

// IsSame reports whether both are the same locator, whatever else is said of it.
func (l *Locator) IsSame(o *Locator) bool { return l.Path() == o.Path() && l.Address == o.Address }

// compare orders locators as RFC 9301 s.5.5 does, and those without an RLOC behind the others by their octets.
func (l *Locator) compare(o *Locator) int {
	if l.RLOC.IsZero() != o.RLOC.IsZero() {
		if l.RLOC.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(l.Path().Compare(o.Path()), strings.Compare(l.Address, o.Address))
}

// Usable reports whether unicast packets may be sent to the locator: R set and
// priority not 255 (RFC 9300 s.9, RFC 9301 s.5.4).
func (l Locator) Usable() bool { return l.Reachable && l.Priority != PriorityUnused }

// String is "RLOC priority/weight", with the state when the locator is not usable.
func (l Locator) String() string {
	text := fmt.Sprintf("%s %d/%d", l.name(), l.Priority, l.Weight)
	if !l.Reachable {
		text += " unreachable"
	}
	return text
}

func (l Locator) name() string {
	if l.Address == "" {
		return l.Path().String()
	}
	return fmt.Sprintf("address %x", l.Address)
}

// LocatorSet is a mapping's locators in the order of RFC 9301 s.5.5: ascending,
// IPv4 before IPv6. A locator's position is its Locator-Status-Bit. Treat it as
// immutable: sets are shared.
type LocatorSet []Locator

// NewLocatorSet sorts a copy of the locators and refuses a set that is too large
// or names a locator twice.
func NewLocatorSet(locators ...Locator) (LocatorSet, error) {
	return LocatorSetOf(slices.Clone(locators))
}

// LocatorSetOf is NewLocatorSet of a slice that is the caller's no more: it is sorted in
// place, and becomes the set.
func LocatorSetOf(locators []Locator) (LocatorSet, error) {
	if len(locators) > MaxLocators {
		return nil, fmt.Errorf("%d locators: at most %d fit the Locator-Status-Bits", len(locators), MaxLocators)
	}
	set := LocatorSet(locators)
	slices.SortStableFunc(set, func(a, b Locator) int { return a.compare(&b) })
	for i := range set {
		if i > 0 && set[i-1].IsSame(&set[i]) {
			return nil, fmt.Errorf("RLOC %s stands twice in one locator-set", set[i].name())
		}
	}
	return set, nil
}

// Equal reports whether both sets hold the same locators.
func (s LocatorSet) Equal(o LocatorSet) bool { return slices.Equal(s, o) }

// SameRLOCs reports whether the sets have the same RLOCs in the same order, whatever else
// is said of them. Then Locator-Status-Bits mean the same in both (RFC 9300 s.10).
func (s LocatorSet) SameRLOCs(o LocatorSet) bool {
	return slices.EqualFunc(s, o, func(a, b Locator) bool { return a.IsSame(&b) })
}

// Best returns the usable locators of the lowest priority, in set order.
func (s LocatorSet) Best() []Locator {
	var best []Locator
	for _, l := range s {
		if !l.Usable() {
			continue
		}
		if len(best) > 0 && l.Priority < best[0].Priority {
			best = best[:0]
		}
		if len(best) == 0 || l.Priority == best[0].Priority {
			best = append(best, l)
		}
	}
	return best
}

// Has reports whether the set has a locator of that path.
func (s LocatorSet) Has(p Path) bool {
	return slices.ContainsFunc(s, func(l Locator) bool { return l.Path() == p })
}

// Find returns the plain locator with that RLOC.
func (s LocatorSet) Find(r RLOC) (Locator, bool) {
	i, ok := slices.BinarySearchFunc(s, Locator{RLOC: r}, func(l, r Locator) int { return l.compare(&r) })
	if !ok {
		return Locator{}, false
	}
	return s[i], true
}
