// SPDX-License-Identifier: Apache-2.0

package wire

// Fuzz targets: no input makes a parser panic, and whatever parses encodes to
// octets that parse to the same value. Seeds are all golden messages and the
// vectors of other implementations; testdata/fuzz holds hostile ones.

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"testing"

	"loci/lisp"
)

// fuzzParser accepts as much as any receiver may.
var fuzzParser = Parser{KnownOUIs: []OUI{0x00000c}, AcceptZeroInnerChecksum: true}

func seedVectors(f *testing.F, wantAddresses bool) {
	f.Helper()
	for _, file := range []string{"opendaylight.json", "pylisp.json"} {
		for _, v := range readVectors(f, file) {
			if b := v.octets(f); isAddress(b) == wantAddresses {
				f.Add(b)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	seedVectors(f, false)
	for _, c := range goldenMessages(f) {
		f.Add(unhex(f, c.hex))
	}
	for _, file := range captures {
		for _, frame := range readFrames(f, file) {
			f.Add(frame.payload)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := fuzzParser.Parse(b)
		if err != nil {
			checkParseError(t, err, len(b))
			return
		}
		normalize(m)
		encoded, err := m.AppendTo(nil)
		if err != nil {
			t.Fatalf("%+v does not encode: %v", m, err)
		}
		if len(encoded) > len(b) {
			t.Fatalf("%d octets became %d", len(b), len(encoded))
		}
		again, err := fuzzParser.Parse(encoded)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%x\n became %x (%v)\n got %+v\nwant %+v", b, encoded, err, again, m)
		}
		if twice, err := again.AppendTo(nil); err != nil || !bytes.Equal(twice, encoded) {
			t.Fatalf("encoded once %x, twice %x (%v)", encoded, twice, err)
		}
		convertAll(m)
		if _, ok := m.(*MapRegister); ok {
			checkRegistrations(t, b)
		}
	})
}

// checkRegistrations wants that what a Map-Server keeps of a Map-Register is what it then tells.
func checkRegistrations(t *testing.T, b []byte) {
	t.Helper()
	keeping := fuzzParser
	keeping.KeepAddresses = true
	m, err := keeping.Parse(b)
	if err != nil {
		t.Fatalf("parsed, but not with its addresses kept: %v", err)
	}
	for i := range m.(*MapRegister).Records {
		rec := &m.(*MapRegister).Records[i]
		p, err := rec.Prefix()
		if err != nil {
			continue
		}
		kept, err := rec.RegistrationOf(p)
		if err != nil {
			continue
		}
		told, err := (&MapReply{Records: []Record{RecordOf(kept)}}).AppendTo(nil)
		if err != nil {
			t.Fatalf("%v does not encode: %v", kept, err)
		}
		reply, err := keeping.Parse(told)
		if err != nil {
			t.Fatalf("%x does not parse: %v", told, err)
		}
		again, err := reply.(*MapReply).Records[0].RegistrationOf(p)
		if err != nil || !again.Locators.Equal(kept.Locators) {
			t.Fatalf("kept %v, told %v, %v", kept.Locators, again.Locators, err)
		}
	}
}

// normalize makes the one field equal that encodes as another value.
func normalize(m Message) {
	if ecm, ok := m.(*EncapsulatedControlMessage); ok {
		ecm.Inner.TTL = ecm.Inner.ttl()
	}
}

func checkParseError(t *testing.T, err error, octets int) {
	t.Helper()
	refusal, ok := err.(*ParseError)
	if !ok || refusal.Reason == ReasonNone || refusal.Offset < 0 || refusal.Offset > octets || refusal.Field == "" {
		t.Fatalf("%d octets refused with %#v", octets, err)
	}
}

// convertAll calls every conversion on what was parsed: none may panic.
func convertAll(m Message) {
	switch m := m.(type) {
	case *MapReply:
		convertRecords(m.Records)
		_, _, _ = m.FlowPath()
	case *MapRegister:
		convertRecords(m.Records)
	case *MapNotify:
		convertRecords(m.Records)
	case *MapRequest:
		_, _, _ = EIDOf(m.SourceEID)
		for i := range m.Records {
			_, _ = m.Records[i].Prefix()
		}
		for _, a := range m.ITRRLOCs {
			_, _ = RLOCOf(a)
		}
		if f, err := m.Flow(); err == nil {
			checkFlowRoundTrip(m.Records[0], f)
		}
	}
}

// checkFlowRoundTrip panics where a flow that was read is sent as another one, or its answer is not taken.
func checkFlowRoundTrip(asked RequestRecord, f lisp.Flow) {
	path := lisp.PathTo(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, 1})))
	l := lisp.NewLocator(path.RLOC)
	reply := MapReply{Records: []Record{FlowRecord(asked, 1, l)}}
	sent := MapRequest{}
	sent.AskFlow(f, nil)
	again, err := sent.Flow()
	told, toldPath, errTold := reply.FlowPath()
	told.Source = f.Source
	if err != nil || errTold != nil || again != f || told != f || toldPath != path {
		panic(f.String() + " became " + again.String() + " and " + told.String())
	}
}

func convertRecords(records []Record) {
	for i := range records {
		if mapping, err := records[i].Mapping(); err == nil {
			_ = RecordOf(mapping)
		}
		_ = describeRecord(&records[i])
	}
}

func FuzzParseAddress(f *testing.F) {
	seedVectors(f, true)
	for _, c := range addressTable {
		f.Add(unhex(f, c.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := fuzzParser.ParseAddress(b)
		if err != nil {
			checkParseError(t, err, len(b))
			return
		}
		encoded, err := AppendAddress(nil, a)
		if err != nil || len(encoded) > len(b) {
			t.Fatalf("%s encodes as %x (%v)", a, encoded, err)
		}
		again, err := fuzzParser.ParseAddress(encoded)
		if err != nil || !reflect.DeepEqual(again, a) || !EqualAddress(again, a) {
			t.Fatalf("%x\n became %x (%v)\n got %#v\nwant %#v", b, encoded, err, again, a)
		}
		_ = a.String()
		if r, ok := RLOCOf(a); ok && r.IsZero() {
			t.Fatalf("%s gives a zero RLOC", a)
		}
		checkEIDRoundTrip(t, a)
	})
}

func checkEIDRoundTrip(t *testing.T, a Address) {
	t.Helper()
	instance, e, err := EIDOf(a)
	if err != nil {
		return
	}
	instanceAgain, eAgain, err := EIDOf(EIDAddress(instance, e))
	if err != nil || instanceAgain != instance || eAgain != e {
		t.Fatalf("[%s]%s became [%s]%s (%v)", instance, e, instanceAgain, eAgain, err)
	}
}

func FuzzParseDataHeader(f *testing.F) {
	for _, text := range []string{"0000000000000000", "e900000200000304", "4c00000300000701", "ffffffffffffffff", "10abcdef00000000"} {
		b, _ := hex.DecodeString(text)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, err := ParseDataHeader(b)
		if err != nil {
			checkParseError(t, err, len(b))
			return
		}
		encoded, err := h.AppendTo(nil)
		if err != nil || len(encoded) != DataHeaderOctets || len(rest) != len(b)-DataHeaderOctets {
			t.Fatalf("%+v encodes as %x (%v)", h, encoded, err)
		}
		if again, _, err := ParseDataHeader(encoded); err != nil || again != h {
			t.Fatalf("%x\n became %x (%v)\n got %+v\nwant %+v", b, encoded, err, again, h)
		}
	})
}

func FuzzECM(f *testing.F) {
	request := unhex(f, plainRequestHex)
	f.Add([]byte{192, 0, 2, 1}, []byte{10, 1, 0, 9}, uint16(5000), uint16(4342), uint32(64), []byte{}, request)
	f.Add(v6Address[:], v6Address[:], uint16(5000), uint16(4342), uint32(0xfffff01), []byte{}, request)
	f.Add([]byte{192, 0, 2, 1}, []byte{10, 1, 0, 9}, uint16(0), uint16(4341), uint32(0), []byte{7, 7, 4, 0}, []byte{0x80})
	f.Fuzz(func(t *testing.T, source, destination []byte, sourcePort, destinationPort uint16, numbers uint32, options, message []byte) {
		s, _ := netip.AddrFromSlice(source)
		d, _ := netip.AddrFromSlice(destination)
		m := &EncapsulatedControlMessage{Inner: InnerPacket{
			Source: netip.AddrPortFrom(s, sourcePort), Destination: netip.AddrPortFrom(d, destinationPort),
			TTL: uint8(numbers) | 1, TrafficClass: uint8(numbers >> 8), Options: bytes.Clone(options), Message: bytes.Clone(message),
		}}
		if s.Is4() {
			m.Inner.Identification, m.Inner.DontFragment = uint16(numbers>>16), numbers&2 != 0
		} else {
			m.Inner.FlowLabel = numbers >> 12
		}
		encoded, err := m.AppendTo(nil)
		if err != nil {
			return
		}
		parsed, err := Parse(encoded)
		if err != nil {
			t.Fatalf("%+v encodes as %x, which is refused: %v", m, encoded, err)
		}
		if got := parsed.(*EncapsulatedControlMessage).Inner; !got.Equal(&m.Inner) {
			t.Fatalf("%x\n got %+v\nwant %+v", encoded, got, m.Inner)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, c := range goldenMessages(f) {
		f.Add(unhex(f, c.hex), []byte("key"))
	}
	f.Fuzz(func(t *testing.T, b, key []byte) {
		_ = Verify(b, key)
		signed := bytes.Clone(b)
		if Sign(signed, key) != nil {
			return
		}
		if err := Verify(signed, key); err != nil {
			t.Fatalf("%x signed with %x: %v", signed, key, err)
		}
	})
}
