// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"loci/internal/command"
)

// TestFlagsAreCompleted as the shell asks for it.
func TestFlagsAreCompleted(t *testing.T) {
	for want, words := range map[string][]string{
		"locator-down\n":   {"monitor", "--kind", ""},
		"map-cache":        {"show", "map"},
		"configured\n":     {"log-level", ""},
		"running-config\t": {"show", "run"},
	} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(&out)
		if err := command.Execute(t.Context(), root, append([]string{"__complete"}, words...)); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %v, %s", words, err, &out)
		}
	}
}
