// SPDX-License-Identifier: Apache-2.0

// What the log says of entries that an earlier process left and that are refused.

package tables

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"loci/dataplane"
)

// TestManyRefusedEntriesFillNoLog has more entries refused than anybody reads about.
func TestManyRefusedEntriesFillNoLog(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{0, 1, refusedTold, refusedTold + 1, 1000} {
		var text strings.Builder
		refused := make([]error, entries)
		for i := range refused {
			refused[i] = dataplane.ErrFull
		}
		LogRefused(slog.New(slog.NewTextHandler(&text, nil)), refused)
		if lines, want := strings.Count(text.String(), "\n"), min(entries, refusedTold+1); lines != want {
			t.Errorf("%d lines about %d entries, want %d", lines, entries, want)
		}
		if entries > refusedTold && !strings.Contains(text.String(), fmt.Sprintf("entries=%d\n", entries-refusedTold)) {
			t.Errorf("the log does not say how many they are: %s", text.String())
		}
	}
}
