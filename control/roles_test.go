// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/itr"
	"loci/control/internal/mapcache"
	"loci/lisp"
	"loci/wire"
)

func TestRolesSwitchedOffTakeTheirTables(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	if len(slices.Collect(x1.Database())) != 2 || len(x1.database) != 2 || len(x1.cache) != 1 {
		t.Fatalf("before: Database %v, map-cache %v", x1.database, x1.cache)
	}
	x1.configure(Config{LocalRLOCs: x1.config.LocalRLOCs})
	if len(x1.database) != 0 || len(x1.cache) != 0 {
		t.Errorf("after: Database %v, map-cache %v", x1.database, x1.cache)
	}
	if len(slices.Collect(x1.MapCache()))+len(slices.Collect(x1.Database()))+len(x1.pendings())+
		len(slices.Collect(x1.MapServers()))+len(slices.Collect(x1.Registrations())) != 0 {
		t.Error("a Node without roles has something to show")
	}
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.wantCounter(counter.RefusedRole, 1)
	ms.configure(Config{})
	n.run(time.Hour)
	if at, ok := x1.NextDeadline(); ok {
		t.Errorf("a Node without roles wants to wake at %s", at)
	}
}

// Shows RFC 9301 s.8.3 (1).
func TestEveryMessageOfARoleThatIsOff(t *testing.T) {
	n := newNetwork(t)
	none := n.add("none", Config{}, "192.0.2.1")
	reply, _ := (&wire.MapReply{Records: []wire.Record{wire.RecordOf(positive("10.2.0.0/16", 1))}}).AppendTo(nil)
	notify := wire.MapNotify{KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32)}
	signed, _ := wire.AppendSigned(nil, &notify, secret(1).Secret)
	ack := wire.MapNotifyAck(notify)
	signedAck, _ := wire.AppendSigned(nil, &ack, secret(1).Secret)
	direct, _ := (&wire.MapRequest{ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}}}).AppendTo(nil)
	for _, b := range [][]byte{reply, signed, signedAck, direct, register(t, nil, "10.1.0.0/16"), encapsulated(t, wire.MapRequest{}, "10.1.0.0/16", "192.0.2.9")} {
		none.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	none.wantCounter(counter.RefusedRole, 6)
	shared, _ := (&wire.SharedExtension{SubType: 1024}).AppendTo(nil)
	none.inject("192.0.2.1:4342", "192.0.2.9:4342", shared)
	none.wantCounter(counter.RefusedType, 1)
	if len(none.sent) != 0 {
		t.Errorf("sent %v", none.sent)
	}
}

// TestOtherKindsOfEID resolves MAC addresses and names, in an Instance-ID.
func TestOtherKindsOfEID(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig(`[3]02:00:00:00:00:00/16 [3]"ietf"/32`), "192.0.2.100")
	x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "[3]02:00:01:00:00:00/24"), "192.0.2.1")
	n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "[3]02:00:02:00:00:00/24", `[3]"ietf.lisp"/80`), "192.0.2.2")
	n.run(serverStart)
	for _, e := range []string{"02:00:02:00:00:07", `"ietf.lisp"`, "02:00:03:00:00:07"} {
		x1.HandleMiss(n.now, Miss{Instance: 3, Source: eid("02:00:01:00:00:01"), Destination: eid(e)})
		x1.drain()
	}
	n.run(time.Second)
	x1.wantCached("[3]02:00:02:00:00:00/24", "192.0.2.2")
	x1.wantCached(`[3]"ietf.lisp"/80`, "192.0.2.2")
	x1.wantCached("[3]02:00:03:00:00:00/24") // a hole
}

func TestProxyReplyPolicies(t *testing.T) {
	for _, c := range []struct {
		policy    ProxyReplyPolicy
		requested bool
		proxied   uint64
	}{
		{ProxyReplyByRequest, false, 0}, {ProxyReplyByRequest, true, 1},
		{ProxyReplyAlways, false, 1}, {ProxyReplyNever, true, 0},
	} {
		n := newNetwork(t)
		cfg := mapServerConfig("10.1.0.0/16")
		cfg.MapServer.Sites[0].ProxyReply = c.policy
		ms := n.add("ms", cfg, "192.0.2.100")
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.ProxyReply = c.requested }, "10.1.0.0/16"))
		ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.1.0.9/32", "192.0.2.9"))
		ms.wantCounter(counter.ProxyMapReplySent, c.proxied)
		ms.wantCounter(counter.MapRequestForwarded, 1-c.proxied)
	}
}

// TestProxyReplyLeavesOutWhatOthersAnswer: the more specific prefix answers for
// itself, so the proxied answer must not cover it.
func TestProxyReplyLeavesOutWhatOthersAnswer(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	send := func(nonce uint64, proxy bool, prefix string) {
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce, m.ProxyReply = nonce, proxy }, prefix))
	}
	send(1, true, "10.1.0.0/16")
	send(2, false, "10.1.128.0/24")
	ms.sent = nil
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.1.0.9/32", "192.0.2.9"))
	replies := sentMessages[*wire.MapReply](ms)
	if len(replies) != 1 || len(replies[0].Records) != 1 {
		t.Fatalf("replies %+v", replies)
	}
	if p, _ := replies[0].Records[0].Prefix(); p.String() != "10.1.0.0/17" {
		t.Errorf("the answer is about %s", p)
	}
	n.run(time.Second)
}

// TestAnotherSitesAggregate: what one site registers widely says nothing about the
// EID-Prefix of another one in the middle of it.
func TestAnotherSitesAggregate(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.0.0.0/8", "10.1.0.0/16"), "192.0.2.100")
	n.run(serverStart)
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, nil, "10.0.0.0/8"))
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.1.0.9/32", "192.0.2.9"))
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.2.0.9/32", "192.0.2.9"))
	ms.wantCounter(counter.NegativeMapReplySent, 1)
	ms.wantCounter(counter.MapRequestForwarded, 1)
	replies := sentMessages[*wire.MapReply](ms)
	if p, _ := replies[0].Records[0].Prefix(); p.String() != "10.1.0.0/16" || replies[0].Records[0].TTLMinutes != 1 {
		t.Errorf("the negative answer is %+v", replies[0].Records[0])
	}
	n.run(time.Second)
}

func TestMissThatTheMapCacheCovers(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, positive("10.2.0.0/16", 10))
	delete(x.cache, lisp.MustParsePrefix("10.2.0.0/16")) // the data plane lost it
	x.miss("10.1.0.1", "10.2.0.2")                       // too soon: the two may have crossed
	x.wantNotCached("10.2.0.0/16")
	n.run(3 * time.Second)
	x.miss("10.1.0.1", "10.2.0.2")
	x.wantCached("10.2.0.0/16", "192.0.2.9")
	x.wantCounter(counter.MapRequestSent, 1)
}

func TestSendMapRequestAction(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 10, Action: lisp.ActionSendMapRequest})
	x.wantCached("10.2.0.0/16")
	n.run(2 * time.Second)
	x.miss("10.1.0.1", "10.2.0.1")
	x.wantCounter(counter.MapRequestSent, 2)
}

func TestUnlimitedTTL(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, positive("10.2.0.0/16", lisp.TTLUnlimited))
	e := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	if e.ExpiresAt.Sub(n.now) != 24*time.Hour {
		t.Errorf("expires at %s", e.ExpiresAt)
	}
}

func TestMapRequestsInAllAreLimited(t *testing.T) {
	n, x := loneITR(t, Limits{MapRequestsTotal: Rate{PerSecond: 10, Burst: 10}})
	for i := range 50 {
		x.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}).String())
	}
	x.wantCounter(counter.MapRequestSent, 10)
	for range 200 {
		n.run(50 * time.Millisecond)
		for _, r := range x.config.ITR.MapResolvers { // which answer for others
			x.itr.Requester.Resolvers.Answered(netip.AddrPortFrom(r.Addr(), 4342), 1)
		}
	}
	if got := x.counter(counter.MapRequestSent); got > 110 || got < 100 {
		t.Errorf("%d Map-Requests in ten seconds at ten a second", got)
	}
}

// Those beyond the rate are sent when their turn comes, not after the interval of repetition.
func TestMapRequestsBeyondTheRateTakeTurns(t *testing.T) {
	n, x := loneITR(t, Limits{MapRequestsTotal: Rate{PerSecond: 100, Burst: 10}})
	for i := range 60 {
		x.miss("10.1.0.1", netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}).String())
	}
	x.wantCounter(counter.MapRequestSent, 10)
	n.run(200 * time.Millisecond)
	if got := x.counter(counter.MapRequestSent); got < 28 || got > 31 {
		t.Errorf("%d Map-Requests after 0.2 s, want 10 and one for each 10 ms", got)
	}
	n.run(310 * time.Millisecond)
	x.wantCounter(counter.MapRequestSent, 60)
	x.wantCounter(counter.RefusedRequestLimit, 0)
}

func TestSMRAboutAWiderPrefix(t *testing.T) {
	_, x := loneITR(t, Limits{})
	for i := range 20 {
		x.itr.Cache.Install(mapcache.Entry{Mapping: positive(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, byte(i), 0}), 24).String(), 10), ExpiresAt: x.host.After(time.Hour)})
	}
	smr := wire.MapRequest{SMR: true, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 2}}, Records: []wire.RequestRecord{{EID: wire.IPv4{}}}}
	b, _ := smr.AppendTo(nil)
	for range 5 {
		x.inject("192.0.2.1:4342", "192.0.2.2:4342", b)
	}
	x.wantCounter(counter.SMRInvokedMapRequestSent, itr.SolicitedEntries)
}

func TestStaticMappingKeepsItsAge(t *testing.T) {
	n := newNetwork(t)
	x := n.add("x", Config{ITR: &ITRConfig{StaticMappings: []lisp.Mapping{positive("10.2.0.0/16", 0)}}}, "192.0.2.1")
	old := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	n.run(time.Hour)
	x.start()
	x.AdoptMapCache(n.now, []MapCacheEntry{old})
	x.drain()
	if got := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]; !got.CreatedAt.Equal(old.CreatedAt) || !got.Static {
		t.Errorf("it was %+v, it is %+v", old, got)
	}
}

// TestRequestForMoreThanIsRegistered: a site that split its EID-Prefix is asked for
// the old one, as a refresh does.
func TestRequestForMoreThanIsRegistered(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.2.0.0/16"), "192.0.2.100")
	x2 := n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/24", "10.2.1.0/24"), "192.0.2.2")
	n.run(time.Second)
	ms.inject("192.0.2.100:4342", "192.0.2.9:4342", encapsulated(t, wire.MapRequest{Nonce: 1}, "10.2.0.0/16", "192.0.2.9"))
	n.run(time.Second)
	ms.wantCounter(counter.MapRequestForwarded, 1)
	x2.wantCounter(counter.MapReplySent, 1)
}
