// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"loci/control"
	"loci/forward"
)

//go:generate go test -run TestCountersAreDocumented -update .

const countersFile = "counters.md"

var update = flag.Bool("update", false, "write the generated tables of counters.md")

// The tables of what control counts repeat its own descriptions, so that a counter cannot be added without its line.
func TestCountersAreDocumented(t *testing.T) {
	document := read(t, countersFile)
	wanted := document
	for _, table := range []struct {
		heading string
		refusal bool
	}{{"## Messages and mappings", false}, {"## Refusals", true}} {
		wanted = replaceRows(t, wanted, table.heading, counterRows(table.refusal))
	}
	if *update {
		if err := os.WriteFile(countersFile, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if wanted != document {
		t.Errorf("%s does not list what control counts: run `make generate`", countersFile)
	}
}

func counterRows(refusal bool) string {
	var rows strings.Builder
	for _, counter := range control.CounterList() {
		if strings.HasPrefix(counter.Name, "refused_") == refusal {
			fmt.Fprintf(&rows, "| `%s` | %s |\n", counter.Name, counter.Description)
		}
	}
	return rows.String()
}

// replaceRows gives the table under a heading other rows.
func replaceRows(t *testing.T, document, heading, rows string) string {
	t.Helper()
	const ruler = "|---|---|\n"
	before, rest, found := strings.Cut(document, heading+"\n")
	introduction, table, isTable := strings.Cut(rest, ruler)
	if !found || !isTable {
		t.Fatalf("%s: no table under %q", countersFile, heading)
	}
	for strings.HasPrefix(table, "|") {
		_, table, _ = strings.Cut(table, "\n")
	}
	return before + heading + "\n" + introduction + ruler + rows + table
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\S")

// Reasons for drops are explained by hand, because what to look at is for people: each has its row, and each row its reason.
func TestDropReasonsAreDocumented(t *testing.T) {
	_, section, found := strings.Cut(read(t, countersFile), "## Dropped packets\n")
	if !found {
		t.Fatalf("%s has no section on dropped packets", countersFile)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(section, -1) {
		documented[match[1]] = true
	}
	for _, reason := range forward.DropReasons() {
		if !documented[reason.String()] {
			t.Errorf("%s does not explain the drop reason %s", countersFile, reason)
		}
		delete(documented, reason.String())
	}
	for name := range documented {
		t.Errorf("%s explains %s, which is no drop reason", countersFile, name)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
