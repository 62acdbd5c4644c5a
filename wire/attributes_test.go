// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"loci/internal/attributes"
	"loci/lisp"
)

// TestRecordsCarryAttributes: an RLOC-Record has everything of a locator that RFC 9301 s.5.4 and RFC 8060 have a place
// for. A Map-Server reads it by RegistrationOf, which keeps addresses that say more.
func TestRecordsCarryAttributes(t *testing.T) {
	without := map[string]string{
		"Next":          "each router that sends packets chooses it",
		"SourcePort":    "each router that sends packets knows whether a NAT is on their way",
		attributes.Port: "neither RLOC-Record nor Explicit Locator Path has one; it is 4341 (RFC 9300 s.4.1)",
	}
	prefix := lisp.MustParsePrefix("10.2.0.0/16")
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		records := []lisp.Mapping{{Prefix: prefix, Locators: lisp.LocatorSet{l}}}
		b, err := AppendMapReply(nil, &MapReply{}, records)
		if err != nil {
			return lisp.Locator{}, false // for its port
		}
		m, err := Parser{KeepAddresses: true}.ParseIn(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := m.(*MapReply).Records[0].RegistrationOf(prefix)
		if err != nil {
			t.Fatal(err)
		}
		return mapping.Locators[0], true
	})
}
