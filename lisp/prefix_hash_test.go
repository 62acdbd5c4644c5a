// SPDX-License-Identifier: Apache-2.0

package lisp

import "testing"

// Everything that tells prefixes apart tells their hashes apart; all bits change.
func TestPrefixHash(t *testing.T) {
	seen := map[uint64]string{}
	var set, clear uint64
	for _, s := range []string{
		"10.0.0.0/8", "10.0.0.0/9", "[1]10.0.0.0/8", "[256]10.0.0.0/8", "11.0.0.0/8", "10.0.0.1/32", "0.0.0.0/0", "::/0", "a00::/8",
		"2001:db8::/32", "2001:db8::1/128", "2001:db8::1:0/128", "0a:00:00:00:00:00/8", "0a:00:00:00:00:01/48",
		`"a"/16`, `"a"/8`, `"ab"/24`, `"abcdefghijklmnopqrstuvwxyz-1"`, `"abcdefghijklmnopqrstuvwxyz-2"`, `"1bcdefghijklmnopqrstuvwxyz-2"`,
	} {
		hash := MustParsePrefix(s).Hash()
		if other, known := seen[hash]; known {
			t.Errorf("%s and %s share a hash", s, other)
		}
		if hash != MustParsePrefix(s).Hash() {
			t.Errorf("%s has two hashes", s)
		}
		seen[hash] = s
		set, clear = set|hash, clear|^hash
	}
	if set != ^uint64(0) || clear != ^uint64(0) {
		t.Errorf("bits that are always the same: never set %x, always set %x", ^set, ^clear)
	}
}
