// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// TestEventsHaveColumns: fields apart from words, and columns below each other whatever stands in them.
func TestEventsHaveColumns(t *testing.T) {
	v4, v6 := lisp.MustParsePrefix("10.2.0.0/16"), lisp.MustParsePrefix("[16777214]2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128")
	var out bytes.Buffer
	columns := newEventColumns(&out)
	for _, e := range []api.Event{
		{Kind: "map-notify-unacknowledged", EIDPrefix: &v6, Peer: "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:4342", Site: "東京", Detail: "DETAIL1"},
		{Kind: "locator-down", EIDPrefix: &v4, RLOC: "192.0.2.1 -> 192.0.2.2", Reason: "probes-unanswered", Detail: "DETAIL2 in words"},
		{Kind: "miss", Fields: map[string]string{"source": "10.1.0.1", "destination": "10.2.0.1"}},
	} {
		e.At = time.Now() // a time of another day has its date
		if err := columns.print(e); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, want := range []string{
		"  map-notify-unacknowledged  [16777214]2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128  [2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:4342  site=東京  DETAIL1",
		"  locator-down               10.2.0.0/16                                           -                                              rloc=\"192.0.2.1 -> 192.0.2.2\"  reason=probes-unanswered  DETAIL2 in words",
		"  miss                       -                                                     -                                              destination=10.2.0.1  source=10.1.0.1",
	} {
		if !strings.HasSuffix(lines[i], want) || len(lines[i]) != len("15:04:05.000000")+len(want) {
			t.Errorf("got\n%q, want the time and\n%q", lines[i], want)
		}
	}
}

func TestMonitorFlags(t *testing.T) {
	for want, f := range map[string]monitorFlags{
		"did you mean locator-down?": {query: api.EventQuery{Kinds: []string{"miss", "locator-dwon"}}}, "docs/events.md lists them": {query: api.EventQuery{Kinds: []string{"xyzzy"}}},
		"--eid: ": {eid: "ten"}, "--peer: ": {peer: "ten"}, "--since \"soon\"": {since: "soon"},
	} {
		if err := f.parse(time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 11, 23, 15, 4, 5, 0, time.Local)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "0s": now, "15:00": time.Date(2026, 11, 23, 15, 0, 0, 0, time.Local), "23:59:30": time.Date(2026, 11, 22, 23, 59, 30, 0, time.Local),
		"2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local), "2026-11-23T15:04:05Z": time.Date(2026, 11, 23, 15, 4, 5, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"-10m", "soon", "25:00", ""} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestEventsOfOtherDaysHaveTheirDate.
func TestEventsOfOtherDaysHaveTheirDate(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 10, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		now.Add(-5 * time.Minute):  "00:05:00.000000",
		now.Add(-15 * time.Minute): "2026-11-25 23:55:00.000000",
	} {
		if got := eventTime(now, at); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}
