// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"loci/daemon/hostnet"
	"loci/internal/attributes"
	"loci/lisp"
)

// TestConfigurationCarriesAttributes: the locator of a static mapping has everything that its keys say.
func TestConfigurationCarriesAttributes(t *testing.T) {
	without := map[string]string{
		"Next":       "the control plane decides it",
		"Local":      "the host's addresses decide it",
		"Probed":     "it belongs to one answer to an RLOC-probe",
		"SourcePort": "whether a NAT is on the way decides it",
		"Address":    "a Map-Server's only, by registrations",
	}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		text := "interfaces: {site: [site0], core: [core0]}\ndatapath: {recursion-depth: 2}\n" +
			"itr:\n  map-resolvers: [192.0.2.9]\n  map-cache:\n    mappings:\n" +
			"      - {eid: 10.2.0.0/16, rlocs: [" + configured(&l) + "]}\n"
		if l.RLOC.IsZero() {
			return lisp.Locator{}, false
		}
		p, err := Make(mustConfig(t, text), hostnet.Host{View: hostnet.View{Links: []hostnet.Link{
			{Name: "site0", Up: true, Addresses: addresses("10.1.0.1")},
			{Name: "core0", Up: true, Addresses: addresses("198.51.100.1")},
		}}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return p.Control.ITR.StaticMappings[0].Locators[0], true
	})
}

// configured is a locator as the configuration says it.
func configured(l *lisp.Locator) string {
	words := map[lisp.HopBits]string{
		lisp.HopLookup: "lookup",
		lisp.HopProbe:  "rloc-probe",
		lisp.HopStrict: "strict",
	}
	var hops []string
	for i, hop := range l.Path().Hops() {
		var bits []string
		for bit, word := range words {
			if l.Bits.Has(i, bit) {
				bits = append(bits, word)
			}
		}
		hops = append(hops, fmt.Sprintf("{address: %q, port: %d, lrs-bits: [%s]}",
			hop.Addr(), cmp.Or(hop.Port(), 4341), strings.Join(bits, ", ")))
	}
	where := fmt.Sprintf("address: %q, port: %d", l.RLOC.Addr(), cmp.Or(l.RLOC.Port(), 4341))
	if l.Bits.Has(0, lisp.HopExplicit) {
		where = "explicit-locator-path: [" + strings.Join(hops, ", ") + "]"
	}
	return fmt.Sprintf("{%s, priority: %d, weight: %d, ", where, l.Priority, l.Weight) +
		fmt.Sprintf("multicast-priority: %d, multicast-weight: %d, ", l.MulticastPriority, l.MulticastWeight) +
		fmt.Sprintf("reachable: %v}", l.Reachable)
}
