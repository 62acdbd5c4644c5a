// SPDX-License-Identifier: Apache-2.0

package api

// Locators and the policies of relays, as the control socket tells them.

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/wire"
)

// TTLOf is the lifetime of a mapping; nil where it is left to the receiver.
func TTLOf(minutes uint32) *jsondoc.Seconds {
	if minutes == lisp.TTLUnlimited {
		return nil
	}
	ttl := jsondoc.SecondsOf(time.Duration(minutes) * time.Minute)
	return &ttl
}

// Policy is what an RTR, a PITR or a PETR does in an Instance-ID.
type Policy struct {
	Role        string          `json:"role"`
	InstanceID  lisp.InstanceID `json:"instance_id"`
	EIDPrefixes []netip.Prefix  `json:"eid_prefixes"`
	Sources     []netip.Prefix  `json:"sources"` // of a PITR; none: all
}

// Locator is one locator of a mapping.
type Locator struct {
	RLOC lisp.RLOC `json:"rloc"` // null when no packet can be sent to the address alone; of a path: its first hop
	// Path are the hops of an explicit locator path.
	Path    []Hop      `json:"explicit_locator_path"`
	NextHop *lisp.RLOC `json:"next_hop"` // of a path: where this router sends
	// Address is what a Map-Server keeps of an address that says more than an RLOC, in words.
	Address           string `json:"address"`
	Priority          uint8  `json:"priority"`
	Weight            uint8  `json:"weight"`
	MulticastPriority uint8  `json:"multicast_priority"`
	MulticastWeight   uint8  `json:"multicast_weight"`
	Local             bool   `json:"local"`
	Reachable         bool   `json:"reachable"`
}

// DataPath is whether packets reach a router and come back, as the daemon's own checks tell.
type DataPath struct {
	State      string     `json:"state"`       // not-known, passes, lost or large-packets-lost
	Since      *time.Time `json:"since"`       // of what is lost: when the first check went that was not answered
	CheckedAt  *time.Time `json:"checked_at"`  // of the last check; nil for never, as the next
	AnsweredAt *time.Time `json:"answered_at"` // of the last answer
	// Octets is the size of what is lost, or of the largest packet that passed; nil before there is either.
	Octets *int `json:"octets"`
	// PacketsCome says of what is lost that data packets still come from there: it is lost towards it.
	PacketsCome bool `json:"packets_come"`
}

// SecondLayer is what becomes of packets to an RLOC that is an EID itself, by one of the locators that its mapping has.
type SecondLayer struct {
	RLOC      lisp.RLOC   `json:"rloc"`
	EIDPrefix lisp.Prefix `json:"eid_prefix"` // the mapping that covers the RLOC
	Through   lisp.RLOC   `json:"through"`    // where that one sends
	Problem   string      `json:"problem"`    // mapping-loop or recursion-depth: packets are dropped, and counted so
	LeadsBack bool        `json:"leads_back"` // the mappings come back to one of them, or to this router
}

// Hop is a router on an explicit locator path.
type Hop struct {
	RLOC    lisp.RLOC `json:"rloc"`
	LRSBits []string  `json:"lrs_bits"` // lookup, rloc-probe, strict
}

var hopBits = []struct {
	bit          lisp.HopBits
	word, letter string
}{{lisp.HopLookup, "lookup", "L"}, {lisp.HopProbe, "rloc-probe", "P"}, {lisp.HopStrict, "strict", "S"}}

// hopsOf are the hops of a locator that is a path, nil for others.
func hopsOf(l *lisp.Locator) (hops []Hop) {
	path := l.Path()
	if path.IsPlain() && !l.Bits.Has(0, lisp.HopExplicit) {
		return nil
	}
	for i, rloc := range path.Hops() {
		hop := Hop{RLOC: rloc}
		for _, b := range hopBits {
			if l.Bits.Has(i, b.bit) {
				hop.LRSBits = append(hop.LRSBits, b.word)
			}
		}
		hops = append(hops, hop)
	}
	return hops
}

// LocatorsOf turns a locator-set into its document.
func LocatorsOf(set lisp.LocatorSet) []Locator {
	list := make([]Locator, len(set))
	for i := range set {
		l := &set[i]
		list[i] = Locator{
			RLOC: l.RLOC, Path: hopsOf(l), Priority: l.Priority, Weight: l.Weight,
			MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
			Local: l.Local, Reachable: l.Reachable,
		}
		if list[i].Path != nil {
			next := l.NextHop()
			list[i].NextHop = &next
		}
		if l.Address != "" {
			list[i].Address = wire.LocatorAddress(l).String()
		}
	}
	return list
}

// Name is the locator's address, path or RLOC.
func (l *Locator) Name() string { return cmp.Or(l.Address, PathText(l.Path), l.RLOC.String()) }

// PathText is a path with the letters of its bits: 192.0.2.1(PS) -> 192.0.2.2; empty without hops.
func PathText(hops []Hop) string {
	texts := make([]string, len(hops))
	for i, h := range hops {
		texts[i] = h.RLOC.String()
		if letters := h.letters(); letters != "" {
			texts[i] += "(" + letters + ")"
		}
	}
	return strings.Join(texts, " -> ")
}

func (h *Hop) letters() (letters string) {
	for _, b := range hopBits {
		if slices.Contains(h.LRSBits, b.word) {
			letters += b.letter
		}
	}
	return letters
}
