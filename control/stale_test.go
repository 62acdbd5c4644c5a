// SPDX-License-Identifier: Apache-2.0

package control

// Serve-stale: what is used past its TTL while the mapping system is silent, and what never is.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/maprequest"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// staleSites are two sites whose mappings have a TTL of a minute and a Map-Version, both EID-Prefixes of x2 cached by x1 and in use.
func staleSites(t *testing.T, change func(*ITRConfig)) (n *testNetwork, x1, x2, ms *testNode) {
	t.Helper()
	n, x1, x2, ms = twoSites(t)
	for _, x := range []*testNode{x1, x2} {
		c := x.config
		etr := *c.ETR
		etr.Database = slices.Clone(etr.Database)
		for i := range etr.Database {
			etr.Database[i].TTLMinutes, etr.Database[i].Version = 1, 7
		}
		itr := *c.ITR
		itr.RLOCProbing = ProbingConfig{}
		if change != nil {
			change(&itr)
		}
		c.ETR, c.ITR = &etr, &itr
		x.configure(c)
	}
	n.run(2 * time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	bothWays(n, x1, 30*time.Second)
	return n, x1, x2, ms
}

// staleEntry is an entry as the data plane has it.
func (d *testNode) staleEntry(prefix string) (e MapCacheEntry, there bool) {
	e, there = d.cache[lisp.MustParsePrefix(prefix)]
	return e, there && e.Stale
}

// TestServeStale: while the Map-Server is away nothing of what is in use is given up, and it is asked for all the while.
func TestServeStale(t *testing.T) {
	n, x1, _, ms := staleSites(t, nil)
	n.kill(ms)
	for range 210 {
		bothWays(n, x1, time.Second)
		x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
		x1.wantCached(prefix6, probedRLOC4, probedRLOC6)
	}
	for _, prefix := range []string{prefix4, prefix6} {
		e, stale := x1.staleEntry(prefix)
		if !stale || e.Mapping.Version != lisp.NullMapVersion || !e.ExpiresAt.Before(n.now) {
			t.Errorf("%s: stale %v, Map-Version %d, the TTL ends after %s", prefix, stale, e.Mapping.Version, e.ExpiresAt.Sub(epoch))
		}
	}
	x1.wantCounter(counter.MappingStale, 2)
	list, count := x1.StaleMappings()
	if count != 2 || len(list) != 2 || list[0].Prefix != lisp.MustParsePrefix(prefix4) || !list[0].Until.Equal(list[0].Since.Add(24*time.Hour)) {
		t.Errorf("stale are %+v, %d", list, count)
	}
	for s := range x1.MapCache() {
		if s.State != MapCacheStale {
			t.Errorf("%s is %s", s.Mapping.Prefix, s.State)
		}
	}
	asked := x1.counter(counter.MapRequestSent)
	bothWays(n, x1, time.Minute)
	if more := x1.counter(counter.MapRequestSent) - asked; more < 20 || more > 80 {
		t.Errorf("%d Map-Requests in a minute of silence", more)
	}
	n.lose = nil // and what it has had expires meanwhile
	bothWays(n, x1, 8*time.Second)
	for _, prefix := range []string{prefix4, prefix6} {
		if e, stale := x1.staleEntry(prefix); stale || !e.ExpiresAt.After(n.now) {
			t.Errorf("%s after the return: %+v", prefix, e)
		}
	}
	if _, count := x1.StaleMappings(); count != 0 {
		t.Errorf("%d are stale after the return", count)
	}
}

// TestWhatIsNotServedStale: what ends with its TTL although the mapping system is silent.
func TestWhatIsNotServedStale(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ITRConfig)
		dead   bool // the peer's routers
		heard  bool // its packets come
		unused bool
		stale  bool
	}{
		{name: "in use", stale: true},
		{name: "off", change: func(c *ITRConfig) { c.ServeStale = -1 }},
		{name: "not in use", unused: true},
		{name: "no sign of life", dead: true},
		{name: "heard from", dead: true, heard: true, stale: true},
		{name: "heard from on the public Internet", change: func(c *ITRConfig) { c.PublicInternet = true }, dead: true, heard: true},
		{name: "not probed", change: func(c *ITRConfig) { c.RLOCProbing.Off = true }},
		{name: "not probed, heard from", change: func(c *ITRConfig) { c.RLOCProbing.Off = true }, heard: true, stale: true},
		{name: "rarely probed", change: func(c *ITRConfig) { c.RLOCProbing.Interval = time.Hour }, stale: true},
	} {
		n, x1, x2, ms := staleSites(t, c.change)
		x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
		n.lose = isDead(ms)
		if c.dead {
			n.lose = isDead(ms, x2)
		}
		for range 180 {
			n.run(time.Second)
			if c.heard {
				x1.heard(probedRLOC4, 0)
			}
			if !c.unused {
				x1.use(prefix4)
			}
		}
		if _, stale := x1.staleEntry(prefix4); stale != c.stale {
			t.Errorf("%s: stale %v, the map-cache has %v", c.name, stale, x1.cachedPrefixes())
		}
		if _, there := x1.cache[lisp.MustParsePrefix(prefix6)]; there {
			t.Errorf("%s: %s, which is not in use, is there", c.name, prefix6)
		}
	}
}

// TestServeStaleEndsAtItsLimit: not a second later.
func TestServeStaleEndsAtItsLimit(t *testing.T) {
	n, x1, _, ms := staleSites(t, func(c *ITRConfig) { c.ServeStale = 5 * time.Minute })
	n.kill(ms)
	ends := x1.cache[lisp.MustParsePrefix(prefix4)].ExpiresAt.Add(5 * time.Minute)
	for n.now.Before(ends.Add(2 * time.Second)) {
		bothWays(n, x1, time.Second)
		if _, stale := x1.staleEntry(prefix4); stale && !n.now.Before(ends) || !stale && ends.Sub(n.now) < 4*time.Minute && ends.After(n.now) {
			t.Fatalf("stale %v, %s before its end", stale, ends.Sub(n.now))
		}
	}
	// Switched off, it ends at once.
	n, x1, _, ms = staleSites(t, nil)
	n.kill(ms)
	bothWays(n, x1, 2*time.Minute)
	if _, stale := x1.staleEntry(prefix4); !stale {
		t.Fatal("nothing is stale")
	}
	c := x1.config
	itr := *c.ITR
	itr.ServeStale = -1
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	x1.wantNotCached(prefix4)
}

// TestAnyMapReplyEndsServeStale: new locators, a negative one, TTL 0, an older Map-Version; an RLOC-probe's answer does not.
func TestAnyMapReplyEndsServeStale(t *testing.T) {
	mapping := func(ttl uint32, version uint16, rlocs ...string) lisp.Mapping {
		return lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix4), TTLMinutes: ttl, Version: version, Locators: locators(rlocs...)}
	}
	negative := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix4), TTLMinutes: 1, Action: lisp.ActionNativelyForward}
	wider := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.0.0.0/8"), TTLMinutes: 1, Action: lisp.ActionNativelyForward}
	for _, c := range []struct {
		name  string
		reply lisp.Mapping
		want  []string // locators, nil for none
		there bool
	}{
		{"new", mapping(10, 8, "192.0.2.9"), []string{"192.0.2.9"}, true},
		{"older", mapping(10, 6, "192.0.2.9"), []string{"192.0.2.9"}, true},
		{"negative", negative, nil, true},
		{"negative, wider", wider, nil, true}, // a record of its own says that it is lost
		{"TTL 0", mapping(0, 7, probedRLOC4), nil, false},
	} {
		n, x1, x2, ms := staleSites(t, nil)
		n.kill(ms)
		x2.config.ETR.Database[0].Locators = locators("192.0.2.9") // what its answers to RLOC-probes say
		bothWays(n, x1, 2*time.Minute)
		if _, stale := x1.staleEntry(prefix4); !stale {
			t.Fatalf("%s: nothing is stale", c.name)
		}
		x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
		_, q, ok := x1.itr.Requester.Pending.Get(lisp.MustParsePrefix(prefix4))
		if !ok {
			t.Fatalf("%s: it is not asked for", c.name)
		}
		var nonce uint64
		for at, id := range x1.itr.Requester.Pending.ByNonce {
			if x1.itr.Requester.Pending.Requests.At(id) == q {
				nonce = at
			}
		}
		b, err := (&wire.MapReply{Nonce: nonce, Records: []wire.Record{wire.RecordOf(c.reply)}}).AppendTo(nil)
		if err != nil || nonce == 0 {
			t.Fatal(err, nonce)
		}
		x1.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
		e, there := x1.cache[lisp.MustParsePrefix(prefix4)]
		if there != c.there || e.Stale {
			t.Errorf("%s: %+v, there %v", c.name, e, there)
		}
		if c.there {
			x1.wantCached(prefix4, c.want...)
		}
	}
}

// TestDeniedMappingIsNotServedStale: a mapping that was kept through a negative Map-Reply ends with its TTL.
func TestDeniedMappingIsNotServedStale(t *testing.T) {
	n, x1, _, ms := staleSites(t, nil)
	p := lisp.MustParsePrefix(prefix4)
	n.kill(ms)
	for range 60 { // its refresh begins
		bothWays(n, x1, time.Second)
		if _, _, ok := x1.itr.Requester.Pending.Get(p); ok {
			break
		}
	}
	_, q, ok := x1.itr.Requester.Pending.Get(p)
	if !ok {
		t.Fatal("no refresh began")
	}
	m := wire.MapReply{Nonce: q.Nonces[0], Records: []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: p, TTLMinutes: 1, Action: lisp.ActionNativelyForward})}}
	b, _ := m.AppendTo(nil)
	x1.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
	x1.wantCounter(counter.MappingKept, 1)
	x1.wantCached(prefix4, probedRLOC4, probedRLOC6)
	bothWays(n, x1, time.Minute)
	x1.wantNotCached(prefix4)
}

// staleGroup is a lone ITR with 10.2.0.0/16 and what is more specific, all asked for, past their TTLs or about to be.
func staleGroup(t *testing.T) (*testNetwork, *testNode) {
	n, x := loneITR(t, Limits{})
	c := x.config
	c.ITR = &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}, RLOCProbing: ProbingConfig{Off: true}}
	x.configure(c)
	for i, p := range []string{"10.2.1.0/24", "10.2.2.0/24", "10.2.0.0/16"} {
		m := positive(p, 1)
		m.Locators = locators(fmt.Sprintf("192.0.2.%d", 21+i))
		x.itr.Requester.Ask(maprequest.Request{Prefix: m.Prefix})
		x.drain()
		_, q, _ := x.itr.Requester.Pending.Get(m.Prefix)
		b, _ := (&wire.MapReply{Nonce: q.Nonces[0], Records: []wire.Record{wire.RecordOf(m)}}).AppendTo(nil)
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	return n, x
}

// TestCoveringAndMoreSpecificStayOrGoTogether: one in use is enough, one without sign of life is too much.
func TestCoveringAndMoreSpecificStayOrGoTogether(t *testing.T) {
	all := []string{"192.0.2.21", "192.0.2.22", "192.0.2.23"}
	for _, c := range []struct {
		used  string
		alive []string
		stay  bool
	}{
		{"10.2.0.0/16", all, true},
		{"10.2.1.0/24", all, true},
		{"10.2.0.0/16", all[1:], false},
		{"10.2.1.0/24", all[:2], false},
		{"10.2.1.0/24", nil, false},
	} {
		n, x := staleGroup(t)
		for second := range 240 {
			n.run(time.Second)
			x.use(c.used)
			alive := all
			if second > 100 { // stale by now
				alive = c.alive
			}
			for _, r := range alive {
				x.heard(r, 0)
			}
			if second == 100 && len(x.cache) != 3 {
				t.Fatalf("%v: the map-cache has %v", c, x.cachedPrefixes())
			}
			if left := len(x.cache); left != 0 && left != 3 {
				t.Fatalf("%v: after %d s %v are there", c, second, x.cachedPrefixes())
			}
		}
		if got := len(x.cache) == 3; got != c.stay {
			t.Errorf("%v: the map-cache has %v", c, x.cachedPrefixes())
		}
	}
}

// TestStaleEntriesAreEvictedFirst, the one whose TTL ended first before the others.
func TestStaleEntriesAreEvictedFirst(t *testing.T) {
	n, x1, _, ms := staleSites(t, nil)
	n.kill(ms)
	bothWays(n, x1, 2*time.Minute)
	c := x1.config
	c.Limits.MapCacheEntries = 3
	x1.configure(c)
	for i, want := range []int{2, 1, 0, 0} {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 3, byte(i)}), 24).String()
		x1.HandleUsage(n.now, []Usage{{Prefix: lisp.MustParsePrefix(prefix4), LastUsedAt: n.now}})
		x1.itr.TakeRecord(positive(p, 10), addrPort("192.0.2.100"), nil)
		x1.drain()
		if _, count := x1.StaleMappings(); count != want {
			t.Errorf("%d are stale after %s, want %d: %v", count, p, want, x1.cachedPrefixes())
		}
		if _, there := x1.cache[lisp.MustParsePrefix(p)]; !there {
			t.Errorf("%s was not taken", p)
		}
	}
}

// TestStaleEntriesSurviveARestart: as long as a locator answers soon; entries that ended with their TTLs do not.
func TestStaleEntriesSurviveARestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		dead  bool
		mark  bool
		after time.Duration
		limit time.Duration
		stay  bool
	}{
		{name: "alive", mark: true, after: time.Second, stay: true},
		{name: "not marked", after: time.Second},
		{name: "dead", dead: true, mark: true, after: time.Second},
		{name: "too late", mark: true, after: 6 * time.Minute, limit: 5 * time.Minute},
	} {
		n, x1, x2, ms := staleSites(t, func(config *ITRConfig) { config.ServeStale = c.limit })
		n.lose = isDead(ms)
		bothWays(n, x1, 2*time.Minute)
		kept := x1.cache[lisp.MustParsePrefix(prefix4)]
		if !kept.Stale {
			t.Fatalf("%s: nothing is stale", c.name)
		}
		kept.Stale = c.mark
		if c.dead {
			n.lose = isDead(ms, x2)
		}
		x1.Node, n.now = nil, n.now.Add(c.after)
		x1.start()
		x1.AdoptMapCache(n.now, []MapCacheEntry{kept})
		x1.drain()
		for range 60 {
			n.run(time.Second)
			x1.use(prefix4)
		}
		if _, stale := x1.staleEntry(prefix4); stale != c.stay {
			t.Errorf("%s: stale %v", c.name, stale)
		}
		if _, count := x1.StaleMappings(); (count == 1) != c.stay {
			t.Errorf("%s: %d are stale", c.name, count)
		}
	}
}

// TestNegativeAndGleanedEntriesAreNeverStale, nor are those of a data plane that says so.
func TestNegativeAndGleanedEntriesAreNeverStale(t *testing.T) {
	n, x1, _, ms := staleSites(t, nil)
	n.kill(ms)
	ended := n.now.Add(-time.Minute)
	for _, e := range []MapCacheEntry{
		{Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix("10.8.0.0/16"), TTLMinutes: 1, Action: lisp.ActionNativelyForward}},
		{Mapping: positive("10.9.0.1/32", 1), Gleaned: true},
	} {
		e.Stale, e.CreatedAt, e.ExpiresAt = true, ended, ended
		x1.AdoptMapCache(n.now, []MapCacheEntry{e})
		x1.drain()
		if _, count := x1.StaleMappings(); count != 0 {
			t.Errorf("%s is stale", e.Mapping.Prefix)
		}
		if x1.removed[e.Mapping.Prefix] != RemoveExpired {
			t.Errorf("%s is not taken out", e.Mapping.Prefix)
		}
	}
	x1.itr.TakeRecord(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.8.0.0/16"), TTLMinutes: 1, Action: lisp.ActionNativelyForward}, addrPort("192.0.2.100"), nil)
	for range 60 + int(settings.UsageDelay/time.Second) {
		n.run(time.Second)
		x1.use("10.8.0.0/16")
	}
	x1.wantNotCached("10.8.0.0/16")
}
