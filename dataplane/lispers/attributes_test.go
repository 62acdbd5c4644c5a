// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"errors"
	"testing"

	"loci/dataplane"
	"loci/internal/attributes"
	"loci/lisp"
)

// TestMessagesCarryAttributes: what an Engine sends of a locator, and what a Server makes of it. The interface has a
// place for where packets go and how they share the flows.
func TestMessagesCarryAttributes(t *testing.T) {
	const decided = "the control plane has used it: the data plane gets the next hop"
	without := map[string]string{
		"Behind": decided, "Bits": decided, "Next": decided,
		"MulticastPriority": "there is no place for it; a Server takes it for unused",
		"MulticastWeight":   "there is no place for it",
		"Local":             "there is no place for it: mappings are those of other sites",
		"Probed":            "there is no place for it: it concerns an answer to an RLOC-probe",
		"Reachable":         "an unreachable locator is not sent",
		"SourcePort":        "there is no place for it: a locator with one is refused",
		"Address":           "a Map-Server's only: no packet can be sent to it",
	}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		server, engine := endsWithoutSockets(t)
		entry := mappingTo("10.2.0.0/16").Entry
		entry.Mapping.Locators = lisp.LocatorSet{l}
		if err := engine.tables.putMapping(entry); errors.Is(err, dataplane.ErrUnsupported) {
			return lisp.Locator{}, false
		} else if err != nil {
			t.Fatal(err)
		}
		m, err := decode(encode(engine.tables.message(entry.Mapping.Prefix).json()))
		if err != nil {
			return lisp.Locator{}, false // it has no RLOC
		}
		mapping := server.mapping(m.(mapCacheMessage))
		if len(mapping.Locators) == 0 {
			return lisp.Locator{}, false
		}
		return mapping.Locators[0], true
	})
}
