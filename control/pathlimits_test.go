// SPDX-License-Identifier: Apache-2.0

package control

// What very many long paths cost: rows, nonces and RLOC-probes are bounded by the limits of the configuration, as those of plain
// locators are.

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapcache"
	"loci/control/internal/reach"
	"loci/lisp"
)

// longPath is a path of eight hops that begin at a number, all probed directly, unlike any other number's by its last hop.
func longPath(i int, shared ...string) lisp.Locator {
	hops := append([]string{}, shared...)
	for len(hops) < lisp.MaxHops {
		hops = append(hops, fmt.Sprintf("198.18.%d.%d", i>>5, i<<3&0xff|len(hops)))
	}
	bits := make([]lisp.HopBits, lisp.MaxHops)
	for at := range bits {
		bits[at] = lisp.HopProbe
	}
	return testPath(bits, hops...)
}

// installs puts mappings with such paths into the map-cache.
func (d *testNode) installs(count int, path func(i int) lisp.Locator) {
	for i := range count {
		d.itr.Cache.Install(mapcache.Entry{Mapping: lisp.Mapping{Prefix: cachedPrefix(i), TTLMinutes: 600, Locators: lisp.LocatorSet{path(i)}}, ExpiresAt: d.host.After(10 * time.Hour)})
		d.drain()
	}
}

func pathLimitsNode(t *testing.T, limits Limits) (*testNetwork, *testNode) {
	n, x := loneITR(t, limits)
	c := x.config
	itr := *c.ITR
	itr.RLOCProbing, itr.IdleTimeout = ProbingConfig{}, -1
	c.ITR = &itr
	x.configure(c)
	return n, x
}

// TestManyLongPathsAreBounded: paths and hops together fill the table up to its limit; what has no room is counted, and forwards by its
// first hop. The rate of RLOC-probes is that of the configuration.
func TestManyLongPathsAreBounded(t *testing.T) {
	const limit, count, rate = 100, 300, 20
	n, x := pathLimitsNode(t, Limits{Locators: limit, RLOCProbes: Rate{PerSecond: rate, Burst: rate}})
	x.installs(count, func(i int) lisp.Locator { return longPath(i) })
	for range 60 {
		before := x.counter(counter.RLOCProbeSent)
		n.run(time.Second)
		if sent := x.counter(counter.RLOCProbeSent) - before; sent > 2*rate {
			t.Fatalf("%d RLOC-probes in a second at %d a second", sent, rate)
		}
		table := &x.itr.Prober.Table
		if table.Size() > limit || len(x.itr.Prober.ByNonce) > limit*reach.ProbeNonces || table.Timers.Heap.Len() > limit {
			t.Fatalf("%d rows, %d nonces, %d deadlines; limit %d", table.Size(), len(x.itr.Prober.ByNonce), table.Timers.Heap.Len(), limit)
		}
	}
	if x.counter(counter.RefusedLocatorTable) == 0 || x.counter(counter.RefusedProbeLimit) == 0 {
		t.Errorf("refusals %v", refusals(x))
	}
	if len(x.cache) != count {
		t.Errorf("%d mappings in the data plane, want %d", len(x.cache), count)
	}
	last := x.cache[cachedPrefix(count-1)].Mapping.Locators[0]
	if !last.Usable() || last.Next != 0 {
		t.Errorf("without room: %+v", last)
	}
	for id := range x.itr.Cache.Entries.Len() {
		x.itr.Cache.Remove(uint32(id), RemoveEvicted)
	}
	x.drain()
	x.wantNoRemains("after all left", "")
	if size := x.itr.Prober.Table.Size(); size != 0 {
		t.Errorf("%d rows are left", size)
	}
}

// TestAHopOfVeryManyPaths: when it dies, all paths by it are judged anew, a batch in each iteration, and packets of each go to the hop
// behind it; when it returns, back.
func TestAHopOfVeryManyPaths(t *testing.T) {
	const count = 3000
	n, x := pathLimitsNode(t, Limits{Locators: 1 << 16})
	silent := false
	r1 := n.add("r1", relayConfig(RoleRTR, rtr1, "0.0.0.0/0"), rtr1)
	n.add("r2", relayConfig(RoleRTR, rtr2, "0.0.0.0/0"), rtr2)
	n.lose = func(_ *testNode, p SendPacket) bool { return silent && p.Remote.Addr() == netip.MustParseAddr(rtr1) }
	x.installs(count, func(i int) lisp.Locator {
		return testPath(nil, rtr1, rtr2, fmt.Sprintf("198.18.%d.%d", i>>8, i&0xff))
	})
	if hops := len(x.itr.Prober.Table.ByRLOC); hops != 1 {
		t.Errorf("%d hops are probed, want the next one", hops)
	}
	n.run(10 * time.Second)
	if r1.counter(counter.RLOCProbeReceived) > 2 {
		t.Errorf("one hop got %d RLOC-probes", r1.counter(counter.RLOCProbeReceived))
	}
	wantNext := func(next uint8) {
		t.Helper()
		for p, e := range x.cache {
			if e.Mapping.Locators[0].Next != next {
				t.Fatalf("%s goes to hop %d, want %d", p, e.Mapping.Locators[0].Next, next)
			}
		}
	}
	wantNext(0)
	silent = true
	n.run(2 * time.Minute)
	wantNext(1)
	silent = false
	n.run(5 * time.Minute)
	wantNext(0)
}

// TestEvictedPathsGo: a full map-cache evicts mappings of paths, with the rows of their hops.
func TestEvictedPathsGo(t *testing.T) {
	const entries = 8
	n, x := pathLimitsNode(t, Limits{MapCacheEntries: entries})
	for i := range 40 {
		p := cachedPrefix(i)
		x.HandleMiss(n.now, Miss{Source: eid("10.1.0.1"), Destination: p.EID()})
		x.drain()
		answerAll(x, lisp.Mapping{Prefix: p, TTLMinutes: 10, Locators: lisp.LocatorSet{longPath(i)}})
		n.run(time.Second)
	}
	if len(x.cache) > entries || x.counter(counter.MappingEvicted) < 30 {
		t.Errorf("%d mappings, %d evicted", len(x.cache), x.counter(counter.MappingEvicted))
	}
	if rows := x.itr.Prober.Table.Size(); rows > entries*(lisp.MaxHops+1) {
		t.Errorf("%d rows of %d mappings", rows, entries)
	}
	for p := range x.itr.Prober.Table.Paths.ByPath {
		found := false
		for _, e := range x.cache {
			found = found || e.Mapping.Locators[0].Path() == p
		}
		if !found {
			t.Errorf("path %s is in no mapping", p)
		}
	}
}
