// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// TestGivenMappingsOverwriteNothing, and end when those of the giver do.
func TestGivenMappingsOverwriteNothing(t *testing.T) {
	n := newDeafNetwork(t)
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.run(2 * time.Second)
	own := n.b.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	n.a.miss("10.1.0.10", "10.9.0.1") // a negative mapping, of the giver alone
	n.run(2 * time.Second)
	at := slices.IndexFunc(n.a.cachedPrefixes(), func(p string) bool { return p != "10.2.0.0/16" })
	if at < 0 {
		t.Fatal("no negative mapping")
	}
	negative := n.a.cachedPrefixes()[at]
	n.deaf = []string{rlocA}
	n.forward(4*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	if now := n.b.cache[own.Mapping.Prefix]; !now.ExpiresAt.Equal(own.ExpiresAt) {
		t.Errorf("b's own mapping ends at %s, before %s", now.ExpiresAt, own.ExpiresAt)
	}
	mine, theirs := n.a.cache[lisp.MustParsePrefix(negative)], n.b.cache[lisp.MustParsePrefix(negative)]
	if left := mine.ExpiresAt.Sub(theirs.ExpiresAt); theirs.ExpiresAt.IsZero() || left < 0 || left > 2*time.Second {
		t.Errorf("%s ends at %s here, at %s there", negative, mine.ExpiresAt, theirs.ExpiresAt)
	}
}

// TestAnswersAboutTheCoreAreNotForged: another address, nonce, EID-Prefix or locator is no yes, and nothing that was not asked for
// comes into the map-cache.
func TestAnswersAboutTheCoreAreNotForged(t *testing.T) {
	n := newDeafNetwork(t)
	n.deaf = everyRLOC
	n.forward(3*time.Second, nil, n.a)
	var nonce uint64
	for _, m := range sentMessages[*wire.MapRequest](n.a) {
		if m.MapReplyRecord != nil {
			nonce = m.Nonce
		}
	}
	if nonce == 0 {
		t.Fatal("a asks nothing")
	}
	mapping := func(p, r string) lisp.Mapping {
		return lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators(r)}
	}
	for name, c := range map[string]struct {
		from  string
		probe bool
		nonce uint64
		m     lisp.Mapping
	}{
		"another address":    {"10.1.0.3", true, nonce, mapping("10.2.0.0/16", rlocC)},
		"another nonce":      {linkB, true, nonce + 1, mapping("10.2.0.0/16", rlocC)},
		"another EID-Prefix": {linkB, true, nonce, mapping("10.3.0.0/16", rlocC)},
		"another locator":    {linkB, true, nonce, mapping("10.2.0.0/16", "192.0.2.77")},
		"not asked for":      {linkB, false, nonce, mapping("10.3.0.0/16", rlocC)},
	} {
		payload, err := wire.AppendMapReply(nil, &wire.MapReply{Probe: c.probe, Nonce: c.nonce}, []lisp.Mapping{c.m})
		if err != nil {
			t.Fatal(err)
		}
		n.a.inject(linkA+":4342", c.from+":4342", payload)
		n.run(300 * time.Millisecond)
		n.wantPath(n.a, "", name)
		n.a.wantNotCached("10.3.0.0/16")
	}
	n.a.wantCounter(counter.SiblingMappingTaken, 0)
}

// TestGivenMappingsOutliveGleanedOnes: what a data packet made the sibling believe for three seconds does not end what it is given.
func TestGivenMappingsOutliveGleanedOnes(t *testing.T) {
	n := newDeafNetwork(t)
	c := quadConfig(2, rlocB, rlocA, linkB, linkA, "10.1.0.0/16")
	c.ITR.Gleaning = true
	n.b.configure(c)
	n.deaf = []string{rlocA, "192.0.2.100"}
	n.forward(time.Second, nil, n.a)
	n.b.gleaned("10.2.0.10", rlocC)
	n.b.wantCached("10.2.0.10/32", rlocC)
	n.forward(3*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.b.wantNotCached("10.2.0.10/32")
	n.run(10 * time.Second)
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
}

// TestGivenMappingsAreInUse: a mapping that the sibling has already, and did not use, does not end as idle at the handover.
func TestGivenMappingsAreInUse(t *testing.T) {
	n := newDeafNetwork(t)
	c := quadConfig(2, rlocB, rlocA, linkB, linkA, "10.1.0.0/16")
	c.ITR.IdleTimeout = 30 * time.Second
	n.b.configure(c)
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.forward(25*time.Second, nil, n.a)
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
	n.deaf = []string{rlocA}
	n.forward(4*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.run(3 * time.Second) // past the idle time, before the data plane reports the use
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
}

// TestGivenMappingsAndWhatCoversThem: a covering mapping, negative or not, does not stand in the way of a more specific one, is not
// in use by that, and the limit holds. A static one, and any by a negative one, is not overruled.
func TestGivenMappingsAndWhatCoversThem(t *testing.T) {
	denied := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.0.0.0/8"), TTLMinutes: 10, Action: lisp.ActionNativelyForward}
	within := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 5, Action: lisp.ActionNativelyForward}
	for _, c := range []struct {
		name          string
		known, static lisp.Mapping
		given         lisp.Mapping
		limit         int
		taken         int
	}{
		{name: "within a negative one", known: denied, given: positive("10.2.0.0/16", 5), taken: 1},
		{name: "within a positive one", known: positive("10.0.0.0/8", 10), given: positive("10.2.0.0/16", 5), taken: 1},
		{name: "negative within a positive one", known: positive("10.0.0.0/8", 10), given: within},
		{name: "within a static one", static: positive("10.0.0.0/8", 0), given: positive("10.2.0.0/16", 5)},
		{name: "beyond the limit", static: positive("10.9.0.0/16", 0), given: positive("10.2.0.0/16", 5), limit: 1},
		{name: "in place of what covers it", known: denied, given: positive("10.2.0.0/16", 5), limit: 1, taken: 1},
	} {
		n, x := loneITR(t, Limits{MapCacheEntries: c.limit})
		if !c.static.Prefix.IsZero() {
			config := x.config
			itr := *config.ITR
			itr.StaticMappings = []lisp.Mapping{c.static}
			config.ITR = &itr
			x.configure(config)
		}
		if !c.known.Prefix.IsZero() {
			x.itr.TakeRecord(c.known, addrPort("192.0.2.100"), nil)
			x.drain()
		}
		n.run(time.Second)
		if got := x.itr.TakeGiven([]lisp.Mapping{c.given}, addrPort("10.1.0.3")); got != c.taken {
			t.Errorf("%s: %d are taken, want %d", c.name, got, c.taken)
		}
		x.drain()
		if _, _, there := x.itr.Cache.Get(c.given.Prefix); there != (c.taken == 1) {
			t.Errorf("%s: the map-cache has %v", c.name, x.cachedPrefixes())
		}
		if x.itr.Cache.Size() > max(c.limit, 2) || c.limit > 0 && x.itr.Cache.Size() > c.limit {
			t.Errorf("%s: the map-cache has %v", c.name, x.cachedPrefixes())
		}
		if _, e, ok := x.itr.Cache.Get(c.known.Prefix); ok && e.LastUsedAt != 0 {
			t.Errorf("%s: the covering one is in use", c.name)
		}
	}
}

// unregistered is a negative mapping.
func unregistered(p lisp.Prefix) lisp.Mapping {
	return lisp.Mapping{Prefix: p, TTLMinutes: 10, Action: lisp.ActionNativelyForward}
}

// TestMappingsOfTheLastMinuteAreGiven, and none that no packet used for longer.
func TestMappingsOfTheLastMinuteAreGiven(t *testing.T) {
	for family, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		n := newDeafNetworkOf(t, ipv6)
		unused, used := n.of("10.8.0.0/16"), n.of("10.9.0.0/16")
		for _, p := range []string{unused, used} {
			n.a.itr.TakeRecord(unregistered(lisp.MustParsePrefix(p)), addrPort(n.of("192.0.2.100")), nil)
			n.a.drain()
			n.a.use(p)
		}
		n.forward(140*time.Second, nil, n.a)
		n.a.use(used)
		n.forward(40*time.Second, nil, n.a)
		n.deaf = []string{rlocA}
		n.forward(4*time.Second, nil, n.a)
		n.wantPath(n.a, linkB, family)
		n.a.wantCached(unused)
		n.b.wantNotCached(unused)
		n.b.wantCached(used)
		n.b.wantCached(n.of("10.2.0.0/16"), n.of(rlocC), n.of(rlocD))
	}
}

// TestGivenMappingsHaveALimit: of more than 4,096 that are in use, 4,096 are given.
func TestGivenMappingsHaveALimit(t *testing.T) {
	const inUse, most = 4200, 4096
	n := newDeafNetwork(t)
	for i := range inUse - 1 {
		p := numbered(i + 0x1000)
		if i%2 == 0 {
			p = numbered6(i)
		}
		n.a.itr.TakeRecord(unregistered(p), addrPort("192.0.2.100"), nil)
		n.a.drain()
		n.a.use(p.String())
	}
	if got := n.a.itr.Cache.Size(); got != inUse {
		t.Fatalf("%d mappings are in use, want %d", got, inUse)
	}
	n.deaf = []string{rlocA}
	n.forward(6*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.a.wantCounter(counter.SiblingMappingGiven, most)
	n.b.wantCounter(counter.SiblingMappingTaken, most)
	if got := n.b.itr.Cache.Size(); got != most {
		t.Errorf("the sibling has %d mappings, want %d", got, most)
	}
}

// TestStaleMappingsAreGiven as such: without a Map-Version, for what is left of their day, and they end as the sibling's own would.
func TestStaleMappingsAreGiven(t *testing.T) {
	n, x1, _, ms := staleSites(t, nil)
	n.kill(ms)
	bothWays(n, x1, 10*time.Minute)
	mine, stale := x1.staleEntry(prefix4)
	group, _ := x1.itr.InUse(func() uint32 { id, _, _ := x1.itr.Cache.Get(lisp.MustParsePrefix(prefix4)); return id }())
	given, ok := x1.itr.Left(lisp.MustParsePrefix(prefix4))
	if !stale || !ok || len(group) != 1 || given.TTLMinutes != 0 || given.Version == 0 {
		t.Fatalf("stale %v, given %v with version %d and TTL %d, %v", stale, ok, given.Version, given.TTLMinutes, group)
	}
	take := func(m lisp.Mapping, change func(*ITRConfig)) *testNode {
		y := n.add("y", Config{LocalRLOCs: []lisp.RLOC{rloc("192.0.2.7")}, ITR: &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}}}, "192.0.2.7")
		c := y.config
		itr := *c.ITR
		if change != nil {
			change(&itr)
		}
		c.ITR = &itr
		y.configure(c)
		y.itr.TakeGiven([]lisp.Mapping{m}, addrPort("10.1.0.3"))
		y.drain()
		n.run(time.Second)
		return y
	}
	y := take(given, nil)
	theirs, stale := y.staleEntry(prefix4)
	if ahead := theirs.ExpiresAt.Sub(mine.ExpiresAt); !stale || theirs.Mapping.Version != lisp.NullMapVersion || ahead > 0 || ahead < -time.Minute {
		t.Errorf("taken: stale %v, version %d, its TTL ended %s later", stale, theirs.Mapping.Version, ahead)
	}
	for range 120 {
		n.run(time.Second)
		y.use(prefix4)
	}
	if _, stale := y.staleEntry(prefix4); !stale {
		t.Error("it is gone, though its locators answer and packets use it")
	}
	n.lose = nil
	n.run(8 * time.Second)
	if e, stale := y.staleEntry(prefix4); stale || e.Mapping.Prefix.IsZero() {
		t.Errorf("after the return: stale %v, %+v", stale, e)
	}
	n.kill(ms)
	late := given
	late.Version = 24 * 60
	for name, c := range map[string]struct {
		m      lisp.Mapping
		change func(*ITRConfig)
	}{
		"a day": {m: late}, "off": {m: given, change: func(c *ITRConfig) { c.ServeStale = -1 }},
		"negative": {m: lisp.Mapping{Prefix: given.Prefix, Version: 1, Action: lisp.ActionNativelyForward}},
		"TTL of 0": {m: lisp.Mapping{Prefix: given.Prefix, Locators: given.Locators}},
	} {
		if y := take(c.m, c.change); y.itr.Cache.Size() > 0 {
			t.Errorf("%s: the map-cache has %v", name, y.cachedPrefixes())
		}
	}
}
