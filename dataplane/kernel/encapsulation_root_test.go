// SPDX-License-Identifier: Apache-2.0

// Hosts that reach each other across every encapsulation (RFC 9300 s.5, RFC 9305), changed while
// the engines run. The tests need root.

package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"loci/dataplane"
	"loci/lisp"
)

// TestHostsAcrossEncapsulations pings over both families of RLOCs, by rules for each, at both hooks.
func TestHostsAcrossEncapsulations(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, hook := range []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP} {
		n.setSides(t, hook)
		n.acrossEncapsulations(t, hook)
	}
}

func (n *network) acrossEncapsulations(t *testing.T, hook dataplane.Hook) {
	t.Helper()
	for _, encapsulation := range []dataplane.Encapsulation{
		dataplane.EncapsulationLISPGPE, dataplane.EncapsulationVXLANGPE, dataplane.EncapsulationLISP,
	} {
		for _, r := range n.routers {
			settings := r.Settings()
			settings.Encapsulations = []dataplane.EncapsulationRule{
				{RLOCs: netip.MustParsePrefix("192.0.2.0/24"), Encapsulation: encapsulation}, {Encapsulation: encapsulation},
			}
			r.apply(t, dataplane.SetSettings{Settings: settings})
		}
		for _, p := range pairs {
			n.mapBoth(t, p.outer)
			t.Run(fmt.Sprintf("%v, encapsulation %d, %s", hook, encapsulation, p.name), func(t *testing.T) {
				n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
				n.expectTCP(t, p, 1<<20)
			})
		}
	}
}

func TestEncapsulationRules(t *testing.T) {
	s := dataplane.Settings{Encapsulations: []dataplane.EncapsulationRule{
		{RLOCs: netip.MustParsePrefix("192.0.2.0/25"), Encapsulation: dataplane.EncapsulationVXLANGPE},
		{RLOCs: netip.MustParsePrefix("192.0.2.0/24")},
		{Encapsulation: dataplane.EncapsulationLISPGPE},
	}}
	for rloc, want := range map[string]dataplane.Encapsulation{
		"192.0.2.1": dataplane.EncapsulationVXLANGPE, "192.0.2.200": dataplane.EncapsulationLISP,
		"198.51.100.1": dataplane.EncapsulationLISPGPE, "2001:db8::1": dataplane.EncapsulationLISPGPE,
	} {
		if got := s.EncapsulationTo(lisp.RLOCFromAddr(netip.MustParseAddr(rloc))); got != want {
			t.Errorf("%s: %d, want %d", rloc, got, want)
		}
	}
	s.Encapsulations[0].Encapsulation = 3
	if err := checkSettings(s); err == nil {
		t.Error("an unknown encapsulation is taken")
	}
}
