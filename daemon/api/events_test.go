// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"loci/lisp"
)

func TestEventsThatAreWanted(t *testing.T) {
	prefix, v6 := lisp.MustParsePrefix("10.2.0.0/24"), lisp.MustParsePrefix("[7]2001:db8:2::/48")
	events := []Event{
		{Kind: "locator-down", EIDPrefix: &prefix, RLOC: "192.0.2.1"},
		{Kind: "path-moved", EIDPrefix: &prefix, RLOC: "198.51.100.1 -> 192.0.2.7:4343 -> 2001:db8::9"},
		{Kind: "map-reply-received", EIDPrefix: &v6, Peer: "[2001:db8::1]:4342"},
		{Kind: "gleaned", Peer: "::ffff:192.0.2.1"},
		{Kind: "rloc-probe-sent", EIDPrefix: &prefix, Peer: "192.0.2.1:4342"},
		{Kind: "rloc-probe-reply-sent", EIDPrefix: &prefix, Peer: "192.0.2.1:4342"},
		{Kind: "own-rloc-down", RLOC: "203.0.113.5"},
		{Kind: EventsLost},
	}
	for query, want := range map[string]string{
		"":                                "locator-down path-moved map-reply-received gleaned own-rloc-down events-lost",
		"probes=true":                     "locator-down path-moved map-reply-received gleaned rloc-probe-sent rloc-probe-reply-sent own-rloc-down events-lost",
		"probes=false":                    "locator-down path-moved map-reply-received gleaned own-rloc-down events-lost",
		"kind=rloc-probe-sent":            "rloc-probe-sent events-lost",
		"kind=gleaned&kind=own-rloc-down": "gleaned own-rloc-down events-lost",
		"eid=10.2.0.7":                    "locator-down path-moved events-lost",
		"eid=10.0.0.0/8":                  "locator-down path-moved events-lost",
		"eid=[7]2001:db8::/32":            "map-reply-received events-lost",
		"eid=2001:db8::/32":               "events-lost", // of another Instance-ID
		"peer=192.0.2.1":                  "locator-down gleaned events-lost",
		"peer=192.0.2.0/24":               "locator-down path-moved gleaned events-lost",
		"peer=2001:db8::/32":              "path-moved map-reply-received events-lost",
		"peer=192.0.2.1&eid=10.2.0.0/16&kind=locator-down": "locator-down events-lost",
	} {
		values, _ := url.ParseQuery(query)
		q, err := ParseEventQuery(values)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		var got []string
		for i := range events {
			if q.Wants(&events[i]) {
				got = append(got, events[i].Kind)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}

func TestEventQueries(t *testing.T) {
	for query, want := range map[string]string{
		"kind=locator-dwon": `no event "locator-dwon"`, "eid=ten": "ten", "peer=ten": "neither an IPv4 or IPv6 address nor a prefix",
		"since=yesterday": "is not a time", "probes=yes": "neither true nor false", "kinds=miss": "no such argument",
	} {
		values, _ := url.ParseQuery(query)
		if _, err := ParseEventQuery(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
	for _, q := range []EventQuery{{}, {
		Kinds: []string{"miss", "gleaned"}, EIDPrefix: lisp.MustParsePrefix("[7]10.0.0.0/8"), Peer: netip.MustParsePrefix("2001:db8::/32"),
		Since: time.Date(2026, 11, 23, 15, 4, 5, 6000, time.UTC), Probes: true,
	}} {
		values, _ := url.ParseQuery(strings.TrimPrefix(q.encode(), "?"))
		if back, err := ParseEventQuery(values); err != nil || !reflect.DeepEqual(back, q) {
			t.Errorf("%+v came back as %+v, %v", q, back, err)
		}
	}
}
