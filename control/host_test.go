// SPDX-License-Identifier: Apache-2.0

package control

// What a Node makes of a clock that is set, forward or back, while it runs.

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/lisp"
)

// setClock sets the time of day of everybody; the monotonic clocks go on as they were.
func (n *testNetwork) setClock(by time.Duration) {
	for _, d := range n.nodes {
		d.host.Follow(n.now.Add(by), d.host.Instant(n.now))
	}
	for i := range n.queue {
		n.queue[i].at = n.queue[i].at.Add(by)
	}
	n.now = n.now.Add(by)
}

// clockSteps are as far as an NTP client sets a clock without a battery, and one that ran wild.
var clockSteps = []time.Duration{3 * time.Hour, -3 * time.Hour, 50 * 365 * 24 * time.Hour, -50 * 365 * 24 * time.Hour}

func TestUseAndSilenceAfterAClockWasSet(t *testing.T) {
	for _, step := range clockSteps {
		n, x1 := silentSites(t)
		c := x1.config
		itr := *c.ITR
		itr.IdleTimeout = 10 * time.Minute
		c.ITR = &itr
		x1.configure(c)
		n.setClock(step)
		x1.use("10.2.0.0/16")
		if l := x1.locator(hinted); l.LastHeardAt.Sub(n.now).Abs() > time.Second {
			t.Errorf("set by %v: last heard at %v, now %v", step, l.LastHeardAt, n.now)
		}
		x1.heard(hinted, 0)
		n.run(reach.LongSilence)
		x1.use("10.2.0.0/16")
		x1.heard(hinted, reach.LongSilence)
		x1.wantCounter(counter.LocatorWentSilent, 1)
		for range 20 {
			n.run(time.Minute)
			x1.use("10.2.0.0/16")
		}
		x1.wantCounter(counter.MappingIdle, 0)
		x1.wantCached("10.2.0.0/16", hinted, alternative)
		last := n.now
		for range 11 {
			n.run(time.Minute)
			x1.HandleUsage(n.now, []Usage{{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), LastUsedAt: last}})
			x1.drain()
		}
		x1.wantCounter(counter.MappingIdle, 1)
	}
}

func TestLifetimesAfterAClockWasSet(t *testing.T) {
	for _, step := range clockSteps {
		n, x1, _ := probedSites(t, "10.2.0.9")
		cached := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]
		left := cached.ExpiresAt.Sub(n.now)
		n.setClock(step)
		for e := range x1.MapCache() {
			if e.Mapping.Prefix == cached.Mapping.Prefix && (e.ExpiresAt.Sub(n.now) != left || e.CreatedAt.After(n.now) || n.now.Sub(e.CreatedAt) > time.Hour) {
				t.Errorf("set by %v at %v: created at %v, expires at %v", step, n.now, e.CreatedAt, e.ExpiresAt)
			}
		}
		if next, ok := x1.NextDeadline(); !ok || next.Before(n.now) || next.Sub(n.now) > time.Hour {
			t.Errorf("set by %v at %v: next deadline %v", step, n.now, next)
		}
		x1.miss("10.1.0.1", "10.200.0.1")
		n.run(time.Second)
		none, ok := x1.cache[lisp.MustParsePrefix("10.128.0.0/9")] // as the data plane is told
		if ttl := none.ExpiresAt.Sub(n.now); !ok || ttl > settings.NegativeTTLMinutes*time.Minute || ttl < settings.NegativeTTLMinutes*time.Minute-time.Second {
			t.Errorf("set by %v at %v: %+v", step, n.now, none)
		}
		n.run(time.Minute)
		x1.wantCached("10.2.0.0/16", hinted, alternative)
		n.run(left) // no packet uses it
		x1.wantNotCached("10.2.0.0/16")
	}
}
