// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mutation has one place in the code: a change of that brings it up to date.
func TestMutationsFindTheirPlace(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutations {
		if names[m.name] {
			t.Errorf("two mutations are called %s", m.name)
		}
		names[m.name] = true
		text, err := os.ReadFile(filepath.Join("../..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s has %d places that read %q, want one", m.name, m.file, n, m.old)
		}
	}
	if len(mutations) < 15 {
		t.Errorf("%d mutations, want 15 at least", len(mutations))
	}
}
