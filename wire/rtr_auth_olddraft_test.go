// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestNotifyForRTR: the MS-RTR authentication behind the Site-ID covers all of the message, at either length; what the
// RTR passes on is authenticated by the site's key.
func TestNotifyForRTR(t *testing.T) {
	key := []byte("between MS and RTR")
	for _, algorithm := range []uint8{AlgorithmHMACSHA1, AlgorithmHMACSHA256, AlgorithmHMACSHA256HKDF} {
		for _, octets := range []int{FullMACOctets(algorithm), TruncatedMACOctets(algorithm)} {
			notify := &MapNotify{XTRIDPresent: true, Nonce: goldenNonce, AlgorithmID: AlgorithmHMACSHA256,
				Authentication: make([]byte, 32),
				Records:        []Record{goldenRecord()}, XTRID: goldenXTRID, SiteID: 7}
			b, err := AppendSignedForRTR([]byte("before"), notify, testKey, RTRKey{3, algorithm, key},
				octets)
			if err != nil {
				t.Fatal(err)
			}
			b = b[len("before"):]
			m := parsedNotify(t, b)
			if id, named, ok := RTRKeyOfNotify(m); !ok || id != 3 || named != algorithm ||
				len(m.RTRAuthData) != octets {
				t.Errorf("key %d, algorithm %d, %d octets", id, named, len(m.RTRAuthData))
			}
			if err := VerifyForRTR(b, m, key); err != nil {
				t.Error(err)
			}
			if VerifyForRTR(b, m, []byte("another key")) == nil {
				t.Error("another key verifies it")
			}
			for at := range b {
				changed := bytes.Clone(b)
				changed[at] ^= 1
				if m, err := Parse(changed); err == nil {
					if n, ok := m.(*MapNotify); ok && VerifyForRTR(changed, n, key) == nil {
						t.Errorf("octet %d of %d is not covered", at, len(b))
					}
				}
			}
			passed := PassedOnByRTR(b, m)
			if err := Verify(passed, testKey); err != nil || len(passed) != len(b)-octets {
				t.Errorf("%d octets are passed on: %v", len(passed), err)
			}
			if n := parsedNotify(t, passed); !n.ByRTR || n.RTRKeyID != 0 || len(n.RTRAuthData) != 0 {
				t.Errorf("%+v is passed on", n)
			}
		}
	}
}

func parsedNotify(t *testing.T, b []byte) *MapNotify {
	t.Helper()
	m, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*MapNotify)
}

// TestNotifyForRTRAsOpenOverlayRouter: Key ID 1 is HMAC-SHA-1, of 20 octets, as its RTR looks for them at the end.
func TestNotifyForRTRAsOpenOverlayRouter(t *testing.T) {
	notify := &MapNotify{XTRIDPresent: true, AlgorithmID: AlgorithmHMACSHA1, Authentication: make([]byte, 20),
		XTRID: goldenXTRID, SiteID: 7}
	b, err := AppendSignedForRTR(nil, notify, testKey, RTRKey{0, AlgorithmHMACSHA1, []byte("secret")}, 20)
	if err != nil {
		t.Fatal(err)
	}
	if head := hex.EncodeToString(b[len(b)-24 : len(b)-20]); head != "00010014" || b[0] != 0x4c {
		t.Errorf("%x ... %s", b[0], head)
	}
	if _, err := AppendSignedForRTR(nil, &MapNotify{}, testKey, RTRKey{}, 0); err == nil {
		t.Error("one without an xTR-ID is encoded")
	}
	if _, err := AppendSignedForRTR(nil, notify, testKey, RTRKey{0, AlgorithmHMACSHA1, nil}, 13); err == nil {
		t.Error("a MAC of 13 octets is encoded")
	}
	empty, err := AppendSignedForRTR(nil, notify, testKey, RTRKey{}, 0)
	if err != nil || !bytes.HasSuffix(empty, []byte{0, 0, 0, 0}) ||
		VerifyForRTR(empty, parsedNotify(t, empty), nil) == nil {
		t.Errorf("without a key: %x, %v", empty, err)
	}
}
