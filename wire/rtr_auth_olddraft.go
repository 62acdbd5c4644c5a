// SPDX-License-Identifier: Apache-2.0

package wire

// MS-RTR authentication of a Map-Notify without an ECM, before draft-ermagan-lisp-nat-traversal-04: it stands behind
// the Site-ID (map_notify.go). Its MAC covers the whole message, with its own octets 0. The site's MAC covers the
// message without it. The 16 bits of the Key ID are Key ID and Algorithm ID, as in a Map-Register.

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"errors"
)

var errNotForRTR = errors.New("an RTR knows a Map-Notify without an ECM by its xTR-ID")

// AppendSignedForRTR is AppendSigned for such a Map-Notify, under a key that Map-Server and RTR share as well, with a
// MAC of so many octets; of 0 octets where they share none. It sets R and the fields of the RTR's key in m.
func AppendSignedForRTR(b []byte, m *MapNotify, key []byte, rtr RTRKey, macOctets int) ([]byte, error) {
	if !m.XTRIDPresent {
		return b, errNotForRTR
	}
	m.ByRTR, m.RTRKeyID, m.RTRAuthData = true, 0, nil
	out, err := AppendSigned(b, m, key)
	if err != nil || macOctets == 0 {
		return out, err
	}
	if macOctets != FullMACOctets(rtr.Algorithm) && macOctets != TruncatedMACOctets(rtr.Algorithm) {
		return b, ErrAuthLength
	}
	head := out[len(out)-rtrHeadOctets:]
	head[0], head[1] = rtr.ID, rtr.Algorithm
	binary.BigEndian.PutUint16(head[2:], uint16(macOctets))
	out = append(out, make([]byte, macOctets)...)
	mac, err := rtrMAC(rtr.Algorithm, rtr.Secret, out[len(b):])
	if err != nil {
		return b, err
	}
	copy(out[len(out)-macOctets:], mac)
	return out, nil
}

// RTRKeyOfNotify is the key that the MS-RTR authentication data of a Map-Notify without an ECM names; ok is false where
// there is none.
func RTRKeyOfNotify(m *MapNotify) (keyID, algorithm uint8, ok bool) {
	ok = m.XTRIDPresent && m.ByRTR && len(m.RTRAuthData) > 0
	return uint8(m.RTRKeyID >> 8), uint8(m.RTRKeyID), ok
}

// VerifyForRTR checks the MS-RTR authentication data of an encoded Map-Notify without an ECM, in constant time. Errors
// are of type AuthError.
func VerifyForRTR(b []byte, m *MapNotify, key []byte) error {
	_, algorithm, ok := RTRKeyOfNotify(m)
	octets := len(m.RTRAuthData)
	switch {
	case !ok || octets > len(b):
		return ErrAuthMessage
	case octets != FullMACOctets(algorithm) && octets != TruncatedMACOctets(algorithm):
		return ErrAuthLength
	}
	covered := bytes.Clone(b)
	clear(covered[len(b)-octets:])
	mac, err := rtrMAC(algorithm, key, covered)
	switch {
	case err != nil:
		return err
	case !hmac.Equal(m.RTRAuthData, mac[:octets]):
		return ErrAuthMismatch
	}
	return nil
}

// PassedOnByRTR is what an RTR sends an ETR of an encoded Map-Notify without an ECM: without the MS-RTR authentication
// data, with an empty field in its place.
func PassedOnByRTR(b []byte, m *MapNotify) []byte {
	if !m.XTRIDPresent || !m.ByRTR {
		return bytes.Clone(b)
	}
	out := bytes.Clone(b[:len(b)-len(m.RTRAuthData)])
	clear(out[len(out)-rtrHeadOctets:])
	return out
}
