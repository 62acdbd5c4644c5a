// SPDX-License-Identifier: Apache-2.0

package main_test

// The ITR in namespaces: refresh before the TTL ends (RFC 9301 s.5.3), proxy ETRs (RFC 6832
// s.6.1), several Map-Resolvers, a locator that dies (RFC 9301 s.7.1), and loci explain.

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// TestRunningFlowSeesNoExpiry pings through the end of a TTL of a minute, the shortest
// there is: the mapping is asked for again before (RFC 9301 s.5.3), and no packet is lost.
func TestRunningFlowSeesNoExpiry(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", strings.Replace(n.xtr(2), "local-eids: [{eid: 10.2.0.0/24}", "local-eids: [{eid: 10.2.0.0/24, record-ttl: 1}", 1))
	n.awaitRegistrations(4)
	n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 1)
	var before, after []api.MapCacheEntry
	n.show("xtr1", &before, "map-cache", "10.2.0.10")
	pinging := n.startPinging()
	time.Sleep(time.Until(*before[0].ExpiresAt) + 2*time.Second)
	sent := pinging.end("the end of the TTL")
	n.show("xtr1", &after, "map-cache", "10.2.0.10")
	if len(after) != 1 || !after[0].CreatedAt.Equal(before[0].CreatedAt) || !after[0].ExpiresAt.After(*before[0].ExpiresAt) {
		t.Errorf("the entry was %+v, is %+v: want the same, refreshed", before, after)
	}
	var counters api.Counters
	n.show("xtr1", &counters, "counters")
	if counters.Control["mapping_refreshed_total"] == 0 || counters.Control["mapping_expired_total"] != 0 {
		t.Errorf("%d refreshes, %d mappings expired", counters.Control["mapping_refreshed_total"], counters.Control["mapping_expired_total"])
	}
	t.Logf("%d pings through the end of a TTL of 60 s, none lost", sent)
}

// lispPackets counts encapsulated packets that enter the core from a router, by the outer
// destination, and when each was seen first.
type lispPackets struct {
	mu    sync.Mutex
	seen  map[netip.Addr]int
	first map[netip.Addr]time.Time
	last  map[netip.Addr]time.Time
}

func (n *lispNetwork) watchCore(router string) *lispPackets {
	n.t.Helper()
	w := &lispPackets{seen: map[netip.Addr]int{}, first: map[netip.Addr]time.Time{}, last: map[netip.Addr]time.Time{}}
	running, err := testnet.Capture{Namespace: n.at["core"], Links: []string{"to-" + router}, IncomingOnly: true}.Start(func(p testnet.Captured) error {
		if to, ok := lispDestination(p.Data); ok {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.seen[to]++; w.seen[to] == 1 {
				w.first[to] = p.Time
			}
			w.last[to] = p.Time
		}
		return nil
	})
	n.must(err)
	n.t.Cleanup(func() { _ = running.Stop() })
	return w
}

func (w *lispPackets) to(a string) (count int, first, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to := netip.MustParseAddr(a)
	return w.seen[to], w.first[to], w.last[to]
}

// lispDestination is the outer destination of an Ethernet frame with UDP to port 4341.
func lispDestination(frame []byte) (netip.Addr, bool) {
	const ethernet, port = 14, 4341
	switch {
	case len(frame) > ethernet+24 && frame[ethernet]>>4 == 4 && int(frame[ethernet+22])<<8|int(frame[ethernet+23]) == port:
		return netip.AddrFrom4([4]byte(frame[ethernet+16:])), true
	case len(frame) > ethernet+44 && frame[ethernet]>>4 == 6 && int(frame[ethernet+42])<<8|int(frame[ethernet+43]) == port:
		return netip.AddrFrom16([16]byte(frame[ethernet+24:])), true
	}
	return netip.Addr{}, false
}

// Shows RFC 6832 s.6.1 (1).
func TestHolesGoToTheProxyETR(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), "itr: {", "itr: {proxy-etrs: [{address: 172.16.2.2}], ", 1))
	n.awaitRegistrations(2)
	core := n.watchCore("xtr1")
	// It waits for the negative answer, then goes to the proxy ETR: there is no answer.
	result, err := testnet.Ping{
		Namespace: n.at["host1"], Source: testSite{1}.host4(), Destination: netip.MustParseAddr("198.51.100.77"), Count: 5, Timeout: 300 * time.Millisecond,
	}.Run(t.Context())
	n.must(err)
	n.await("five packets at the proxy ETR", func(context.Context) bool { count, _, _ := core.to("172.16.2.2"); return count == 5 })
	if result.Received != 0 {
		t.Errorf("%d pings to no host were answered", result.Received)
	}
	var cache []api.MapCacheEntry
	n.show("xtr1", &cache, "map-cache", "198.51.100.77")
	if len(cache) != 1 || !cache[0].ProxyETR || cache[0].Action == nil || cache[0].Action.String() != "natively-forward" {
		t.Errorf("map-cache: %+v", cache)
	}
	e, err := n.client("xtr1").Explain(t.Context(), explainQuery(t, "198.51.100.77"))
	if err != nil || e.Outcome != api.OutcomeProxyETR {
		t.Errorf("explained as %s: %v, %v", e.Outcome, e.Why, err)
	}
}

func explainQuery(t *testing.T, eid string) api.ExplainQuery {
	t.Helper()
	var q api.ExplainQuery
	if err := q.EID.UnmarshalText([]byte(eid)); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestDeadLocatorIsLeft stops the core from carrying one RLOC of a site. The flow goes on
// by the other one as soon as the probes have told it; how soon after that is printed.
func TestDeadLocatorIsLeft(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	// So slow that an answer which waits for a processor is not taken for a lost one.
	n.run("xtr1", strings.Replace(n.xtr(1), "itr: {", "itr: {rloc-probing: {interval: 1s, retries: 2, retries-interval: 500ms}, ", 1))
	n.run("xtr2", strings.Replace(n.xtr(2), "{eid: 10.2.0.0/24}", "{eid: 10.2.0.0/24, rlocs: [{address: 172.16.2.2}, {address: '2001:db8:2::2', priority: 2}]}", 1))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 3)
	n.await("probes of both locators are answered", func(ctx context.Context) bool {
		list, err := n.client("xtr1").Locators(ctx)
		up := 0
		for _, l := range list {
			if !l.Local && l.State == "up" && l.RoundTrips != nil {
				up++
			}
		}
		return err == nil && up == 2
	})
	core := n.watchCore("xtr1")
	events, stop := n.followEvents("xtr1")
	defer stop()
	go func() { // until the test is over
		_, _ = testnet.Ping{
			Namespace: n.at["host1"], Source: one.host4(), Destination: two.host4(), Count: 12000, Interval: 5 * time.Millisecond, Timeout: time.Millisecond,
		}.Run(t.Context())
	}()
	n.await("traffic by the first locator", func(context.Context) bool { count, _, _ := core.to("172.16.2.2"); return count > 20 })
	// The core takes in IPv4 of xtr1 no longer, and says nothing about it.
	n.must(n.at["core"].SetSysctl("net.ipv4.conf.to-xtr1.forwarding", "0"))
	left := events("locator-unconfirmed")
	n.await("traffic by the second locator", func(context.Context) bool { count, _, _ := core.to("2001:db8:2::2"); return count > 20 })
	_, first, _ := core.to("2001:db8:2::2")
	_, _, last := core.to("172.16.2.2")
	t.Logf("locator-unconfirmed at the Node to the first packet by the other locator: %s (target: under 100 ms); to the last one by the dead one: %s", first.Sub(left.At), last.Sub(left.At))
	if left.RLOC != "172.16.2.2" || left.Reason != "probes-unanswered" {
		t.Errorf("event %+v", left)
	}
	e, err := n.client("xtr1").Explain(t.Context(), explainQuery(t, "10.2.0.10"))
	if err != nil || len(e.Locators) != 2 || e.Locators[0].State != "unconfirmed" || e.Locators[0].Reason != "probes-unanswered" || !strings.Contains(e.Locators[0].WhyNot, "another one is up") || e.Locators[1].Share != 1 {
		t.Errorf("explained: %+v, %v", e, err)
	}
	out, status := n.loci("xtr1", "explain", "10.2.0.10", "--from", "10.1.0.10", "--protocol", "icmp", "--socket", n.socket("xtr1"))
	if status != 0 || !strings.Contains(out, "unconfirmed: another one is up") || !strings.Contains(out, "[2001:db8:2::2]:4341") {
		t.Errorf("loci explain: status %d\n%s", status, out)
	}
	n.must(n.at["core"].SetSysctl("net.ipv4.conf.to-xtr1.forwarding", "1"))
	up := events("locator-up")
	if up.RLOC != "172.16.2.2" || up.Reason != "probe-answered" {
		t.Errorf("event %+v", up)
	}
}

// followEvents gives the events of a router from now on; the function waits for one kind.
func (n *lispNetwork) followEvents(name string) (await func(kind string) api.Event, stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	events := make(chan api.Event, 4096)
	began := make(chan struct{})
	go func() {
		close(began)
		_ = n.client(name).Events(ctx, api.EventQuery{Probes: true}, func(e api.Event) error {
			select {
			case events <- e:
			default: // no test waits for so many
			}
			return nil
		})
	}()
	<-began
	return func(kind string) api.Event {
		n.t.Helper()
		timeout := time.After(readyFor)
		for {
			select {
			case e := <-events:
				if e.Kind == kind {
					return e
				}
			case <-timeout:
				n.t.Fatalf("no event %s within %s", kind, readyFor)
			}
		}
	}, cancel
}

// TestMapRequestsUnderWayAreShown while they are not answered.
func TestMapRequestsUnderWayAreShown(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("xtr1", n.xtr(1))
	one, two := testSite{1}, testSite{2}
	for _, family := range []struct {
		source, destination netip.Addr
		within              string
	}{{one.host4(), two.host4(), "10.2.0.0/16"}, {one.host6(), two.host6(), "fd00:2::/32"}} {
		_, err := testnet.Ping{Namespace: n.at["host1"], Source: family.source, Destination: family.destination, Timeout: time.Millisecond}.Run(t.Context())
		n.must(err)
		n.await("the resolution is shown", func(ctx context.Context) bool {
			list, err := n.client("xtr1").MapRequests(ctx)
			at := slices.IndexFunc(list, func(r api.PendingMapRequest) bool { return r.EIDPrefix.EID().Addr() == family.destination })
			return err == nil && at >= 0 && list[at].SourceEID == family.source.String() && list[at].State == "waiting" && list[at].Tries > 0 &&
				list[at].MapResolver == "172.16.9.2:4342"
		})
		text, status := n.loci("xtr1", "show", "map-requests", family.within, "--socket", n.socket("xtr1"))
		if status != 0 || strings.Count(text, "a packet from ") != 1 || !strings.Contains(text, "a packet from "+family.source.String()) {
			t.Errorf("loci show map-requests: %d\n%s", status, text)
		}
	}
}

// TestNextMapResolverInNamespaces: the first Map-Resolver is a hole in the net.
func TestNextMapResolverInNamespaces(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), "map-resolvers: [172.16.9.2]", "map-resolvers: [172.16.9.77, 172.16.9.2]", 1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1) // waits for the second try
	first := n.ping("host1", one.host6(), two.host6(), 1)
	if took, ok := first.First(); !ok || took > 900*time.Millisecond {
		t.Errorf("the second resolution took %s: the Map-Resolver that answers was not asked first", took)
	}
	var s api.Status
	n.show("xtr1", &s, "status")
	if len(s.MapResolverStates) != 2 || s.MapResolverStates[1].State != "answers" || s.MapResolverStates[1].RoundTrip == nil {
		t.Errorf("Map-Resolvers: %+v", s.MapResolverStates)
	}
}
