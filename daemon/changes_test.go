// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loci/config"
)

// TestReloadOfManyIsAFewLines: the log has some lines, whatever the number of items that changed, and says how many there are; who
// asked for the reload gets all.
func TestReloadOfManyIsAFewLines(t *testing.T) {
	const sites = 2000
	d := startDaemon(t, sitesOf(1))
	d.write(sitesOf(sites) + "logging: {level: debug}\n")
	done, err := d.client.Reload(t.Context())
	if err != nil || len(done.Changes) != sites {
		t.Fatalf("%d changes, %v", len(done.Changes), err)
	}
	log := d.log.String()
	if got := strings.Count(log, "configuration changed"); got != maxChangeLines+2 {
		t.Errorf("%d lines about %d changes:\n%s", got, sites, log)
	}
	for _, want := range []string{
		"map-server.sites[site-1]: added ", "logging.level: info -> debug",
		fmt.Sprintf("map-server.sites: %d more (%d added, 0 removed, 0 changed)", sites-1-maxChangeLines, sites-1-maxChangeLines),
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}
}

func TestLinesOfChanges(t *testing.T) {
	var changes []config.Change
	for i := range 3 * maxChangeLists {
		changes = append(changes, config.Change{Path: fmt.Sprintf("list-%d[x]", i), New: "y"})
	}
	lines := linesOf(changes)
	if len(lines) != maxChangeLists+1 || lines[maxChangeLists] != fmt.Sprintf("other settings: %d more", 2*maxChangeLists) {
		t.Errorf("many lists: %q", lines)
	}
	changes = nil
	for i := range maxChangeLines + 5 {
		changes = append(changes, config.Change{Path: fmt.Sprintf("locator-sets.set-%d", i), Old: "a"})
	}
	changes[maxChangeLines] = config.Change{Path: "locator-sets.both[b]", Old: "1", New: "2"}
	lines = linesOf(changes)
	if len(lines) != maxChangeLines+1 || lines[maxChangeLines] != "locator-sets: 5 more (0 added, 4 removed, 1 changed)" {
		t.Errorf("locator-sets: %q", lines)
	}
	if few := linesOf(changes[:2]); !slices.Equal(few, []string{changes[0].String(), changes[1].String()}) {
		t.Errorf("few: %q", few)
	}
}
