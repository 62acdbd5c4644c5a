// SPDX-License-Identifier: Apache-2.0

package daemon

import "testing"

// TestRandom reads beyond what is asked for at once, in pieces of any length: nothing comes twice, and nothing that came is kept.
func TestRandom(t *testing.T) {
	var r random
	seen := map[[8]byte]bool{}
	for i := range 3 * len(r.octets) / 8 {
		var b [8]byte
		r.read(b[:i%3]) // so that some of the next ones are in two pieces
		r.read(b[:])
		if seen[b] {
			t.Fatalf("%x came twice, the second time after %d", b, i)
		}
		seen[b] = true
		for _, octet := range r.octets[:len(r.octets)-r.left] {
			if octet != 0 {
				t.Fatalf("what was given away is kept, after %d", i)
			}
		}
	}
	long := make([]byte, 3*len(r.octets))
	r.read(long)
	for at := 0; at+8 <= len(long); at += 8 {
		if b := [8]byte(long[at:]); seen[b] || b == [8]byte{} {
			t.Fatalf("%x at %d", b, at)
		} else {
			seen[b] = true
		}
	}
}
