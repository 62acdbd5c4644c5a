// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
)

// TestFactsOfAMapping: the locators that packets take, when all of these answered RLOC-probes, and when a packet came from any.
func TestFactsOfAMapping(t *testing.T) {
	a, b, c := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2")), lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::3"))
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	locator := func(r lisp.RLOC, priority uint8, state control.LocatorState, replied, heard int) control.ExplainedLocator {
		return control.ExplainedLocator{
			Locator: lisp.Locator{RLOC: r, Priority: priority, Weight: 1, Reachable: true},
			State:   &control.LocatorStatus{RLOC: r, State: state, LastReplyAt: at(replied), LastHeardAt: at(heard)},
		}
	}
	two, err := lisp.NewPath(a, b)
	if err != nil {
		t.Fatal(err)
	}
	path := control.ExplainedLocator{
		Locator: lisp.Locator{RLOC: a, Behind: two.Behind, Priority: 1, Weight: 1, Reachable: true},
		State:   &control.LocatorStatus{State: control.LocatorUp},
		Hops: []control.LocatorStatus{
			{RLOC: a, ProbesSent: 3, LastReplyAt: at(9), LastHeardAt: at(2)}, {RLOC: b, ProbesSent: 3, LastReplyAt: at(7), LastHeardAt: at(5)}, {RLOC: c},
		},
	}
	unprobed := path
	unprobed.Hops = []control.LocatorStatus{{RLOC: a}, {RLOC: b}}
	unreachable := locator(a, 1, control.LocatorUp, 5, 1)
	unreachable.NotUsable = "path-hop-family"
	for name, x := range map[string]struct {
		locators      []control.ExplainedLocator
		taken         []lisp.RLOC
		up            bool
		probed, heard time.Time
	}{
		"one":                   {[]control.ExplainedLocator{locator(a, 1, control.LocatorUp, 5, 1)}, []lisp.RLOC{a}, true, at(5), at(1)},
		"by priority":           {[]control.ExplainedLocator{locator(a, 2, control.LocatorUp, 5, 8), locator(b, 1, control.LocatorUp, 6, 1)}, []lisp.RLOC{b}, true, at(6), at(8)},
		"two that share":        {[]control.ExplainedLocator{locator(a, 1, control.LocatorUp, 5, 1), locator(b, 1, control.LocatorUp, 3, 2)}, []lisp.RLOC{a, b}, true, at(3), at(2)},
		"one is unconfirmed":    {[]control.ExplainedLocator{locator(a, 1, control.LocatorUnconfirmed, 5, 1), locator(b, 2, control.LocatorUp, 3, 2)}, []lisp.RLOC{b}, true, at(3), at(2)},
		"all are unconfirmed":   {[]control.ExplainedLocator{locator(a, 1, control.LocatorUnconfirmed, 5, 1)}, []lisp.RLOC{a}, false, time.Time{}, at(1)},
		"all are down":          {[]control.ExplainedLocator{locator(a, 1, control.LocatorDown, 5, 1)}, nil, false, time.Time{}, at(1)},
		"never used":            {[]control.ExplainedLocator{locator(a, lisp.PriorityUnused, control.LocatorUp, 5, 1)}, nil, false, time.Time{}, at(1)},
		"no packet can take it": {[]control.ExplainedLocator{unreachable, locator(b, 2, control.LocatorUp, 3, 2)}, []lisp.RLOC{b}, true, at(3), at(2)},
		"a path":                {[]control.ExplainedLocator{path}, []lisp.RLOC{a}, true, at(7), at(5)},
		"a path without probes": {[]control.ExplainedLocator{unprobed}, []lisp.RLOC{a}, true, time.Time{}, time.Time{}},
	} {
		prefix := lisp.MustParsePrefix("10.2.0.0/24")
		e := control.Explanation{Entry: &control.MapCacheStatus{}, Locators: x.locators}
		e.Entry.Mapping = lisp.Mapping{Prefix: prefix}
		for _, l := range x.locators {
			e.Entry.Mapping.Locators = append(e.Entry.Mapping.Locators, l.Locator)
		}
		f := factsOf(Question{Prefix: prefix}, &e)
		var taken []lisp.RLOC
		for _, p := range f.Taken {
			taken = append(taken, p.RLOC)
		}
		if !f.Known || f.Up != x.up || !slices.Equal(taken, x.taken) || !f.ProbedAt.Equal(x.probed) || !f.HeardAt.Equal(x.heard) {
			t.Errorf("%s: %+v", name, f)
		}
		for why, other := range map[string]control.Explanation{
			"gone": {}, "an own EID": {Own: &control.DatabaseMapping{}, Entry: e.Entry}, "negative": {Entry: &control.MapCacheStatus{}},
		} {
			if f := factsOf(Question{Prefix: prefix}, &other); f.Known {
				t.Errorf("%s: %+v", why, f)
			}
		}
		if f := factsOf(Question{Prefix: lisp.MustParsePrefix("10.2.0.0/16")}, &e); f.Known {
			t.Errorf("a more specific mapping covers the EID: %+v", f)
		}
	}
}

// TestCheckedEIDs are those that an entry answers for itself, and that packets can be sent to.
func TestCheckedEIDs(t *testing.T) {
	var halves []string // of 10.0.0.0/16: all but its last /24
	for i := range 255 {
		halves = append(halves, fmt.Sprintf("10.0.%d.0/24", i))
	}
	for _, c := range []struct {
		prefix, own string
		specific    []string
		want        string // empty for none
	}{
		{"10.2.0.0/24", "", nil, "10.2.0.1"},
		{"10.2.0.7/32", "", nil, "10.2.0.7"},
		{"0.0.0.0/0", "", nil, "203.0.113.129"},
		{"::/0", "", nil, "2001:db8:ffff:ffff::1"},
		{"0.0.0.0/1", "", nil, "1.0.0.0"},
		{"0.0.0.0/0", "", []string{"203.0.113.0/24"}, "203.0.114.0"},
		{"10.0.0.0/8", "", []string{"10.0.0.0/16"}, "10.1.0.0"},
		{"10.0.0.0/8", "10.0.0.0/24", []string{"10.0.1.0/24"}, "10.0.2.0"},
		{"10.0.0.0/24", "", []string{"10.0.0.0/25"}, "10.0.0.128"},
		{"10.0.0.0/24", "", []string{"10.0.0.0/25", "10.0.0.128/25"}, ""},
		{"10.0.0.0/16", "", halves, "10.0.255.0"},
		{"2001:db8::/32", "2001:db8::/48", []string{"2001:db8:1::/48"}, "2001:db8:2::"},
		{"10.0.0.0/16", "10.0.0.0/8", nil, ""},
		{"127.0.0.0/8", "", nil, ""},
	} {
		prefix := lisp.MustParsePrefix(c.prefix)
		w := NewWatch()
		m := lisp.Mapping{Prefix: prefix, Locators: lisp.LocatorSet{
			{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), Priority: 1, Weight: 1, Reachable: true},
		}}
		explain := func(to netip.Addr) (e control.Explanation) {
			if c.own != "" && lisp.MustParsePrefix(c.own).Netip().Contains(to) {
				e.Own = &control.DatabaseMapping{Prefix: lisp.MustParsePrefix(c.own)}
			}
			if !prefix.Netip().Contains(to) {
				return e
			}
			e.Entry, e.Told = &control.MapCacheStatus{}, m
			e.Entry.Mapping = m
			for _, s := range c.specific {
				if p := lisp.MustParsePrefix(s); p.Netip().Contains(to) {
					e.Entry.Mapping.Prefix = p
				}
			}
			for _, l := range m.Locators {
				state := &control.LocatorStatus{RLOC: l.RLOC, State: control.LocatorUp}
				e.Locators = append(e.Locators, control.ExplainedLocator{Locator: l, State: state})
			}
			return e
		}
		w.SetSources(own4, own6)
		var to []string
		for now := start; now.Before(start.Add(time.Minute)); now = now.Add(tick) {
			w.Use(now, &m, uint64(now.Sub(start)/time.Millisecond))
			for _, q := range w.Wanted(now) {
				w.Learn(q, FactsOf(q, explain))
			}
			for _, check := range w.Next(now) {
				to = append(to, check.To.String())
			}
			w.Expire(now)
		}
		if first := strings.Join(to[:min(len(to), 1)], ""); first != c.want || len(slices.Compact(to)) > 1 {
			t.Errorf("%s, without %s and %d others: checks to %v, want %q", c.prefix, c.own, len(c.specific), slices.Compact(to), c.want)
		}
	}
}
