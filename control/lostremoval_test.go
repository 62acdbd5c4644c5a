// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"

	"loci/lisp"
)

// TestEntryThatOnlyTheDataPlaneHas is what is left of a removal that was lost.
func TestEntryThatOnlyTheDataPlaneHas(t *testing.T) {
	_, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.1.1")
	answerAll(x, positive("10.2.0.0/16", 60))
	x.use("10.2.0.0/16")
	x.use("10.3.0.0/16")
	if reason, removed := x.removed[lisp.MustParsePrefix("10.3.0.0/16")]; !removed || reason != RemoveUnknown {
		t.Errorf("removed: %v", x.removed)
	}
	if _, removed := x.removed[lisp.MustParsePrefix("10.2.0.0/16")]; removed {
		t.Error("an entry that both have was removed")
	}
}
