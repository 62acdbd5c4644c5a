// SPDX-License-Identifier: Apache-2.0

package te

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// now is when the files are read.
var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// probed is an RLOC with an RTT that was measured some time before now.
func probed(rloc string, rtt, ago time.Duration) api.LocatorState {
	at, seconds := now.Add(-ago), jsondoc.SecondsOf(rtt)
	return api.LocatorState{
		RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), State: "up", RoundTrip: &seconds,
		Probes: &api.Probes{Sent: 3, Answered: 3, LastReplyAt: &at},
	}
}

func told(rloc string, locators ...api.LocatorState) Told {
	return Told{RLOC: netip.MustParseAddr(rloc), File: rloc + ".json", Locators: locators}
}

var usualAge = Age{Now: now, Max: time.Minute}

// links are those of a graph, one a line.
func links(t *testing.T, nodes ...Told) (lines []string) {
	t.Helper()
	g, err := NewGraph(nodes, usualAge)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range g.Links {
		by := ""
		if l.ByOther {
			by = " by the other"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s > %s %s%s; %s", g.Nodes[l.From].RLOC,
			g.Nodes[l.To].RLOC, l.RTT, by, l.Note)))
		if has := g.rtt(l.From, l.To) != noLink; has != (l.RTT > 0) {
			t.Errorf("%v: in the graph: %v", l, has)
		}
	}
	return lines
}

const a, b = "192.0.2.1", "192.0.2.2"

func with(l api.LocatorState, change func(*api.LocatorState)) api.LocatorState {
	change(&l)
	return l
}

// TestLinksAreWhatRoutersMeasured, with a rule for each contradiction.
func TestLinksAreWhatRoutersMeasured(t *testing.T) {
	never := api.LocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(b)), State: "unknown",
		Probes: &api.Probes{Sent: 2}}
	unprobed := api.LocatorState{RLOC: never.RLOC, State: "unknown", Reason: "not-probed"}
	for _, c := range []struct {
		name string
		a, b []api.LocatorState
		want string
	}{
		{"both measured", []api.LocatorState{probed(b, 10*ms, 0)}, []api.LocatorState{probed(a, 11*ms, 0)},
			"a > b 10ms;|b > a 11ms;"},
		{"one direction is missing", []api.LocatorState{probed(b, 10*ms, 0)}, nil,
			"a > b 10ms;|b > a 10ms by the other; not probed"},
		{"not probed", []api.LocatorState{unprobed}, []api.LocatorState{probed(a, 11*ms, 0)},
			"a > b 11ms by the other; not probed|b > a 11ms;"},
		{"none measured", nil, nil, "a > b 0s; not probed|b > a 0s; not probed"},
		{"asymmetric", []api.LocatorState{probed(b, 10*ms, 0)}, []api.LocatorState{probed(a, 30*ms, 0)},
			"a > b 10ms; the other end measured 30.000 ms|b > a 30ms; the other end measured 10.000 ms"},
		{"stale", []api.LocatorState{probed(b, 10*ms, 61*time.Second)},
			[]api.LocatorState{probed(a, 11*ms, time.Minute)},
			"a > b 11ms by the other; stale: measured 1m1s ago|b > a 11ms;"},
		{"all stale", []api.LocatorState{probed(b, 10*ms, 61*time.Second)},
			[]api.LocatorState{probed(a, 11*ms, time.Hour)},
			"a > b 0s; stale: measured 1m1s ago|b > a 0s; stale: measured 1h0m0s ago"},
		{"the future", []api.LocatorState{probed(b, 10*ms, -61*time.Second)}, nil,
			"a > b 0s; measured 1m1s in the future: are the clocks in step?|b > a 0s; not probed"},
		{"a little of the future", []api.LocatorState{probed(b, 10*ms, -time.Minute)}, nil,
			"a > b 10ms;|b > a 10ms by the other; not probed"},
		{"down", []api.LocatorState{with(probed(b, 10*ms, 0), func(l *api.LocatorState) { l.State = "down" })},
			[]api.LocatorState{probed(a, 11*ms, 0)},
			"a > b 0s; down|b > a 11ms; the other end: down"},
		{"unconfirmed", []api.LocatorState{with(probed(b, 10*ms, 0),
			func(l *api.LocatorState) { l.State = "unconfirmed" })}, nil,
			"a > b 0s; unconfirmed|b > a 0s; not probed"},
		{"no answer", []api.LocatorState{never}, []api.LocatorState{probed(a, 11*ms, 0)},
			"a > b 0s; no RLOC-probe answered|b > a 11ms; the other end: no RLOC-probe answered"},
		{"the median, where it is known", []api.LocatorState{with(probed(b, 99*ms, 0),
			func(l *api.LocatorState) { l.RoundTrips = &api.RoundTrip{Median: 0.01} })}, nil,
			"a > b 10ms;|b > a 10ms by the other; not probed"},
		{"locators that are no nodes", []api.LocatorState{probed("203.0.113.99", ms, 0), probed(b, 10*ms, 0)},
			nil, "a > b 10ms;|b > a 10ms by the other; not probed"},
		{"paths and ports", []api.LocatorState{
			with(probed(b, ms, 0), func(l *api.LocatorState) { l.Path = []api.Hop{{RLOC: l.RLOC}} }),
			with(probed(b, ms, 0), func(l *api.LocatorState) { l.RLOC = l.RLOC.WithPort(40001) }),
		}, nil, "a > b 0s; not probed|b > a 0s; not probed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(links(t, told(a, c.a...), told(b, c.b...)), "|")
			if got = strings.NewReplacer(a+" ", "a ", b+" ", "b ").Replace(got); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestFamiliesHaveNoLinks: between each other. A router with both is two nodes.
func TestFamiliesHaveNoLinks(t *testing.T) {
	const a6, b6 = "2001:db8::1", "2001:db8::2"
	first := told(a, probed(b, 10*ms, 0), probed(b6, 20*ms, 0))
	second := told(b)
	first6, second6 := first, second
	first6.RLOC, second6.RLOC = netip.MustParseAddr(a6), netip.MustParseAddr(b6)
	got := strings.Join(links(t, first, second6, first6, second), "\n")
	want := `192.0.2.1 > 192.0.2.2 10ms;
192.0.2.2 > 192.0.2.1 10ms by the other; not probed
2001:db8::1 > 2001:db8::2 20ms;
2001:db8::2 > 2001:db8::1 20ms by the other; not probed`
	if got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	g, err := NewGraph([]Told{first, second6, first6, second}, usualAge)
	if err != nil {
		t.Fatal(err)
	}
	if paths := g.Shortest(0, 3, 8, nil); paths != nil {
		t.Errorf("a path between the families: %v", paths)
	}
	if paths := g.Shortest(2, 3, 8, nil); len(paths) != 1 || paths[0].RTT != 20*ms {
		t.Errorf("%v, want the path of IPv6", paths)
	}
}

// TestFilesWithContradictionsAreRefused: by the file, the locator and what is wrong.
func TestFilesWithContradictionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Told
		want  string
	}{
		{"a node twice", []Told{told(a), told(b), told(a)}, "node 192.0.2.1 is named twice"},
		{"a locator twice", []Told{told(a, probed(b, ms, 0), probed(b, ms, 0))},
			"192.0.2.1.json: locator 192.0.2.2 stands there twice"},
		{"its own RTT", []Told{told(a, probed(a, ms, 0))}, "192.0.2.1.json: the router at 192.0.2.1 has a round-trip time to itself: is the file another router's?"},
		{"an RTT of no time", []Told{told(a, with(probed(b, ms, 0), func(l *api.LocatorState) { l.Probes = nil }))}, "round_trip_seconds without probes.last_reply_at"},
		{"an RTT below 0", []Told{told(a, probed(b, -ms, 0))},
			"round_trip_seconds -0.001: want more than 0 and at most 3600"},
		{"no RTT at all", []Told{told(a, probed(b, 0, 0))}, "round_trip_seconds 0: want more than 0"},
		{"an RTT of ages", []Told{told(a, with(probed(b, ms, 0),
			func(l *api.LocatorState) { *l.RoundTrip = 1e300 }))}, "round_trip_seconds 1e+300: want"},
		{"a median of ages", []Told{told(a, with(probed(b, ms, 0), func(l *api.LocatorState) { l.RoundTrips = &api.RoundTrip{Median: 1e300} }))}, "median_seconds 1e+300: want"},
		{"too many", make([]Told, MaxNodes+1), "257 nodes: want at most 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := NewGraph(c.nodes, usualAge); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestFileOfAnotherRouterIsNoted: one whose own locators are others.
func TestFileOfAnotherRouterIsNoted(t *testing.T) {
	own := api.LocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(b)), State: "up", Local: true}
	g, err := NewGraph([]Told{told(a, own), told(b, own)}, usualAge)
	if err != nil || fmt.Sprint(g.Notes) != "[192.0.2.1.json: 192.0.2.1 is none of this router's locators]" {
		t.Errorf("%v, %v", g.Notes, err)
	}
}
