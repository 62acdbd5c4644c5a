// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"testing"
)

var testKey = []byte("a key of 21 octets...")

// registerWith is a Map-Register with authentication data of a length.
func registerWith(algorithm uint8, macOctets int, xtrID bool) *MapRegister {
	return &MapRegister{
		Nonce: goldenNonce, KeyID: 3, AlgorithmID: algorithm, Authentication: make([]byte, macOctets),
		Records: []Record{goldenRecord()}, XTRIDPresent: xtrID, XTRID: goldenXTRID, SiteID: 7,
	}
}

func authenticated(algorithm uint8, macOctets int) []Message {
	register := registerWith(algorithm, macOctets, true)
	notify := &MapNotify{
		Nonce: goldenNonce, KeyID: 3, AlgorithmID: algorithm, Authentication: make([]byte, macOctets),
		Records: []Record{goldenRecord()}, XTRIDUnflagged: true, XTRID: goldenXTRID, SiteID: 7,
	}
	return []Message{register, notify, (*MapNotifyAck)(notify)}
}

// Shows RFC 9301 s.5.6 (10).
func TestSignAndVerify(t *testing.T) {
	for _, algorithm := range []uint8{AlgorithmHMACSHA1, AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF} {
		for _, octets := range []int{FullMACOctets(algorithm), TruncatedMACOctets(algorithm)} {
			for _, m := range authenticated(algorithm, octets) {
				checkSigned(t, m)
			}
		}
	}
}

func checkSigned(t *testing.T, m Message) {
	t.Helper()
	prefix := []byte("before")
	signed, err := AppendSigned(bytes.Clone(prefix), m, testKey)
	if err != nil || !bytes.HasPrefix(signed, prefix) {
		t.Fatalf("%s: %v", m.Type(), err)
	}
	signed = signed[len(prefix):]
	if err := Verify(signed, testKey); err != nil {
		t.Errorf("%s: %v", m.Type(), err)
	}
	if err := Verify(signed, testKey[1:]); err != ErrAuthMismatch {
		t.Errorf("%s with another key: %v", m.Type(), err)
	}
	// Every bit counts, those of the head's lengths and types included.
	for i := range signed {
		altered := bytes.Clone(signed)
		altered[i] ^= 0x01
		if Verify(altered, testKey) == nil {
			t.Errorf("%s: octet %d may change", m.Type(), i)
		}
	}
	for n := range signed {
		if Verify(signed[:n], testKey) == nil {
			t.Errorf("%s: %d octets verify", m.Type(), n)
		}
	}
}

// The key of algorithm 3, computed a second time from HKDF's definition (RFC 5869
// s.2.2, s.2.3) so that the choices auth.go states cannot drift: extract with the
// label as salt, expand one block with no info.
// Shows RFC 9301 s.5.6 (11), RFC 9301 s.9 (2).
func TestPerMessageKey(t *testing.T) {
	for _, c := range []struct {
		message Message
		label   string
	}{
		{authenticated(AlgorithmHMACSHA256HKDF, 32)[0], "Map-Register Authentication"},
		{authenticated(AlgorithmHMACSHA256HKDF, 32)[1], "Map-Notify Authentication"},
		{authenticated(AlgorithmHMACSHA256HKDF, 32)[2], "Map-Notify-Ack Authentication"},
	} {
		unsigned, err := c.message.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		secret := append(unhex(t, nonceHex), testKey...)
		key := mac(mac([]byte(c.label), secret), []byte{1})
		want := mac(key, unsigned)
		signed, err := AppendSigned(nil, c.message, testKey)
		if err != nil || !bytes.Equal(signed[authDataAt:authDataAt+32], want) {
			t.Errorf("%s (%v)\n got %x\nwant %x", c.label, err, signed[authDataAt:authDataAt+32], want)
		}
	}
}

func mac(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}

// Who verifies is told what was authenticated, xTR-ID and Site-ID or not.
func TestVerifiedCoverage(t *testing.T) {
	for _, c := range []struct {
		name    string
		signed  Coverage
		xtrID   bool
		octet   int // changed after signing, counted from the end; 0 none
		covered Coverage
		err     error
	}{
		{"whole", CoverMessage, true, 0, CoverMessage, nil},
		{"records", CoverRecords, true, 0, CoverRecords, nil},
		{"records, another xTR-ID", CoverRecords, true, 1, CoverRecords, nil},
		{"whole, another xTR-ID", CoverMessage, true, 1, CoverDefault, ErrAuthMismatch},
		{"no xTR-ID", CoverRecords, false, 0, CoverMessage, nil},
		{"no xTR-ID, changed", CoverRecords, false, 1, CoverDefault, ErrAuthMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, algorithm := range []uint8{AlgorithmHMACSHA1, AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF} {
				b, err := registerWith(algorithm, FullMACOctets(algorithm), c.xtrID).AppendTo(nil)
				if err == nil {
					err = SignOver(b, testKey, c.signed)
				}
				if err != nil {
					t.Fatal(err)
				}
				if c.octet > 0 {
					b[len(b)-c.octet] ^= 1
				}
				if covered, err := VerifiedCoverage(b, testKey); covered != c.covered || !errors.Is(err, c.err) {
					t.Errorf("algorithm %d: got %d, %v, want %d, %v", algorithm, covered, err, c.covered, c.err)
				}
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	unsigned, err := registerWith(AlgorithmHMACSHA256, 32, true).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(c Coverage) []byte {
		b := bytes.Clone(unsigned)
		if err := SignOver(b, testKey, c); err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole, toLastRecord := sign(CoverMessage), sign(CoverRecords)
	for _, c := range []struct {
		name     string
		b        []byte
		coverage Coverage
		want     error
	}{
		{"whole by default", whole, CoverDefault, nil},
		{"whole as whole", whole, CoverMessage, nil},
		{"whole as records", whole, CoverRecords, ErrAuthMismatch},
		{"records by default", toLastRecord, CoverDefault, nil},
		{"records as whole", toLastRecord, CoverMessage, ErrAuthMismatch},
		{"records as records", toLastRecord, CoverRecords, nil},
	} {
		if err := VerifyOver(c.b, testKey, c.coverage); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if !bytes.Equal(sign(CoverDefault), whole) {
		t.Error("the default signs something else than the whole message")
	}
}

// A 16-bit Key ID of RFC 6830 names the algorithm: 1 reads as Key ID 0 with
// Algorithm 1.
func TestLegacyKeyIDReads(t *testing.T) {
	b := unhex(t, "30000000 0000000000000000 0001 0014"+"0000000000000000000000000000000000000000")
	if err := Sign(b, testKey); err != nil {
		t.Fatal(err)
	}
	m, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if r := m.(*MapRegister); r.KeyID != 0 || r.AlgorithmID != AlgorithmHMACSHA1 {
		t.Errorf("key %d algorithm %d", r.KeyID, r.AlgorithmID)
	}
	if err := Verify(b, testKey); err != nil {
		t.Error(err)
	}
}

func TestAuthenticationRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		hex  string
		want AuthError
	}{
		{"nothing", "", ErrAuthMessage},
		{"a Map-Reply", "20000000 0000000000000000 0001 0014", ErrAuthMessage},
		{"data beyond the message", "30000000 0000000000000000 0002 0020 00", ErrAuthMessage},
		{"data where the xTR-ID is", "32000000 0000000000000000 0001 000c" + xtrIDHex, ErrAuthMessage},
		{"no algorithm", "30000000 0000000000000000 0000 0000", ErrAuthAlgorithm},
		{"algorithm 4", "30000000 0000000000000000 0004 0000", ErrAuthAlgorithm},
		{"no MAC", "30000000 0000000000000000 0002 0000", ErrAuthLength},
		{"SHA-1 of 16 octets", "30000000 0000000000000000 0001 0010 00000000000000000000000000000000", ErrAuthLength},
		{"SHA-256 of 12 octets", "30000000 0000000000000000 0002 000c 000000000000000000000000", ErrAuthLength},
	} {
		if err := Verify(unhex(t, c.hex), testKey); err != error(c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err := Sign(unhex(t, c.hex), testKey); err != error(c.want) {
			t.Errorf("signing %s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := AppendSigned(nil, &MapRegister{AlgorithmID: 2}, testKey); !errors.Is(err, ErrAuthLength) {
		t.Errorf("a Map-Register without room for its MAC: %v", err)
	}
	if _, err := AppendSigned(nil, &MapRegister{Records: make([]Record, 256)}, testKey); err == nil {
		t.Error("256 records were signed")
	}
}

// TestPassedOnByRTR: an RTR of the form before draft-ermagan-lisp-nat-traversal-04 passes a Map-Notify on with an empty
// field for MS-RTR authentication, which the Map-Server's MAC does not cover.
func TestPassedOnByRTR(t *testing.T) {
	const octets, empty = 32, 4
	m := &MapNotify{
		XTRIDPresent: true, ByRTR: true, Nonce: goldenNonce, XTRID: goldenXTRID,
		AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, octets),
	}
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[authDataAt:], mac(testKey, b[:len(b)-empty]))
	if err := Verify(b, testKey); err != nil {
		t.Error(err)
	}
	for _, at := range []int{0, authNonceAt, len(b) - empty - 1} {
		changed := bytes.Clone(b)
		changed[at] ^= 1
		if Verify(changed, testKey) == nil {
			t.Errorf("octet %d is not covered", at)
		}
	}
	for n := range b {
		if Verify(b[:n], testKey) == nil {
			t.Errorf("the first %d octets are verified", n)
		}
	}
}
