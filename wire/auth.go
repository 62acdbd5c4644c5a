// SPDX-License-Identifier: Apache-2.0

package wire

// Authentication of Map-Register, Map-Notify and Map-Notify-Ack (RFC 9301 s.5.6,
// s.5.7; algorithms s.12.5), and of Info-Request and Info-Reply likewise
// (draft-ermagan-lisp-nat-traversal s.4.1). The MAC is computed over the encoded octets with the
// authentication data zeroed. The RFC leaves open or contradicts itself on:
//
//   - coverage: the "Nonce" text authenticates the whole message, step 5 ends at
//     the last record, before xTR-ID and Site-ID. Deployed systems cover the whole
//     message: that is what is sent, and either is accepted unless told otherwise;
//   - truncation: the algorithms' names say 96 and 128 bits, deployed systems send
//     160 and 256. The length field decides on receipt, the caller when sending;
//   - the key derivation of algorithm 3: HKDF-SHA256 with the concatenation of
//     nonce and pre-shared key as input, the message's label as salt, no info,
//     32 octets;
//   - RFC 6830 peers have a 16-bit Key ID that names the algorithm (1, 2) where
//     Key ID and Algorithm ID are now: they read as Key ID 0 with Algorithm 1 or 2,
//     which is the same computation.
//
// Nonces and keys are the caller's. This file never compares nonces.

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// The algorithms of RFC 9301 s.12.5.
const (
	AlgorithmNone           uint8 = 0
	AlgorithmHMACSHA1       uint8 = 1 // HMAC-SHA-1-96-None
	AlgorithmHMACSHA256     uint8 = 2 // HMAC-SHA-256-128-None
	AlgorithmHMACSHA256HKDF uint8 = 3 // HMAC-SHA256-128+HKDF-SHA256
)

// Coverage says which octets the MAC covers.
type Coverage uint8

// The coverages. CoverDefault signs the whole message and verifies either way.
const (
	CoverDefault Coverage = iota
	CoverMessage          // the whole message
	CoverRecords          // up to the end of the last record
)

// AuthError is why authentication failed; its text is the name of the drop
// counter.
type AuthError uint8

// The authentication failures.
const (
	ErrAuthMessage   AuthError = iota + 1 // not a message with authentication data, or truncated
	ErrAuthAlgorithm                      // an algorithm this package does not know, or none
	ErrAuthLength                         // authentication data of a length the algorithm does not have
	ErrAuthMismatch                       // the MAC differs: wrong key or altered message
)

// Error is the failure's counter name.
func (e AuthError) Error() string {
	switch e {
	case ErrAuthMessage:
		return "auth-no-message"
	case ErrAuthAlgorithm:
		return "auth-unknown-algorithm"
	case ErrAuthLength:
		return "auth-bad-length"
	case ErrAuthMismatch:
		return "auth-mismatch"
	}
	return fmt.Sprintf("auth-error-%d", uint8(e))
}

// FullMACOctets is the untruncated MAC length of an algorithm, which deployed
// systems send; 0 for algorithms without a MAC.
func FullMACOctets(algorithmID uint8) int {
	switch algorithmID {
	case AlgorithmHMACSHA1:
		return sha1.Size
	case AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF:
		return sha256.Size
	}
	return 0
}

// TruncatedMACOctets is the MAC length that the algorithm's name states (RFC 2404,
// RFC 4868); 0 for algorithms without a MAC.
func TruncatedMACOctets(algorithmID uint8) int {
	switch algorithmID {
	case AlgorithmHMACSHA1:
		return 12
	case AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF:
		return 16
	}
	return 0
}

// Offsets in the head that Map-Register, Map-Notify and Map-Notify-Ack share.
const (
	authNonceAt     = 4
	authAlgorithmAt = 13
	authLengthAt    = 14
	authDataAt      = 16
)

// rtrHeadOctets are the Key ID and the length of MS-RTR authentication data at the end of a Map-Notify.
const rtrHeadOctets = 4

// Sign fills the authentication data of the encoded message b in place, in the
// length that b already reserves. Errors are of type AuthError.
func Sign(b, key []byte) error { return SignOver(b, key, CoverDefault) }

// SignOver is Sign with a chosen coverage.
func SignOver(b, key []byte, c Coverage) error {
	f, err := splitAuthentication(b)
	if err != nil {
		return err
	}
	var sum [sha256.Size]byte
	copy(f.data, f.appendMAC(sum[:0], key, f.covered(c)))
	return nil
}

// Verify checks the authentication data of the encoded message b in constant
// time, with either coverage. Errors are of type AuthError.
func Verify(b, key []byte) error { return VerifyOver(b, key, CoverDefault) }

// VerifyOver is Verify with a chosen coverage.
func VerifyOver(b, key []byte, c Coverage) error {
	_, err := verify(b, key, c)
	return err
}

// VerifiedCoverage is Verify that says what the authentication data covers: the whole
// message, or the records alone, which leave xTR-ID and Site-ID anybody's word.
func VerifiedCoverage(b, key []byte) (Coverage, error) { return verify(b, key, CoverDefault) }

func verify(b, key []byte, c Coverage) (Coverage, error) {
	f, err := splitAuthentication(b)
	if err != nil {
		return CoverDefault, err
	}
	first := c
	if c == CoverDefault {
		first = CoverMessage
	}
	if f.matches(key, first) {
		return first, nil
	}
	if c == CoverDefault && f.hasXTRID && f.matches(key, CoverRecords) {
		return CoverRecords, nil
	}
	return CoverDefault, ErrAuthMismatch
}

// AppendSigned encodes m, a *MapRegister, *MapNotify, *MapNotifyAck, *InfoRequest or *InfoReply, whose
// Authentication has the wanted MAC length (its contents do not matter), and
// signs it.
func AppendSigned(b []byte, m Message, key []byte) ([]byte, error) {
	out, err := m.AppendTo(b)
	if err != nil {
		return b, err
	}
	if err := Sign(out[len(b):], key); err != nil {
		return b, fmt.Errorf("%s: %w", m.Type(), err)
	}
	return out, nil
}

// authenticatedFields are the parts of an encoded message that authentication
// looks at.
type authenticatedFields struct {
	message   []byte
	data      []byte // the authentication data, a part of message
	t         MessageType
	algorithm uint8
	hasXTRID  bool
}

func splitAuthentication(b []byte) (authenticatedFields, error) {
	f := authenticatedFields{message: b}
	if len(b) < authDataAt {
		return f, ErrAuthMessage
	}
	word := binary.BigEndian.Uint32(b)
	f.t = MessageType(b[0] >> 4)
	switch f.t {
	case TypeMapRegister:
		f.hasXTRID = word&registerXTRIDPresent != 0
	case TypeMapNotify, TypeMapNotifyAck:
		f.hasXTRID = word&notifyXTRIDPresent != 0
		if f.hasXTRID && word&notifyByRTR != 0 {
			f.message = b[:len(b)-rtrHeadOctets] // what an RTR passes on has no MS-RTR authentication data
		}
	case TypeInfo:
	default:
		return f, ErrAuthMessage
	}
	length := int(binary.BigEndian.Uint16(b[authLengthAt:]))
	tail := 0
	if f.hasXTRID {
		tail = xtrIDOctets
	}
	if authDataAt+length+tail > len(f.message) {
		return f, ErrAuthMessage
	}
	f.algorithm = b[authAlgorithmAt]
	f.data = b[authDataAt : authDataAt+length]
	return f, f.checkLength()
}

func (f *authenticatedFields) checkLength() error {
	full := FullMACOctets(f.algorithm)
	switch {
	case full == 0:
		return ErrAuthAlgorithm
	case len(f.data) != full && len(f.data) != TruncatedMACOctets(f.algorithm):
		return ErrAuthLength
	}
	return nil
}

// covered is where the octets under the MAC end.
func (f *authenticatedFields) covered(c Coverage) int {
	if c == CoverRecords && f.hasXTRID {
		return len(f.message) - xtrIDOctets
	}
	return len(f.message)
}

func (f *authenticatedFields) matches(key []byte, c Coverage) bool {
	var sum [sha256.Size]byte
	return hmac.Equal(f.data, f.appendMAC(sum[:0], key, f.covered(c))[:len(f.data)])
}

// appendMAC appends the MAC of the octets up to end, the authentication data taken as zeros.
func (f *authenticatedFields) appendMAC(b, key []byte, end int) []byte {
	hash := sha256.New
	switch f.algorithm {
	case AlgorithmHMACSHA1:
		hash = sha1.New
	case AlgorithmHMACSHA256HKDF:
		key = perMessageKey(f.message[authNonceAt:authNonceAt+8], key, f.t)
	}
	var zeros [sha256.Size]byte
	mac := hmac.New(hash, key)
	mac.Write(f.message[:authDataAt])
	mac.Write(zeros[:len(f.data)])
	mac.Write(f.message[authDataAt+len(f.data) : end])
	return mac.Sum(b)
}

// perMessageKey derives the MAC key of algorithm 3: HKDF-SHA256 with the message's label as salt and no info.
func perMessageKey(nonce, preShared []byte, t MessageType) []byte {
	key, err := hkdf.Key(sha256.New, slices.Concat(nonce, preShared), []byte(t.String()+" Authentication"), "", sha256.Size)
	if err != nil {
		panic(err) // only longer keys than this can err
	}
	return key
}
