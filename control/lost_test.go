// SPDX-License-Identifier: Apache-2.0

package control

// A site whose registration expired, and that comes back.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/lost"
	"loci/lisp"
	"loci/wire"
)

// lostSite is two sites of which x1 sends to x2 without return traffic; the registration of x2 was withdrawn, and its
// daemon is dead.
func lostSite(t *testing.T) (n *testNetwork, x1, x2 *testNode) {
	t.Helper()
	n, x1, x2, _ = twoSites(t)
	c := x2.config
	etr := *c.ETR
	etr.Database = slices.Clone(etr.Database)
	for i := range etr.Database {
		etr.Database[i].TTLMinutes = 2
	}
	c.ETR = &etr
	x2.configure(c)
	n.run(serverStart + time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	n.run(time.Second)
	x1.wantCached(prefix4, "192.0.2.2", "2001:db8:f::2")
	n.kill(x2)
	return n, x1, x2
}

// oneWayFor has x1 send to both EID-Prefixes of x2 without return traffic: a packet that misses asks, one that does not
// uses the entry.
func oneWayFor(n *testNetwork, x1 *testNode, d time.Duration) {
	for range int(d / time.Second) {
		for _, p := range []string{"10.2.0.9", "2001:db8:2::9"} {
			if used := x1.Explain(0, eid(p)).Entry; used != nil {
				x1.use(used.Mapping.Prefix.String())
			} else if p == "10.2.0.9" {
				x1.miss("10.1.0.5", p)
			} else {
				x1.miss("2001:db8:1::5", p)
			}
		}
		n.run(time.Second)
	}
}

func (d *testNode) negative(prefix string) bool {
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	return ok && e.Mapping.Negative()
}

// untilLost sends until both are negative.
func untilLost(n *testNetwork, x1 *testNode) {
	for range 60 * 60 {
		oneWayFor(n, x1, time.Second)
		if x1.negative(prefix4) && x1.negative(prefix6) {
			return
		}
	}
	n.t.Fatalf("the mappings stay: %v", x1.cachedPrefixes())
}

// TestLostSiteIsAskedForAgain: after 1, 2, 4 and 8 s, then every 8 s, for ten minutes, and then as the TTL says; in both families. The bar:
// a packet is encapsulated 8 s after the registration.
func TestLostSiteIsAskedForAgain(t *testing.T) {
	for _, away := range []time.Duration{0, 3 * time.Second, 41 * time.Second, 9 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			n, x1, x2 := lostSite(t)
			untilLost(n, x1)
			oneWayFor(n, x1, away)
			list, count := x1.LostMappings(10)
			if count != 2 || len(list) != 2 || list[0].Action != lisp.ActionNativelyForward || list[0].ByProxyETR || list[0].Since.After(n.now) || list[0].HadUntil.After(list[0].Since) {
				t.Fatalf("%d lost: %+v", count, list)
			}
			x1.wantCounter(counter.MappingLost, 2)
			if told := slices.IndexFunc(x1.notices, func(e Notice) bool { return e.Kind == NoticeMappingLost && e.Prefix.String() == prefix4 }); told < 0 {
				t.Error("no notice that it is lost")
			}
			if l := x1.Explain(0, eid("10.2.0.9")).Lost; l == nil || l.Prefix.String() != prefix4 || l.NextRequestAt.Sub(n.now) > lost.LongestWait {
				t.Errorf("explained as %+v", l)
			}
			n.lose = nil
			x2.start()
			n.run(100 * time.Millisecond)
			back := n.now
			for x1.negative(prefix4) || x1.negative(prefix6) {
				oneWayFor(n, x1, time.Second)
				if n.now.Sub(back) > 8*time.Second {
					t.Fatalf("not encapsulated %s after the registration", n.now.Sub(back))
				}
			}
			if _, count := x1.LostMappings(10); count != 0 || x1.Explain(0, eid("10.2.0.9")).Lost != nil {
				t.Errorf("%d are lost still", count)
			}
		})
	}
}

// askedAt are the times of the Map-Requests for an EID-Prefix, after that time.
func (d *testNode) askedAt(prefix string, after time.Time) (gaps []time.Duration) {
	for i, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		ecm, is := m.(*wire.EncapsulatedControlMessage)
		if err != nil || !is || !d.sentAt[i].After(after) {
			continue
		}
		asked, _ := wire.Parse(ecm.Inner.Message)
		r, is := asked.(*wire.MapRequest)
		if !is {
			continue
		}
		if p, _ := r.Records[0].Prefix(); p.String() == prefix {
			gaps = append(gaps, d.sentAt[i].Sub(after))
			after = d.sentAt[i]
		}
	}
	return gaps
}

// TestLostScheduleEnds after ten minutes, and when nothing uses the entry any more.
func TestLostScheduleEnds(t *testing.T) {
	n, x1, _ := lostSite(t)
	untilLost(n, x1)
	list, _ := x1.LostMappings(1)
	since := list[0].Since
	oneWayFor(n, x1, lost.AskedFor)
	gaps := x1.askedAt(prefix4, since)
	for i, want := range []time.Duration{1, 2, 4, 8, 8, 8} {
		if gaps[i].Round(10*time.Millisecond) != want*time.Second {
			t.Errorf("asked for again after %v", gaps[:6])
			break
		}
	}
	if len(gaps) < 70 || slices.Max(gaps) > 8*time.Second+10*time.Millisecond {
		t.Errorf("%d times, at most %s apart", len(gaps), slices.Max(gaps))
	}
	begun := n.now
	oneWayFor(n, x1, 10*time.Minute)
	if slow := x1.askedAt(prefix4, begun); len(slow) < 8 || len(slow) > 16 {
		t.Errorf("asked for %d times in the next ten minutes, want about once each TTL of a minute", len(slow))
	}
	if _, count := x1.LostMappings(10); count != 2 {
		t.Errorf("%d lost, want both: packets leave natively", count)
	}
}

// TestNotLost: what never had locators, what is not in use, and what a policy denies.
func TestNotLost(t *testing.T) {
	n, x1, _ := lostSite(t)
	x1.miss("10.1.0.5", "198.51.100.9") // no site has it
	n.run(time.Second)
	for range 120 {
		for e := range x1.MapCache() {
			if e.Mapping.Negative() {
				x1.use(e.Mapping.Prefix.String())
			}
		}
		n.run(time.Second)
	}
	if list, count := x1.LostMappings(10); count != 0 {
		t.Errorf("an EID-Prefix that never had locators is lost: %+v", list)
	}
	untilLost(n, x1)
	n.run(2 * time.Minute) // nothing uses it
	if list, count := x1.LostMappings(10); count != 0 {
		t.Errorf("what is not in use is lost: %+v", list)
	}
	before := n.now
	n.run(2 * time.Minute)
	if asked := x1.askedAt(prefix4, before); len(asked) > 0 {
		t.Errorf("asked for after %v, and nothing uses it", asked)
	}

	_, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, positive("10.2.0.0/24", 10))
	x.solicit("10.2.0.0/24")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/24"), TTLMinutes: 1, Action: lisp.ActionDropPolicyDenied})
	x.use("10.2.0.0/24")
	if list, count := x.LostMappings(10); count != 0 {
		t.Errorf("what a policy denies is lost: %+v", list)
	}
}

// solicit has the node ask for an EID-Prefix again, as an SMR does.
func (d *testNode) solicit(prefix string) {
	d.itr.HandleSolicitMapRequest([]lisp.Prefix{lisp.MustParsePrefix(prefix)})
	d.drain()
}

// TestLostWithinAWiderHole: where the negative answer covers more, the EID-Prefix that had locators has an entry of its
// own, so that it counts as used only by its own packets; and an answer about one leaves the others.
func TestLostWithinAWiderHole(t *testing.T) {
	n, x := loneITR(t, Limits{})
	hole := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 1, Action: lisp.ActionNativelyForward}
	for i := range 2 {
		x.miss("10.1.0.1", fmt.Sprintf("10.2.%d.1", i))
		answerAll(x, positive(fmt.Sprintf("10.2.%d.0/24", i), 10))
	}
	for i := range 2 {
		n.run(2 * time.Second)
		x.solicit(fmt.Sprintf("10.2.%d.0/24", i))
		answerAll(x, hole)
	}
	for _, p := range []string{"10.2.0.0/16", "10.2.0.0/24", "10.2.1.0/24"} {
		if !x.negative(p) {
			t.Errorf("%s has no negative entry of its own: %v", p, x.cachedPrefixes())
		}
	}
	for range 90 {
		x.use("10.2.1.0/24")
		x.use("10.2.0.0/16")
		n.run(time.Second)
		answerAll(x, hole)
	}
	if list, count := x.LostMappings(10); count != 1 || list[0].Prefix.String() != "10.2.1.0/24" {
		t.Errorf("lost: %+v, want the one in use", list)
	}
	x.sent = nil
	n.run(9 * time.Second)
	answerAll(x, positive("10.2.1.0/24", 10))
	x.wantCached("10.2.1.0/24", "192.0.2.9")
	if _, count := x.LostMappings(10); count != 0 {
		t.Errorf("%d lost", count)
	}
}

// TestLostWithinAnothersHole: a negative answer about another EID covers what had locators: each such EID-Prefix gets
// an entry of its own, is lost when packets use it, and only then, and is asked for again. What has an entry with
// locators keeps it.
func TestLostWithinAnothersHole(t *testing.T) {
	for _, family := range []struct{ hole, format, source string }{
		{"10.2.0.0/16", "10.2.%d.0/24", "10.1.0.1"},
		{"2001:db8:2::/48", "2001:db8:2:%d::/64", "2001:db8:1::1"},
	} {
		n, x := loneITR(t, Limits{})
		hole := lisp.Mapping{
			Prefix: lisp.MustParsePrefix(family.hole), TTLMinutes: 1, Action: lisp.ActionNativelyForward,
		}
		prefix := func(i int) string { return fmt.Sprintf(family.format, i) }
		miss := func(i int) {
			address := lisp.MustParsePrefix(prefix(i)).EID().Addr()
			x.miss(family.source, address.Next().String())
		}
		for i, ttl := range []uint32{1, 1, 10} {
			miss(i)
			answerAll(x, positive(prefix(i), ttl))
		}
		n.run(65 * time.Second)
		miss(3)
		answerAll(x, hole)
		x.wantCached(prefix(2), "192.0.2.9")
		for p, want := range map[string]bool{
			family.hole: true, prefix(0): true, prefix(1): true, prefix(3): false,
		} {
			if got := x.negative(p); got != want {
				t.Errorf("%s has a negative entry: %v, want %v: %v", p, got, want, x.cachedPrefixes())
			}
		}
		x.sent = nil
		for range 20 {
			n.run(time.Second)
			answerAll(x, hole)
		}
		if _, count := x.LostMappings(10); count != 0 || len(sentMessages[*wire.MapRequest](x)) > 0 {
			t.Errorf("%d lost that no packet uses, asked for %v", count, x.sent)
		}
		x.use(prefix(1))
		if list, _ := x.LostMappings(10); len(list) != 1 || list[0].Prefix.String() != prefix(1) {
			t.Errorf("lost: %+v, want %s", list, prefix(1))
		}
		n.run(time.Second)
		answerAll(x, positive(prefix(1), 10))
		x.wantCached(prefix(1), "192.0.2.9")
		if _, count := x.LostMappings(10); count != 0 || !x.negative(prefix(0)) {
			t.Errorf("%d lost, and %v", count, x.cachedPrefixes())
		}
	}
}

// TestLostIsBounded: so many are remembered, the oldest forgotten, for an hour; and asked for at a rate.
func TestLostIsBounded(t *testing.T) {
	n, x := loneITR(t, Limits{MapRequestsTotal: Rate{PerSecond: 1e6, Burst: 1e5}})
	prefix := func(i int) lisp.Prefix {
		return lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 100+i/256, i%256))
	}
	for _, step := range []func(i int) lisp.Mapping{
		func(i int) lisp.Mapping { return positive(prefix(i).String(), 10) },
		func(i int) lisp.Mapping {
			return lisp.Mapping{Prefix: prefix(i), TTLMinutes: 60, Action: lisp.ActionNativelyForward}
		},
	} {
		for i := range lost.Limit + 100 {
			x.itr.TakeRecord(step(i), netip.AddrPort{}, nil)
			n.run(time.Microsecond)
		}
		x.drain()
	}
	all := func() (list []LostMapping, count int) {
		for i := range lost.Limit + 100 {
			x.use(prefix(i).String())
		}
		return x.LostMappings(20)
	}
	list, count := all()
	if count != lost.Limit || len(list) != 20 {
		t.Fatalf("%d are lost and %d listed, want %d and 20", count, len(list), lost.Limit)
	}
	x.sent, x.sentAt = nil, nil
	asked := map[lisp.Prefix]int{}
	for range 120 {
		n.run(500 * time.Millisecond)
		requests := sentMessages[*wire.MapRequest](x)
		x.sent, x.sentAt = nil, nil
		for _, m := range requests { // the Map-Resolver says again that nothing is registered
			p, _ := m.Records[0].Prefix()
			asked[p]++
			record := wire.RecordOf(lisp.Mapping{Prefix: p, TTLMinutes: 60, Action: lisp.ActionNativelyForward})
			b, _ := (&wire.MapReply{Nonce: m.Nonce, Records: []wire.Record{record}}).AppendTo(nil)
			x.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
		}
		all()
	}
	if sent := x.counter(counter.LostMapRequestSent); sent > uint64(60*lost.Requests().PerSecond)+uint64(lost.Requests().Burst) || sent < 5000 || len(asked) != lost.Limit {
		t.Errorf("%d Map-Requests in a minute, for %d EID-Prefixes", sent, len(asked))
	}
	n.run(lost.Remembered)
	if _, count := all(); count != 0 {
		t.Errorf("%d are lost an hour later", count)
	}
}
