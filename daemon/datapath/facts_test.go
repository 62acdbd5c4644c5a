// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"slices"
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
