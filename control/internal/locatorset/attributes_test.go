// SPDX-License-Identifier: Apache-2.0

package locatorset

import (
	"testing"

	"loci/internal/attributes"
	"loci/lisp"
)

// TestJournalCarriesAttributes: the octets in the journal have everything of a locator that is registered.
func TestJournalCarriesAttributes(t *testing.T) {
	without := map[string]string{
		"Next":          "a Map-Server sends no packets to locators",
		"SourcePort":    "a Map-Server sends no packets to locators",
		attributes.Port: "a Map-Register has no place for it",
	}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		b := AppendLocators(nil, lisp.LocatorSet{l})
		r := Reader{Octets: append(b, "behind"...)}
		set, err := r.Locators()
		if err != nil || r.Short || string(r.Octets) != "behind" {
			t.Fatalf("%+v: %x reads with the error %v, and %x behind", l, b, err, r.Octets)
		}
		for cut := range b {
			if r := (Reader{Octets: b[:cut]}); !isShort(&r) {
				t.Fatalf("%+v: %d octets of %x are a set", l, cut, b)
			}
		}
		return set[0], true
	})
}

func isShort(r *Reader) bool {
	_, _ = r.Locators()
	return r.Short
}
