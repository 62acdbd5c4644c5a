// SPDX-License-Identifier: Apache-2.0

// ARCHITECTURE.md names the files of a packet's way; these tests hold the names against what includes what.

package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caches are the headers that the page explains after the plain path, which must do without them.
var caches = []string{"cached_path.h", "flow_cache.h", "locator_set_cache.h", "plain.h"}

// lastStages are the headers of the last stage, which differs between the hooks; stages.h includes those of the
// others.
var lastStages = []string{"apply_tc.h", "apply_xdp.h"}

// isABI: the page has abi.h and the files that it includes where it says what C and Go share.
func isABI(header string) bool { return strings.HasPrefix(header, "abi") }

var included = regexp.MustCompile(`(?m)^#include "([^"]+)"$`)

// includes returns the headers that a file in bpf/ leads to, without going through those in `without`.
func includes(t *testing.T, file string, without []string, seen map[string]bool) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../bpf", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range included.FindAllSubmatch(text, -1) {
		name := string(m[1])
		if !seen[name] && !slices.Contains(without, name) {
			seen[name] = true
			includes(t, name, without, seen)
		}
	}
	return seen
}

func TestArchitectureNamesThePlainPath(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "## A packet's path")
	plain, _, ended := strings.Cut(rest, "### The caches")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no plain path before the caches")
	}
	reached := includes(t, "lisp_xdp.bpf.c", caches, includes(t, "lisp_tc.bpf.c", caches, map[string]bool{}))
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`bpf/([a-z0-9_]+\\.h)`").FindAllStringSubmatch(plain, -1) {
		named[m[1]] = true
		if !reached[m[1]] {
			t.Errorf("the page names bpf/%s, which the plain path does not include", m[1])
		}
	}
	stages := includes(t, "stages.h", nil, map[string]bool{"stages.h": true})
	for _, stage := range append(slices.Sorted(maps.Keys(stages)), lastStages...) {
		if !named[stage] && !isABI(stage) {
			t.Errorf("the page does not name bpf/%s", stage)
		}
		for _, cache := range caches {
			if includes(t, stage, nil, map[string]bool{})[cache] {
				t.Errorf("bpf/%s includes the cache %s", stage, cache)
			}
		}
	}
}

var (
	comments    = regexp.MustCompile(`(?s)/\*.*?\*/`)
	definitions = regexp.MustCompile(`(?m)^(?:static )?__(?:always_|no)inline [\w *\n]*?\b(\w+)\([^;{]*\)\s*\{`)
	calls       = regexp.MustCompile(`\b(\w+)\(`)
	goFunctions = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?\w+\) )?(\w+)\(`)
	afterHook   = regexp.MustCompile(`(?m)^static __always_inline \w+ (\w+)\([^;{]*\);$`)
)

// matches returns what an expression finds in a file, without the comments of C.
func matches(t *testing.T, file string, what *regexp.Regexp) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range what.FindAllSubmatch(comments.ReplaceAll(text, nil), -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// plainName writes names of C and of Go alike: without the prefix of global functions, underscores and capitals.
func plainName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "lisp_"), "_", ""))
}

func TestStagesHaveTheFunctionsOfForward(t *testing.T) {
	var c, golang []string
	for _, name := range matches(t, "bpf/stages.h", definitions) {
		c = append(c, plainName(name))
	}
	for _, name := range matches(t, "forward/xtr.go", goFunctions) {
		golang = append(golang, plainName(name))
	}
	slices.Sort(c)
	slices.Sort(golang)
	if !slices.Equal(c, golang) {
		t.Errorf("bpf/stages.h has %v, forward/xtr.go %v", c, golang)
	}
	for _, subject := range []string{"decapsulate", "lookup", "action", "header", "classify", "admit", "select", "apply"} {
		for _, file := range []string{"../bpf/" + subject + ".h", "../forward/" + subject + ".go"} {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStagesCallByHeader: who reads stages.h finds each call in the header of its name, or, of what differs between
// the hooks, in both programs.
func TestStagesCallByHeader(t *testing.T) {
	known := matches(t, "bpf/stages.h", definitions)
	for _, name := range matches(t, "bpf/stages.h", afterHook) {
		known = append(known, name)
		for _, program := range []string{"bpf/lisp_tc.bpf.c", "bpf/lisp_xdp.bpf.c"} {
			if !slices.Contains(matches(t, program, definitions), name) {
				t.Errorf("%s does not define %s, which stages.h leaves to it", program, name)
			}
		}
	}
	headers := map[string]string{} // of each function that stages.h includes
	for header := range includes(t, "stages.h", nil, map[string]bool{}) {
		for _, name := range matches(t, "bpf/"+header, definitions) {
			headers[name] = header
		}
	}
	if len(known) < 8 || len(headers) < 50 {
		t.Fatalf("stages.h has %v and includes %d functions: the expressions no longer find them", known, len(headers))
	}
	for _, name := range matches(t, "bpf/stages.h", calls) {
		subject := strings.TrimSuffix(strings.TrimSuffix(headers[name], ".h"), "s")
		if name != "if" && !slices.Contains(known, name) && (subject == "" || !strings.Contains(plainName(name), subject)) {
			t.Errorf("stages.h calls %s, which is in %q", name, headers[name])
		}
	}
}
