// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net/netip"
	"testing"

	"loci/lisp"
)

// TestRTRAuthentication: under the same key it verifies, at either length; after a change of anything it does not.
func TestRTRAuthentication(t *testing.T) {
	notify, err := (&MapNotify{Nonce: 7, AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, 32)}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("between MS and RTR")
	for _, algorithm := range []uint8{AlgorithmHMACSHA1, AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF} {
		for _, octets := range []int{FullMACOctets(algorithm), TruncatedMACOctets(algorithm)} {
			data, err := AppendRTRAuthentication(nil, RTRKey{3, algorithm, key}, octets, notify)
			if err != nil {
				t.Fatal(err)
			}
			m := EncapsulatedControlMessage{Security: true, ForRTR: true, AuthData: data, Inner: InnerPacket{
				Source: netip.MustParseAddrPort("192.0.2.1:4342"), Destination: netip.MustParseAddrPort("10.0.0.1:4342"), Message: notify}}
			b, err := m.AppendTo(nil)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			got := parsed.(*EncapsulatedControlMessage)
			if id, a, ok := RTRKeyOf(got.AuthData); !ok || id != 3 || a != algorithm {
				t.Errorf("key %d of algorithm %d, %t", id, a, ok)
			}
			if err := VerifyRTRAuthentication(got.AuthData, key, got.Inner.Message); err != nil {
				t.Errorf("algorithm %d, %d octets: %v", algorithm, octets, err)
			}
			for at := range notify {
				changed := append([]byte(nil), notify...)
				changed[at] ^= 1
				if VerifyRTRAuthentication(data, key, changed) == nil {
					t.Errorf("algorithm %d: octet %d is not covered", algorithm, at)
				}
			}
			if err := VerifyRTRAuthentication(data, []byte("another key"), notify); !errors.Is(err, ErrAuthMismatch) {
				t.Errorf("under another key: %v", err)
			}
			if err := VerifyRTRAuthentication(data[:len(data)-1], key, notify); !errors.Is(err, ErrAuthLength) {
				t.Errorf("one octet less: %v", err)
			}
		}
	}
	for _, data := range [][]byte{nil, {2}, {1, 0, 0, 0, 0, 2, 0, 0}, {2, 0, 0, 0, 0, 9, 0, 0}} {
		if VerifyRTRAuthentication(data, key, notify) == nil {
			t.Errorf("% x verifies", data)
		}
	}
}

// TestControlInData: a message in a data packet of Instance-ID 0xFFFFFF comes out as it went in, of both families.
func TestControlInData(t *testing.T) {
	for _, c := range [][2]string{{"192.0.2.1:4342", "10.0.0.1:4342"}, {"[2001:db8::1]:4342", "[fd00::1]:4342"}} {
		source, destination := netip.MustParseAddrPort(c[0]), netip.MustParseAddrPort(c[1])
		b, err := AppendControlInData(nil, source, destination, []byte{0x40, 1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		h, rest, err := ParseDataHeader(b)
		if err != nil || !h.Instance || h.InstanceID != lisp.ControlInstanceID {
			t.Fatalf("%+v, %v", h, err)
		}
		inner, err := Parser{}.ParseInner(rest)
		if err != nil || inner.Source != source || inner.Destination != destination || string(inner.Message) != "\x40\x01\x02\x03" {
			t.Errorf("%+v, %v", inner, err)
		}
		for n := range rest {
			if _, err := (Parser{}).ParseInner(rest[:n]); err == nil {
				t.Errorf("%d octets of %d are a packet", n, len(rest))
			}
		}
	}
}

// TestInfoAuthentication: Info-Requests and Info-Replies are signed as Map-Registers are.
func TestInfoAuthentication(t *testing.T) {
	key := []byte("of the site")
	request := InfoRequest{Nonce: 9, KeyID: 1, AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, 32), TTLMinutes: 5, MaskLen: 24, EID: IPv4{10, 1, 0, 0}}
	reply := InfoReply{InfoRequest: request, NAT: &NATTraversalLCAF{MapServerPort: 4342, ETRPort: 20001,
		GlobalETR: IPv4{192, 0, 2, 7}, MapServer: NoAddress{}, PrivateETR: NoAddress{}}}
	for _, m := range []Message{&request, &reply} {
		b, err := AppendSigned(nil, m, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(b, key); err != nil {
			t.Errorf("%T: %v", m, err)
		}
		b[len(b)-1] ^= 1
		if err := Verify(b, key); !errors.Is(err, ErrAuthMismatch) {
			t.Errorf("%T with another octet: %v", m, err)
		}
	}
}
