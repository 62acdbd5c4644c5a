// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"loci/lab/bench/report"
)

func TestChooseCases(t *testing.T) {
	all := []string{"ipv4/1", "ipv4/2", "ipv44/1"}
	for _, c := range []struct {
		wanted, want []string
		fails        bool
	}{
		{nil, all, false},
		{[]string{"ipv4"}, []string{"ipv4/1", "ipv4/2"}, false},
		{[]string{"ipv44/1", "ipv4/2"}, []string{"ipv4/2", "ipv44/1"}, false},
		{[]string{"ipv4", "ipv6"}, nil, true},
	} {
		got, err := chooseCases(all, c.wanted)
		if (err != nil) != c.fails || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.wanted, got, err, c.want)
		}
	}
}

func TestDocumentHasItsMarks(t *testing.T) {
	content, err := os.ReadFile("../../docs/benchmarks.md")
	must(t, err)
	for _, part := range []string{report.BeginMark, report.EndMark} {
		if bytes.Count(content, []byte(part)) != 1 {
			t.Errorf("docs/benchmarks.md does not have %q once", part)
		}
	}
	for _, name := range Names() {
		if !bytes.Contains(content, []byte("### `loci bench "+name+"`")) {
			t.Errorf("docs/benchmarks.md does not explain `loci bench %s`", name)
		}
	}
}
