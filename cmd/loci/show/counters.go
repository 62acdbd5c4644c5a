// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/internal/table"
)

// loci show counters.

// trafficCounters are what an operator looks for first, in this order; shown even where they are 0.
var trafficCounters = []string{
	"encapsulated_packets_total", "encapsulated_octets_total", "decapsulated_packets_total", "decapsulated_octets_total",
	"relayed_packets_total", "relayed_octets_total", "native_packets_total",
}

// missCounters are those of packets without a mapping.
var missCounters = []string{"miss_packets_total", "waiting_packets", "waiting_octets", "released_packets_total"}

// counterGroup are rows under a title.
type counterGroup struct {
	title string
	rows  []string
}

// printCounters begins with traffic, drops, misses and refusals. The rest follows; what is 0 is left out of it.
func printCounters(out io.Writer, c api.Counters) error {
	groups := []counterGroup{
		{"TRAFFIC", namedCounters(c.DataPlane, trafficCounters)},
		{"DROPPED PACKETS by reason", largestFirst(c.Drops)},
		{"MISSES", namedCounters(c.DataPlane, missCounters)},
		{"REFUSED MESSAGES by reason", largestFirst(only(c.Control, func(name string) bool { return strings.HasPrefix(name, "refused_") }))},
		{"DATA PLANE", otherCounters(only(c.DataPlane, func(name string) bool {
			return !slices.Contains(trafficCounters, name) && !slices.Contains(missCounters, name)
		}))},
		{"CONTROL PLANE", otherCounters(only(c.Control, func(name string) bool { return !strings.HasPrefix(name, "refused_") }))},
		{"LONGEST TIMES", timeRows(c.Times)},
	}
	columns := table.New(out)
	for i, g := range groups {
		if len(g.rows) == 0 {
			g.rows = []string{"  none"}
		}
		if i > 0 {
			columns.Rows("")
		}
		columns.Rows(g.title)
		columns.Rows(g.rows...)
	}
	return columns.Flush()
}

func only(counters map[string]uint64, wanted func(string) bool) map[string]uint64 {
	chosen := map[string]uint64{}
	for name, value := range counters {
		if wanted(name) {
			chosen[name] = value
		}
	}
	return chosen
}

// namedCounters are rows in the order of the names, for counters that this daemon has.
func namedCounters(counters map[string]uint64, names []string) (rows []string) {
	for _, name := range names {
		if value, has := counters[name]; has {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, value))
		}
	}
	return rows
}

// otherCounters are rows by name, without those that are 0.
func otherCounters(counters map[string]uint64) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if counters[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, counters[name]))
		}
	}
	return rows
}

// largestFirst are rows without those that are 0, the largest first.
func largestFirst(counters map[string]uint64) (rows []string) {
	names := slices.SortedFunc(maps.Keys(counters), func(a, b string) int {
		return cmp.Or(cmp.Compare(counters[b], counters[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		if counters[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, counters[name]))
		}
	}
	return rows
}

func timeRows(times map[string]jsondoc.Seconds) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(times)) {
		if times[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%.6f", name, float64(times[name])))
		}
	}
	return rows
}
