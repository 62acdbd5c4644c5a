// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
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
