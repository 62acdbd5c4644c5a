// SPDX-License-Identifier: Apache-2.0

package docs

// events.md describes every event that `loci monitor` may print, and no other: the kinds
// are read from where they are made.

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"loci/daemon/api"
)

// eventSources are the files that name kinds of events, with how they do.
var eventSources = map[string]*regexp.Regexp{
	"../control/internal/effect/notice.go": regexp.MustCompile(`NoticeKind = "([a-z-]+)"`),
	"../daemon/events/planeevents.go":      regexp.MustCompile(`told\.Kind(?:, [a-zA-Z., ]+)? = "([a-z-]+)"`),
	"../daemon/api/events.go":              regexp.MustCompile(`EventsLost = "([a-z-]+)"`),
	"../daemon/reload.go":                  regexp.MustCompile(`Kind: "([a-z-]+)"`),
	"../daemon/loglevel.go":                regexp.MustCompile(`Kind: "([a-z-]+)"`),
	"../daemon/translation.go":             regexp.MustCompile(`Kind: "([a-z-]+)"`),
	"../daemon/datapaths.go":               regexp.MustCompile(`kind, level :?= "([a-z-]+)"`),
	"../daemon/follow.go":                  regexp.MustCompile(`kind :?= "([a-z-]+)"`),
}

func TestEveryEventIsDescribed(t *testing.T) {
	text, err := os.ReadFile("events.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^- `([a-z-]+)` \\(").FindAllStringSubmatch(string(text), -1) {
		if described[row[1]] {
			t.Errorf("%s is described twice", row[1])
		}
		described[row[1]] = true
	}
	for file, kind := range eventSources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range kind.FindAllStringSubmatch(string(source), -1) {
			if !described[found[1]] {
				t.Errorf("%s of %s is not described", found[1], file)
			}
			described[found[1]] = false
			if !slices.Contains(api.EventKinds, found[1]) {
				t.Errorf("%s of %s is none of api.EventKinds", found[1], file)
			}
		}
	}
	if !slices.IsSorted(api.EventKinds) || len(api.EventKinds) != len(described) {
		t.Errorf("%d api.EventKinds, %d are described; or they are not sorted", len(api.EventKinds), len(described))
	}
	for kind, left := range described {
		if left {
			t.Errorf("%s is described and made nowhere", kind)
		}
	}
}
