// SPDX-License-Identifier: Apache-2.0

package mapserver

import (
	"fmt"
	"slices"
	"testing"

	"loci/lisp"
)

// TestDisplacedAreNamedAgain: where more are displaced than are known by name, one that ends makes room for another, which is named at
// its next registration.
func TestDisplacedAreNamedAgain(t *testing.T) {
	var d displaced
	var rows []*Registration
	for i := range maxDisplaced + 1 {
		row := &Registration{Prefix: lisp.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", i))}
		rows = append(rows, row)
		for range 2 { // the second time it is refreshed
			d.note(row, true)
		}
	}
	last := rows[maxDisplaced]
	if d.Count != len(rows) || len(d.Some()) != maxDisplaced || slices.Contains(d.Some(), last.Prefix) {
		t.Errorf("%d, of which %d are named", d.Count, len(d.Some()))
	}
	d.note(rows[0], false)
	d.note(last, true)
	if some := d.Some(); d.Count != maxDisplaced || len(some) != maxDisplaced || !slices.Contains(some, last.Prefix) || slices.Contains(some, rows[0].Prefix) {
		t.Errorf("%d, of which are named: %v", d.Count, some)
	}
	for _, row := range rows {
		d.note(row, false)
	}
	if d.Count != 0 || len(d.Some()) != 0 {
		t.Errorf("after the end: %d, %v", d.Count, d.Some())
	}
}
