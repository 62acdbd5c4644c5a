// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"loci/lisp"
)

const recordHex = "000005a0 02 18 1000 0123 0001 0a010000" +
	"01 64 ff 00 0005 0001 c0000201" +
	"02 32 01 0a 0002 0002 20010db8000000000000000000000001"

func goldenRecord() Record {
	return Record{
		TTLMinutes: 1440, EID: IPv4{10, 1, 0, 0}, MaskLen: 24, Authoritative: true, Version: 0x123,
		Locators: []LocatorRecord{
			{Priority: 1, Weight: 100, MulticastPriority: 255, Local: true, Reachable: true, Address: v4Address},
			{Priority: 2, Weight: 50, MulticastPriority: 1, MulticastWeight: 10, Probed: true, Address: v6Address},
		},
	}
}

const negativeHex = "0000000f 00 08 6000 0000 0001 0b000000"

func negativeRecord() Record {
	return Record{TTLMinutes: 15, EID: IPv4{11, 0, 0, 0}, MaskLen: 8, Action: lisp.ActionDrop}
}

var (
	goldenXTRID = [16]byte{0xa0, 15: 0xaf}
	goldenMAC   = []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
)

const (
	xtrIDHex    = "a00000000000000000000000000000af 0000000000000007"
	nonceHex    = "0102030405060708"
	goldenNonce = 0x0102030405060708
	authHex     = "05 02 000c 0102030405060708090a0b0c"
	ecmADHex    = "01 00 0002 0018 07 01 0000000000000000 000102030405060708090a0b0c0d0e0f 0004 0002"
	replyADHex  = "01 000000 0016 0002 01 00 0002 00 18 0001 0a010000 000102030405 0014 0002 000102030405060708090a0b0c0d0e0f"
)

// innerHex is a Map-Request of 28 octets in UDP 1234 > 4342, in IPv4
// 192.0.2.1 > 10.1.0.9.
const (
	plainRequestHex = "10000001" + nonceHex + "0000 0001 c0000201 00 20 0001 0a010009"
	innerHex        = "45000038 00000000 4011 aeaa c0000201 0a010009 04d210f6 0024"
)

// Every message, written by hand after its diagram.
func goldenMessages(t testing.TB) []struct {
	name    string
	message Message
	hex     string
} {
	return []struct {
		name    string
		message Message
		hex     string
	}{
		{"Map-Request, every bit", &MapRequest{
			Authoritative: true, MapDataPresent: true, Probe: true, SMR: true, PITR: true, SMRInvoked: true, MobileNode: true,
			XTRIDPresent: true, LocalXTR: true, DontReply: true, Nonce: goldenNonce, SourceEID: IPv4{10, 1, 0, 1},
			ITRRLOCs:       []Address{v4Address, v6Address},
			Records:        []RequestRecord{{Notify: true, MaskLen: 32, EID: IPv4{10, 2, 0, 1}}, {MaskLen: 128, EID: v6Address}},
			MapReplyRecord: ptr(goldenRecord()), XTRID: goldenXTRID, SiteID: 7,
		}, "1ff06102" + nonceHex + "0001 0a010001" + v4Hex + v6Hex + "80 20 0001 0a020001 00 80" + v6Hex + recordHex + xtrIDHex},
		{"Map-Request, least", &MapRequest{SourceEID: NoAddress{}, ITRRLOCs: []Address{v4Address}},
			"10000000 0000000000000000 0000" + v4Hex},
		{"Map-Request, Local xTR alone", &MapRequest{LocalXTR: true, SourceEID: NoAddress{}, ITRRLOCs: []Address{v4Address}},
			"10004000 0000000000000000 0000" + v4Hex},
		{"Map-Reply", &MapReply{Probe: true, EchoNonce: true, Nonce: goldenNonce, Records: []Record{goldenRecord(), negativeRecord()}},
			"2c000002" + nonceHex + recordHex + negativeHex},
		{"Map-Reply, LISP-SEC", &MapReply{Security: true, Nonce: goldenNonce, Records: []Record{goldenRecord()}, SecurityData: unhex(t, replyADHex)},
			"22000001" + nonceHex + recordHex + replyADHex},
		{"Map-Register, every bit", &MapRegister{
			ProxyReply: true, Security: true, XTRIDPresent: true, EIDNotify: true, UseTTL: true, MergeRequest: true, MobileNode: true, WantMapNotify: true,
			Nonce: goldenNonce, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, Records: []Record{goldenRecord()}, XTRID: goldenXTRID, SiteID: 7,
		}, "3e001f01" + nonceHex + authHex + recordHex + xtrIDHex},
		{"Map-Register by an RTR", &MapRegister{ByRTR: true}, "31000000 0000000000000000 00 00 0000"},
		{"Map-Register, least", &MapRegister{}, "30000000 0000000000000000 00 00 0000"},
		{"Map-Notify", &MapNotify{Nonce: goldenNonce, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, Records: []Record{goldenRecord()}},
			"40000001" + nonceHex + authHex + recordHex},
		{"Map-Notify with xTR-ID", &MapNotify{XTRIDPresent: true, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, XTRID: goldenXTRID, SiteID: 7},
			"48000000 0000000000000000" + authHex + xtrIDHex},
		{"Map-Notify with xTR-ID unflagged", &MapNotify{XTRIDUnflagged: true, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, XTRID: goldenXTRID, SiteID: 7},
			"40000000 0000000000000000" + authHex + xtrIDHex},
		{"Map-Notify with MS-RTR authentication", &MapNotify{
			XTRIDPresent: true, ByRTR: true, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC,
			XTRID: goldenXTRID, SiteID: 7, RTRKeyID: 1, RTRAuthData: goldenMAC,
		}, "4c000000 0000000000000000" + authHex + xtrIDHex + "0001" + authHex[len("05 02"):]},
		{"Map-Notify passed on by an RTR", &MapNotify{
			XTRIDPresent: true, ByRTR: true, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC,
			XTRID: goldenXTRID, SiteID: 7,
		}, "4c000000 0000000000000000" + authHex + xtrIDHex + "00000000"},
		{"Map-Notify-Ack", &MapNotifyAck{Nonce: goldenNonce, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, Records: []Record{negativeRecord()}},
			"50000001" + nonceHex + authHex + negativeHex},
		{"Map-Referral", &MapReferral{Nonce: goldenNonce, Records: []ReferralRecord{{
			TTLMinutes: 1440, EID: IPv4{10, 0, 0, 0}, MaskLen: 8, Action: ReferralMapServer, Authoritative: true, Incomplete: true, Version: 0x45,
			Referrals:  []LocatorRecord{{Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true, Address: v4Address}},
			Signatures: []Signature{{OriginalTTLMinutes: 1440, ExpirationSeconds: 2, InceptionSeconds: 1, KeyTag: 0xabcd, Algorithm: 2, Octets: []byte{9, 8, 7}}},
		}}}, "60000001" + nonceHex + "000005a0 01 08 3800 1045 0001 0a000000 01 64 ff 00 0001 0001 c0000201" +
			"000005a0 00000002 00000001 abcd 0003 02 00 0000 090807"},
		{"Info-Request", &InfoRequest{Nonce: goldenNonce, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, TTLMinutes: 3, MaskLen: 24, EID: IPv4{10, 1, 0, 0}},
			"70000000" + nonceHex + authHex + "00000003 00 18 0001 0a010000 0000"},
		{"Info-Reply", &InfoReply{InfoRequest: InfoRequest{Nonce: goldenNonce, KeyID: 5, AlgorithmID: 2, Authentication: goldenMAC, TTLMinutes: 3, MaskLen: 24, EID: IPv4{10, 1, 0, 0}},
			NAT: &NATTraversalLCAF{MapServerPort: 4342, ETRPort: 5000, GlobalETR: v4Address, MapServer: v4Address, PrivateETR: NoAddress{}, RTRs: []Address{v6Address}}},
			"78000000" + nonceHex + authHex + "00000003 00 18 0001 0a010000 4003 0000 0700 0024 10f6 1388" + v4Hex + v4Hex + "0000" + v6Hex},
		{"Info-Request, simple-nat's draft", &InfoRequest{Nonce: goldenNonce, EID: DistinguishedName("home")},
			"70000000" + nonceHex + "00000000 00000000 00 00 0011 686f6d6500 0000"},
		{"Info-Request, simple-nat's code", &InfoRequest{Nonce: goldenNonce, EID: NoAddress{}, HostName: "home"},
			"70000000" + nonceHex + "00000000 00000000 00 00 0000 0011 686f6d6500"},
		{"Info-Reply, simple-nat's draft", &InfoReply{InfoRequest: InfoRequest{Nonce: goldenNonce, EID: DistinguishedName("home")},
			NAT: &NATTraversalLCAF{GlobalETR: NoAddress{}, MapServer: NoAddress{}, PrivateETR: NoAddress{}, RTRs: []Address{v4Address}}},
			"78000000" + nonceHex + "00000000 00000000 00 00 0011 686f6d6500" +
				"4003 0000 0700 0010 0000 0000 0000 0000 0000" + v4Hex},
		{"ECM", &EncapsulatedControlMessage{DDTOriginated: true, ToETR: true, ToMapServer: true, ForRTR: true, RelayedByRTR: true, Inner: goldenInner(t)},
			"87600000" + innerHex + "3190" + plainRequestHex},
		{"ECM, LISP-SEC", &EncapsulatedControlMessage{Security: true, AuthData: unhex(t, ecmADHex), Inner: goldenInner(t)},
			"88000000" + ecmADHex + innerHex + "3190" + plainRequestHex},
		{"ECM, RTR authentication", &EncapsulatedControlMessage{Security: true, ForRTR: true, AuthData: unhex(t, "02 000000 0001 0002 aabb"), Inner: goldenInner(t)},
			"88400000 02 000000 0001 0002 aabb" + innerHex + "3190" + plainRequestHex},
		{"Shared Extension", &SharedExtension{SubType: 1025, Data: []byte{1, 2, 3}}, "f401 010203"},
	}
}

func ptr[T any](v T) *T { return &v }

func goldenInner(t testing.TB) InnerPacket {
	return InnerPacket{
		Source: netip.MustParseAddrPort("192.0.2.1:1234"), Destination: netip.MustParseAddrPort("10.1.0.9:4342"),
		TTL: 64, Message: unhex(t, plainRequestHex),
	}
}

// Shows RFC 9301 s.5.3 (2).
func TestMessages(t *testing.T) {
	for _, c := range goldenMessages(t) {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.hex)
			got, err := c.message.AppendTo([]byte{0xee})
			if err != nil || !bytes.Equal(got[1:], want) {
				t.Errorf("encoded (%v)\n got %x\nwant %x", err, got, want)
			}
			parsed, err := Parse(want)
			if err != nil || !reflect.DeepEqual(parsed, c.message) {
				t.Errorf("parsed (%v)\n got %+v\nwant %+v", err, parsed, c.message)
			}
			if uint8(c.message.Type()) != want[0]>>4 {
				t.Errorf("type %s", c.message.Type())
			}
			checkIndependent(t, want)
		})
	}
}

// checkIndependent proves that a message keeps nothing of the caller's buffer.
func checkIndependent(t *testing.T, want []byte) {
	t.Helper()
	buffer := bytes.Clone(want)
	m, err := Parse(buffer)
	if err != nil {
		return
	}
	for i := range buffer {
		buffer[i] = 0xff
	}
	if got, err := m.AppendTo(nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("changed with the caller's buffer (%v)\n got %x\nwant %x", err, got, want)
	}
}

// A message cut anywhere is refused, save where the cut leaves another message:
// a Shared Extension, or a Map-Notify that loses its unflagged xTR-ID.
func TestTruncatedMessagesAreRefused(t *testing.T) {
	for _, c := range goldenMessages(t) {
		b := unhex(t, c.hex)
		for n := range b {
			m, err := Parse(b[:n])
			if err != nil {
				continue
			}
			notify, ok := m.(*MapNotify)
			if m.Type() != TypeSharedExtension && !(ok && c.name == "Map-Notify with xTR-ID unflagged" && !notify.XTRIDUnflagged) {
				t.Errorf("%s: the first %d octets parse as %s", c.name, n, describe(m))
			}
		}
	}
}

func TestTrailingOctetsAreRefused(t *testing.T) {
	for _, c := range goldenMessages(t) {
		b := append(unhex(t, c.hex), 0)
		_, err := Parse(b)
		if c.message.Type() == TypeSharedExtension || c.name == "Map-Notify with xTR-ID unflagged" {
			continue // whose end nothing but the end of the packet marks
		}
		checkRefusal(t, err, ReasonTrailing, len(b)-1)
	}
}

// Shows RFC 9301 s.5.2 (5), (6), RFC 9301 s.5.4 (2), RFC 9301 s.5.6 (2), (3), RFC 9301 s.5.8 (2).
func TestReservedBitsAreIgnored(t *testing.T) {
	for _, c := range []struct{ clean, dirty string }{
		{"10000000 0000000000000000 0000" + v4Hex, "100f8000 0000000000000000 0000" + v4Hex},
		{"20000001" + nonceHex + negativeHex, "21ffff01" + nonceHex + "0000000f 00 08 6fff f000 0001 0b000000"},
		{"30000000 0000000000000000 00000000", "30ffe000 0000000000000000 00000000"},
		{"40000000 0000000000000000 00000000", "43ffff00 0000000000000000 00000000"},
		{"20000001" + nonceHex + "0000000f 01 08 0000 0000 0000 01020304 0000 0000", "20000001" + nonceHex + "0000000f 01 08 0000 0000 0000 01020304 fff8 0000"},
		{"10000001" + nonceHex + "0000" + v4Hex + "00 00 0000", "10000001" + nonceHex + "0000" + v4Hex + "7f 00 0000"},
	} {
		clean, err := Parse(unhex(t, c.clean))
		if err != nil {
			t.Fatal(err)
		}
		if dirty, err := Parse(unhex(t, c.dirty)); err != nil || !reflect.DeepEqual(clean, dirty) {
			t.Errorf("%s\n got %+v (%v)\nwant %+v", c.dirty, dirty, err, clean)
		}
	}
}

func TestMessagesRefused(t *testing.T) {
	unknown := "4003 0000 4d00 0003 78797a"
	for _, c := range []struct {
		name, hex string
		reason    Reason
		offset    int
	}{
		{"nothing", "", ReasonTruncated, 0},
		{"type 0", "00000000", ReasonUnknownType, 0},
		{"type 9", "90000000", ReasonUnknownType, 0},
		{"type 14", "e0000000", ReasonUnknownType, 0},
		{"unknown AFI as source EID", "10000000" + nonceHex + "0040" + v4Hex, ReasonUnknownAFI, 12},
		{"unknown AFI as ITR-RLOC", "10000000" + nonceHex + "0000 0040 00000000", ReasonUnknownAFI, 14},
		{"unknown AFI as locator", "20000001" + nonceHex + "0000000f 01 08 0000 0000 0000 01020304 0000 0040", ReasonUnknownAFI, 30},
		{"unknown LCAF as requested EID", "10000001" + nonceHex + "0000" + v4Hex + "00 20" + unknown, ReasonUnknownLCAFEID, 22},
		{"unknown LCAF as EID", "20000001" + nonceHex + "0000000f 00 08 0000 0000" + unknown, ReasonUnknownLCAFEID, 22},
		{"unknown LCAF in an Instance-ID as EID", "20000001" + nonceHex + "0000000f 00 08 0000 0000 4003 0000 0200 000f 00000001" + unknown, ReasonUnknownLCAFEID, 22},
		{"list of unknown LCAFs as EID", "20000001" + nonceHex + "0000000f 00 08 0000 0000 4003 0000 0100 0016" + unknown + unknown, ReasonUnknownLCAFEID, 22},
		{"unknown vendor as locator", "20000001" + nonceHex + "0000000f 01 08 0000 0000 0000 01020304 0000 4003 0000 ff00 0004 0000000c", ReasonUnknownOUI, 39},
		{"255 records announced", "200000ff" + nonceHex + negativeHex, ReasonTruncated, 12},
		{"255 locators announced", "20000001" + nonceHex + "0000000f ff 08 0000 0000 0001 0b000000", ReasonTruncated, 28},
		{"255 request records announced", "100000ff" + nonceHex + "0000" + v4Hex, ReasonTruncated, 20},
		{"32 ITR-RLOCs announced", "10001f00" + nonceHex + "0000" + v4Hex, ReasonTruncated, 14},
		{"I without xTR-ID (RFC 9437 s.4)", "10100000" + nonceHex + "0000" + v4Hex, ReasonTruncated, 20},
		{"15 signatures announced", "60000001" + nonceHex + "0000000f 00 08 0000 f000 0001 0b000000", ReasonTruncated, 28},
		{"authentication longer than the message", "30000000" + nonceHex + "00 02 ffff 00", ReasonTruncated, 16},
		{"LISP-SEC data of another type", "22000000" + nonceHex + "02 000000 0004 0002 0004 0002", ReasonBadValue, 12},
		{"EID-AD of 3 octets", "22000000" + nonceHex + "01 000000 0003 0002 0004 0002", ReasonBadLength, 16},
		{"PKT-AD of 0 octets", "22000000" + nonceHex + "01 000000 0004 0002 0000 0002", ReasonBadLength, 20},
		{"ECM authentication of another type", "88000000 09 00 0000 0000 00 00", ReasonBadValue, 4},
		{"Info-Request of two names", "70000000" + nonceHex + "00000000 00000000 00 00 0011 6100 0011 6100", ReasonBadValue, 26},
		{"Info-Request whose name has no NUL", "70000000" + nonceHex + "00000000 00000000 00 00 0000 0011 61", ReasonTruncated, 26},
		{"Info-Reply of simple-nat's code, cut off", "78000000" + nonceHex + "00000000 00000000 00 00 0000 4003 0000 0700 0010 0000 5000" +
			v4Hex + "0000 0011 6100 0001 c000", ReasonTruncated, 50},
		{"Info-Request that ends like a reply", "70000000" + nonceHex + "00000000 00000003 00 00 0000" + v4Hex, ReasonBadValue, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(unhex(t, c.hex))
			checkRefusal(t, err, c.reason, c.offset)
		})
	}
}

// RFC 9306 s.3: a locator of unknown type is ignored, the message is not; it
// stays in the list for who relays it.
func TestUnknownLCAFLocatorIsKeptAndIgnored(t *testing.T) {
	b := unhex(t, "20000001"+nonceHex+"0000000f 01 20 0000 0000"+v4Hex+"01020304 0001 4003 0000 4d00 0003 78797a")
	m, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	rec := m.(*MapReply).Records[0]
	if rec.Locators[0].Address != Address(UnknownLCAF{Kind: 77, Body: "xyz"}) {
		t.Errorf("locator %v", rec.Locators[0].Address)
	}
	mapping, err := rec.Mapping()
	if err != nil || !mapping.Negative() || mapping.Action != lisp.ActionNoAction {
		t.Errorf("mapping %v, %v", mapping, err)
	}
	if out, err := m.AppendTo(nil); err != nil || !bytes.Equal(out, b) {
		t.Errorf("re-encoded %x (%v)", out, err)
	}
}

// An unknown LCAF as source EID or ITR-RLOC does not cost the message.
func TestUnknownLCAFOutsideEIDPrefixes(t *testing.T) {
	unknown := "4003 0000 4d00 0000"
	for _, text := range []string{
		"10000000" + nonceHex + unknown + v4Hex,
		"10000100" + nonceHex + "0000" + unknown + v4Hex,
	} {
		if _, err := Parse(unhex(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMessagesThatCannotBeEncoded(t *testing.T) {
	oneRLOC := []Address{v4Address}
	bad := NonceLocatorLCAF{Nonce: 1 << 24}
	badRecord := []Record{{EID: bad}}
	for name, m := range map[string]Message{
		"no ITR-RLOC":          &MapRequest{},
		"33 ITR-RLOCs":         &MapRequest{ITRRLOCs: make([]Address, 33)},
		"bad source EID":       &MapRequest{ITRRLOCs: oneRLOC, SourceEID: bad},
		"bad ITR-RLOC":         &MapRequest{ITRRLOCs: []Address{bad}},
		"256 requests":         &MapRequest{ITRRLOCs: oneRLOC, Records: make([]RequestRecord, 256)},
		"bad request":          &MapRequest{ITRRLOCs: oneRLOC, Records: []RequestRecord{{EID: bad}}},
		"M without record":     &MapRequest{ITRRLOCs: oneRLOC, MapDataPresent: true},
		"record without M":     &MapRequest{ITRRLOCs: oneRLOC, MapReplyRecord: &Record{}},
		"bad Map-Reply record": &MapRequest{ITRRLOCs: oneRLOC, MapDataPresent: true, MapReplyRecord: &badRecord[0]},
		"256 records":          &MapReply{Records: make([]Record, 256)},
		"bad EID":              &MapReply{Records: badRecord},
		"bad locator":          &MapReply{Records: []Record{{Locators: []LocatorRecord{{Address: bad}}}}},
		"256 locators":         &MapReply{Records: []Record{{Locators: make([]LocatorRecord, 256)}}},
		"action 8":             &MapReply{Records: []Record{{Action: 8}}},
		"13-bit version":       &MapReply{Records: []Record{{Version: 0x1000}}},
		"S without data":       &MapReply{Security: true},
		"data without S":       &MapReply{SecurityData: []byte{1}},
		"register 256":         &MapRegister{Records: make([]Record, 256)},
		"register long MAC":    &MapRegister{Authentication: make([]byte, 1<<16)},
		"notify bad EID":       &MapNotify{Records: badRecord},
		"ack bad EID":          &MapNotifyAck{Records: badRecord},
		"referral 256":         &MapReferral{Records: make([]ReferralRecord, 256)},
		"referral action":      &MapReferral{Records: []ReferralRecord{{Action: 8}}},
		"referral EID":         &MapReferral{Records: []ReferralRecord{{EID: bad}}},
		"referral locators":    &MapReferral{Records: []ReferralRecord{{Referrals: make([]LocatorRecord, 256)}}},
		"16 signatures":        &MapReferral{Records: []ReferralRecord{{Signatures: make([]Signature, 16)}}},
		"long signature":       &MapReferral{Records: []ReferralRecord{{Signatures: []Signature{{Octets: make([]byte, 1<<16)}}}}},
		"info EID":             &InfoRequest{EID: bad},
		"info name and EID":    &InfoRequest{EID: v4Address, HostName: "a"},
		"info name":            &InfoRequest{HostName: "\u00e9"},
		"info MAC":             &InfoRequest{Authentication: make([]byte, 1<<16)},
		"info NAT":             &InfoReply{NAT: bad},
		"sub-type 4096":        &SharedExtension{SubType: 4096},
		"ECM S without data":   &EncapsulatedControlMessage{Security: true},
		"ECM without inner":    &EncapsulatedControlMessage{},
	} {
		if out, err := m.AppendTo([]byte{1}); err == nil || !bytes.Equal(out, []byte{1}) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
}

func TestNamesOfTypesAndReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if name := r.String(); seen[name] || strings.HasPrefix(name, "reason-") || strings.ContainsAny(name, " _") {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[r.String()] = true
	}
	if len(seen) != int(ReasonFragment) {
		t.Errorf("%d reasons listed, %d exist", len(seen), ReasonFragment)
	}
	if MessageType(9).String() != "type 9" || Reason(200).String() != "reason-200" || AuthError(0).Error() != "auth-error-0" {
		t.Error("an unassigned value has a name")
	}
}

// Encoding allocates nothing while the buffer's capacity lasts.
func TestAppendToDoesNotAllocate(t *testing.T) {
	buffer := make([]byte, 0, 4096)
	for _, c := range goldenMessages(t) {
		if n := testing.AllocsPerRun(100, func() { _, _ = c.message.AppendTo(buffer) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	for _, c := range addressTable {
		if n := testing.AllocsPerRun(100, func() { _, _ = AppendAddress(buffer, c.address) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	header := DataHeader{NoncePresent: true, Nonce: 7, Instance: true, InstanceID: 9}
	if n := testing.AllocsPerRun(100, func() { _, _ = header.AppendTo(buffer) }); n != 0 {
		t.Errorf("data header: %v allocations", n)
	}
	source, destination, message := netip.MustParseAddrPort("[2001:db8::1]:5000"), netip.MustParseAddrPort("[2001:db8::2]:4342"), unhex(t, plainRequestHex)
	if n := testing.AllocsPerRun(100, func() { _, _ = AppendECM(buffer, source, destination, message) }); n != 0 {
		t.Errorf("AppendECM: %v allocations", n)
	}
}

// A parser's memory is bounded by its input: 64 KiB of the densest lists stay
// within a small multiple.
func TestParseAllocatesWithinTheInput(t *testing.T) {
	const limitFactor = 16
	dense := append(unhex(t, "200000ff"+nonceHex), bytes.Repeat(unhex(t, "00000000 10 00 0000 0000 0000"+strings.Repeat("00000000 0000 0000", 16)), 255)...)
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := Parse(dense); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > uint64(limitFactor*len(dense)) {
		t.Errorf("%d octets of input took %d octets of memory", len(dense), got)
	}
}

// TestInfoReplyOfSimpleNATsCode: its LCAF has a length of 16 octets whatever stands in it, and AFI 0 where there is
// no RTR. It is sent on with the right length.
func TestInfoReplyOfSimpleNATsCode(t *testing.T) {
	head := "78000000" + nonceHex + "00000000 00000000 00 00 0000 4003 0000 0700 "
	for _, c := range []struct {
		name string
		body string
		want NATTraversalLCAF
		same bool // the length is right
	}{
		{"RTRs", "0000 4e21 0001 cb007109 0000 0011 686f6d652d6574683000" + v4Hex + "0001 c6336401",
			NATTraversalLCAF{ETRPort: 20001, GlobalETR: IPv4{203, 0, 113, 9}, MapServer: NoAddress{}, PrivateETR: DistinguishedName("home-eth0"),
				RTRs: []Address{v4Address, IPv4{198, 51, 100, 1}}}, false},
		{"no RTR", "0000 4e21 0001 cb007109 0000 0011 6100 0000",
			NATTraversalLCAF{ETRPort: 20001, GlobalETR: IPv4{203, 0, 113, 9}, MapServer: NoAddress{}, PrivateETR: DistinguishedName("a"),
				RTRs: []Address{NoAddress{}}}, false},
		{"no name", "0000 4e21 0001 cb007109 0000 0000 0000",
			NATTraversalLCAF{ETRPort: 20001, GlobalETR: IPv4{203, 0, 113, 9}, MapServer: NoAddress{}, PrivateETR: NoAddress{},
				RTRs: []Address{NoAddress{}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			octets := unhex(t, head+"0010"+c.body)
			m, err := Parse(octets)
			want := &InfoReply{InfoRequest: InfoRequest{Nonce: goldenNonce, EID: NoAddress{}}, NAT: &c.want}
			if err != nil || !reflect.DeepEqual(m, want) {
				t.Fatalf("got %+v, %v\nwant %+v", m, err, want)
			}
			sent, err := m.AppendTo(nil)
			if again, e := Parse(sent); err != nil || e != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("sent as %x, %v: read as %+v, %v", sent, err, again, e)
			}
			if bytes.Equal(sent, octets) != c.same || int(sent[31]) != len(sent)-32 {
				t.Errorf("sent as %x, came as %x", sent, octets)
			}
		})
	}
	other := unhex(t, "78000000"+nonceHex+"00000000 00000000 00 18 0001 0a010000 4003 0000 0700 0010 0000 4e21 0001 cb007109 0000 0011 6100 0000")
	if m, err := Parse(other); err == nil {
		t.Errorf("with an EID-Prefix the length counts, and this was read as %+v", m)
	}
}
