// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"loci/lisp"
	"loci/wire"
)

// TestRegistrationsBehindANAT: all RLOCs are private, and none is the source.
func TestRegistrationsBehindANAT(t *testing.T) {
	for i, c := range []struct {
		from, rlocs string
		want        bool
	}{
		{"203.0.113.1", "10.9.0.1", true},
		{"203.0.113.1", "10.9.0.1 100.64.0.1 192.168.1.1", true},
		{"203.0.113.1", "10.9.0.1 fd00::1", true},
		{"2001:db8::1", "fd00::1", true},
		{"172.16.9.1", "10.9.0.1", true},
		{"10.9.0.1", "10.9.0.1 10.9.0.2", false},
		{"203.0.113.1", "10.9.0.1 203.0.113.1", false},
		{"203.0.113.1", "10.9.0.1 198.51.100.1", false},
		{"203.0.113.1", "10.9.0.1 2001:db8::1", false},
		{"2001:db8::1", "10.9.0.1", false}, // the mapping system is reached by the other family
		{"203.0.113.1", "203.0.113.7", false},
	} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		send := func(nonce uint64, rlocs string) {
			ms.inject("192.0.2.100:4342", netip.AddrPortFrom(netip.MustParseAddr(c.from), 4342).String(), register(t, func(m *wire.MapRegister) {
				m.Nonce = nonce
				m.Records[0] = wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 10, Locators: locators(strings.Fields(rlocs)...)})
			}, "10.1.0.0/16"))
		}
		send(1, c.rlocs)
		if got := ms.TranslatedRegistrations(); (len(got) == 1) != c.want {
			t.Errorf("case %d, %s from %s: %+v", i, c.rlocs, c.from, got)
		}
		send(2, c.from)
		if got := ms.TranslatedRegistrations(); len(got) != 0 {
			t.Errorf("case %d, with the source as RLOC: %+v", i, got)
		}
	}
}

// TestRegistrationsBehindANATAreBounded: 64 are told.
func TestRegistrationsBehindANATAreBounded(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	var prefixes []string
	for i := range 70 {
		prefixes = append(prefixes, fmt.Sprintf("10.1.%d.0/24", i))
	}
	ms.inject("192.0.2.100:4342", "203.0.113.1:4342", register(t, func(m *wire.MapRegister) {
		for i := range m.Records {
			m.Records[i].Locators[0].Address = wire.IPv4{10, 9, 0, 1}
		}
	}, prefixes...))
	if got := ms.TranslatedRegistrations(); len(got) != 64 {
		t.Errorf("%d are told", len(got))
	}
}
