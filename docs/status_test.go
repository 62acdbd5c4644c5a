// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"testing"

	"loci/daemon/health"
	"loci/daemon/trouble"
)

// TestProblemsAreDocumented: each kind of problem has its row in status.md, and each row its kind.
func TestProblemsAreDocumented(t *testing.T) {
	kinds := slices.Clone(health.Kinds)
	for _, k := range trouble.Kinds {
		kinds = append(kinds, string(k))
	}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\|").FindAllStringSubmatch(read(t, "status.md"), -1) {
		for _, kind := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			rows = append(rows, kind[1])
		}
	}
	slices.Sort(kinds)
	slices.Sort(rows)
	if !slices.Equal(kinds, rows) {
		t.Errorf("the kinds are %v, status.md has %v", kinds, rows)
	}
}
