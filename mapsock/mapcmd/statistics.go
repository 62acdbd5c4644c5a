// SPDX-License-Identifier: Apache-2.0

package mapcmd

// mapstat -s: what the data plane has counted, in netstat's form. The names are those
// of docs/counters.md.

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"loci/dataplane"
	"loci/mapsock"
)

// statisticsDocument is what mapstat -s --json prints.
type statisticsDocument struct {
	Counters map[string]uint64 `json:"counters"`
	Drops    map[string]uint64 `json:"drops"`
	Other    map[string]uint64 `json:"other"` // the engine's own
}

func readCounts(c *connection) (document statisticsDocument, counters dataplane.Counters, err error) {
	document = statisticsDocument{Counters: map[string]uint64{}, Drops: map[string]uint64{}, Other: map[string]uint64{}}
	err = c.ask(&mapsock.Message{Type: mapsock.TypeGetCounters, Flags: mapsock.FlagSince}, func(m *mapsock.Message) error {
		counters = m.Counters()
		groups := map[mapsock.Attribute]map[string]uint64{
			mapsock.AttributeCounter: document.Counters, mapsock.AttributeDrop: document.Drops, mapsock.AttributeOther: document.Other,
		}
		for _, count := range m.Counts {
			groups[count.Attribute][count.Name] = count.Value
		}
		return nil
	})
	return document, counters, err
}

// zeroCounters lets statistics begin at 0 again, after they were shown.
func zeroCounters(c *connection) error {
	return c.ask(&mapsock.Message{Type: mapsock.TypeZeroCounters}, func(*mapsock.Message) error { return nil })
}

func (r *mapstatRequest) showStatistics(c *connection, t Terminal) error {
	document, counters, err := readCounts(c)
	if err != nil {
		return err
	}
	if r.asJSON {
		return t.indented(document)
	}
	out := bufio.NewWriter(t.Out)
	fmt.Fprintln(out, "lisp:")
	for _, line := range []struct {
		packets uint64
		text    string
	}{
		{counters.EncapsulatedPackets, fmt.Sprintf("sent encapsulated (%d octets)", counters.EncapsulatedOctets)},
		{counters.DecapsulatedPackets, fmt.Sprintf("received, decapsulated and delivered (%d octets)", counters.DecapsulatedOctets)},
		{counters.RelayedPackets, fmt.Sprintf("relayed (%d octets)", counters.RelayedOctets)},
		{counters.ProxiedPackets, "of those sent encapsulated, for hosts outside of LISP"},
		{counters.NativePackets, "sent without encapsulation"},
		{counters.MissPackets, "without a mapping"},
		{counters.WaitingPackets, fmt.Sprintf("waiting for a mapping now (%d octets)", counters.WaitingOctets)},
		{counters.ReleasedPackets, "sent after waiting"},
	} {
		fmt.Fprintf(out, "\t%s %s\n", counted(line.packets, "packet"), line.text)
	}
	fmt.Fprintf(out, "\t%s lost before a control plane read them\n", counted(counters.EventsLost, "event"))
	var dropped uint64
	for _, value := range document.Drops {
		dropped += value
	}
	fmt.Fprintf(out, "\t%s dropped\n", counted(dropped, "packet"))
	writeCounts(out, document.Drops, "\t\t%s %s\n")
	engine, socket := map[string]uint64{}, map[string]uint64{}
	for name, n := range document.Other {
		switch {
		case n == 0 || busyness[name]:
		case strings.HasPrefix(name, "mapsock_"):
			socket[name] = n
		default:
			engine[name] = n
		}
	}
	for _, group := range []struct {
		heading string
		counts  map[string]uint64
	}{{"of the engine", engine}, {"of the mapping socket", socket}} {
		if len(group.counts) > 0 {
			fmt.Fprintf(out, "\t%s:\n", group.heading)
			writeCounts(out, group.counts, "\t\t%s %s\n")
		}
	}
	return out.Flush()
}

// busyness are counters of the mapping socket that grow by asking for them; they are
// in the JSON alone.
var busyness = map[string]bool{
	"mapsock_clients": true, "mapsock_clients_total": true, "mapsock_messages_total": true, "mapsock_operations_total": true,
}

// writeCounts prints those that are not zero, by name.
func writeCounts(out io.Writer, counts map[string]uint64, format string) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			fmt.Fprintf(out, format, fmt.Sprint(counts[name]), name)
		}
	}
}

func counted(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// lookup is how often something was found, or not, in one of the tables.
type lookup struct {
	name  string // with an underscore for a blank, in JSON
	count uint64
}

// readLookups derives what OpenLISP counts at its tables from what became of packets:
// one that left by a mapping hit the map-cache; one that was delivered hit the
// Database.
func readLookups(c *connection) ([]lookup, error) {
	document, counters, err := readCounts(c)
	if err != nil {
		return nil, err
	}
	return []lookup{
		{"database_hits", counters.DecapsulatedPackets},
		{"database_misses", document.Drops["eid-not-in-database"]},
		{"cache_hits", counters.EncapsulatedPackets + counters.RelayedPackets + counters.NativePackets},
		{"cache_misses", counters.MissPackets},
	}, nil
}

func lookupsByName(all []lookup) map[string]uint64 {
	var named map[string]uint64
	for _, l := range all {
		if named == nil {
			named = map[string]uint64{}
		}
		named[l.name] = l.count
	}
	return named
}

func writeLookups(out io.Writer, all []lookup) {
	fmt.Fprintln(out, "\nLookups:")
	for _, l := range all {
		fmt.Fprintf(out, "\t%d %s\n", l.count, strings.ReplaceAll(l.name, "_", " "))
	}
}
