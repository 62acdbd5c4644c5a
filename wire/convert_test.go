// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"loci/lisp"
)

func TestPrefixesThroughAddresses(t *testing.T) {
	for _, c := range []struct {
		prefix  string
		address Address
	}{
		{"10.1.0.0/16", IPv4{10, 1, 0, 0}},
		{"[7]10.1.0.0/16", InstanceIDLCAF{InstanceID: 7, Address: IPv4{10, 1, 0, 0}}},
		{"2001:db8::/32", IPv6{0x20, 0x01, 0x0d, 0xb8}},
		{"[16777214]::/0", InstanceIDLCAF{InstanceID: 16777214, Address: IPv6{}}},
		{"02:00:00:00:00:01/48", MAC{Octets: [6]byte{2, 0, 0, 0, 0, 1}}},
		{`[1]"ietf"/40`, InstanceIDLCAF{InstanceID: 1, Address: DistinguishedName("ietf")}},
		{`"ietf"/32`, DistinguishedName("ietf")},
	} {
		p := lisp.MustParsePrefix(c.prefix)
		if got := AddressOf(p); got != c.address {
			t.Errorf("%s is %v, want %v", p, got, c.address)
		}
		if got, err := PrefixOf(c.address, uint8(p.Bits())); err != nil || got != p {
			t.Errorf("%v/%d is %s (%v), want %s", c.address, p.Bits(), got, err, p)
		}
		rec := RequestRecord{EID: c.address, MaskLen: uint8(p.Bits())}
		if got, err := rec.Prefix(); err != nil || got != p {
			t.Errorf("record %v is %s (%v)", rec, got, err)
		}
	}
}

func TestEIDOfSpecialAddresses(t *testing.T) {
	for _, c := range []struct {
		address  Address
		instance lisp.InstanceID
		eid      string
	}{
		{nil, 0, "none"},
		{NoAddress{}, 0, "none"},
		{InstanceIDLCAF{InstanceID: 5, MaskLen: 32, Address: v4Address}, 5, "192.0.2.1"}, // old senders set the mask-len
		{InstanceIDLCAF{InstanceID: 5, Address: NoAddress{}}, 5, "none"},
		{MAC{Octets: [6]byte{2}, EUI48: true}, 0, "02:00:00:00:00:00"},
	} {
		instance, e, err := EIDOf(c.address)
		if err != nil || instance != c.instance || e.String() != c.eid {
			t.Errorf("%v is [%s]%s (%v), want [%s]%s", c.address, instance, e, err, c.instance, c.eid)
		}
	}
	if p, err := PrefixOf(NoAddress{}, 0); err != nil || !p.IsZero() {
		t.Errorf("AFI 0 is %s, %v", p, err)
	}
	if EIDAddress(0, lisp.EID{}) != (NoAddress{}) {
		t.Error("the zero EID has an address")
	}
}

func TestAddressesThatAreNoEID(t *testing.T) {
	for name, a := range map[string]Address{
		"list":                 &AFIListLCAF{Addresses: []Address{v4Address}},
		"source and dest":      SourceDestLCAF{Source: v4Address, Destination: v4Address},
		"multicast":            MulticastInfoLCAF{},
		"AS number":            ASNumber(1),
		"unknown type":         UnknownLCAF{Kind: 99},
		"instance in instance": InstanceIDLCAF{InstanceID: 1, Address: InstanceIDLCAF{InstanceID: 2, Address: v4Address}},
		"long name":            DistinguishedName(strings.Repeat("x", lisp.MaxNameLength+1)),
		"IPv4-mapped IPv6":     IPv6{10: 0xff, 11: 0xff, 12: 10},
	} {
		if _, e, err := EIDOf(a); err == nil {
			t.Errorf("%s became %s", name, e)
		}
		if _, err := PrefixOf(a, 8); err == nil {
			t.Errorf("%s became a prefix", name)
		}
	}
	for _, c := range []struct {
		a    Address
		bits uint8
	}{{v4Address, 33}, {v6Address, 129}, {MAC{}, 49}, {DistinguishedName("ab"), 32}, {DistinguishedName("ab"), 12}, {NoAddress{}, 1}} {
		if p, err := PrefixOf(c.a, c.bits); err == nil {
			t.Errorf("%v/%d became %s", c.a, c.bits, p)
		}
	}
}

func TestRLOCOf(t *testing.T) {
	mapped := IPv6{10: 0xff, 11: 0xff, 12: 10}
	for _, c := range []struct {
		address Address
		want    string
	}{
		{v4Address, "192.0.2.1"},
		{v6Address, "2001:db8::1"},
		{&AFIListLCAF{Addresses: []Address{DistinguishedName("vm"), v6Address, v4Address}}, "2001:db8::1"},
		{&AFIListLCAF{Addresses: []Address{UnknownLCAF{Kind: 99}, &AFIListLCAF{}, v4Address}}, "192.0.2.1"},
		{InstanceIDLCAF{Address: v4Address}, "192.0.2.1"},
		{ASNumberLCAF{Address: v4Address}, "192.0.2.1"},
		{GeoLCAF{Address: v4Address}, "192.0.2.1"},
		{GeoPointLCAF{Address: v4Address}, "192.0.2.1"},
		{NonceLocatorLCAF{Address: v4Address}, "192.0.2.1"},
		{&SecurityKeyLCAF{Address: v4Address}, "192.0.2.1"},
		{JSONLCAF{Address: v4Address}, "192.0.2.1"},
		{KeyValueLCAF{Key: v4Address, Value: v6Address}, "192.0.2.1"},
		{EncapsulationFormatLCAF{Encapsulations: EncapsulationLISP, Address: v4Address}, "192.0.2.1"},
		{nil, ""},
		{NoAddress{}, ""},
		{mapped, ""},
		{MAC{}, ""},
		{DistinguishedName("vm"), ""},
		{&AFIListLCAF{}, ""},
		{UnknownLCAF{Kind: 99}, ""},
		{InstanceIDLCAF{InstanceID: 1, Address: v4Address}, ""},
		{EncapsulationFormatLCAF{Encapsulations: EncapsulationVXLAN, Address: v4Address}, ""},
		{&ExplicitLocatorPathLCAF{Hops: []PathHop{{Address: v4Address}}}, ""},
		{&ReplicationListLCAF{Entries: []ReplicationEntry{{Address: v4Address}}}, ""},
		{ApplicationDataLCAF{Address: v4Address}, ""},
		{&NATTraversalLCAF{GlobalETR: v4Address}, ""},
		{JSONLCAF{}, ""},
	} {
		r, ok := RLOCOf(c.address)
		if ok != (c.want != "") || ok && r.String() != c.want {
			t.Errorf("%s: %s, %v; want %q", show(c.address), r, ok, c.want)
		}
	}
}

func TestRLOCAddress(t *testing.T) {
	for _, a := range []Address{v4Address, v6Address} {
		r, _ := RLOCOf(a)
		if RLOCAddress(r) != a {
			t.Errorf("%s became %s", a, RLOCAddress(r))
		}
	}
	if RLOCAddress(lisp.RLOC{}) != (NoAddress{}) {
		t.Error("the zero RLOC has an address")
	}
}

func TestMappingsThroughRecords(t *testing.T) {
	locators, err := lisp.NewLocatorSet(
		lisp.Locator{RLOC: rloc(t, "192.0.2.1"), Priority: 1, Weight: 100, MulticastPriority: 255, MulticastWeight: 3, Local: true, Reachable: true},
		lisp.Locator{RLOC: rloc(t, "2001:db8::1"), Priority: 2, Weight: 50, Probed: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []lisp.Mapping{
		{Prefix: lisp.MustParsePrefix("[9]10.0.0.0/8"), Locators: locators, TTLMinutes: 1440, Authoritative: true, Version: 0xfff},
		{Prefix: lisp.MustParsePrefix("2001:db8::/32"), TTLMinutes: 15, Action: lisp.ActionNativelyForward},
		{Prefix: lisp.MustParsePrefix(`"ietf"/40`), TTLMinutes: lisp.TTLUnlimited, Action: lisp.ActionDropAuthFailure},
	} {
		rec := RecordOf(m)
		b, err := (&MapReply{Records: []Record{rec}}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed.(*MapReply).Records[0].Mapping()
		if err != nil || !got.Equal(m) {
			t.Errorf("\n got %+v (%v)\nwant %+v", got, err, m)
		}
	}
}

func rloc(t testing.TB, text string) lisp.RLOC {
	t.Helper()
	r, err := lisp.ParseRLOC(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordOfSendsNoActionWithLocators(t *testing.T) {
	locators, _ := lisp.NewLocatorSet(lisp.Locator{RLOC: rloc(t, "192.0.2.1")})
	rec := RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.0.0.0/8"), Locators: locators, Action: lisp.ActionDrop})
	if rec.Action != lisp.ActionNoAction {
		t.Errorf("action %s", rec.Action)
	}
}

func TestMappingSortsAndSkips(t *testing.T) {
	rec := Record{EID: IPv4{10}, MaskLen: 8, Action: lisp.ActionDrop, Locators: []LocatorRecord{
		{Priority: 1, Address: v6Address},
		{Priority: 2, Address: UnknownLCAF{Kind: 99}},
		{Priority: 3, Address: IPv4{127, 0, 0, 1}},
		{Priority: 4, Address: IPv4{255, 255, 255, 255}},
		{Priority: 5, Address: IPv4{192, 0, 2, 9}},
		{Priority: 6, Address: v4Address},
		{Priority: 7, Address: IPv4{192, 0, 2, 9}},
		{Priority: 8, Address: NoAddress{}},
	}}
	m, err := rec.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.String(); got != "10.0.0.0/8 -> [192.0.2.1 6/0 unreachable 192.0.2.9 5/0 unreachable 2001:db8::1 1/0 unreachable]" {
		t.Errorf("got %s", got)
	}
	if m.Action != lisp.ActionNoAction {
		t.Errorf("a record with locators has action %s", m.Action)
	}
}

func TestMappingsOfOddRecords(t *testing.T) {
	unassigned := Record{EID: IPv4{10}, MaskLen: 8, Action: 6}
	if m, err := unassigned.Mapping(); err != nil || m.Action != lisp.ActionNoAction {
		t.Errorf("action 6 became %s (%v)", m.Action, err)
	}
	many := Record{EID: IPv4{10}, MaskLen: 8}
	for i := range lisp.MaxLocators + 1 {
		many.Locators = append(many.Locators, LocatorRecord{Address: IPv4{192, 0, 2, byte(i + 1)}})
	}
	if m, err := many.Mapping(); err == nil {
		t.Errorf("%d locators became %s", len(many.Locators), m)
	}
	noEID := Record{EID: UnknownLCAF{Kind: 99}}
	if m, err := noEID.Mapping(); err == nil {
		t.Errorf("a record without EID became %s", m)
	}
}
