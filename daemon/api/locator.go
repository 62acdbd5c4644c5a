// SPDX-License-Identifier: Apache-2.0

package api

// A locator-set, as documents of several tables have it.

import (
	"cmp"
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
	SourcePort        uint16 `json:"source_port"` // that this router sends data packets from; 0: that of each flow
	Local             bool   `json:"local"`
	Reachable         bool   `json:"reachable"`
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
			SourcePort: l.SourcePort, Local: l.Local, Reachable: l.Reachable,
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
