// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// registeredAddresses are locators' addresses beyond plain ones, in octets; reserved bits are set in some.
var registeredAddresses = map[string]string{
	"explicit locator path":        "4003 0000 0a00 0010 0005 0001 cb007101 0002 0001 cb007102",
	"the same with other bits":     "4003 0000 0a00 0010 0000 0001 cb007101 0002 0001 cb007102",
	"path of both families":        "4003 0000 0a00 001c 0002 0002 20010db8000000000000000000000001 0000 0001 cb007102",
	"path of one hop":              "4003 0000 0a00 0008 0002 0001 cb007101",
	"path with a hop twice":        "4003 0000 0a00 0010 0000 0001 cb007101 0000 0001 cb007101",
	"path with a name":             "4003 0000 0a00 000a 0000 0011 72747273 3100",
	"path without hops":            "4003 0000 0a00 0000",
	"path of nine hops":            nineHops(),
	"path of EIDs alone":           elp(hop(hopBitL, 11), hop(hopBitL, 12)),
	"path in a path":               badPaths["path in itself"].octets,
	"path with the registrant":     elp(hop(0, 1), hop(0, 11)),
	"path with reserved bits":      "4003 1122 0aff 0008 fff9 0001 cb007103",
	"replication list":             "4003 0000 0d00 000a 000000 05 0001 cb007104",
	"AFI-List of address and name": "4003 0000 0100 000c 0001 c6336401 0011 72746200",
	"AFI-List of none and path":    "4003 0000 0100 0016 0000 4003 0000 0a00 0008 0000 0001 cb007105 0011 7800",
	"AFI-List of path and address": "4003 0000 0100 001e 4003 0000 0a00 0010 0000 0001 cb007106 0000 0001 cb007107 0001 cb007107",
	"AFI-List of two paths":        "4003 0000 0100 0020 4003 0000 0a00 0008 0000 0001 cb007106 4003 0000 0a00 0008 0000 0001 cb007107",
	"security key":                 "4003 0000 0b00 0014 01 00 01 00 0008 0102030405060708 0001 c6336402",
	"JSON":                         "4003 0000 0e00 0006 0002 7b7d 0000",
	"distinguished name":           "0011 78747200",
	"LCAF of an unassigned type":   "4003 0000 c800 0003 010203",
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(text), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// registerAddresses is a signed Map-Register of one EID-Prefix with these addresses as locators, and with a plain one.
func registerAddresses(t *testing.T, nonce uint64, addresses ...[]byte) []byte {
	t.Helper()
	return register(t, func(m *wire.MapRegister) {
		m.ProxyReply, m.Nonce = true, nonce
		for _, octets := range addresses {
			address := wire.LocatorAddress(&lisp.Locator{Address: string(octets)})
			m.Records[0].Locators = append(m.Records[0].Locators, wire.LocatorRecord{Priority: 1, Weight: 100, Reachable: true, Address: address})
		}
	}, "10.1.2.0/24")
}

// TestAMapServerLosesNothing: a proxy reply carries what was registered, octet by octet, each family before what is no RLOC.
// Shows RFC 8060 s.4.6 (9).
func TestAMapServerLosesNothing(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	var all [][]byte
	for _, text := range registeredAddresses {
		all = append(all, unhex(t, text))
	}
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", registerAddresses(t, 1000, all...))
	reply := ms.proxied(t)
	want := append(slices.Clone(all), unhex(t, "0001 c0000201"))
	got := reply.addresses()
	if len(got) != len(want) {
		t.Fatalf("%d locators in the answer, want %d: %x", len(got), len(want), got)
	}
	for _, octets := range want {
		if !slices.ContainsFunc(got, func(b []byte) bool { return bytes.Equal(b, octets) }) {
			t.Errorf("the answer lacks %x", octets)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b []byte) int { return bytes.Compare(withoutRLOC(a), withoutRLOC(b)) }) {
		t.Errorf("locators without an RLOC stand before others: %x", got)
	}
	again := registerAddresses(t, 1001, all...)
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", again)
	if list := ms.registered(); len(list) != 1 || len(list[0].Mapping.Locators) != len(want) {
		t.Errorf("after a refresh: %+v", list)
	}
}

// TestASiteOfPathsAloneIsNotNegative: the Map-Reply for a site whose locators are all paths is not negative.
func TestASiteOfPathsAloneIsNotNegative(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	path := unhex(t, registeredAddresses["explicit locator path"])
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) {
		m.ProxyReply = true
		address, _ := wire.ParseAddress(path)
		m.Records[0].Locators = []wire.LocatorRecord{{Priority: 1, Weight: 100, Reachable: true, Address: address}}
	}, "10.1.2.0/24"))
	if got := ms.proxied(t).addresses(); len(got) != 1 || !bytes.Equal(got[0], path) {
		t.Errorf("the answer has the locators %x, want %x", got, path)
	}
	if m, err := ms.proxied(t).reply.Records[0].Mapping(); err != nil || len(m.Locators) != 1 || m.Locators[0].Path().Len() != 2 {
		t.Errorf("an ITR takes it for %v, %v", m, err)
	}
}

// TestAddressesAreBounded: what one registration may keep has a limit.
func TestAddressesAreBounded(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	long := append(unhex(t, "4003 0000 c800 1000"), make([]byte, wire.MaxAddressOctets)...)
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", registerAddresses(t, 1000, long))
	ms.wantCounter(counter.RefusedLocators, 1)
	if list := ms.registered(); len(list) != 0 {
		t.Errorf("registered: %+v", list)
	}
}

// TestMergedAddressesAreBounded: what xTRs have merged is bounded together, not each for itself.
func TestMergedAddressesAreBounded(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	from := func(xtr byte, nonce uint64, octets int) {
		address := append(unhex(t, fmt.Sprintf("4003 0000 c800 %04x", octets)), bytes.Repeat([]byte{xtr}, octets)...)
		b := register(t, func(m *wire.MapRegister) {
			m.MergeRequest, m.XTRIDPresent, m.XTRID[0], m.Nonce = true, true, xtr, nonce
			m.Records[0].Locators = append(m.Records[0].Locators, wire.LocatorRecord{Priority: 1, Weight: 100, Reachable: true,
				Address: wire.LocatorAddress(&lisp.Locator{Address: string(address)})})
		}, "10.1.2.0/24")
		ms.inject("192.0.2.100:4342", fmt.Sprintf("192.0.2.%d:4342", xtr), b)
	}
	from(1, 1000, wire.MaxAddressOctets/2)
	from(2, 1000, wire.MaxAddressOctets/2-16)
	ms.wantCounter(counter.RefusedLocators, 0)
	from(3, 1000, 100)
	ms.wantCounter(counter.RefusedLocators, 1)
	list := ms.registered()
	if len(list) != 2 {
		t.Fatalf("%d registrants, want the first two", len(list))
	}
	octets := 0
	for _, l := range list[0].Mapping.Locators {
		octets += len(l.Address)
	}
	if octets == 0 || octets > wire.MaxAddressOctets {
		t.Errorf("%d octets are answered", octets)
	}
	from(2, 1001, 8) // and there is room again
	from(3, 1001, 100)
	ms.wantCounter(counter.RefusedLocators, 1)
}

type answer struct{ reply *wire.MapReply }

// proxied asks a Map-Server for the registered EID-Prefix.
func (d *testNode) proxied(t *testing.T) answer {
	t.Helper()
	d.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 5}, "10.1.2.9/32", "192.0.2.9"))
	if len(d.sent) == 0 {
		t.Fatalf("no answer; refusals %v", refusals(d))
	}
	m, err := wire.Parser{KeepAddresses: true}.ParseIn(nil, d.sent[len(d.sent)-1].Payload)
	reply, ok := m.(*wire.MapReply)
	if !ok {
		t.Fatalf("no Map-Reply, but %v, %v; refusals %v", m, err, refusals(d))
	}
	return answer{reply}
}

// addresses are the locators' addresses as they were sent.
func (a answer) addresses() (all [][]byte) {
	for _, l := range a.reply.Records[0].Locators {
		all = append(all, l.Octets)
	}
	return all
}

// withoutRLOC is what the order of locators begins with: 0 for one with an RLOC or a path.
func withoutRLOC(octets []byte) []byte {
	if address, err := wire.ParseAddress(octets); err == nil {
		if _, _, err := wire.PathOf(address); err == nil {
			return []byte{0}
		}
	}
	return []byte{1}
}
