// SPDX-License-Identifier: Apache-2.0

package api

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// keysOf are the JSON keys of a document, embedded ones included.
func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
		} else {
			keys = append(keys, name)
		}
	}
	return keys
}

// TestExplanationIsDocumented: docs/operation.md lists each key of what `loci explain --json` says of relays, paths and layers, and no
// other.
func TestExplanationIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/operation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(b), "- The answer: ")
	list, _, ends := strings.Cut(list, "\n\n")
	if !found || !ends {
		t.Fatal("no list of keys")
	}
	listed := map[string]bool{}
	for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
		listed[key[1]] = true
	}
	known := map[string]bool{}
	for _, document := range []any{
		Explanation{}, ExplainedLocator{}, ExplainedRole{}, SkippedLocator{}, Hop{}, SecondLayer{}, LostMapping{},
		ExplainedBinding{},
	} {
		for _, key := range keysOf(reflect.TypeOf(document)) {
			if known[key] = true; !listed[key] {
				t.Errorf("%T has %s, which is not listed", document, key)
			}
		}
	}
	for key := range listed {
		if !known[key] {
			t.Errorf("%s is listed, and there is no such key", key)
		}
	}
}
