// SPDX-License-Identifier: Apache-2.0

// ARCHITECTURE.md names the files of a packet's way; these tests hold the names against what includes what.

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caches are the headers that the page explains after the plain path, which must do without them.
var caches = []string{"cached_path.h", "flow_cache.h", "locator_set_cache.h", "plain.h"}

// stages are the headers of the six stages, the last one at each hook.
var stages = []string{"classify.h", "decapsulate.h", "admit.h", "lookup.h", "select.h", "apply_tc.h", "apply_xdp.h"}

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
	_, rest, found := strings.Cut(string(page), "### A hit")
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
	for _, stage := range stages {
		if !named[stage] {
			t.Errorf("the page does not name bpf/%s", stage)
		}
		for _, cache := range caches {
			if includes(t, stage, nil, map[string]bool{})[cache] {
				t.Errorf("bpf/%s includes the cache %s", stage, cache)
			}
		}
	}
}
