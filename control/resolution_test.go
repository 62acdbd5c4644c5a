// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// Shows RFC 9301 s.5.2 (7), (8), RFC 9301 s.5.3 (1).
func TestFirstPacketResolves(t *testing.T) {
	for _, c := range []struct{ source, destination, prefix string }{
		{"10.1.0.5", "10.2.0.9", "10.2.0.0/16"},
		{"2001:db8:1::5", "2001:db8:2::9", "2001:db8:2::/48"},
	} {
		n, x1, x2, ms := twoSites(t)
		n.run(time.Second)
		x1.miss(c.source, c.destination)
		n.run(time.Second)
		x1.wantCached(c.prefix, "192.0.2.2", "2001:db8:f::2")
		ms.wantCounter(counter.MapRequestForwarded, 1)
		x2.wantCounter(counter.MapReplySent, 1)
		x1.wantCounter(counter.MapRequestSent, 1)
		entry := x1.cache[lisp.MustParsePrefix(c.prefix)]
		if !entry.Mapping.Authoritative || entry.ExpiresAt.Sub(entry.CreatedAt) != 24*time.Hour {
			t.Errorf("the entry is %+v", entry)
		}
		request := sentMessages[*wire.MapRequest](x1)[0]
		if len(request.ITRRLOCs) != 2 || len(request.Records) != 1 || request.SourceEID.String() != c.source {
			t.Errorf("the Map-Request is %+v", request)
		}
	}
}

func TestFamiliesOfRLOCs(t *testing.T) {
	for _, c := range []struct{ name, x1, x2, ms string }{
		{"all by IPv4", "192.0.2.1", "192.0.2.2", "192.0.2.100"},
		{"all by IPv6", "2001:db8:f::1", "2001:db8:f::2", "2001:db8:f::100"},
	} {
		for _, pair := range [][2]string{{"10.1.0.5", "10.2.0.9"}, {"2001:db8:1::5", "2001:db8:2::9"}} {
			n := newNetwork(t)
			n.add("ms", mapServerConfig("10.0.0.0/8 2001:db8::/32"), c.ms)
			x1 := n.add("x1", xtrConfig(1, c.ms, []string{c.x1}, "10.1.0.0/16", "2001:db8:1::/48"), c.x1)
			n.add("x2", xtrConfig(2, c.ms, []string{c.x2}, "10.2.0.0/16", "2001:db8:2::/48"), c.x2)
			n.run(time.Second)
			x1.miss(pair[0], pair[1])
			n.run(time.Second)
			if got := x1.cachedPrefixes(); len(got) != 1 {
				t.Errorf("%s, %v: the map-cache is %v", c.name, pair, got)
			}
		}
	}
}

func TestRequestsOfAForeignFamilyAreCounted(t *testing.T) {
	n, _, x2, _ := twoSites(t)
	n.run(time.Second)
	m := wire.MapRequest{Nonce: 1, ITRRLOCs: []wire.Address{wire.IPv6{0x20, 1}}, Records: []wire.RequestRecord{{MaskLen: 32, EID: wire.IPv4{10, 2, 0, 1}}}}
	x2.host.RLOCs = []lisp.RLOC{rloc("192.0.2.2")}
	b, _ := m.AppendTo(nil)
	x2.inject("192.0.2.2:4342", "192.0.2.9:4342", b)
	x2.wantCounter(counter.RefusedFamily, 1)
}

// Shows RFC 9301 s.5.4 (5), RFC 9301 s.8.2 (4).
func TestProxyReply(t *testing.T) {
	n, x1, x2, ms := twoSites(t)
	n.run(time.Second)
	x2.config.ETR.MapServers[0].ProxyReply = true
	x2.start()
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	ms.wantCounter(counter.ProxyMapReplySent, 1)
	ms.wantCounter(counter.MapRequestForwarded, 0)
	m := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")].Mapping
	if m.Authoritative || m.Locators[0].Local || !m.Locators[0].Reachable {
		t.Errorf("the proxied mapping is %+v", m)
	}
}

func TestProxyReplyLeavesAuthoritativeRequestsToTheSite(t *testing.T) {
	n, _, x2, ms := twoSites(t)
	n.run(time.Second)
	x2.config.ETR.MapServers[0].ProxyReply = true
	x2.start()
	n.run(time.Second)
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", encapsulated(t, wire.MapRequest{Authoritative: true, Nonce: 5}, "10.2.0.9/32", "192.0.2.1"))
	ms.wantCounter(counter.ProxyMapReplySent, 0)
	ms.wantCounter(counter.MapRequestForwarded, 1)
}

// encapsulated is an ECM with a Map-Request from an ITR.
func encapsulated(t *testing.T, m wire.MapRequest, prefix string, itrRLOC ...string) []byte {
	t.Helper()
	p := lisp.MustParsePrefix(prefix)
	if m.Records == nil {
		m.Records = []wire.RequestRecord{{EID: wire.AddressOf(p), MaskLen: uint8(p.Bits())}}
	}
	for _, r := range itrRLOC {
		m.ITRRLOCs = append(m.ITRRLOCs, wire.RLOCAddress(rloc(r)))
	}
	inner, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	source := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), 4342)
	b, err := wire.AppendECM(nil, source, netip.MustParseAddrPort("192.0.2.55:4342"), inner)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Shows RFC 9301 s.8.4 (1).
func TestNegativeReplies(t *testing.T) {
	for _, c := range []struct {
		name, asked, hole string
		ttl               uint32
	}{
		{"no site's IPv4: the widest hole", "192.168.1.1", "128.0.0.0/1", 15},
		{"no site's, beside sites", "10.3.0.1", "10.3.0.0/16", 15},
		{"no site's, in another eighth", "10.200.0.1", "10.128.0.0/9", 15},
		{"no site's IPv6", "2001:db8:9::1", "2001:db8:8::/45", 15},
		{"a site's, not registered", "10.1.7.1", "10.1.4.0/22", 1},
		{"a site's, nothing registered at all", "10.2.7.1", "10.2.0.0/16", 1},
	} {
		n := newNetwork(t)
		n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16", "2001:db8:1::/48"), "192.0.2.100")
		x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/22"), "192.0.2.1")
		n.run(serverStart)
		source := "10.1.0.5"
		x1.miss(source, c.asked)
		n.run(time.Second)
		e, ok := x1.cache[lisp.MustParsePrefix(c.hole)]
		if !ok || !e.Mapping.Negative() || e.Mapping.Action != lisp.ActionNativelyForward || e.Mapping.TTLMinutes != c.ttl {
			t.Errorf("%s: %v, the map-cache is %v", c.name, e, x1.cachedPrefixes())
		}
	}
}

func TestNegativeEntryEndsWithItsTTL(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "172.16.0.1")
	n.run(time.Second)
	if len(x1.cache) != 1 {
		t.Fatalf("the map-cache is %v", x1.cachedPrefixes())
	}
	n.run(15 * time.Minute)
	if len(x1.cache) != 0 {
		t.Errorf("after 15 minutes the map-cache is %v", x1.cachedPrefixes())
	}
	x1.wantCounter(counter.MappingExpired, 1)
}

func TestInstanceIDsAreApart(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("[1]10.0.0.0/8 [2]10.0.0.0/8"), "192.0.2.100")
	x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "[1]10.1.0.0/16", "[2]10.1.0.0/16"), "192.0.2.1")
	n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "[2]10.2.0.0/16"), "192.0.2.2")
	n.add("x3", xtrConfig(3, "192.0.2.100", []string{"192.0.2.3"}, "[1]10.2.0.0/16"), "192.0.2.3")
	n.run(time.Second)
	for _, instance := range []lisp.InstanceID{1, 2} {
		x1.HandleMiss(n.now, Miss{Instance: instance, Source: eid("10.1.0.1"), Destination: eid("10.2.0.1")})
		x1.drain()
	}
	n.run(time.Second)
	x1.wantCached("[1]10.2.0.0/16", "192.0.2.3")
	x1.wantCached("[2]10.2.0.0/16", "192.0.2.2")
	x1.HandleMiss(n.now, Miss{Source: eid("10.1.0.1"), Destination: eid("10.2.0.1")})
	x1.drain()
	n.run(time.Second)
	x1.wantCached("0.0.0.0/0") // Instance-ID 0 has nothing: a hole
}

// Shows RFC 9301 s.5.2 (9), RFC 9301 s.5.3 (5).
func TestRetransmissionThenHoldDown(t *testing.T) {
	n, x1 := loneITR(t, Limits{})
	n.run(time.Second)
	x1.sent, x1.sentAt = nil, nil
	start := n.now
	for range 50 {
		x1.miss("10.1.0.5", "10.2.0.9")                // the data plane insists
		for _, r := range x1.config.ITR.MapResolvers { // which answer for others
			x1.itr.Requester.Resolvers.Answered(netip.AddrPortFrom(r.Addr(), 4342), 1)
		}
		n.run(2 * time.Second)
	}
	var requests []time.Duration
	for i, p := range x1.sent {
		if p.Payload[0]>>4 == uint8(wire.TypeEncapsulatedControlMessage) {
			requests = append(requests, x1.sentAt[i].Sub(start))
		}
	}
	for i := 1; i < len(requests); i++ {
		gap := requests[i] - requests[i-1]
		if gap < time.Second {
			t.Errorf("Map-Requests %d and %d are %s apart", i, i+1, gap)
		}
		if i == settings.MapRequestTries && gap < 30*time.Second {
			t.Errorf("after %d tries only %s of silence", i, gap)
		}
	}
	if len(requests) < settings.MapRequestTries+1 {
		t.Errorf("only %d Map-Requests, at %v", len(requests), requests)
	}
	x1.wantCounter(counter.MapRequestUnanswered, 1)
	nonces := make(map[uint64]bool)
	for _, m := range sentMessages[*wire.MapRequest](x1) {
		nonces[m.Nonce] = true
	}
	if len(nonces) != len(requests) {
		t.Errorf("%d nonces for %d Map-Requests", len(nonces), len(requests))
	}
}

// Shows RFC 9301 s.5.3 (4).
func TestOneMapRequestASecondForAPrefix(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(100 * time.Millisecond)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	// The entry vanishes, the packets go on.
	id, _, _ := x1.itr.Cache.Get(lisp.MustParsePrefix("10.2.0.0/16"))
	x1.itr.Cache.Remove(id, RemoveEvicted)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.wantCounter(counter.MapRequestSent, 1)
	n.run(800 * time.Millisecond)
	x1.wantCounter(counter.MapRequestSent, 1)
	n.run(200 * time.Millisecond)
	x1.wantCounter(counter.MapRequestSent, 2)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
}

func TestManyMissesOneRequest(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	for range 100 {
		x1.miss("10.1.0.5", "10.2.0.9")
	}
	x1.wantCounter(counter.MapRequestSent, 1)
	x1.miss("10.1.0.5", "10.2.0.10") // another EID
	x1.wantCounter(counter.MapRequestSent, 2)
	for i, p := range x1.pendings() {
		if want := fmt.Sprintf("10.2.0.%d/32", 9+i); p.Prefix.String() != want || p.Source != eid("10.1.0.5") || p.Tries != 1 || p.State != PendingWaiting ||
			p.MapResolver.String() != "192.0.2.100:4342" || p.NextAt.Sub(n.now) != settings.MapRequestInterval || p.SMRInvoked {
			t.Errorf("under way: %+v", p)
		}
	}
	if got := len(x1.pendings()); got != 2 {
		t.Errorf("%d Map-Requests under way", got)
	}
	n.run(5 * time.Second)
	if got := len(x1.pendings()); got != 0 {
		t.Errorf("%d Map-Requests under way at rest", got)
	}
}

func TestNextMapResolverOnSilence(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	c := x1.config
	c.ITR = &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.66"), addrPort("192.0.2.100")}}
	x1.configure(c)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(1200 * time.Millisecond)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	x1.wantCounter(counter.MapRequestSent, 2)
	x1.miss("10.1.0.5", "172.16.0.9") // the one that answered is asked first now
	n.run(100 * time.Millisecond)
	x1.wantCounter(counter.MapRequestSent, 3)
	if len(x1.cache) != 2 {
		t.Errorf("the map-cache is %v", x1.cachedPrefixes())
	}
}

// Shows RFC 9301 s.5.5 (1), (2).
func TestOverlappingPrefixes(t *testing.T) {
	for _, c := range []struct {
		asked string
		want  []string
	}{
		{"2001:db8:2:1::1", []string{"2001:db8:2:1::/64"}},
		{"2001:db8:2:5::5", []string{"2001:db8:2::/48", "2001:db8:2:1::/64", "2001:db8:2:2::/64"}},
	} {
		for _, proxy := range []bool{false, true} {
			n := newNetwork(t)
			n.add("ms", mapServerConfig("2001:db8::/32"), "192.0.2.100")
			x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "2001:db8:1::/48"), "192.0.2.1")
			cfg := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"},
				"2001:db8::/32", "2001:db8:2::/48", "2001:db8:2:1::/64", "2001:db8:2:2::/64")
			cfg.ETR.MapServers[0].ProxyReply = proxy
			cfg.ETR.Database[2].TTLMinutes = 10
			n.add("x2", cfg, "192.0.2.2")
			n.run(time.Second)
			x1.miss("2001:db8:1::5", c.asked)
			n.run(time.Second)
			if got := x1.cachedPrefixes(); !slices.Equal(got, c.want) {
				t.Errorf("proxy %v, asked for %s: the map-cache is %v, want %v", proxy, c.asked, got, c.want)
			}
			for _, e := range x1.cache {
				if len(c.want) > 1 && e.Mapping.TTLMinutes != 10 {
					t.Errorf("%s has TTL %d, want the shortest of all", e.Mapping.Prefix, e.Mapping.TTLMinutes)
				}
			}
		}
	}
}

// Shows RFC 9301 s.5 (2).
func TestTooManyMoreSpecificsNarrowTheAnswer(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("10.0.0.0/8"), "192.0.2.100")
	x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
	prefixes := []string{"10.2.0.0/16"}
	for i := range 100 { // 10.2.0.0/24 to 10.2.99.0/24
		prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, byte(i), 0}), 24).String())
	}
	x2 := n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, prefixes...), "192.0.2.2")
	n.run(5 * time.Second)
	x1.miss("10.1.0.5", "10.2.200.1")
	n.run(time.Second)
	if got := x1.cachedPrefixes(); !slices.Equal(got, []string{"10.2.128.0/17"}) {
		t.Errorf("the map-cache is %v", got)
	}
	for _, p := range x2.sent {
		if len(p.Payload) > 548 {
			t.Errorf("a message of %d octets", len(p.Payload))
		}
	}
}

// answerAll makes the test the mapping system: it answers every Map-Request of x.
func answerAll(x *testNode, mappings ...lisp.Mapping) {
	for _, m := range sentMessages[*wire.MapRequest](x) {
		reply := wire.MapReply{Nonce: m.Nonce}
		for _, mapping := range mappings {
			reply.Records = append(reply.Records, wire.RecordOf(mapping))
		}
		b, _ := reply.AppendTo(nil)
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	x.sent, x.sentAt = nil, nil
}

func positive(prefix string, ttl uint32) lisp.Mapping {
	return lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: ttl, Locators: locators("192.0.2.9")}
}

func loneITR(t *testing.T, limits Limits) (*testNetwork, *testNode) {
	n := newNetwork(t)
	x := n.add("x", Config{
		LocalRLOCs: []lisp.RLOC{rloc("192.0.2.1")}, Limits: limits,
		ITR: &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}, RLOCProbing: ProbingConfig{Off: true}},
	}, "192.0.2.1")
	return n, x
}

func TestMapReplyChecks(t *testing.T) {
	for _, c := range []struct {
		name     string
		mappings []lisp.Mapping
		refused  Counter
		cached   []string
	}{
		{"covers", []lisp.Mapping{positive("10.2.0.0/16", 10)}, 0, []string{"10.2.0.0/16"}},
		{"is exact", []lisp.Mapping{positive("10.2.0.1/32", 10)}, 0, []string{"10.2.0.1/32"}},
		{"of another EID", []lisp.Mapping{positive("10.3.0.0/16", 10)}, counter.RefusedUnrelatedPrefix, nil},
		{"of another Instance-ID", []lisp.Mapping{positive("[1]10.2.0.0/16", 10)}, counter.RefusedUnrelatedPrefix, nil},
		{"with an unrelated record", []lisp.Mapping{positive("10.2.0.0/16", 10), positive("10.3.0.0/16", 10)}, counter.RefusedUnrelatedPrefix, nil},
		{"with more-specifics", []lisp.Mapping{positive("10.2.0.0/16", 10), positive("10.2.1.0/24", 10)}, 0, []string{"10.2.0.0/16", "10.2.1.0/24"}},
		{"TTL 0", []lisp.Mapping{positive("10.2.0.0/16", 0)}, 0, nil},
		{"no record", nil, counter.RefusedNoRecord, nil},
	} {
		_, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", "10.2.0.1")
		answerAll(x, c.mappings...)
		if c.refused != 0 {
			x.wantCounter(c.refused, 1)
		}
		if got := x.cachedPrefixes(); !slices.Equal(got, c.cached) {
			t.Errorf("%s: the map-cache is %v, want %v", c.name, got, c.cached)
		}
	}
}

func TestUnsolicitedMapReplies(t *testing.T) {
	n, x := loneITR(t, Limits{})
	reply := wire.MapReply{Nonce: 1, Records: []wire.Record{wire.RecordOf(positive("10.2.0.0/16", 10))}}
	b, _ := reply.AppendTo(nil)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	x.wantCounter(counter.RefusedNonce, 1)
	x.miss("10.1.0.1", "10.2.0.1")
	reply.Nonce = sentMessages[*wire.MapRequest](x)[0].Nonce
	b, _ = reply.AppendTo(nil)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", b) // its nonce is used up
	x.wantCounter(counter.RefusedNonce, 2)
	reply.Probe = true
	b, _ = reply.AppendTo(nil)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	x.wantCounter(counter.RefusedProbeReply, 1)
	n.run(time.Second)
	x.wantCached("10.2.0.0/16", "192.0.2.9")
}

// Shows RFC 9301 s.5.5 (3).
func TestReplacementRules(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.1.1")
	answerAll(x, positive("10.2.1.0/24", 10))
	x.miss("10.1.0.1", "10.2.3.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.3.0/24"), TTLMinutes: 15, Action: lisp.ActionNativelyForward})
	n.run(2 * time.Second)
	// A less specific one comes for another EID: the positive more-specific stays
	// and bounds its time, the negative one goes.
	x.miss("10.1.0.1", "10.2.9.1")
	answerAll(x, positive("10.2.0.0/16", 60))
	if got := x.cachedPrefixes(); !slices.Equal(got, []string{"10.2.0.0/16", "10.2.1.0/24"}) {
		t.Errorf("the map-cache is %v", got)
	}
	wide, narrow := x.cache[lisp.MustParsePrefix("10.2.0.0/16")], x.cache[lisp.MustParsePrefix("10.2.1.0/24")]
	if !wide.ExpiresAt.Equal(narrow.ExpiresAt) {
		t.Errorf("the less specific one lasts until %s, the more specific one until %s", wide.ExpiresAt, narrow.ExpiresAt)
	}
	if x.removed[lisp.MustParsePrefix("10.2.3.0/24")] != RemoveReplaced {
		t.Errorf("removed: %v", x.removed)
	}
	// The more specific one is asked for again, and has become part of the other.
	n.run(2 * time.Second)
	x.HandleUsage(n.now.Add(9*time.Minute), []Usage{{Prefix: lisp.MustParsePrefix("10.2.1.0/24"), LastUsedAt: n.now.Add(9 * time.Minute)}})
	x.drain()
	answerAll(x, positive("10.2.0.0/16", 60))
	if got := x.cachedPrefixes(); !slices.Equal(got, []string{"10.2.0.0/16"}) {
		t.Errorf("after the refresh the map-cache is %v", got)
	}
}

func TestPrefixThatFellApart(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.1.1")
	answerAll(x, positive("10.2.0.0/16", 1))
	n.run(50 * time.Second)
	x.use("10.2.0.0/16")
	answerAll(x, positive("10.2.0.0/24", 1), positive("10.2.1.0/24", 1))
	if got := x.cachedPrefixes(); !slices.Equal(got, []string{"10.2.0.0/24", "10.2.1.0/24"}) {
		t.Errorf("the map-cache is %v", got)
	}
}

func TestRefreshOfWhatIsInUse(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	c := x2.config
	c.ETR.Database[0].TTLMinutes, c.ETR.Database[1].TTLMinutes = 1, 1
	x2.start()
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	n.run(time.Second)
	for range 60 {
		n.run(5 * time.Second)
		x1.use("10.2.0.0/16")
		x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	}
	if got := x1.counter(counter.MappingRefreshed); got < 5 || got > 8 {
		t.Errorf("%d refreshes in 5 minutes of a TTL of one", got)
	}
	x1.wantNotCached("2001:db8:2::/48")
	if created := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")].CreatedAt; n.now.Sub(created) < 4*time.Minute {
		t.Errorf("a refresh made the entry new: created at %s", created)
	}
}

func TestIdleEntriesGo(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.0.1")
	x.miss("10.1.0.1", "10.3.0.1")
	requests := sentMessages[*wire.MapRequest](x)
	for i, p := range []string{"10.2.0.0/16", "10.3.0.0/16"} {
		b, _ := (&wire.MapReply{Nonce: requests[i].Nonce, Records: []wire.Record{wire.RecordOf(positive(p, 1440))}}).AppendTo(nil)
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	for range 4 {
		n.run(10 * time.Minute)
		x.use("10.2.0.0/16")
	}
	x.wantCached("10.2.0.0/16", "192.0.2.9")
	x.wantNotCached("10.3.0.0/16")
	if x.removed[lisp.MustParsePrefix("10.3.0.0/16")] != RemoveIdle {
		t.Errorf("removed: %v", x.removed)
	}
}

func TestMapCacheLimit(t *testing.T) {
	n, x := loneITR(t, Limits{MapCacheEntries: 8})
	for i := range 100 {
		e := netip.AddrFrom4([4]byte{10, 2, byte(i), 1})
		x.miss("10.1.0.1", e.String())
		answerAll(x, positive(netip.PrefixFrom(e, 32).String(), 10))
		x.use("10.2.0.1/32")
		if x.itr.Cache.Size() > 8 || len(x.cache) > 8 {
			t.Fatalf("%d entries", x.itr.Cache.Size())
		}
		n.run(time.Millisecond)
	}
	x.wantCached("10.2.0.1/32", "192.0.2.9") // always in use
	x.wantCounter(counter.MappingEvicted, 92)
}

func TestPendingLimit(t *testing.T) {
	_, x := loneITR(t, Limits{PendingRequests: 10})
	for i := range 100 {
		x.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}).String())
	}
	x.wantCounter(counter.MapRequestSent, 10)
	x.wantCounter(counter.RefusedPendingTable, 90)
}

// Shows RFC 9301 s.6.1 (1), (4), (5).
func TestSolicitMapRequest(t *testing.T) {
	n, x1, x2, ms := twoSites(t)
	x1.limitSMRs()
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(2 * time.Second)
	smr := func(source wire.Address, prefix string) []byte {
		p := lisp.MustParsePrefix(prefix)
		m := wire.MapRequest{SMR: true, DontReply: true, Nonce: 9, SourceEID: source, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 2}},
			Records: []wire.RequestRecord{{MaskLen: uint8(p.Bits()), EID: wire.AddressOf(p)}}}
		b, _ := m.AppendTo(nil)
		return b
	}
	x1.sent = nil
	for range 3 { // the second is asked for later, and the third with it
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", smr(nil, "10.2.0.0/16"))
	}
	x1.wantCounter(counter.SMRInvokedMapRequestSent, 1)
	x1.wantCounter(counter.RefusedSMRLimit, 1)
	if m := sentMessages[*wire.MapRequest](x1)[0]; !m.SMRInvoked || m.SMR {
		t.Errorf("the SMR-invoked Map-Request is %+v", m)
	}
	if p := x1.sent[0]; p.Remote.Addr().String() != "192.0.2.100" {
		t.Errorf("the SMR-invoked Map-Request went to %s", p.Remote)
	}
	x1.inject("192.0.2.1:4342", "192.0.2.2:4342", smr(nil, "10.9.0.0/16"))
	x1.wantCounter(counter.RefusedSMRWithoutMapping, 1)
	n.run(7 * time.Second)
	x1.wantCounter(counter.SMRInvokedMapRequestSent, 2)
	// As RFC 6830 systems do it: our EID in the record, theirs as the source.
	x1.inject("192.0.2.1:4342", "192.0.2.2:4342", smr(wire.IPv4{10, 2, 0, 9}, "10.1.0.5/32"))
	x1.wantCounter(counter.SMRInvokedMapRequestSent, 3)
	x1.wantCounter(counter.MapReplySent, 0)
	x2.wantCounter(counter.RefusedNoMapping, 0)
	ms.wantCounter(counter.RefusedRole, 0)
}

// Shows RFC 9301 s.5 (1), RFC 9301 s.5.2 (1), (2), (4), RFC 9301 s.5.8 (4), RFC 9301 s.7.1 (1).
func TestRLOCProbes(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(time.Second)
	probe := wire.MapRequest{Probe: true, Nonce: 77, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}},
		Records: []wire.RequestRecord{{MaskLen: 16, EID: wire.IPv4{10, 1, 0, 0}}}}
	b, _ := probe.AppendTo(nil)
	x1.inject("192.0.2.1:4342", "192.0.2.9:50000", b)
	last := x1.sent[len(x1.sent)-1]
	m, err := wire.Parse(last.Payload)
	reply, ok := m.(*wire.MapReply)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", m, err)
	}
	if last.Remote.String() != "192.0.2.9:50000" || last.Local.String() != "192.0.2.1:4342" {
		t.Errorf("the reply went from %s to %s", last.Local, last.Remote)
	}
	if !reply.Probe || reply.Nonce != 77 || !reply.Records[0].Authoritative {
		t.Errorf("the reply is %+v", reply)
	}
	for _, l := range reply.Records[0].Locators {
		if l.Probed != (l.Address == wire.IPv4{192, 0, 2, 1}) || !l.Local {
			t.Errorf("locator %+v", l)
		}
	}
	ms.inject("192.0.2.100:4342", "192.0.2.9:50000", b)
	ms.wantCounter(counter.RefusedRole, 1)
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, probe, "10.1.0.0/16"))
	ms.wantCounter(counter.RefusedProbeInECM, 1)
	ms.wantCounter(counter.MapRequestForwarded, 0)
}

// TestRLOCProbeWithoutAnEID: lispers.net's first probe of a locator has AFI 0 and mask length 0 as record, and an EID of the probed site as
// the source (testdata/vectors/lispers-net.pcap, frames 10 and 15).
func TestRLOCProbeWithoutAnEID(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     string
		change func(*wire.MapRequest)
		answer string // about which EID-Prefix, none for no answer
	}{
		{"our EID as the source", "192.0.2.1", func(m *wire.MapRequest) { m.SourceEID = wire.IPv4{10, 1, 0, 0} }, "10.1.0.0/16"},
		{"our IPv6 EID as the source", "2001:db8:f::1", func(m *wire.MapRequest) { m.SourceEID = wire.EIDAddress(0, eid("2001:db8:1::1")) }, "2001:db8:1::/48"},
		{"another source", "192.0.2.1", func(m *wire.MapRequest) { m.SourceEID = wire.IPv4{10, 9, 0, 0} }, "10.1.0.0/16"},
		{"no source", "2001:db8:f::1", func(*wire.MapRequest) {}, "10.1.0.0/16"},
		{"at an address that is no locator of ours", "192.0.2.77", func(*wire.MapRequest) {}, ""},
		{"a mask length", "192.0.2.1", func(m *wire.MapRequest) { m.Records[0].MaskLen = 8 }, ""},
		{"no probe", "192.0.2.1", func(m *wire.MapRequest) { m.Probe = false }, ""},
		{"an SMR too", "192.0.2.1", func(m *wire.MapRequest) { m.SMR = true }, ""},
	} {
		n, x1, _, _ := twoSites(t)
		n.run(time.Second)
		x1.sent = nil
		probe := wire.MapRequest{Probe: true, Nonce: 77, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}}, Records: []wire.RequestRecord{{}}}
		c.change(&probe)
		b, err := probe.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x1.inject(netip.AddrPortFrom(netip.MustParseAddr(c.at), 4342).String(), "192.0.2.9:4342", b)
		replies := sentMessages[*wire.MapReply](x1)
		if c.answer == "" {
			if len(replies) != 0 || x1.counter(counter.RefusedEID)+x1.counter(counter.RefusedNoMapping) != 1 {
				t.Errorf("%s: %d answers, %d and %d refusals", c.name, len(replies), x1.counter(counter.RefusedEID), x1.counter(counter.RefusedNoMapping))
			}
			continue
		}
		if len(replies) != 1 || !replies[0].Probe || replies[0].Nonce != 77 {
			t.Fatalf("%s: answers %+v", c.name, replies)
		}
		record := replies[0].Records[0]
		p, _ := record.Prefix()
		probed := slices.IndexFunc(record.Locators, func(l wire.LocatorRecord) bool { return l.Probed })
		if p.String() != c.answer || !record.Authoritative || probed < 0 || record.Locators[probed].Address.String() != c.at {
			t.Errorf("%s: the answer is %+v", c.name, record)
		}
	}
}

func TestMapResolverAlone(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	mr := n.add("mr", Config{MapResolver: &MapResolverConfig{MapServers: []MapServerRoute{
		{Address: addrPort("192.0.2.100"), Prefixes: []lisp.Prefix{lisp.MustParsePrefix("10.0.0.0/8")}},
	}}}, "192.0.2.50")
	c := x1.config
	c.ITR = &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.50")}}
	x1.configure(c)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("10.1.0.5", "172.16.0.1")
	n.run(time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
	x1.wantCached("128.0.0.0/1")
	mr.wantCounter(counter.MapRequestForwarded, 1)
	mr.wantCounter(counter.NegativeMapReplySent, 1)
	ms.wantCounter(counter.MapRequestForwarded, 1)
}

func TestMapResolversInALoop(t *testing.T) {
	n := newNetwork(t)
	a := n.add("a", Config{MapResolver: &MapResolverConfig{MapServers: []MapServerRoute{{Address: addrPort("192.0.2.51")}}}}, "192.0.2.50")
	b := n.add("b", Config{MapResolver: &MapResolverConfig{MapServers: []MapServerRoute{{Address: addrPort("192.0.2.50")}}}}, "192.0.2.51")
	a.inject("192.0.2.50:4342", "192.0.2.1:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.2.0.9/32", "192.0.2.1"))
	n.run(time.Minute)
	if a.counter(counter.RefusedHopLimit)+b.counter(counter.RefusedHopLimit) != 1 {
		t.Error("the request went on for ever")
	}
}

// Shows RFC 9301 s.5.2 (8).
func TestSeveralRecordsInOneRequest(t *testing.T) {
	n, _, _, ms := twoSites(t)
	n.run(time.Second)
	record := func(a, b byte) wire.RequestRecord {
		return wire.RequestRecord{MaskLen: 32, EID: wire.IPv4{10, a, 0, b}}
	}
	m := wire.MapRequest{Nonce: 3, Records: []wire.RequestRecord{record(1, 1), record(1, 2), record(2, 1), record(9, 1)}}
	ms.sent = nil
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", encapsulated(t, m, "10.1.0.0/16", "192.0.2.1"))
	ms.wantCounter(counter.MapRequestForwarded, 2) // once to each ETR
	ms.wantCounter(counter.NegativeMapReplySent, 1)
}

func TestEverythingInOneNode(t *testing.T) {
	n := newNetwork(t)
	c := xtrConfig(1, "192.0.2.1", []string{"192.0.2.1"}, "10.1.0.0/16")
	ms := mapServerConfig("10.0.0.0/8")
	c.MapServer, c.MapResolver = ms.MapServer, ms.MapResolver
	all := n.add("all", c, "192.0.2.1")
	x2 := n.add("x2", xtrConfig(2, "192.0.2.1", []string{"192.0.2.2"}, "10.2.0.0/16"), "192.0.2.2")
	n.run(serverStart)
	all.miss("10.1.0.1", "10.2.0.1")
	x2.miss("10.2.0.1", "10.1.0.1")
	x2.miss("10.2.0.1", "10.3.0.1")
	n.run(time.Second)
	all.wantCached("10.2.0.0/16", "192.0.2.2")
	x2.wantCached("10.1.0.0/16", "192.0.2.1")
	x2.wantCached("10.3.0.0/16")
}

func TestStaticMappings(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	c := x1.config
	c.ITR = &ITRConfig{MapResolvers: c.ITR.MapResolvers, StaticMappings: []lisp.Mapping{positive("10.2.0.0/16", 0)}}
	x1.configure(c)
	x1.wantCached("10.2.0.0/16", "192.0.2.9")
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(48 * time.Hour)
	x1.wantCached("10.2.0.0/16", "192.0.2.9")
	x1.wantCounter(counter.MapRequestSent, x1.counter(counter.OwnMapRequestSent))
	c.ITR = &ITRConfig{MapResolvers: c.ITR.MapResolvers}
	x1.configure(c)
	x1.wantNotCached("10.2.0.0/16")
}

func TestAdoptMapCache(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	before := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	kept := []MapCacheEntry{
		before,
		{Mapping: positive("10.77.0.0/16", 10), CreatedAt: n.now.Add(-time.Hour), ExpiresAt: n.now.Add(10 * time.Minute)}, // ends while away
		{Mapping: positive("10.78.0.0/16", 0), Static: true, CreatedAt: n.now.Add(-time.Hour)},                            // no more configured
	}
	for _, e := range kept {
		x1.cache[e.Mapping.Prefix] = e
	}
	n.now = n.now.Add(time.Hour)
	x1.start()
	x1.AdoptMapCache(n.now, kept)
	x1.drain()
	if got := x1.cachedPrefixes(); !slices.Equal(got, []string{"10.2.0.0/16"}) || len(x1.cache) != 1 {
		t.Errorf("the map-cache is %v, the data plane has %v", got, x1.cache)
	}
	for e := range x1.MapCache() {
		if !e.CreatedAt.Equal(before.CreatedAt) || !e.ExpiresAt.Equal(before.ExpiresAt) {
			t.Errorf("adopted as created %s, expiring %s; was %s, %s", e.CreatedAt, e.ExpiresAt, before.CreatedAt, before.ExpiresAt)
		}
	}
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.wantCounter(counter.MapRequestSent, 0)
	n.run(24 * time.Hour)
	x1.wantNotCached("10.2.0.0/16")
}

// Shows RFC 9301 s.5.4 (14), (15), RFC 9301 s.7 (1).
func TestMapRepliesAreLimited(t *testing.T) {
	n, _, x2, ms := twoSites(t)
	n.run(time.Second)
	m := wire.MapRequest{Nonce: 3}
	for range 100 {
		x2.inject("192.0.2.2:4342", "192.0.2.100:4342", encapsulated(t, m, "10.2.0.9/32", "192.0.2.66"))
	}
	x2.wantCounter(counter.MapReplySent, 3)
	x2.wantCounter(counter.RefusedReplyLimit, 97)
	x2.inject("192.0.2.2:4342", "192.0.2.100:4342", encapsulated(t, m, "10.2.0.9/32", "192.0.2.67"))
	x2.wantCounter(counter.MapReplySent, 4) // another ITR is not affected
	n.run(3100 * time.Millisecond)
	x2.inject("192.0.2.2:4342", "192.0.2.100:4342", encapsulated(t, m, "10.2.0.9/32", "192.0.2.66"))
	x2.wantCounter(counter.MapReplySent, 5)
	for range 100 {
		ms.inject("192.0.2.100:4342", "192.0.2.66:4342", encapsulated(t, m, "172.16.0.9/32", "192.0.2.66"))
	}
	ms.wantCounter(counter.NegativeMapReplySent, 3)
}

// What happens with every message is told to those who heed it alone; what changes is told at any rate, and nothing counts as lost.
func TestUnheededMessages(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(time.Second)
	resolve := func(destination string) (told []NoticeKind) {
		x1.notices = nil
		x1.HandleMiss(n.now, Miss{Source: eid("10.1.0.1"), Destination: eid(destination)})
		x1.drain()
		n.run(time.Second)
		for _, notice := range x1.notices {
			told = append(told, notice.Kind)
		}
		return told
	}
	x1.TellMessages(false)
	if told := resolve("10.2.0.1"); len(told) > 0 {
		t.Errorf("told %v though no reader follows the messages", told)
	}
	n.lose = func(from *testNode, p SendPacket) bool { return from == x1 }
	x1.HandleMiss(n.now, Miss{Source: eid("10.1.0.1"), Destination: eid("10.3.0.1")})
	x1.drain()
	n.run(time.Minute)
	if !slices.ContainsFunc(x1.notices, func(notice Notice) bool { return notice.Kind == NoticeMapResolverSilent }) {
		t.Errorf("a change is not told: %v", x1.notices)
	}
	n.lose = nil
	n.run(10 * time.Second) // the Map-Resolver is back
	x1.TellMessages(true)
	if told := resolve("10.4.0.1"); !slices.Contains(told, NoticeMapRequestSent) || !slices.Contains(told, NoticeMapReplyReceived) {
		t.Errorf("told %v to who heeds it", told)
	}
	x1.wantCounter(counter.NoticeLost, 0)
}

// resolved has a Node ask for the mapping of a destination, and answers for exactly that at once.
func resolved(t *testing.T, n *Node, now time.Time, destination lisp.EID) {
	t.Helper()
	n.HandleMiss(now, Miss{Source: eid("10.1.0.1"), Destination: destination})
	for effect, ok := n.Poll(); ok; effect, ok = n.Poll() {
		sent, ok := effect.(SendPacket)
		if !ok {
			continue
		}
		ecm, err := wire.Parse(sent.Payload)
		if err != nil {
			t.Fatal(err)
		}
		request, err := wire.Parse(ecm.(*wire.EncapsulatedControlMessage).Inner.Message)
		if err != nil {
			t.Fatal(err)
		}
		mapping := lisp.Mapping{Prefix: lisp.HostPrefix(0, destination), TTLMinutes: 1440, Locators: locators("192.0.2.9")}
		reply := &wire.MapReply{Nonce: request.(*wire.MapRequest).Nonce, Records: []wire.Record{wire.RecordOf(mapping)}}
		octets, err := reply.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		n.HandlePacket(now, netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("192.0.2.9:4342"), octets)
	}
}

// Resolutions at a steady pace are forgotten together, none before its second is over.
func TestResolutionsAreForgottenTogether(t *testing.T) {
	const resolutions, pace = 50, 20 * time.Millisecond
	n, err := New(xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16"), epoch, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	began := epoch.Add(time.Minute)
	n.HandleTimeout(began)
	drain(n)
	for i := range resolutions {
		resolved(t, n, began.Add(time.Duration(i)*pace), lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 9, 0, byte(i)})))
	}
	iterations, kept := 0, resolutions
	for now := began; kept > 0 && iterations < resolutions; {
		var ok bool
		if now, ok = n.NextDeadline(); !ok {
			break
		}
		before := kept
		n.HandleTimeout(now)
		drain(n)
		if kept = n.itr.Requester.Pending.Size(); kept < before {
			iterations++
		}
		if over := int(now.Sub(began)-settings.MapRequestInterval)/int(pace) + 1; resolutions-kept > max(over, 0) {
			t.Fatalf("%d are forgotten when the second of %d is over", resolutions-kept, over)
		}
	}
	if kept > 0 || iterations > resolutions/4 {
		t.Errorf("%d are left after %d iterations", kept, iterations)
	}
}

// TestRefusalOfAZeroChecksumNamesTheSetting that accepts it, in the event and in the log.
func TestRefusalOfAZeroChecksumNamesTheSetting(t *testing.T) {
	n, _, _, ms := twoSites(t)
	n.run(time.Second)
	b := encapsulated(t, wire.MapRequest{Nonce: 7}, "10.1.0.9/32", "192.0.2.9")
	clear(b[4+20+6 : 4+20+8])
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", b)
	if at := slices.IndexFunc(ms.notices, func(n Notice) bool { return n.Kind == NoticeMessageRefused }); at < 0 || !strings.Contains(ms.notices[at].Detail, "control.accept-zero-inner-checksum") {
		t.Errorf("told: %+v", ms.notices)
	}
	c := ms.config
	c.AcceptZeroInnerChecksum = true
	ms.configure(c)
	before := len(ms.sent)
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", b)
	if len(ms.sent) == before {
		t.Error("refused with the setting too")
	}
}
