// SPDX-License-Identifier: Apache-2.0

package wire

// HMAC (RFC 2104) of a message that lies in one piece, and the key derivation of algorithm 3
// (HKDF, RFC 5869; RFC 9301 s.5.6, s.5.7), in terms of the standard library's hashes. The
// standard library's own HMAC makes five objects for each message, which costs as much as
// the hashing: control messages are short, and come by the ten thousand a second. Tests hold
// this against it. Nothing here compares anything.

import (
	"crypto/sha1"
	"crypto/sha256"
)

// What a block of the key is masked with inside and outside.
const (
	innerPad = 0x36
	outerPad = 0x5c
)

// hmacSHA256 is the HMAC of what follows the first block of octets. That block is room for
// the key, and overwritten.
func hmacSHA256(key, octets []byte) [sha256.Size]byte {
	var block [sha256.BlockSize]byte
	if len(key) > len(block) {
		short := sha256.Sum256(key)
		key = short[:]
	}
	copy(block[:], key)
	mask(octets, &block, innerPad)
	inner := sha256.Sum256(octets)
	var outer [sha256.BlockSize + sha256.Size]byte
	mask(outer[:], &block, outerPad)
	copy(outer[sha256.BlockSize:], inner[:])
	return sha256.Sum256(outer[:])
}

// hmacSHA1 is hmacSHA256 with the other hash, whose blocks are of the same size.
func hmacSHA1(key, octets []byte) [sha1.Size]byte {
	var block [sha1.BlockSize]byte
	if len(key) > len(block) {
		short := sha1.Sum(key)
		key = short[:]
	}
	copy(block[:], key)
	mask(octets, &block, innerPad)
	inner := sha1.Sum(octets)
	var outer [sha1.BlockSize + sha1.Size]byte
	mask(outer[:], &block, outerPad)
	copy(outer[sha1.BlockSize:], inner[:])
	return sha1.Sum(outer[:])
}

func mask(to []byte, block *[sha256.BlockSize]byte, pad byte) {
	for i := range block {
		to[i] = block[i] ^ pad
	}
}

// usualSecretOctets is a nonce and a pre-shared key of the usual length.
const usualSecretOctets = 8 + 64

// perMessageKey derives the MAC key of algorithm 3: HKDF-SHA256 with the message's label as
// salt and no info. 32 octets are the first block of its output.
func perMessageKey(nonce, preShared []byte, t MessageType) [sha256.Size]byte {
	var room [sha256.BlockSize + usualSecretOctets]byte
	var label [sha256.BlockSize]byte
	salt := append(append(label[:0], t.String()...), " Authentication"...)
	extracted := hmacSHA256(salt, append(append(room[:sha256.BlockSize], nonce...), preShared...))
	room[sha256.BlockSize] = 1 // the number of the block
	return hmacSHA256(extracted[:], room[:sha256.BlockSize+1])
}
