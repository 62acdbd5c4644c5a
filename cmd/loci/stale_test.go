// SPDX-License-Identifier: Apache-2.0

package main_test

// The mapping system is away for longer than TTLs last: mappings in use are used on.

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

const (
	// mappingSystemAway is how long it is: longer than registrations last, and three TTLs.
	mappingSystemAway = 210 * time.Second
	// backWithin is how soon after its return mappings are those of Map-Replies again.
	backWithin = 8 * time.Second
)

// TestMappingsOutliveTheMappingSystem at the TTL of a minute. With the kernel's data plane a daemon is killed
// meanwhile.
func TestMappingsOutliveTheMappingSystem(t *testing.T) {
	if os.Getenv(longTests) != "1" {
		t.Skip("takes four minutes: set " + longTests + "=1")
	}
	testnet.RequireProgram(t, "nft")
	t.Parallel() // it mostly waits
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			n := newLISPNetwork(t)
			n.engine = engine
			n.mappingSystemGoesAway(engine == "kernel")
		})
	}
}

func (n *lispNetwork) mappingSystemGoesAway(kill bool) {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	n.run("ms", n.mappingSystem())
	for _, s := range []testSite{one, two} {
		aMinute := strings.NewReplacer(
			s.eid4()+"}", s.eid4()+", record-ttl: 1}",
			s.eid6()+"'}", s.eid6()+"', record-ttl: 1}")
		n.run(s.name(), aMinute.Replace(n.xtr(s.number)))
	}
	n.awaitRegistrations(4)
	n.awaitPing("xtr1", one.router4(), two.host4())
	n.awaitPing("xtr1", one.router6(), two.host6())
	running := n.startPingingBoth()
	began := time.Now()
	n.nft("core", forwarded("ip daddr 172.16.9.2 drop; ip saddr 172.16.9.2 drop"))
	time.Sleep(mappingSystemAway / 2)
	for _, eid := range []netip.Addr{two.host4(), two.host6()} {
		n.await("the mapping of "+eid.String()+" is past its TTL", func(ctx context.Context) bool {
			return n.isStale(ctx, "xtr1", eid)
		})
		out, _ := n.loci("xtr1", "explain", eid.String(), "--socket", n.socket("xtr1"))
		if !strings.Contains(out, "its TTL ended") {
			n.t.Errorf("loci explain:\n%s", out)
		}
	}
	n.awaitProblem("xtr1", "mapping-stale", two.eid4())
	if kill {
		n.kill("xtr1")
		n.start("xtr1")
	}
	time.Sleep(time.Until(began.Add(mappingSystemAway)))
	running.end("the mapping system was away")
	returned := time.Now()
	n.nft("core", "") // a router that asks before the other site has registered again gets a negative Map-Reply
	n.awaitWithin(backWithin, "all mappings are those of Map-Replies", func(ctx context.Context) bool {
		return !n.isStale(ctx, "xtr1", two.host4()) && !n.isStale(ctx, "xtr1", two.host6()) &&
			!n.isStale(ctx, "xtr2", one.host4()) && !n.isStale(ctx, "xtr2", one.host6())
	})
	left := time.Until(returned.Add(backWithin))
	n.awaitWithin(left, "all EID-Prefixes have locators", func(ctx context.Context) bool {
		return n.hasLocators(ctx, "xtr1", two) && n.hasLocators(ctx, "xtr2", one)
	})
	running = n.startPingingBoth()
	time.Sleep(3 * time.Second)
	running.end("the mapping system was back")
}

// bothPings are pings between the first two sites, of both families.
type bothPings [2]*pings

func (n *lispNetwork) startPingingBoth() bothPings {
	return bothPings{n.startPinging(), n.startPingingBetween(testSite{1}.host6(), testSite{2}.host6())}
}

func (b bothPings) end(during string) {
	for _, p := range b {
		p.n.t.Logf("%d pings while %s, none lost", p.end(during), during)
	}
}

// hasLocators reports whether a router's mappings of a site have locators.
func (n *lispNetwork) hasLocators(ctx context.Context, name string, of testSite) bool {
	list, err := n.client(name).MapCache(ctx)
	n.must(err)
	for _, eid := range []netip.Addr{of.host4(), of.host6()} {
		if !slices.ContainsFunc(list, func(e api.MapCacheEntry) bool {
			return e.EIDPrefix.Netip().Contains(eid) && len(e.Locators) > 0
		}) {
			return false
		}
	}
	return true
}

// isStale reports whether a router uses a mapping for an EID past its TTL.
func (n *lispNetwork) isStale(ctx context.Context, name string, eid netip.Addr) bool {
	list, err := n.client(name).MapCache(ctx)
	n.must(err)
	return slices.ContainsFunc(list, func(e api.MapCacheEntry) bool {
		return e.EIDPrefix.Netip().Contains(eid) && e.Stale
	})
}
