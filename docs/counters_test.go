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
	"loci/dataplane/kernel/observe"
	"loci/forward"
)

//go:generate go test -run TestCountersAreDocumented -update .

const countersFile = "counters.md"

var update = flag.Bool("update", false, "write the generated lists of counters.md")

// The lists of what control counts repeat its own descriptions, so that a counter cannot be added without its line.
func TestCountersAreDocumented(t *testing.T) {
	document := read(t, countersFile)
	wanted := document
	for _, list := range []struct {
		heading string
		refusal bool
	}{{"## Messages and mappings", false}, {"## Refusals", true}} {
		wanted = replaceItems(t, wanted, list.heading, counterItems(list.refusal))
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

func counterItems(refusal bool) string {
	var items strings.Builder
	for _, counter := range control.CounterList() {
		if strings.HasPrefix(counter.Name, "refused_") == refusal {
			items.WriteString(wrap("- ", fmt.Sprintf("`%s`: %s.", counter.Name, counter.Description)))
		}
	}
	return items.String()
}

// replaceItems gives the list under a heading other items.
func replaceItems(t *testing.T, document, heading, items string) string {
	t.Helper()
	before, rest, found := strings.Cut(document, heading+"\n")
	introduction, list, isList := strings.Cut(rest, "\n- ")
	_, after, ends := strings.Cut(list, "\n\n")
	if !found || !isList || !ends {
		t.Fatalf("%s: no list under %q", countersFile, heading)
	}
	return before + heading + "\n" + introduction + "\n" + items + "\n" + after
}

var item = regexp.MustCompile("(?m)^- `([^`]+)`: \\S")

// The others are explained by hand, because what to look at is for people: each has its item, and each item its counter.
func TestDropReasonsAndPacketsAreDocumented(t *testing.T) {
	var drops []string
	for _, reason := range forward.DropReasons() {
		drops = append(drops, reason.String())
	}
	compareItems(t, "## Dropped packets", drops)
	plane, own := daemonCounters(t)
	compareItems(t, "## Packets", append(plane, observe.OtherCounterNames()...))
	compareItems(t, "## The daemon", own)
}

// daemonCounters returns the names that the daemon gives to counters of the data plane, and its own, as they stand in its source.
func daemonCounters(t *testing.T) (plane, own []string) {
	t.Helper()
	source := read(t, "../daemon/answers/counters.go")
	for _, match := range regexp.MustCompile(`"([a-z]+(?:_[a-z]+)+)":`).FindAllStringSubmatch(source, -1) {
		plane = append(plane, match[1])
	}
	all := source + read(t, "../daemon/answers/translations.go")
	for _, match := range regexp.MustCompile(`c\.(?:Control|Times)\["([a-z_]+)"\]`).FindAllStringSubmatch(all, -1) {
		own = append(own, match[1])
	}
	if len(plane) == 0 || len(own) == 0 {
		t.Fatal("../daemon/answers/counters.go names no counters: has it moved?")
	}
	return plane, own
}

// compareItems wants an item under the heading for each name, and none else.
func compareItems(t *testing.T, heading string, names []string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, countersFile), heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", countersFile, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, match := range item.FindAllStringSubmatch(section, -1) {
		documented[match[1]] = true
	}
	for _, name := range names {
		if heading != "## Dropped packets" && strings.Contains(name, "-") {
			t.Errorf("%s: names of counters have no hyphen", name)
		}
		if !documented[name] {
			t.Errorf("%s: nothing explains %s under %q", countersFile, name, heading)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s explains %s under %q, and nothing counts it", countersFile, name, heading)
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
