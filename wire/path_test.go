// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"loci/lisp"
)

func octets(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordOfLocators is a record whose locators have these addresses, as it was sent, read by a Map-Server.
func recordOfLocators(t *testing.T, addresses ...string) *Record {
	t.Helper()
	sent := Record{EID: IPv4{10}, MaskLen: 8}
	for i, text := range addresses {
		sent.Locators = append(sent.Locators, LocatorRecord{Priority: uint8(i + 1), Reachable: true, Address: registeredAddress(octets(t, text))})
	}
	b, err := (&MapReply{Records: []Record{sent}}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parser{KeepAddresses: true}.ParseIn(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return &m.(*MapReply).Records[0]
}

const (
	onePath   = "4003 0000 0a00 0010 0005 0001 cb007101 0002 0001 cb007102"
	otherBits = "4003 0000 0a00 0010 0001 0001 cb007101 0000 0001 cb007102"
	oneHop    = "4003 0000 0a00 0008 0000 0001 cb007101"
	plain     = "0001 cb007101"
)

// Shows RFC 8060 s.4.6 (1): a path of IP addresses becomes a locator with its bits L, P and S, and the same octets
// again; what no packet can take is skipped, with its reason.
func TestPathsThroughRecords(t *testing.T) {
	mixed := "4003 0000 0a00 001c 0007 0002 20010db8000000000000000000000001 0000 0001 cb007102"
	eight, nine := "4003 0000 0a00 0040", "4003 0000 0a00 0048"
	for _, hop := range []string{"01", "02", "03", "04", "05", "06", "07", "08"} {
		eight += " 0000 0001 cb0071" + hop
		nine += " 0000 0001 cb0071" + hop
	}
	nine += " 0000 0001 cb007109"
	for _, c := range []struct{ name, address, want string }{
		{"two hops", onePath, "203.0.113.1 -> 203.0.113.2"},
		{"one hop", oneHop, "203.0.113.1"},
		{"both families", mixed, "2001:db8::1 -> 203.0.113.2"},
		{"eight hops", eight, "203.0.113.1 -> 203.0.113.2 -> 203.0.113.3 -> 203.0.113.4 -> 203.0.113.5 -> 203.0.113.6 -> 203.0.113.7 -> 203.0.113.8"},
		{"reserved bits", "4003 1122 0aff 0008 fff8 0001 cb007103", "203.0.113.3"},
		{"no hop", "4003 0000 0a00 0000", "skipped: path of 0 hops: want 1 to 8"},
		{"nine hops", nine, "skipped: path of 9 hops: want 1 to 8"},
		{"a hop twice", "4003 0000 0a00 0010 0000 0001 cb007101 0000 0001 cb007101", "skipped: hop 2: 203.0.113.1 is hop 1 already: a path must not meet a router twice"},
		{"a name as hop", "4003 0000 0a00 0008 0000 0011 78747200", "skipped: hop 1: \"xtr\" is not an IP address"},
		{"a path in a path", "4003 0000 0a00 000a 0000 4003 0000 0a00 0000", "skipped: hop 1: elp() is not an IP address"},
		{"a loopback hop", "4003 0000 0a00 0010 0000 0001 cb007101 0000 0001 7f000001", "skipped: hop 2: RLOC 127.0.0.1"},
		{"a mapped hop", "4003 0000 0a00 0014 0000 0002 00000000000000000000ffff cb007101", "skipped: hop 1: ::ffff:203.0.113.1: no packet can be sent"},
	} {
		rec := recordOfLocators(t, c.address)
		m, err := rec.Mapping()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if reason, skipped := strings.CutPrefix(c.want, "skipped: "); skipped {
			if got := rec.Skipped(); !m.Negative() || len(got) != 1 || !strings.HasPrefix(got[0].Reason, reason) {
				t.Errorf("%s: %s, skipped %q, want %q", c.name, m, got, reason)
			}
			continue
		}
		if len(m.Locators) != 1 || m.Locators[0].Path().String() != c.want || len(rec.Skipped()) != 0 {
			t.Errorf("%s: %s, skipped %v, want %s", c.name, m, rec.Skipped(), c.want)
			continue
		}
		wantSameOctets(t, c.name, &m.Locators[0], octets(t, c.address), c.name != "reserved bits")
	}
}

// wantSameOctets encodes a locator by both encoders.
func wantSameOctets(t *testing.T, name string, l *lisp.Locator, want []byte, same bool) {
	t.Helper()
	fast, err := (*locatorAddress)(l).appendTo(nil)
	slow, err2 := LocatorAddress(l).appendTo(nil)
	if err != nil || err2 != nil || !bytes.Equal(fast, slow) || bytes.Equal(fast, want) != same {
		t.Errorf("%s: encoded as %x and %x (%v, %v), was %x", name, fast, slow, err, err2, want)
	}
}

func TestPathsKeepTheirBits(t *testing.T) {
	m, err := recordOfLocators(t, onePath).Mapping()
	if err != nil || len(m.Locators) != 1 {
		t.Fatal(m, err)
	}
	want := lisp.PathBits{lisp.HopExplicit | lisp.HopLookup | lisp.HopStrict, lisp.HopExplicit | lisp.HopProbe}
	if m.Locators[0].Bits != want {
		t.Errorf("bits %v, want %v", m.Locators[0].Bits, want)
	}
}

// A path in an AFI-List is the way to the locator, whatever addresses stand beside it and in which order, and
// in an LCAF that decorates it. Two paths contradict each other.
func TestPathsInAFILists(t *testing.T) {
	path := &ExplicitLocatorPathLCAF{Hops: []PathHop{{Probe: true, Address: IPv4{203, 0, 113, 1}}, {Address: IPv4{203, 0, 113, 2}}}}
	otherPath := &ExplicitLocatorPathLCAF{Hops: []PathHop{{Address: IPv4{203, 0, 113, 9}}, {Address: IPv4{203, 0, 113, 2}}}}
	hop6 := func(last byte) IPv6 { return IPv6{0x20, 0x01, 0x0d, 0xb8, 0, 0xf, 15: last} }
	path6 := &ExplicitLocatorPathLCAF{Hops: []PathHop{{Probe: true, Address: hop6(1)}, {Address: hop6(2)}}}
	noPath := &ExplicitLocatorPathLCAF{}
	list := func(entries ...Address) Address { return &AFIListLCAF{Addresses: entries} }
	const way, way6 = "203.0.113.1 -> 203.0.113.2", "2001:db8:f::1 -> 2001:db8:f::2"
	for _, c := range []struct {
		name    string
		address Address
		want    string
	}{
		{"lispers.net's", list(NoAddress{}, path), way},
		{"behind an address", list(v4Address, path), way},
		{"lispers.net's, IPv6", list(NoAddress{}, path6), way6},
		{"IPv6 behind an address", list(hop6(2), path6), way6},
		{"IPv6 before an address", list(path6, hop6(2)), way6},
		{"IPv6 among names and both families", list(DistinguishedName("rtr"), v4Address, path6, v6Address), way6},
		{"paths of both families", list(path, path6), "skipped: 2 Explicit Locator Paths"},
		{"before an address", list(path, v4Address), way},
		{"among names and both families", list(DistinguishedName("rtr"), v6Address, path, v4Address), way},
		{"in a list in a list", list(v4Address, list(v6Address, path)), way},
		{"with a key", list(v4Address, &SecurityKeyLCAF{Address: path}), way},
		{"decorated", GeoLCAF{Address: list(v4Address, path)}, way},
		{"only decorated", JSONLCAF{Address: path}, way},
		{"without a path", list(NoAddress{}, v4Address), "192.0.2.1"},
		{"two paths", list(path, otherPath), "skipped: 2 Explicit Locator Paths"},
		{"one path twice", list(path, v4Address, path), "skipped: 2 Explicit Locator Paths"},
		{"two paths, nested", list(v4Address, path, list(otherPath)), "skipped: 2 Explicit Locator Paths"},
		{"two paths, one unusable", list(path, noPath), "skipped: 2 Explicit Locator Paths"},
		{"a path that is none", list(v4Address, noPath), "skipped: path of 0 hops"},
		{"of another instance", list(v4Address, InstanceIDLCAF{InstanceID: 7, Address: path}), "skipped: no packet can be sent"},
		{"for another encapsulation", EncapsulationFormatLCAF{Encapsulations: EncapsulationVXLAN, Address: path}, "skipped: no packet can be sent"},
		{"for this encapsulation", EncapsulationFormatLCAF{Encapsulations: EncapsulationLISP, Address: path}, way},
	} {
		b, err := appendAddress(nil, c.address)
		if err != nil {
			t.Fatal(c.name, err)
		}
		rec := recordOfLocators(t, hex.EncodeToString(b))
		m, err := rec.Mapping()
		if err != nil {
			t.Fatal(c.name, err)
		}
		if reason, skipped := strings.CutPrefix(c.want, "skipped: "); skipped {
			if got := rec.Skipped(); !m.Negative() || len(got) != 1 || !strings.HasPrefix(got[0].Reason, reason) {
				t.Errorf("%s: %s, skipped %q, want %q", c.name, m, got, reason)
			}
		} else if len(m.Locators) != 1 || m.Locators[0].Path().String() != c.want || len(rec.Skipped()) != 0 {
			t.Errorf("%s: %s, skipped %q, want %s", c.name, m, rec.Skipped(), c.want)
		}
		registered, err := rec.RegistrationOf(m.Prefix)
		if err != nil || len(registered.Locators) != 1 {
			t.Fatalf("%s: registered as %v, %v", c.name, registered, err)
		}
		wantSameOctets(t, c.name, &registered.Locators[0], b, true)
	}
}

// A Map-Server keeps paths as paths, and as octets what would be sent otherwise.
func TestRegistrationsKeepPaths(t *testing.T) {
	for _, c := range []struct {
		name      string
		addresses []string
		paths     int // locators that are kept as paths
	}{
		{"a path", []string{onePath}, 1},
		{"a path of one hop", []string{oneHop}, 1},
		{"reserved bits", []string{"4003 1122 0aff 0008 fff8 0001 cb007103"}, 0},
		{"one path with other bits", []string{onePath, otherBits}, 1},
		{"one hop and plain", []string{oneHop, plain}, 1},
		{"plain and one hop", []string{plain, oneHop}, 0},
		{"a name behind an address", []string{"4003 0000 0a00 000e 0000 0001 cb007101 0000 0011 6100"}, 0},
	} {
		rec := recordOfLocators(t, c.addresses...)
		m, err := rec.RegistrationOf(lisp.MustParsePrefix("10.0.0.0/8"))
		if err != nil || len(m.Locators) != len(c.addresses) {
			t.Errorf("%s: %v, %v", c.name, m, err)
			continue
		}
		paths := 0
		for i := range m.Locators {
			l := &m.Locators[i]
			if isExplicit(l) && l.Address == "" {
				paths++
			}
			want := octets(t, c.addresses[l.Priority-1])
			wantSameOctets(t, c.name, l, want, true)
		}
		if paths != c.paths {
			t.Errorf("%s: %d paths in %v, want %d", c.name, paths, m, c.paths)
		}
	}
	if m, err := recordOfLocators(t, onePath, onePath).RegistrationOf(lisp.MustParsePrefix("10.0.0.0/8")); err != nil || len(m.Locators) != 1 {
		t.Errorf("a path that stands twice: %v, %v", m, err)
	}
}

// A port is part of a locator that no plain address can say: nothing is sent in its place.
func TestPortsAreNotSent(t *testing.T) {
	ported := lisp.Locator{RLOC: rloc(t, "192.0.2.1").WithPort(5000)}
	path, err := lisp.NewPath(rloc(t, "192.0.2.2"), rloc(t, "192.0.2.1").WithPort(5000))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []lisp.Locator{ported, {RLOC: path.RLOC, Behind: path.Behind, Bits: lisp.PathBits{lisp.HopExplicit}}} {
		if b, err := (*locatorAddress)(&l).appendTo(nil); err == nil {
			t.Errorf("%s was sent as %x", l.Path(), b)
		}
		if b, err := LocatorAddress(&l).appendTo(nil); err == nil {
			t.Errorf("%s was sent as %x", l.Path(), b)
		}
	}
}

func TestSkippedLocatorsAreBounded(t *testing.T) {
	rec := Record{EID: IPv4{10}, MaskLen: 8}
	for range 200 {
		rec.Locators = append(rec.Locators, LocatorRecord{Address: DistinguishedName(strings.Repeat("x", 250))})
	}
	skipped := rec.Skipped()
	if len(skipped) != lisp.MaxLocators || len(skipped[0].Address) > maxSkippedText+len("…") || skipped[0].Reason != errNotSendable.Error() {
		t.Errorf("%d skipped, the first %q", len(skipped), skipped[0])
	}
	repeated := recordOfLocators(t, plain, plain)
	if got := repeated.Skipped(); len(got) != 1 || got[0].Reason != errRepeated.Error() {
		t.Errorf("a locator that stands twice: %v", got)
	}
}
