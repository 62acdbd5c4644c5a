// SPDX-License-Identifier: Apache-2.0

package subflow

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// header is a TCP header with those flags and options in hexadecimal digits, padded to whole words.
func header(flags byte, options string) []byte {
	o, err := hex.DecodeString(strings.ReplaceAll(options, " ", ""))
	if err != nil {
		panic(err)
	}
	for len(o)%4 != 0 {
		o = append(o, optionNoop)
	}
	b := make([]byte, headerOctets, headerOctets+len(o))
	copy(b, []byte{0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 7, 0, 0, 0, 9})
	b[12], b[13] = byte((headerOctets+len(o))/4)<<4, flags
	return append(b, o...)
}

// usual are the options that Linux puts before that of Multipath TCP: MSS, SACK permitted, timestamps, window scale.
const usual = "020405b4 0402 080a0000000100000000 01 030307 "

// TestParse reads each option as RFC 8684 has it.
func TestParse(t *testing.T) {
	key := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, c := range []struct {
		what    string
		flags   byte
		options string
		want    Segment
	}{
		{"SYN that opens", flagSYN, usual + "1e04 0101", Segment{SYN: true, Kind: KindCapable}},
		{"SYN that asks for checksums, and allows no joins to its address", flagSYN, "1e04 01a1",
			Segment{SYN: true, Kind: KindCapable}},
		{"SYN/ACK that opens", flagSYN | flagACK, usual + "1e0c 0101 0102030405060708",
			Segment{SYN: true, ACK: true, Kind: KindCapable, Key: key}},
		{"SYN that joins", flagSYN, usual + "1e0c 1001 cafe0001 11223344",
			Segment{SYN: true, Kind: KindJoin, Token: 0xcafe0001}},
		{"SYN that joins as backup", flagSYN, "1e0c 1101 cafe0001 11223344",
			Segment{SYN: true, Kind: KindJoin, Token: 0xcafe0001}},
		{"SYN/ACK that joins", flagSYN | flagACK, usual + "1e10 1001 0102030405060708 11223344",
			Segment{SYN: true, ACK: true, Kind: KindJoin}},
		{"RST with MP_FASTCLOSE", flagRST | flagACK, "1e0c 7000 0102030405060708",
			Segment{RST: true, ACK: true, Kind: KindFastClose, Key: key}},
		{"RST with MP_TCPRST", flagRST, "1e04 8001", Segment{RST: true}},
		{"FIN with DSS", flagFIN | flagACK, "1e08 2001 00000001", Segment{FIN: true, ACK: true}},
		{"RST without options", flagRST, "", Segment{RST: true}},
		{"SYN of plain TCP", flagSYN, usual, Segment{SYN: true}},
		{"what stands behind the end of the list", flagSYN, "00 1e04 0101", Segment{SYN: true}},
		{"the first of two", flagSYN, "1e0c 1001 cafe0001 11223344 1e04 0101",
			Segment{SYN: true, Kind: KindJoin, Token: 0xcafe0001}},
	} {
		c.want.Sequence, c.want.Acknowledged = 7, 9
		if got, err := Parse(header(c.flags, c.options)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.what, got, err, c.want)
		}
	}
}

// TestParseRefuses: truncated and lying headers, other versions.
func TestParseRefuses(t *testing.T) {
	lying := header(flagSYN, "1e04 0101")
	lying[12] = 0xf0
	short := header(flagSYN, "")
	short[12] = 0x40
	for _, c := range []struct {
		what string
		b    []byte
		want error
	}{
		{"nothing", nil, ErrOption},
		{"19 octets", header(flagSYN, "")[:19], ErrOption},
		{"a data offset beyond the octets", lying, ErrOption},
		{"a data offset within the header", short, ErrOption},
		{"an option without a length", header(flagSYN, "0101011e"), ErrOption},
		{"an option of length 0", header(flagSYN, "1e00 0101"), ErrOption},
		{"an option of length 1", header(flagSYN, "1e01 0101"), ErrOption},
		{"an option without a subtype", header(flagSYN, "1e02 0101"), ErrOption},
		{"an option that is longer than the header", header(flagSYN, "1e0c 1001"), ErrOption},
		{"another option that is longer than the header", header(flagSYN, "0840 0000"), ErrOption},
		{"MP_CAPABLE without flags", header(flagSYN, "1e03 01"), ErrOption},
		{"MP_CAPABLE of a SYN with a key", header(flagSYN, "1e0c 0101 0102030405060708"), ErrOption},
		{"MP_CAPABLE of a SYN/ACK without a key", header(flagSYN|flagACK, "1e04 0101"), ErrOption},
		{"MP_JOIN of a SYN/ACK as of a SYN", header(flagSYN|flagACK, "1e0c 1001 cafe0001 11223344"), ErrOption},
		{"MP_JOIN of a SYN as of a SYN/ACK", header(flagSYN, "1e10 1001 0102030405060708 11223344"), ErrOption},
		{"MP_FASTCLOSE without a key", header(flagRST, "1e04 7000"), ErrOption},
		{"MP_CAPABLE of version 0", header(flagSYN, "1e0c 0001 0102030405060708"), ErrVersion},
		{"MP_CAPABLE of version 2", header(flagSYN, "1e04 0201"), ErrVersion},
		{"MP_CAPABLE without HMAC-SHA256", header(flagSYN, "1e04 0100"), ErrVersion},
		{"MP_CAPABLE with an extension", header(flagSYN, "1e04 0141"), ErrVersion},
	} {
		if got, err := Parse(c.b); !errors.Is(err, c.want) || got.Kind != KindNone {
			t.Errorf("%s: %+v, %v, want %v", c.what, got, err, c.want)
		}
	}
}

// TestTokenOf: SHA-256 of eight zero octets begins with af5570f5.
func TestTokenOf(t *testing.T) {
	if got := TokenOf([8]byte{}); got != 0xaf5570f5 {
		t.Errorf("%08x", got)
	}
}

// FuzzParse: no octets make it panic, and what it accepts it reads the same without what stands behind the header.
func FuzzParse(f *testing.F) {
	for _, options := range []string{"", usual + "1e04 0101", "1e0c 1001 cafe0001 11223344", "1e00", "1e0c 7000 0102030405060708"} {
		for _, flags := range []byte{flagSYN, flagSYN | flagACK, flagRST, flagFIN} {
			f.Add(header(flags, options))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			if s.Kind != KindNone {
				t.Fatalf("%+v beside %v", s, err)
			}
			return
		}
		again, err := Parse(b[:int(b[12]>>4)*4])
		if err != nil || again != s {
			t.Fatalf("%+v, %v, want %+v", again, err, s)
		}
	})
}
