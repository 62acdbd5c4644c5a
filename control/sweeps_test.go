// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/itr"
	"loci/control/internal/mapcache"
	"loci/control/internal/settings"
	"loci/lisp"
)

// crowdedITR has many entries within 10.0.0.0/8 and 2001:db8::/32, each tenth negative.
func crowdedITR(t *testing.T, entries int) (*testNetwork, *testNode) {
	t.Helper()
	n, x := loneITR(t, Limits{})
	for i := range entries {
		m := positive(fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255), 60)
		if i%2 == 1 {
			m = positive(fmt.Sprintf("2001:db8:%x:%x::/64", i>>12, i&4095), 60)
		}
		if i%10 < 2 {
			m.Locators, m.Action = nil, lisp.ActionNativelyForward
		}
		x.itr.Cache.Install(mapcache.Entry{Mapping: m, ExpiresAt: x.host.After(time.Hour)})
	}
	x.drain()
	return n, x
}

func TestWideMapReplyTakesManyShortIterations(t *testing.T) {
	const entries = 40_000
	for _, c := range []struct{ source, destination, prefix, last string }{
		{"10.1.0.1", "10.255.0.1", "10.0.0.0/8", "10.0.156.62/32"},
		{"2001:db8:1::1", "2001:db8:ffff::1", "2001:db8::/32", "2001:db8:9:c3f::/64"},
	} {
		n, x := crowdedITR(t, entries)
		soon := x.host.After(5 * time.Minute)
		_, last, ok := x.itr.Cache.Get(lisp.MustParsePrefix(c.last))
		if !ok {
			t.Fatalf("%s is not cached", c.last)
		}
		last.ExpiresAt = soon // one of the last in every order
		x.itr.Cache.Cache.Put(*last)
		x.miss(c.source, c.destination)
		before := x.itr.Cache.Size()
		answerAll(x, positive(c.prefix, 1440))
		if gone := before + 1 - x.itr.Cache.Size(); gone > itr.MaxMoreSpecifics {
			t.Errorf("%d entries removed in the iteration of the Map-Reply", gone)
		}
		iterations := 0
		for at, ok := x.NextDeadline(); ok && at.Sub(n.now) < time.Millisecond; at, ok = x.NextDeadline() {
			size := x.itr.Cache.Size()
			x.HandleTimeout(at)
			effects := 0
			for {
				if _, ok := x.Poll(); !ok {
					break
				}
				effects++
			}
			if size-x.itr.Cache.Size() > (itr.SweepBatch/itr.SweptChangeCost) || effects > 2*(itr.SweepBatch/itr.SweptChangeCost) {
				t.Fatalf("an iteration removed %d entries, with %d effects", size-x.itr.Cache.Size(), effects)
			}
			iterations++
		}
		if iterations < entries/itr.SweepBatch {
			t.Errorf("%d iterations", iterations)
		}
		if got := x.itr.Cache.Size(); got != entries-entries/10+1 {
			t.Errorf("%d entries, want %d: the negative ones of one family gone", got, entries-entries/10+1)
		}
		if _, e, _ := x.itr.Cache.Get(lisp.MustParsePrefix(c.prefix)); e.ExpiresAt != soon {
			t.Errorf("the wide entry ends at %d, its first more-specific at %d", e.ExpiresAt, soon)
		}
	}
}

func TestSweepLeavesNewEntriesAlone(t *testing.T) {
	n, x := crowdedITR(t, 20_000)
	x.miss("10.1.0.1", "10.255.0.1")
	answerAll(x, positive("10.0.0.0/8", 1440))
	n.now = n.now.Add(time.Microsecond)
	x.host.Advance(n.now)
	fresh := positive("10.254.0.0/24", 15)
	fresh.Locators, fresh.Action = nil, lisp.ActionDrop
	x.itr.Cache.Install(mapcache.Entry{Mapping: fresh, ExpiresAt: x.host.After(15 * time.Minute)})
	n.run(time.Second)
	if _, _, ok := x.itr.Cache.Get(fresh.Prefix); !ok {
		t.Error("a sweep removed what came after it began")
	}
}

func TestSweepsAreBounded(t *testing.T) {
	_, x := crowdedITR(t, 2000)
	for range itr.MaxSweeps + 5 {
		x.itr.Sweeps.Start(itr.Sweep{Reinstall: true})
	}
	x.wantCounter(counter.RefusedSweepTable, 5)
}

func TestLocatorPolicies(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	ten, five := uint8(10), uint8(5)
	c := x1.config
	itr := *c.ITR
	itr.LocatorPolicies = []LocatorPolicy{
		{EIDs: lisp.MustParsePrefix("10.2.0.0/16"), RLOCs: netip.MustParsePrefix("2001:db8::/32"), Priority: &ten},
		{RLOCs: netip.MustParsePrefix("192.0.2.0/24"), Weight: &five},
		{Priority: &five},
	}
	c.ITR = &itr
	x1.configure(c)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	n.run(time.Second)
	want := func(prefix string, priorities, weights [2]uint8) {
		t.Helper()
		for i, l := range x1.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators {
			if l.Priority != priorities[i] || l.Weight != weights[i] {
				t.Errorf("%s: locator %s, want %d/%d", prefix, l, priorities[i], weights[i])
			}
		}
	}
	want("10.2.0.0/16", [2]uint8{1, 10}, [2]uint8{5, 100})
	want("2001:db8:2::/48", [2]uint8{1, 5}, [2]uint8{5, 100})
	itr.LocatorPolicies = nil // what the site says comes back, without asking it
	c.ITR = &itr
	asked := x1.counter(counter.MapRequestSent)
	x1.configure(c)
	n.run(time.Second)
	want("10.2.0.0/16", [2]uint8{1, 1}, [2]uint8{100, 100})
	want("2001:db8:2::/48", [2]uint8{1, 1}, [2]uint8{100, 100})
	x1.wantCounter(counter.MapRequestSent, asked)
	for _, bad := range []LocatorPolicy{{}, {RLOCs: netip.MustParsePrefix("192.0.2.1/24"), Weight: &five}} {
		if err := (Config{ITR: &ITRConfig{LocatorPolicies: []LocatorPolicy{bad}}}).Validate(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestFloodedInstanceEvictsItsOwn: a scan in one Instance-ID does not push out the
// mappings of another, used or not.
func TestFloodedInstanceEvictsItsOwn(t *testing.T) {
	_, x := loneITR(t, Limits{MapCacheEntries: 256})
	put := func(instance lisp.InstanceID, i int) {
		if x.itr.Cache.Size() >= 256 {
			x.itr.Cache.Evict()
		}
		m := positive(fmt.Sprintf("[%d]10.2.%d.%d/32", instance, i/256, i%256), 10)
		x.itr.Cache.Install(mapcache.Entry{Mapping: m, ExpiresAt: x.host.After(time.Hour)})
		x.drain()
	}
	for i := range 20 {
		put(2, i)
	}
	for i := range 5000 {
		put(1, i)
	}
	left := 0
	for e := range x.MapCache() {
		if e.Mapping.Prefix.Instance() == 2 {
			left++
		}
	}
	if left != 20 || x.itr.Cache.Size() != 256 {
		t.Errorf("%d of 20 entries are left; %d in all", left, x.itr.Cache.Size())
	}
}

// TestShorterIdleTimeoutEndsWhatIsThere: entries that are idle for longer than another configuration lets them be go
// within short iterations, those in use and static ones stay.
func TestShorterIdleTimeoutEndsWhatIsThere(t *testing.T) {
	const entries = 20_000
	n, x := crowdedITR(t, entries)
	n.run(10 * time.Minute)
	for _, prefix := range []string{"10.0.0.2/32", "2001:db8:0:3::/64"} {
		x.use(prefix)
	}
	x.drain()
	configure := func(idle time.Duration) {
		c := x.config
		itr := *c.ITR
		itr.IdleTimeout = idle
		c.ITR = &itr
		x.configure(c)
	}
	configure(time.Hour) // longer: nothing goes now, and nothing at the old time
	n.run(25 * time.Minute)
	if got := x.itr.Cache.Size(); got != entries {
		t.Fatalf("%d entries after a longer idle time, want %d", got, entries)
	}
	for _, prefix := range []string{"10.0.0.2/32", "2001:db8:0:3::/64"} {
		x.use(prefix)
	}
	configure(5 * time.Minute)
	if gone := entries - x.itr.Cache.Size(); gone > settings.TimeoutBatch {
		t.Errorf("%d entries went in the turn of the reload", gone)
	}
	n.run(time.Minute)
	if got := x.itr.Cache.Size(); got != 2 {
		t.Errorf("%d entries a minute later, want the 2 that are in use", got)
	}
	configure(-1)
	n.run(20 * time.Minute)
	if got := x.itr.Cache.Size(); got != 2 {
		t.Errorf("%d entries after an idle time without end, want 2", got)
	}
}
