// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// TestHMACIsTheStandardLibrarys: for keys and messages of all lengths around the block's.
func TestHMACIsTheStandardLibrarys(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for keyOctets := range 140 {
		key, message := octetsOf(chance, keyOctets), octetsOf(chance, chance.IntN(300))
		want256, want1 := hmac.New(sha256.New, key), hmac.New(sha1.New, key)
		want256.Write(message)
		want1.Write(message)
		behindBlock := func() []byte { return append(octetsOf(chance, sha256.BlockSize), message...) }
		if got := hmacSHA256(key, behindBlock()); !bytes.Equal(got[:], want256.Sum(nil)) {
			t.Fatalf("HMAC-SHA256 with a key of %d octets over %d: %x, want %x", keyOctets, len(message), got, want256.Sum(nil))
		}
		if got := hmacSHA1(key, behindBlock()); !bytes.Equal(got[:], want1.Sum(nil)) {
			t.Fatalf("HMAC-SHA1 with a key of %d octets over %d: %x, want %x", keyOctets, len(message), got, want1.Sum(nil))
		}
	}
}

func TestPerMessageKeyIsTheStandardLibrarys(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for keyOctets := range 140 {
		nonce, preShared := octetsOf(chance, 8), octetsOf(chance, keyOctets)
		for _, m := range []MessageType{TypeMapRegister, TypeMapNotify, TypeMapNotifyAck} {
			want, err := hkdf.Key(sha256.New, append(bytes.Clone(nonce), preShared...), []byte(m.String()+" Authentication"), "", sha256.Size)
			if err != nil {
				t.Fatal(err)
			}
			if got := perMessageKey(nonce, preShared, m); !bytes.Equal(got[:], want) {
				t.Fatalf("%s with a key of %d octets: %x, want %x", m, keyOctets, got, want)
			}
		}
	}
}

// TestSignMakesNoObjects: thousands of messages a second are signed and verified.
func TestSignMakesNoObjects(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 20)
	for _, algorithm := range []uint8{AlgorithmHMACSHA1, AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF} {
		m := &MapRegister{AlgorithmID: algorithm, Authentication: make([]byte, FullMACOctets(algorithm))}
		b, err := AppendSigned(nil, m, key)
		if err != nil {
			t.Fatal(err)
		}
		if made := testing.AllocsPerRun(100, func() {
			if Sign(b, key) != nil || Verify(b, key) != nil {
				t.Fatal("not verified")
			}
		}); made > 0 {
			t.Errorf("algorithm %d: %v objects", algorithm, made)
		}
	}
}

func octetsOf(chance *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(chance.Uint32())
	}
	return b
}
