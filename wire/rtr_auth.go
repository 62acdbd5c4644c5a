// SPDX-License-Identifier: Apache-2.0

package wire

// MS-RTR authentication of a Map-Notify in an ECM, type 2 (draft-ermagan-lisp-nat-traversal s.4.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|    AD Type    |                  Reserved                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        MS-RTR Key ID          |  MS-RTR Auth. Data Length     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~               MS-RTR Authentication Data                      ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The MAC covers the whole Map-Notify. The 16 bits of the Key ID are Key ID and
// Algorithm ID, as in a Map-Register. Nonces and keys are the caller's.

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
)

// RTRKey is a key that Map-Server and RTR share.
type RTRKey struct {
	ID, Algorithm uint8
	Secret        []byte
}

// AppendRTRAuthentication appends the authentication data of a Map-Notify under a key that Map-Server and RTR share,
// with a MAC of so many octets. Errors are of type AuthError.
func AppendRTRAuthentication(b []byte, key RTRKey, macOctets int, notify []byte) ([]byte, error) {
	mac, err := rtrMAC(key.Algorithm, key.Secret, notify)
	switch {
	case err != nil:
		return b, err
	case macOctets != FullMACOctets(key.Algorithm) && macOctets != TruncatedMACOctets(key.Algorithm):
		return b, ErrAuthLength
	}
	b = append(b, securityTypeRTR, 0, 0, 0, key.ID, key.Algorithm)
	b = binary.BigEndian.AppendUint16(b, uint16(macOctets))
	return append(b, mac[:macOctets]...), nil
}

// RTRKeyOf is the key that the authentication data of an ECM names; ok is false where it is not MS-RTR authentication.
func RTRKeyOf(authData []byte) (keyID, algorithm uint8, ok bool) {
	if len(authData) < ecmSecurityHeadOctets || authData[0] != securityTypeRTR {
		return 0, 0, false
	}
	return authData[4], authData[5], true
}

// VerifyRTRAuthentication checks the authentication data of an ECM against the Map-Notify in it, in constant time.
// Errors are of type AuthError.
func VerifyRTRAuthentication(authData, key, notify []byte) error {
	_, algorithm, ok := RTRKeyOf(authData)
	if !ok {
		return ErrAuthMessage
	}
	got := authData[ecmSecurityHeadOctets:]
	mac, err := rtrMAC(algorithm, key, notify)
	switch {
	case err != nil:
		return err
	case len(got) != FullMACOctets(algorithm) && len(got) != TruncatedMACOctets(algorithm):
		return ErrAuthLength
	case !hmac.Equal(got, mac[:len(got)]):
		return ErrAuthMismatch
	}
	return nil
}

func rtrMAC(algorithm uint8, key, notify []byte) ([]byte, error) {
	hash := sha256.New
	switch algorithm {
	case AlgorithmHMACSHA1:
		hash = sha1.New
	case AlgorithmHMACSHA256:
	case AlgorithmHMACSHA256HKDF:
		if len(notify) < authDataAt {
			return nil, ErrAuthMessage
		}
		key = perMessageKey(notify[authNonceAt:authNonceAt+8], key, TypeMapNotify)
	default:
		return nil, ErrAuthAlgorithm
	}
	mac := hmac.New(hash, key)
	mac.Write(notify)
	return mac.Sum(nil), nil
}
