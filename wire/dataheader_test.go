// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"testing"
)

func TestDataHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		header DataHeader
		hex    string
	}{
		{"empty", DataHeader{}, "00000000 00000000"},
		{"nonce", DataHeader{NoncePresent: true, Nonce: 0xabcdef}, "80abcdef 00000000"},
		{"echo", DataHeader{NoncePresent: true, EchoNonce: true, Nonce: 1}, "a0000001 00000000"},
		{"versions", DataHeader{MapVersion: true, SourceVersion: 0xabc, DestinationVersion: 0xdef}, "10abcdef 00000000"},
		{"status bits", DataHeader{LocatorStatusBits: true, StatusBits: 0x80000001}, "40000000 80000001"},
		{"instance", DataHeader{Instance: true, InstanceID: 0xfffffe}, "08000000 fffffe00"},
		{"instance and status bits", DataHeader{Instance: true, InstanceID: 1, LocatorStatusBits: true, StatusBits: 0xff}, "48000000 000001ff"},
		{"key", DataHeader{KeyID: 3}, "03000000 00000000"},
		{"next protocol", DataHeader{NextProtocol: true, Protocol: 3, Instance: true, InstanceID: 7, LocatorStatusBits: true, StatusBits: 1}, "4c000003 00000701"},
		{"all that go together", DataHeader{NoncePresent: true, LocatorStatusBits: true, EchoNonce: true, Instance: true, KeyID: 1, Nonce: 2, InstanceID: 3, StatusBits: 4}, "e9000002 00000304"},
	} {
		want := unhex(t, c.hex)
		if got, err := c.header.AppendTo([]byte{0xee}); err != nil || !bytes.Equal(got[1:], want) {
			t.Errorf("%s: %x (%v), want %x", c.name, got, err, want)
		}
		got, rest, err := ParseDataHeader(append(bytes.Clone(want), 0x45, 0))
		if err != nil || got != c.header || !bytes.Equal(rest, []byte{0x45, 0}) {
			t.Errorf("%s: %+v, %x, %v", c.name, got, rest, err)
		}
	}
}

// Fields whose flag is clear, and flags that another one voids, are ignored.
func TestDataHeaderIgnores(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      DataHeader
	}{
		{"nonce without N", "00abcdef 00000000", DataHeader{}},
		{"E without N", "20000000 00000000", DataHeader{}},
		{"V beside N: a nonce (RFC 9300 s.5.1)", "90abcdef 00000000", DataHeader{NoncePresent: true, Nonce: 0xabcdef}},
		{"status bits without L", "00000000 ffffffff", DataHeader{}},
		{"low octet without L", "08000000 000001ff", DataHeader{Instance: true, InstanceID: 1}},
		{"N, E and V beside P (RFC 9305 s.3)", "b4ffff01 00000000", DataHeader{NextProtocol: true, Protocol: 1}},
	} {
		if got, _, err := ParseDataHeader(unhex(t, c.hex)); err != nil || got != c.want {
			t.Errorf("%s: %+v (%v), want %+v", c.name, got, err, c.want)
		}
	}
}

func TestDataHeaderRefused(t *testing.T) {
	for n := range DataHeaderOctets {
		_, _, err := ParseDataHeader(make([]byte, n))
		checkRefusal(t, err, ReasonTruncated, n)
	}
	for name, h := range map[string]DataHeader{
		"nonce and versions":          {NoncePresent: true, MapVersion: true},
		"echo without nonce":          {EchoNonce: true},
		"next protocol and nonce":     {NextProtocol: true, NoncePresent: true},
		"next protocol and versions":  {NextProtocol: true, MapVersion: true},
		"key 4":                       {KeyID: 4},
		"25-bit nonce":                {NoncePresent: true, Nonce: 1 << 24},
		"13-bit version":              {MapVersion: true, DestinationVersion: 1 << 12},
		"25-bit instance":             {Instance: true, InstanceID: 1 << 24},
		"9 status bits with instance": {Instance: true, LocatorStatusBits: true, StatusBits: 1 << 8},
	} {
		if out, err := h.AppendTo([]byte{1}); err == nil || !bytes.Equal(out, []byte{1}) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
}
