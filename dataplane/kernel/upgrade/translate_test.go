// SPDX-License-Identifier: Apache-2.0

// Structures are copied by the names of their fields.

package upgrade

import (
	"bytes"
	"testing"
)

func TestTranslateByName(t *testing.T) {
	x := translator{
		from: map[string]field{"a": {0, 2}, "gone": {2, 2}, "wider": {4, 2}, "list": {8, 4}},
		to:   map[string]field{"list": {0, 8}, "wider": {8, 4}, "new": {12, 1}, "a": {14, 2}},
	}
	from := []byte{1, 2, 9, 9, 3, 4, 9, 9, 5, 6, 7, 8}
	to := make([]byte, 16)
	x.Translate(to, from)
	if want := []byte{5, 6, 7, 8, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 1, 2}; !bytes.Equal(to, want) {
		t.Errorf("%v, want %v", to, want)
	}
}
