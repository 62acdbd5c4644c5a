// SPDX-License-Identifier: Apache-2.0

package control

// SMRs that come sooner than the limit of SMR-invoked Map-Requests allows: the last of them tells the truth, so none
// may be forgotten (RFC 9301 s.6.1).

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// withReachable is a site's configuration with the R bits of its locators set or cleared, as a router whose link goes
// and returns has them.
func withReachable(c Config, reachable bool) Config {
	etr := *c.ETR
	etr.Database = nil
	for _, m := range c.ETR.Database {
		m.Locators = append(lisp.LocatorSet(nil), m.Locators...)
		for i := range m.Locators {
			m.Locators[i].Reachable = reachable
		}
		etr.Database = append(etr.Database, m)
	}
	c.ETR = &etr
	return c
}

// limitSMRs sets the limit to what RFC 9301 s.6.1 recommends, without a burst.
func (d *testNode) limitSMRs() {
	c := d.config
	c.Limits.SMRInvoked = Rate{PerSecond: 1.0 / 3, Burst: 1}
	d.configure(c)
}

// isUsable reports whether the data plane has a mapping with a locator that its site calls reachable.
func (d *testNode) isUsable(prefix string) bool {
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	return ok && len(e.Mapping.Locators) > 0 && e.Mapping.Locators[0].Reachable
}

func TestSecondSMRIsAskedForWhenTheLimitAllows(t *testing.T) {
	for _, c := range []struct{ destination, prefix string }{{"10.2.0.9", "10.2.0.0/16"}, {"2001:db8:2::9", "2001:db8:2::/48"}} {
		n, x1, x2, _ := twoSites(t)
		x1.limitSMRs()
		n.run(time.Second)
		x1.miss(map[bool]string{true: "10.1.0.5", false: "2001:db8:1::5"}[c.prefix[0] == '1'], c.destination)
		n.run(5 * time.Second)
		own := x2.config
		x2.configure(withReachable(own, false))
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", solicitation(t, c.prefix, 9))
		n.run(200 * time.Millisecond)
		if x1.isUsable(c.prefix) {
			t.Fatalf("%s: the first SMR was not asked for", c.prefix)
		}
		x2.configure(own)
		x1.sent = nil
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", solicitation(t, c.prefix, 10))
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", solicitation(t, c.prefix, 11))
		n.run(2700 * time.Millisecond)
		if x1.isUsable(c.prefix) || x1.counter(counter.SMRInvokedMapRequestSent) > 1 {
			t.Errorf("%s: asked before the limit allows it", c.prefix)
		}
		n.run(300 * time.Millisecond)
		if !x1.isUsable(c.prefix) {
			t.Errorf("%s: the mapping is %v three seconds after the first SMR", c.prefix, x1.cache[lisp.MustParsePrefix(c.prefix)].Mapping)
		}
		x1.wantCounter(counter.SMRInvokedMapRequestSent, 2)
	}
}

// TestSMRDuringAMapRequest: the answer under way may be older than what the SMR is about, so the EID-Prefix is asked
// for once more, a second after the last Map-Request for it.
func TestSMRDuringAMapRequest(t *testing.T) {
	n, x := loneITR(t, Limits{SMRInvoked: Rate{PerSecond: 10, Burst: 10}})
	answer := func(reachable bool) {
		t.Helper()
		requests := sentMessages[*wire.MapRequest](x)
		if len(requests) == 0 {
			t.Fatal("no Map-Request")
		}
		m := positive("10.2.0.0/16", 10)
		m.Locators = locators("192.0.2.9")
		m.Locators[0].Reachable = reachable
		b, err := (&wire.MapReply{Nonce: requests[len(requests)-1].Nonce, Records: []wire.Record{wire.RecordOf(m)}}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x.sent, x.sentAt = nil, nil
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	x.miss("10.1.0.1", "10.2.0.1")
	answer(true)
	n.run(5 * time.Second)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", solicitation(t, "10.2.0.0/16", 1))
	n.run(100 * time.Millisecond)
	x.inject("192.0.2.1:4342", "192.0.2.9:4342", solicitation(t, "10.2.0.0/16", 2))
	answer(false)
	n.run(890 * time.Millisecond)
	if x.isUsable("10.2.0.0/16") || len(x.sent) != 0 {
		t.Fatalf("%d messages within the second of RFC 9301 s.5.3", len(x.sent))
	}
	n.run(100 * time.Millisecond)
	if requests := sentMessages[*wire.MapRequest](x); len(requests) != 1 || !requests[0].SMRInvoked {
		t.Fatalf("Map-Requests after the second: %+v", requests)
	}
	answer(true)
	if !x.isUsable("10.2.0.0/16") {
		t.Error("the answer to the later Map-Request was not taken")
	}
	n.run(10 * time.Second)
	if len(x.sent) != 0 {
		t.Errorf("%d messages though all was answered", len(x.sent))
	}
}

// TestMappingThatIsUnreachableIsListed: packets to it are dropped, so status must not call that healthy.
func TestMappingThatIsUnreachableIsListed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(set lisp.LocatorSet)
		listed bool
	}{
		{"as registered", func(lisp.LocatorSet) {}, false},
		{"one R bit is 0", func(set lisp.LocatorSet) { set[0].Reachable = false }, false},
		{"all R bits are 0", func(set lisp.LocatorSet) { set[0].Reachable, set[1].Reachable = false, false }, true},
		{"the other has priority 255", func(set lisp.LocatorSet) { set[0].Reachable, set[1].Priority = false, lisp.PriorityUnused }, true},
		{"all have priority 255", func(set lisp.LocatorSet) { set[0].Priority, set[1].Priority = lisp.PriorityUnused, lisp.PriorityUnused }, false},
	} {
		_, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", "10.2.0.1")
		m := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 10, Locators: locators("192.0.2.9", "2001:db8:f::9")}
		c.change(m.Locators)
		answerAll(x, m)
		list, count := x.UnreachableMappings()
		if listed := len(list) == 1 && count == 1 && list[0].Prefix == m.Prefix; listed != c.listed || len(list) != count {
			t.Errorf("%s: %v, %d", c.name, list, count)
		}
		x.net.run(11 * time.Minute) // the mapping expires
		if list, count := x.UnreachableMappings(); len(list)+count != 0 {
			t.Errorf("%s: %v, %d after the TTL", c.name, list, count)
		}
	}
}

func TestReturnEndsTheListing(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	own := x2.config
	x2.configure(withReachable(own, false))
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(5 * time.Second)
	list, count := x1.UnreachableMappings()
	if count != 1 || !list[0].Since.After(epoch) || list[0].Since.After(n.now) || list[0].From.Addr().String() != "192.0.2.2" {
		t.Fatalf("%+v, %d", list, count)
	}
	x2.configure(own)
	n.run(5 * time.Second)
	if list, count := x1.UnreachableMappings(); count != 0 {
		t.Errorf("%+v after the site's return", list)
	}
}

// TestChangesSoonAfterOneAnother: the limit has a burst, so that a second change is not answered seconds late.
func TestChangesSoonAfterOneAnother(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(5 * time.Second)
	own := x2.config
	for i, reachable := range []bool{false, true} {
		x2.configure(withReachable(own, reachable))
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", solicitation(t, "10.2.0.0/16", 9+uint64(i)))
		n.run(1100 * time.Millisecond) // RFC 9301 s.5.3: a second at least
		if x1.isUsable("10.2.0.0/16") != reachable {
			t.Errorf("change %d is not known after 1.1 s", i+1)
		}
	}
}

// TestStaticMappingIsNotListed: it is the operator's word, and no site's.
func TestStaticMappingIsNotListed(t *testing.T) {
	_, x := loneITR(t, Limits{})
	m := positive("10.2.0.0/16", 0)
	m.Locators[0].Reachable = false
	c := x.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{m}
	c.ITR = &itr
	x.configure(c)
	x.wantCached("10.2.0.0/16", "192.0.2.9")
	if list, count := x.UnreachableMappings(); len(list)+count != 0 {
		t.Errorf("%v, %d", list, count)
	}
}

// TestSMRsAboutPartsOfAMapping: those that come too early are one Map-Request for all of it.
func TestSMRsAboutPartsOfAMapping(t *testing.T) {
	n, x := loneITR(t, Limits{SMRInvoked: Rate{PerSecond: 1.0 / 3, Burst: 1}})
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, positive("10.2.0.0/16", 10))
	n.run(5 * time.Second)
	for i, p := range []string{"10.2.1.0/24", "10.2.2.0/24", "10.2.2.0/24", "10.2.3.0/24"} {
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", solicitation(t, p, uint64(i)+1))
	}
	answerAll(x, positive("10.2.0.0/16", 10))
	n.run(3100 * time.Millisecond)
	requests := sentMessages[*wire.MapRequest](x)
	if len(requests) != 1 || requests[0].Records[0].MaskLen != 16 {
		t.Errorf("%d Map-Requests three seconds after the first: %+v", len(requests), requests)
	}
	x.wantCounter(counter.RefusedSMRLimit, 0)
}
