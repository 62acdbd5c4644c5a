// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"testing"
	"time"
)

func TestListsRestInProportion(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: pageRest, 100 * time.Microsecond: pageRest, 2 * time.Millisecond: 6 * time.Millisecond, time.Second: longestRest,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after a page that took %s: %s, want %s", took, got, want)
		}
	}
}
