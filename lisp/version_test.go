// SPDX-License-Identifier: Apache-2.0

package lisp

import "testing"

// Shows RFC 9302 s.6 (2), RFC 9302 s.6.1 (4).
func TestCompareMapVersions(t *testing.T) {
	for _, c := range []struct {
		a, b uint16
		want int
	}{
		{69, 69, 0}, {69, 70, -1}, {70, 69, 1}, {69, 69 + 2048, -1}, {69 + 2048, 69, 1}, {69, 69 + 2049, 1}, {69 + 2049, 69, -1},
		{69, (69 + 4095) % 4096, 1}, {4095, 1, -1}, {1, 4095, 1}, {0, 5, 0}, {5, 0, 0}, {0, 0, 0}, {1, 2049, -1}, {2049, 1, 1}, {2049, 2, 1},
	} {
		if got := CompareMapVersions(c.a, c.b); got != c.want {
			t.Errorf("compared %d with %d: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	for a := uint16(1); a <= MaxMapVersion; a++ {
		newer := 0
		for b := uint16(1); b <= MaxMapVersion; b++ {
			order := CompareMapVersions(a, b)
			if order != -CompareMapVersions(b, a) || (order == 0) != (a == b) {
				t.Fatalf("%d and %d: %d and %d", a, b, order, CompareMapVersions(b, a))
			}
			if order < 0 {
				newer++
			}
		}
		if newer < 2046 || newer > 2048 {
			t.Fatalf("%d versions are newer than %d", newer, a)
		}
		if next := NextMapVersion(a); next == NullMapVersion || CompareMapVersions(a, next) >= 0 {
			t.Fatalf("after %d comes %d", a, next)
		}
	}
}
