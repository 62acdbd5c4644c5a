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
	"loci/lisp"
)

// isSMR tells Solicit-Map-Requests from all else.
func isSMR(_ *testNode, p SendPacket) bool { return p.Payload[0]>>4 == 1 && p.Payload[0]&1 != 0 }

// A site that moved to other RLOCs, of which no SMR arrived, is found again by the silence of the old ones, in both families, long
// before the TTL of a day ends.
func TestSiteThatMovedUnheard(t *testing.T) {
	for name, proven := range map[string]bool{"its old locators answered before": true, "they never did": false} {
		n, x1, x2 := probedSites(t, "10.2.0.9")
		if !proven {
			x1.start()
			n.lose = deaf("192.0.2.2")
		}
		n.lose = isSMR
		x1.miss("10.1.0.5", "10.2.0.9")
		x1.miss("2001:db8:1::5", "2001:db8:2::9")
		if proven {
			n.run(time.Minute)
		} else {
			n.run(4 * oneWay) // no RLOC-probe has been answered
		}
		x2.addrs = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8:e::2")}
		x2.configure(withDatabase(x2.config, "198.51.100.2", "2001:db8:e::2"))
		n.run(40 * time.Second)
		x1.wantCached("10.2.0.0/16", "198.51.100.2", "2001:db8:e::2")
		x1.wantCached("2001:db8:2::/48", "198.51.100.2", "2001:db8:e::2")
		n.run(10 * time.Second)
		if x1.locator("198.51.100.2").State != LocatorUp || len(x1.states) != 0 {
			t.Errorf("%s: the new locator is %+v, not up are %v", name, x1.locator("198.51.100.2"), x1.states)
		}
		if got := x1.counter(counter.MappingStranded); got < 2 || got > 4 {
			t.Errorf("%s: %d Map-Requests because no locator was up", name, got)
		}
	}
}

// A site that is dead is asked about less and less often.
func TestDeadSiteIsAskedAboutSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		dead        []string // addresses
		least, most uint64   // Map-Requests begun
	}{
		"the site is dead":                {[]string{"192.0.2.2", "2001:db8:f::2"}, 1, 3}, // then the Map-Server knows
		"one of its locators is":          {[]string{"192.0.2.2"}, 0, 0},
		"the site and the Map-Server are": {[]string{"192.0.2.2", "2001:db8:f::2", "192.0.2.100"}, 5, 12},
	} {
		n, x1, _ := probedSites(t, "10.2.0.9")
		n.run(time.Minute)
		n.lose = func(from *testNode, p SendPacket) bool {
			for _, address := range c.dead {
				if deaf(address)(from, p) {
					return true
				}
			}
			return false
		}
		for range 180 {
			n.run(20 * time.Second)
			x1.use("10.2.0.0/16")
		}
		if got := x1.counter(counter.MappingStranded); got < c.least || got > c.most {
			t.Errorf("%s: %d Map-Requests in an hour, want %d to %d", name, got, c.least, c.most)
		}
	}
}

func TestStaticMappingIsNotAskedFor(t *testing.T) {
	n, x := loneITR(t, Limits{})
	c := x.config
	itr := *c.ITR
	itr.RLOCProbing, itr.StaticMappings = ProbingConfig{}, []lisp.Mapping{positive("10.2.0.0/16", 10)}
	c.ITR = &itr
	x.configure(c)
	n.run(10 * time.Minute)
	x.wantCounter(counter.MappingStranded, 0)
	x.wantCounter(counter.MapRequestSent, 0)
}

// Everything behind a core that is cut off is without a locator at the same moment.
func TestManyStrandedMappingsAreAskedForAtARate(t *testing.T) {
	n, x := loneITR(t, Limits{})
	c := x.config
	changed := *c.ITR
	changed.RLOCProbing = ProbingConfig{}
	c.ITR = &changed
	x.configure(c)
	for i := range 2000 {
		m := positive(fmt.Sprintf("10.%d.%d.0/24", 2+i>>8, i&255), 60)
		m.Locators = locators(fmt.Sprintf("198.18.%d.%d", i>>8, i&255))
		x.itr.Cache.Install(mapcache.Entry{Mapping: m, ExpiresAt: x.host.After(time.Hour)})
	}
	x.drain()
	begun := n.now
	for n.now.Sub(begun) < 10*time.Minute {
		n.run(time.Second)
		if got, most := x.counter(counter.MappingStranded), uint64(itr.Renewals().Burst)+uint64(n.now.Sub(begun).Seconds()*itr.Renewals().PerSecond); got > most {
			t.Fatalf("%d Map-Requests in %s", got, n.now.Sub(begun))
		}
	}
	if x.counter(counter.MappingStranded) == 0 {
		t.Error("nothing was asked for")
	}
}

// A site that was dead and came back is asked about at once when it is dead again.
func TestSiteThatDiesAgainIsAskedAboutAtOnce(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	dead := false
	n.lose = func(from *testNode, p SendPacket) bool {
		return dead && (deaf("192.0.2.2")(from, p) || deaf("2001:db8:f::2")(from, p) || deaf("192.0.2.100")(from, p))
	}
	pass := func(d time.Duration) {
		for range int(d / (20 * time.Second)) {
			n.run(20 * time.Second)
			x1.use("10.2.0.0/16")
		}
	}
	pass(time.Minute)
	dead = true
	pass(time.Hour)
	dead = false
	pass(time.Hour)
	x1.wantLocator("192.0.2.2", LocatorUp, LocatorAnswered)
	before := x1.counter(counter.MappingStranded)
	dead = true
	pass(time.Minute)
	if got := x1.counter(counter.MappingStranded) - before; got == 0 {
		t.Error("no Map-Request was sent")
	}
}
