// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"slices"
	"testing"

	"loci/internal/attributes"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// TestDocumentsCarryAttributes: the control socket's document of a locator has everything that an operator can ask of
// it.
func TestDocumentsCarryAttributes(t *testing.T) {
	without := map[string]string{
		"Probed":  "it belongs to one answer to an RLOC-probe and says nothing about the mapping",
		"Address": "in words, for people; octets are for machines that answer with them",
	}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		sent := LocatorsOf(lisp.LocatorSet{l})
		b, err := jsondoc.Append(nil, &sent)
		if err != nil {
			t.Fatal(err)
		}
		var documents []Locator
		if err := json.Unmarshal(b, &documents); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if (documents[0].Address == "") != (l.Address == "") {
			t.Errorf("address %q of %x", documents[0].Address, l.Address)
		}
		return locatorOf(t, &documents[0]), true
	})
}

// locatorOf is the locator that a document speaks of.
func locatorOf(t *testing.T, d *Locator) lisp.Locator {
	t.Helper()
	l := lisp.Locator{
		RLOC: d.RLOC, Priority: d.Priority, Weight: d.Weight,
		MulticastPriority: d.MulticastPriority, MulticastWeight: d.MulticastWeight,
		SourcePort: d.SourcePort, Local: d.Local, Reachable: d.Reachable,
	}
	if len(d.Path) == 0 {
		return l
	}
	hops := make([]lisp.RLOC, len(d.Path))
	for i, hop := range d.Path {
		hops[i], l.Bits[i] = hop.RLOC, lisp.HopExplicit
		for _, b := range hopBits {
			if slices.Contains(hop.LRSBits, b.word) {
				l.Bits[i] |= b.bit
			}
		}
	}
	path, err := lisp.NewPath(hops...)
	if err != nil {
		t.Fatal(err)
	}
	l.Behind, l.Next = path.Behind, uint8(slices.Index(hops, *d.NextHop))
	return l
}
