// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loci/internal/command"
	"loci/internal/version"
)

// TestNearMissesAreNamed: of commands at each level, and of flags.
func TestNearMissesAreNamed(t *testing.T) {
	for words, want := range map[string]string{
		"shwo":                     `unknown command "shwo" for "loci"; did you mean show?`,
		"show mapcache":            `unknown command "mapcache" for "loci show"; did you mean map-cache?`,
		"show map_cache":           `did you mean map-cache?`,
		"show reg":                 `did you mean registrations?`,
		"datapath detatch":         `unknown command "detatch" for "loci datapath"; did you mean detach?`,
		"show xyzzy":               `unknown command "xyzzy" for "loci show"`,
		"show map-cache --limt 3":  "unknown flag: --limt; did you mean --limit?",
		"monitor --since-when 3":   "unknown flag: --since-when",
		"run --detatch":            "did you mean --detach?",
		"show status --sokcet /x":  "did you mean --socket?",
		"show --jsno":              "did you mean --json?",
		"monitor --kind map-cahce": "--kind map-cahce: there is no such event",
	} {
		err := command.Execute(t.Context(), newRootCommand(), strings.Fields(words))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(want, "did you") && strings.Contains(err.Error(), "did you") {
			t.Errorf("loci %s: %v, want %q", words, err, want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	for _, words := range [][]string{{"--version"}, {"version"}} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(&out)
		if err := command.Execute(t.Context(), root, words); err != nil || !strings.HasPrefix(out.String(), "loci "+version.String+" (go") {
			t.Errorf("%v: %v, %s", words, err, &out)
		}
	}
}

// TestFilesOfRunAndCheck: one file is an argument or that of --config, and without one it is the usual file.
func TestFilesOfRunAndCheck(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("itr: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"run", wrong}, {"run", "--config", wrong}} {
		if err := command.Execute(t.Context(), newRootCommand(), words); err == nil || !strings.Contains(err.Error(), wrong+":1:") {
			t.Errorf("%v: %v", words, err)
		}
	}
	var out bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	_ = command.Execute(t.Context(), root, []string{"check"})
	if !strings.Contains(out.String(), defaultConfigFile) {
		t.Errorf("check alone says %q", out.String())
	}
}
