// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"loci/internal/command"
)

// TestEIDsNeedNoLength: what takes one EID completes one, and no file. Without a daemon there is none.
func TestEIDsNeedNoLength(t *testing.T) {
	for _, name := range []string{"explain", "ping", "lig"} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(&out)
		err := command.Execute(t.Context(), root, []string{"__complete", name, "--socket", "/nonexistent", ""})
		if want := fmt.Sprintf(":%d\n", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %v, %s, want %q", name, err, &out, want)
		}
	}
}

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
