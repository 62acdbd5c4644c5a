// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return b
}

var (
	v4Address = IPv4{192, 0, 2, 1}
	v6Address = IPv6{0x20, 0x01, 0x0d, 0xb8, 15: 1}
)

const (
	v4Hex = "0001 c0000201"
	v6Hex = "0002 20010db8000000000000000000000001"
)

// Every address format, written by hand after its diagram.
var addressTable = []struct {
	name    string
	address Address
	hex     string
	text    string
}{
	{"none", NoAddress{}, "0000", "none"},
	{"ipv4", v4Address, v4Hex, "192.0.2.1"},
	{"ipv6", v6Address, v6Hex, "2001:db8::1"},
	{"mac afi 6", MAC{Octets: [6]byte{2, 0, 0, 0, 0, 1}}, "0006 020000000001", "02:00:00:00:00:01"},
	{"mac afi 16389", MAC{Octets: [6]byte{2, 0, 0, 0, 0, 1}, EUI48: true}, "4005 020000000001", "02:00:00:00:00:01"},
	{"name", DistinguishedName("ietf"), "0011 6965746600", `"ietf"`},
	{"empty name", DistinguishedName(""), "0011 00", `""`},
	{"as number", ASNumber(65551), "0012 0001000f", "AS65551"},
	{"type 0", NullLCAF{}, "4003 0000 0000 0000", "null"},
	{"type 1", &AFIListLCAF{Addresses: []Address{v4Address, v6Address, DistinguishedName("a")}},
		"4003 0000 0100 001c " + v4Hex + v6Hex + "0011 6100", `{192.0.2.1, 2001:db8::1, "a"}`},
	{"type 1 empty", &AFIListLCAF{}, "4003 0000 0100 0000", "{}"},
	{"type 2", InstanceIDLCAF{InstanceID: 0x01020304, Address: v4Address}, "4003 0000 0200 000a 01020304" + v4Hex, "[16909060]192.0.2.1"},
	{"type 2 range", InstanceIDLCAF{InstanceID: 0x01000000, MaskLen: 8, Address: NoAddress{}}, "4003 0000 0208 0006 01000000 0000", "[16777216/8]none"},
	{"type 2 in type 2", InstanceIDLCAF{InstanceID: 1, Address: InstanceIDLCAF{InstanceID: 2, Address: v4Address}},
		"4003 0000 0200 0016 00000001 4003 0000 0200 000a 00000002" + v4Hex, "[1][2]192.0.2.1"},
	{"type 3", ASNumberLCAF{ASNumber: 64496, Address: v4Address}, "4003 0000 0300 000a 0000fbf0" + v4Hex, "AS64496:192.0.2.1"},
	{"type 4", ApplicationDataLCAF{TrafficClass: 0x0a0b0c, Protocol: 6, LocalPortLow: 1, LocalPortHigh: 2, RemotePortLow: 3, RemotePortHigh: 4, Address: v4Address},
		"4003 0000 0400 0012 0a0b0c 06 0001 0002 0003 0004" + v4Hex, "192.0.2.1(protocol 6, local 1-2, remote 3-4)"},
	{"type 5", GeoLCAF{North: true, Latitude: Degrees{52, 31, 12}, East: true, Longitude: Degrees{13, 24, 36}, AltitudeMeters: -3, Address: v4Address},
		"4003 0000 0500 0012 8034 1f 0c 800d 18 24 fffffffd" + v4Hex, "192.0.2.1(geo 52-31-12-N 13-24-36-E)"},
	{"type 5 with name", GeoLCAF{Latitude: Degrees{90, 0, 0}, Longitude: Degrees{180, 0, 0}, AltitudeMeters: NoAltitude, Address: DistinguishedName("a long name")},
		"4003 0000 0500 001a 005a 00 00 00b4 00 00 7fffffff 0011 61206c6f6e67206e616d6500", `"a long name"(geo 90-0-0-S 180-0-0-W)`},
	{"type 5, draft layout", GeoPointLCAF{North: true, AltitudePresent: true, AltitudeInMeters: true, RadiusPresent: true, RadiusInKilometers: true,
		UncertaintyCentimeters: 7, LatitudeDegrees: 37, LatitudeMilliseconds: 1500000, LongitudeDegrees: 122, LongitudeMilliseconds: 3599999, Altitude: 30, Radius: 5, Address: v4Address},
		"4003 0000 0500 001a 5e00 0007 25 16e360 7a 36ee7f 0000001e 0005 0000" + v4Hex, "192.0.2.1(geo 37-25-0-N 122-59-59-W radius 5)"},
	{"type 5, draft layout without address", GeoPointLCAF{East: true, Address: NoAddress{}},
		"4003 0000 0500 0016 2000 0000 00 000000 00 000000 00000000 0000 0000 0000", "none(geo 0-0-0-S 0-0-0-E radius 0)"},
	{"type 6", OpaqueKeyLCAF{KeyFieldNumber: 1, WildcardFields: 2, Key: "\x01\x02"}, "4003 0000 0600 0005 01 0002 0102", "key(0102, 2 fields, wildcards 0x0002)"},
	{"type 7", &NATTraversalLCAF{MapServerPort: 4342, ETRPort: 50000, GlobalETR: v4Address, MapServer: v6Address, PrivateETR: NoAddress{}, RTRs: []Address{v4Address}},
		"4003 0000 0700 0024 10f6 c350" + v4Hex + v6Hex + "0000" + v4Hex, "nat(global 192.0.2.1 port 50000, map-server 2001:db8::1 port 4342, private none, 1 RTRs)"},
	{"type 8", NonceLocatorLCAF{Nonce: 0x010203, Address: v4Address}, "4003 0000 0800 000a 00010203" + v4Hex, "192.0.2.1(nonce 0x010203)"},
	{"type 9", MulticastInfoLCAF{InstanceID: 5, SourceMaskLen: 32, GroupMaskLen: 24, Source: v4Address, Group: IPv4{233, 252, 0, 0}},
		"4003 0000 0900 0014 00000005 0000 20 18" + v4Hex + "0001 e9fc0000", "[5](192.0.2.1/32, 233.252.0.0/24)"},
	{"type 10", &ExplicitLocatorPathLCAF{Hops: []PathHop{{Lookup: true, Address: v4Address}, {Probe: true, Strict: true, Address: v6Address}}},
		"4003 0000 0a00 001c 0004" + v4Hex + "0003" + v6Hex, "elp(192.0.2.1 -> 2001:db8::1)"},
	{"type 11", &SecurityKeyLCAF{Algorithm: 5, Revoke: true, Keys: [][]byte{{1, 2, 3}, {4}}, Address: v4Address},
		"4003 0000 0b00 0012 02 00 05 01 0003 010203 0001 04" + v4Hex, "192.0.2.1(2 keys, algorithm 5)"},
	{"type 12", SourceDestLCAF{SourceMaskLen: 24, DestinationMaskLen: 16, Source: v4Address, Destination: v6Address},
		"4003 0000 0c00 001c 0000 18 10" + v4Hex + v6Hex, "(192.0.2.1/24 -> 2001:db8::1/16)"},
	{"type 13", &ReplicationListLCAF{Entries: []ReplicationEntry{{Level: 128, Address: v4Address}, {Level: 1, Address: v4Address}}},
		"4003 0000 0d00 0014 000000 80" + v4Hex + "000000 01" + v4Hex, "rle(192.0.2.1(level 128), 192.0.2.1(level 1))"},
	{"type 14", JSONLCAF{Binary: true, JSON: "{}", Address: v4Address}, "4003 0000 0e01 000a 0002 7b7d" + v4Hex, `192.0.2.1(json "{}")`},
	{"type 15", KeyValueLCAF{Key: v4Address, Value: DistinguishedName("v")}, "4003 0000 0f00 000a" + v4Hex + "0011 7600", `192.0.2.1="v"`},
	{"type 16", EncapsulationFormatLCAF{Encapsulations: EncapsulationLISP | EncapsulationGUE, Address: v4Address}, "4003 0000 1000 000a 00000041" + v4Hex, "192.0.2.1(encapsulations 0x41)"},
	{"type 255", VendorLCAF{OUI: 0x00000c, Body: "abc"}, "4003 0000 ff00 0007 00 00000c 616263", "vendor-00000c(3 octets)"},
	{"unknown type", UnknownLCAF{Kind: 77, Flags: 0x80, Rsvd2: 3, Body: "xyz"}, "4003 0080 4d03 0003 78797a", "lcaf-type-77(3 octets)"},
}

// knowing is a receiver that understands one vendor.
var knowing = Parser{KnownOUIs: []OUI{0x00000c}}

func TestAddresses(t *testing.T) {
	for _, c := range addressTable {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.hex)
			got, err := AppendAddress([]byte{0xee}, c.address)
			if err != nil || !bytes.Equal(got[1:], want) {
				t.Errorf("encoded\n got %x (%v)\nwant %x", got, err, want)
			}
			parsed, err := knowing.ParseAddress(want)
			if err != nil || !reflect.DeepEqual(parsed, c.address) {
				t.Errorf("parsed\n got %#v (%v)\nwant %#v", parsed, err, c.address)
			}
			if c.address.String() != c.text {
				t.Errorf("text\n got %s\nwant %s", c.address, c.text)
			}
			if !EqualAddress(c.address, parsed) {
				t.Error("not equal to itself")
			}
			if lcaf, ok := c.address.(LCAF); ok && (lcaf.AFI() != AFILCAF || uint8(lcaf.LCAFType()) != want[4]) {
				t.Errorf("AFI %d type %d", lcaf.AFI(), lcaf.LCAFType())
			}
			checkEveryPrefixRefused(t, want)
		})
	}
}

// checkEveryPrefixRefused cuts an address everywhere: no cut may parse or panic.
func checkEveryPrefixRefused(t *testing.T, b []byte) {
	t.Helper()
	for n := range b {
		if a, err := knowing.ParseAddress(b[:n]); err == nil {
			t.Errorf("the first %d octets parse as %s", n, a)
		}
	}
}

func TestAddressesCompareWithoutPanic(t *testing.T) {
	for _, a := range addressTable {
		for _, b := range addressTable {
			if same := a.address == b.address; same && a.name != b.name {
				t.Errorf("%s == %s", a.name, b.name)
			}
		}
	}
}

// What a type does not define inside its Length is skipped; what follows the
// LCAF is not touched (RFC 8060 s.4.10.5).
func TestLCAFSurplusIsSkipped(t *testing.T) {
	for _, c := range []struct{ hex, text string }{
		{"4003 0000 0200 000d 00000007" + v4Hex + "ffffff", "[7]192.0.2.1"},
		{"4003 0000 0000 0002 ffff", "null"},
		{"4003 0000 0100 001b 4003 0000 0200 000d 00000007" + v4Hex + "ffffff" + v4Hex, "{[7]192.0.2.1, 192.0.2.1}"},
		{"4003 0000 0e00 000e 0002 7b7d" + v4Hex + "deadbeef", `192.0.2.1(json "{}")`},
	} {
		a, err := ParseAddress(unhex(t, c.hex))
		if err != nil || a.String() != c.text {
			t.Errorf("%s: %v, %v; want %s", c.hex, a, err, c.text)
		}
	}
}

// Reserved octets and flags are ignored (RFC 8060 s.3).
func TestLCAFReservedBitsAreIgnored(t *testing.T) {
	a, err := ParseAddress(unhex(t, "4003 ffff 03ff 000a 0000fbf0"+v4Hex))
	if err != nil || a != Address(ASNumberLCAF{ASNumber: 64496, Address: v4Address}) {
		t.Errorf("%v, %v", a, err)
	}
}

func TestAddressesRefused(t *testing.T) {
	deep := ""
	for range MaxAddressDepth + 1 {
		deep = "4003 0000 0100 " + hexLength(deep) + deep
	}
	list := strings.Repeat("0000", MaxListEntries+1)
	for _, c := range []struct {
		name, hex string
		reason    Reason
		offset    int
	}{
		{"nothing", "", ReasonTruncated, 0},
		{"half an AFI", "00", ReasonTruncated, 0},
		{"unknown AFI", "0003 00", ReasonUnknownAFI, 0},
		{"unknown AFI inside", "4003 0000 0200 0008 00000001 0019 0000", ReasonUnknownAFI, 12},
		{"trailing", "0000 00", ReasonTrailing, 2},
		{"short ipv4", "0001 c00002", ReasonTruncated, 2},
		{"name without NUL", "0011 6162", ReasonTruncated, 2},
		{"name beyond its LCAF", "4003 0000 0100 0004 0011 6162 00", ReasonTruncated, 10},
		{"name in latin-1", "0011 61e400", ReasonBadValue, 3},
		{"length beyond the input", "4003 0000 0200 000b 00000001" + v4Hex, ReasonBadLength, 6},
		{"length within a field", "4003 0000 0200 0009 00000001" + v4Hex, ReasonTruncated, 14},
		{"vendor unknown", "4003 0000 ff00 0004 00 00000d", ReasonUnknownOUI, 9},
		{"vendor without OUI", "4003 0000 ff00 0003 00 0000", ReasonTruncated, 8},
		{"vendor unknown inside a list", "4003 0000 0100 000c 4003 0000 ff00 0004 00 00000d", ReasonUnknownOUI, 17},
		{"minutes of 60", "4003 0000 0500 000e 8034 3c 0c 800d 18 24 fffffffd 0000", ReasonBadValue, 8},
		{"91 degrees", "4003 0000 0500 000e 805b 00 00 800d 18 24 fffffffd 0000", ReasonBadValue, 8},
		{"too deep", deep, ReasonTooDeep, 2 + MaxAddressDepth*8},
		{"too many", "4003 0000 0100 " + hexLength(list) + list, ReasonTooMany, 8 + 2*MaxListEntries},
		{"more keys than octets", "4003 0000 0b00 0006 ff 00 00 00 0000", ReasonTruncated, 12},
		{"key beyond its LCAF", "4003 0000 0b00 0008 01 00 00 00 ffff 0000", ReasonTruncated, 14},
		{"json beyond its LCAF", "4003 0000 0e00 0004 0003 0000", ReasonTruncated, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := knowing.ParseAddress(unhex(t, c.hex))
			checkRefusal(t, err, c.reason, c.offset)
		})
	}
}

func hexLength(text string) string {
	n := len(strings.ReplaceAll(text, " ", "")) / 2
	return hex.EncodeToString([]byte{byte(n >> 8), byte(n)})
}

func checkRefusal(t *testing.T, err error, reason Reason, offset int) {
	t.Helper()
	refusal, ok := err.(*ParseError)
	if !ok {
		t.Fatalf("got %v, want a refusal for %s", err, reason)
	}
	if refusal.Reason != reason || refusal.Offset != offset {
		t.Errorf("got %v, want %s at octet %d", err, reason, offset)
	}
	if refusal.Message == "" || refusal.Field == "" {
		t.Errorf("%v names no message or field", err)
	}
}

func TestAddressesThatCannotBeEncoded(t *testing.T) {
	for name, a := range map[string]Address{
		"long name":        DistinguishedName(strings.Repeat("x", MaxNameOctets)),
		"name with NUL":    DistinguishedName("a\x00b"),
		"name in UTF-8":    DistinguishedName("ä"),
		"25-bit nonce":     NonceLocatorLCAF{Nonce: 1 << 24},
		"25-bit OUI":       VendorLCAF{OUI: 1 << 24},
		"8-bit formats":    EncapsulationFormatLCAF{Encapsulations: 0x80},
		"25-bit class":     ApplicationDataLCAF{TrafficClass: 1 << 24},
		"long list":        &AFIListLCAF{Addresses: make([]Address, MaxListEntries+1)},
		"long path":        &ExplicitLocatorPathLCAF{Hops: make([]PathHop, MaxListEntries+1)},
		"long replication": &ReplicationListLCAF{Entries: make([]ReplicationEntry, MaxListEntries+1)},
		"many keys":        &SecurityKeyLCAF{Keys: make([][]byte, 256)},
		"long key":         &SecurityKeyLCAF{Keys: [][]byte{make([]byte, 1<<16)}},
		"long json":        JSONLCAF{JSON: strings.Repeat(" ", 1<<16)},
		"long body":        UnknownLCAF{Kind: 99, Body: strings.Repeat(" ", 1<<16)},
		"latitude 91":      GeoLCAF{Latitude: Degrees{91, 0, 0}},
		"point at 91":      GeoPointLCAF{LatitudeDegrees: 91},
		"inside":           InstanceIDLCAF{Address: NonceLocatorLCAF{Nonce: 1 << 24}},
	} {
		if out, err := AppendAddress([]byte{1}, a); err == nil || !bytes.Equal(out, []byte{1}) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
}

func TestNilAddressIsAFI0(t *testing.T) {
	for _, a := range []Address{nil, InstanceIDLCAF{}, KeyValueLCAF{}} {
		if _, err := AppendAddress(nil, a); err != nil {
			t.Error(err)
		}
	}
	if !EqualAddress(nil, NoAddress{}) {
		t.Error("nil is not AFI 0")
	}
}
