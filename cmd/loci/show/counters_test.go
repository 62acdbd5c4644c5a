// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"loci/cmd/loci/format"
	"loci/daemon/api"
	"loci/internal/jsondoc"
)

// TestCountersBeginWithWhatIsLookedFor: traffic, drops by reason, misses; then the rest, without what is 0.
func TestCountersBeginWithWhatIsLookedFor(t *testing.T) {
	var out bytes.Buffer
	if err := printCounters(&out, api.Counters{
		Control:   map[string]uint64{"map_reply_sent_total": 3, "refused_replay_total": 2, "refused_truncated_total": 7, "ecm_received_total": 0},
		DataPlane: map[string]uint64{"encapsulated_packets_total": 1_000_000, "decapsulated_packets_total": 0, "miss_packets_total": 5, "echo_missing": 1},
		Drops:     map[string]uint64{"no-locator": 4, "action-drop": 9, "ecn": 0},
		Times:     map[string]jsondoc.Seconds{"longest_iteration_seconds": 0.0012},
	}); err != nil {
		t.Fatal(err)
	}
	order := regexp.MustCompile(`[A-Za-z_-]+`)
	var words []string
	for line := range strings.Lines(out.String()) {
		if word := order.FindString(line); word != "" {
			words = append(words, word)
		}
	}
	if got, want := strings.Join(words, " "), "TRAFFIC encapsulated_packets_total decapsulated_packets_total DROPPED action-drop no-locator MISSES miss_packets_total "+
		"REFUSED refused_truncated_total refused_replay_total DATA echo_missing CONTROL map_reply_sent_total LONGEST longest_iteration_seconds"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	out.Reset()
	if err := printCounters(&out, api.Counters{}); err != nil || strings.Count(out.String(), "  none\n") != 7 {
		t.Errorf("%v, %s", err, &out)
	}
}

// TestRowsOfLocatorsAlign: the second locator of a registration has fewer cells than its first, and stands in its
// column.
func TestRowsOfLocatorsAlign(t *testing.T) {
	var out bytes.Buffer
	if err := format.PrintRows(&out, registrationHeading, []string{
		"10.1.0.0/16\t192.0.2.1 1/100\t192.0.2.1:4342\t-\t東京\tyes\tPTM\t0\t1m\t2m", "\t2001:db8::1(PS) -> 2001:db8::2 1/100\t\t\t\t\t", "2001:db8::/32\t192.0.2.2 1/100\t192.0.2.2:4342\tyes\tZürich\tno\t-\t0\t1m\t2m",
	}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	at := func(line int, word string) int { return len([]rune(lines[line][:strings.Index(lines[line], word)])) }
	if at(0, "LOCATOR") != at(2, "2001:db8::1(PS)") || at(0, "SITE") != at(1, "東京") || at(0, "SITE") != at(3, "Zürich") || at(0, "SOURCE") != at(3, "192.0.2.2:4342") || at(1, "yes")+2 != at(3, "no ") {
		t.Errorf("not aligned:\n%s", out.String())
	}
}
