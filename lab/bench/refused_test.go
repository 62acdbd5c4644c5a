// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"io"
	"strings"
	"testing"

	"loci/lab/bench/testbed"
)

func TestEntriesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		bench   string
		entries int
		lengths string
		says    string
	}{
		{"forwarding", -1, "", "from 4 to 2097152"},
		{"forwarding", 3, "", "from 4 to 2097152"},
		{"forwarding", 1 << 22, "", "from 4 to 2097152"},
		{"forwarding", 0, "hosts", "from 4 to 2097152"},
		{"forwarding", 1000, "short", "there are internet and hosts"},
		{"tcp", 1000, "", "is for the bench forwarding"},
	} {
		_, err := Run(t.Context(), c.bench, testbed.Options{Entries: c.entries, Lengths: c.lengths, Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %d entries: %v, want %q", c.bench, c.entries, err, c.says)
		}
	}
}
