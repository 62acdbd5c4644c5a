// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"slices"
	"testing"

	"loci/internal/attributes"
	"loci/lisp"
)

// TestMessagesCarryAttributes: the metrics and T_HOPS have everything of a locator that a data plane works with.
func TestMessagesCarryAttributes(t *testing.T) {
	without := map[string]string{"Address": "a Map-Server's only: no data plane can send a packet to it"}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		sent := Message{Type: TypeAdd, Locators: []Locator{{Locator: l}}}
		sent.SetPrefix(lisp.MustParsePrefix("10.2.0.0/16"))
		b, err := sent.Append(nil)
		if err != nil {
			return lisp.Locator{}, false // it has no RLOC
		}
		var received Message
		if _, err := received.Parse(b); err != nil {
			t.Fatal(err)
		}
		return received.Locators[0].Locator, true
	})
}

// TestEveryAttributeIsWritten: what is read has a place in the order of what is written.
func TestEveryAttributeIsWritten(t *testing.T) {
	for a := range attributeForms {
		place := slices.Index(inOrder[:], Attribute(a))
		if known := formOf(Attribute(a)) != nil; known != (place >= 0) || known && attributeForms[a].append == nil {
			t.Errorf("attribute %d is known: %v; its place is %d", a, known, place)
		}
	}
	sorted := slices.Sorted(slices.Values(inOrder[:]))
	if len(slices.Compact(sorted)) != len(inOrder) {
		t.Errorf("an attribute stands twice in %v", inOrder)
	}
}
