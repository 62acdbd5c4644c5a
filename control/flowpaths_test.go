// SPDX-License-Identifier: Apache-2.0

package control

// Subflows whose paths the ETR of their destination chooses, from the SYN at one site to the table at the other.

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// askingSites are twoSites whose second one has paths by RTRs to its RLOC, and that by itself, and asks for proxy
// replies. The first one asks it for the paths of subflows.
func askingSites(t *testing.T) (n *testNetwork, x1, x2, ms *testNode) {
	t.Helper()
	n, x1, x2, ms = twoSites(t)
	c := x1.config
	itr := *c.ITR
	itr.BindSubflows, itr.AskForSubflows = true, true
	c.ITR = &itr
	x1.configure(c)
	x2.configure(withPaths(x2.config, 2))
	n.run(5 * time.Second)
	x1.miss("10.1.0.1", "10.2.0.1")
	x1.miss("2001:db8:1::1", "2001:db8:2::1")
	n.run(time.Second)
	return n, x1, x2, ms
}

// withPaths gives a site so many paths by RTRs beside its RLOC 192.0.2.2.
func withPaths(c Config, paths int) Config {
	e := *c.ETR
	e.Database, e.MapServers = slices.Clone(e.Database), slices.Clone(e.MapServers)
	for i := range e.MapServers {
		e.MapServers[i].ProxyReply = true
	}
	for i := range e.Database {
		plain := lisp.NewLocator(rloc("192.0.2.2"))
		plain.Priority = 3
		set := lisp.LocatorSet{plain}
		for p := range paths {
			l := lisp.NewLocator(pathTo2(p).RLOC)
			l.Behind, l.Bits = pathTo2(p).Behind,
				lisp.PathBits{lisp.HopExplicit | lisp.HopStrict, lisp.HopExplicit | lisp.HopStrict}
			set = append(set, l)
		}
		sorted, err := lisp.NewLocatorSet(set...)
		if err != nil {
			panic(err)
		}
		e.Database[i].Locators = sorted
	}
	c.ETR = &e
	return c
}

func pathTo2(i int) lisp.Path {
	p, err := lisp.NewPath(rloc("192.0.2.7"+string(rune('1'+i))), rloc("192.0.2.2"))
	if err != nil {
		panic(err)
	}
	return p
}

// chosenPaths are the flows of an ETR's table.
func (d *testNode) chosenPaths() map[lisp.Flow]lisp.Path {
	all := map[lisp.Flow]lisp.Path{}
	for from, more := uint32(0), true; more; {
		var page []AnsweredFlow
		page, from, more = d.AnsweredFlowsPage(from, 2)
		for _, f := range page {
			all[f.Flow] = f.Path
		}
	}
	return all
}

// wantAgreed wants that an ETR's table has what the ITR's data plane has.
func wantAgreed(x1, x2 *testNode, flows int) {
	x1.net.t.Helper()
	all := x2.chosenPaths()
	if len(all) != flows {
		x1.net.t.Errorf("the ETR knows %d flows, want %d", len(all), flows)
	}
	for f, p := range all {
		x1.wantBound(f, p)
	}
}

// TestPathsAreAskedFor: the ETR chooses another path for each subflow, by way of a Map-Server that answers for it
// otherwise. Nothing of that comes into the map-cache.
func TestPathsAreAskedFor(t *testing.T) {
	for _, eids := range [][2]string{{"10.1.0.1", "10.2.0.1"}, {"2001:db8:1::1", "2001:db8:2::1"}} {
		n, x1, x2, ms := askingSites(t)
		proxied, cached := ms.counter(counter.ProxyMapReplySent), len(x1.cache)
		if proxied == 0 {
			t.Error("the Map-Server answers for no one")
		}
		x1.subflow(testFlow(eids[0], eids[1], 1000), mpCapable)
		x1.wantNotBound(testFlow(eids[0], eids[1], 1000)) // no packet waits for it
		n.run(time.Second)
		for port := range uint16(3) {
			x1.subflow(testFlow(eids[0], eids[1], 1001+port), mpJoin)
			n.run(time.Second)
		}
		x1.wantBound(testFlow(eids[0], eids[1], 1000), pathTo2(0))
		x1.wantBound(testFlow(eids[0], eids[1], 1001), pathTo2(1))
		x1.wantBound(testFlow(eids[0], eids[1], 1002), lisp.PathTo(rloc("192.0.2.2")))
		x1.wantBound(testFlow(eids[0], eids[1], 1003), pathTo2(0))
		wantAgreed(x1, x2, 4)
		ms.wantCounter(counter.ProxyMapReplySent, proxied)
		x1.wantCounter(counter.SubflowAsked, 4)
		x1.wantCounter(counter.SubflowAnswered, 4)
		x1.wantCounter(counter.SubflowUnknownSession, 0)
		x2.wantCounter(counter.SubflowPathSent, 4)
		if len(x1.cache) != cached || x1.itr.Cache.Size() != cached {
			t.Errorf("the map-cache has %d entries, before %d", len(x1.cache), cached)
		}
		s, known := x1.SubflowOf(testFlow(eids[0], eids[1], 1001))
		if !known || s.Why != "answered" || s.AnsweredBy != netip.MustParseAddr("192.0.2.2") {
			t.Errorf("the subflow is known as %+v", s)
		}
	}
}

// TestSubflowRequestsAsTheyAreSent have A set, so that no mapping system answers, and one record with the flow.
func TestSubflowRequestsAsTheyAreSent(t *testing.T) {
	_, x1, _, _ := askingSites(t)
	x1.sent = nil
	f := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(f, mpCapable)
	list := sentMessages[*wire.MapRequest](x1)
	if len(list) != 1 {
		t.Fatalf("%d Map-Requests", len(list))
	}
	got, err := list[0].Flow()
	if err != nil || got != f || !list[0].Authoritative || list[0].Probe || list[0].SMR {
		t.Errorf("asked for %s, %v by %+v", got, err, list[0])
	}
}

// TestLostAnswers are asked for again, and the repetition gets the same answer.
func TestLostAnswers(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	lost := false
	n.lose = func(from *testNode, _ SendPacket) bool {
		loses := from == x2 && !lost
		lost = lost || loses
		return loses
	}
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	n.run(5 * time.Second)
	x1.wantBound(a, pathTo2(0))
	x1.wantCounter(counter.SubflowAsked, 2)
	wantAgreed(x1, x2, 1)
}

// TestNoAnswer leaves a subflow without binding. It is asked for as any mapping, with a pause after ten Map-Requests.
func TestNoAnswer(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x2 }
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	x1.segment(a, true, 0x12, 900, 101, "1e0c01010102030405060708")
	n.run(58 * time.Second)
	x1.wantNotBound(a)
	if sent := x1.counter(counter.SubflowAsked); sent < 8 || sent > settings.MapRequestTries {
		t.Errorf("%d Map-Requests in a minute", sent)
	}
	n.run(10 * time.Minute) // a subflow of which nothing is heard ends
	if size, due := x1.SubflowCount(), x1.subflows.Asker.Timers.Size(); size != 0 || due != 0 {
		t.Errorf("%d subflows are known, and %d asked for", size, due)
	}
}

// TestRestartOfTheETR: it chooses anew when its ITRs ask again, and they follow it.
func TestRestartOfTheETR(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	for port := range uint16(4) {
		x1.subflow(testFlow("10.1.0.1", "10.2.0.1", 1000+port), mpJoin)
		n.run(10 * time.Millisecond)
	}
	n.run(time.Second)
	wantAgreed(x1, x2, 4)
	x2.start()
	wantAgreed(x1, x2, 0)
	x1.useFlows(2 * time.Minute)
	wantAgreed(x1, x2, 4)
	used := map[lisp.Path]int{}
	for _, p := range x2.chosenPaths() {
		used[p]++
	}
	if len(used) != 3 {
		t.Errorf("the paths are shared as %v", used)
	}
}

// TestRestartOfTheITR: bindings go on, and are asked for again.
func TestRestartOfTheITR(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	x1.subflow(a, mpCapable)
	n.run(time.Second)
	x1.subflow(b, mpJoin)
	n.run(time.Second)
	var kept []BoundFlow
	for f, p := range x1.flows {
		kept = append(kept, BoundFlow{Flow: f, Path: p, CreatedAt: n.now, LastUsedAt: n.now})
	}
	x1.start()
	x1.AdoptFlows(n.now, kept)
	x1.miss("10.1.0.1", "10.2.0.1")
	x1.useFlows(20 * time.Second)
	wantAgreed(x1, x2, 2)
	x1.wantCounter(counter.SubflowAnswered, 2)
	if s, _ := x1.SubflowOf(b); s.Why != "answered" {
		t.Errorf("b is known as %+v", s)
	}
}

// TestFlowsEndAtBothSites: the ETR forgets a flow that is not asked for again, and not one that lasts.
func TestFlowsEndAtBothSites(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	x1.useFlows(10 * time.Minute)
	wantAgreed(x1, x2, 1)
	n.run(3*time.Minute + 30*time.Second)
	x1.wantNotBound(a)
	wantAgreed(x1, x2, 0)
}

// TestPathsThatTheETRGivesUp: flows on them are asked for anew, and get another one.
func TestPathsThatTheETRGivesUp(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	x1.subflow(a, mpCapable)
	n.run(time.Second)
	x1.subflow(b, mpJoin)
	x1.useFlows(5 * time.Second)
	x1.wantBound(b, pathTo2(1))
	x2.configure(withPaths(x2.config, 1))
	x1.useFlows(15 * time.Second)
	x1.wantBound(a, pathTo2(0))
	x1.wantBound(b, lisp.PathTo(rloc("192.0.2.2")))
	wantAgreed(x1, x2, 2)
}

// TestPathsAreChosenAndAskedFor by two sites at once: the ETR serves both.
func TestPathsAreChosenAndAskedFor(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	c := xtrConfig(3, "192.0.2.100", []string{"192.0.2.3"})
	c.ITR.BindSubflows, c.ETR = true, nil
	x3 := n.add("x3", c, "192.0.2.3")
	x3.miss("10.3.0.1", "10.2.0.1")
	n.run(time.Second)
	for port := range uint16(2) {
		x1.subflow(testFlow("10.1.0.1", "10.2.0.1", 1000+port), mpJoin)
		x3.subflow(testFlow("10.3.0.1", "10.2.0.1", 1000+port), mpJoin)
		n.run(time.Second)
		x1.wantBound(testFlow("10.1.0.1", "10.2.0.1", 1000+port), pathTo2(int(port)))
		x3.wantBound(testFlow("10.3.0.1", "10.2.0.1", 1000+port), pathTo2(int(port)))
	}
	x3.wantCounter(counter.SubflowAsked, 0)
	wantAgreed(x1, x2, 2)
}

// TestBindingIsChanged by a reload: bound subflows keep their paths, and are asked for from then on, or no more.
func TestBindingIsChanged(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	set := func(asks bool) {
		c := x1.config
		itr := *c.ITR
		itr.AskForSubflows = asks
		c.ITR = &itr
		x1.configure(c)
		x1.useFlows(3 * time.Second)
	}
	set(false)
	x1.subflow(a, mpCapable)
	x1.wantBound(a, pathTo2(0))
	x1.wantCounter(counter.SubflowAsked, 0)
	set(true)
	x1.wantCounter(counter.SubflowAnswered, 1)
	wantAgreed(x1, x2, 1)
	set(false)
	asked := x1.counter(counter.SubflowAsked)
	x1.useFlows(5 * time.Minute)
	x1.wantBound(a, pathTo2(0))
	x1.wantCounter(counter.SubflowAsked, asked)
	n.run(time.Minute)
	wantAgreed(x1, x2, 0)
}

// askETR sends x2 a Map-Request for the path of a flow with an ITR-RLOC, and returns its answers.
func askETR(t *testing.T, x2 *testNode, f lisp.Flow, itr string, change func(*wire.MapRequest)) []*wire.MapReply {
	t.Helper()
	m := wire.MapRequest{Nonce: 7}
	m.AskFlow(f, []lisp.RLOC{rloc(itr)})
	change(&m)
	x2.sent = nil
	x2.inject("192.0.2.2:4342", "192.0.2.100:4342", encapsulated(t, m, "10.2.0.0/16"))
	return sentMessages[*wire.MapReply](x2)
}

func asItIs(*wire.MapRequest) {}

// TestRTRsThatAsk get no answer where the flow has no path yet, and the same one where it does.
func TestRTRsThatAsk(t *testing.T) {
	_, _, x2, _ := askingSites(t)
	f := testFlow("10.1.0.1", "10.2.0.1", 1000)
	if list := askETR(t, x2, f, "192.0.2.72", asItIs); len(list) != 0 {
		t.Errorf("the RTR is answered: %+v", list[0])
	}
	x2.wantCounter(counter.RefusedSubflowRTR, 1)
	for _, asker := range []string{"192.0.2.1", "192.0.2.72"} {
		list := askETR(t, x2, f, asker, asItIs)
		if len(list) != 1 {
			t.Fatalf("%d answers to %s", len(list), asker)
		}
		if _, p, err := list[0].FlowPath(); err != nil || p != pathTo2(0) || list[0].Nonce != 7 {
			t.Errorf("%s is answered %s, %v", asker, p, err)
		}
	}
	x2.wantCounter(counter.RefusedSubflowRTR, 1)
}

// TestFloodOfSubflowRequests: more than 5,000 a second are not answered, and Map-Requests for a mapping are.
func TestFloodOfSubflowRequests(t *testing.T) {
	n, _, x2, _ := askingSites(t)
	for i := range 6000 {
		askETR(t, x2, testFlow("10.1.0.1", "10.2.0.1", uint16(1+i)), "192.0.2.1", asItIs)
	}
	x2.wantCounter(counter.SubflowPathSent, 5000)
	x2.wantCounter(counter.RefusedReplyTotalLimit, 1000)
	x2.wantCounter(counter.RefusedReplyLimit, 0)
	n.run(time.Second)
	list := askETR(t, x2, testFlow("10.1.0.1", "10.2.0.1", 1), "192.0.2.9", func(m *wire.MapRequest) {
		m.Records = []wire.RequestRecord{{EID: wire.IPv4{10, 2, 0, 1}, MaskLen: 32}}
	})
	if len(list) != 1 || len(list[0].Records[0].Locators) != 3 {
		t.Errorf("a Map-Request for a mapping is answered by %+v", list)
	}
}

// TestBadSubflowRequests are refused by the ETR and by the Map-Server, and bind nothing.
func TestBadSubflowRequests(t *testing.T) {
	change := func(c func(*wire.ApplicationDataLCAF)) func(*wire.MapRequest) {
		return func(m *wire.MapRequest) {
			a := m.Records[0].EID.(wire.ApplicationDataLCAF)
			c(&a)
			m.Records[0].EID = a
		}
	}
	for name, c := range map[string]func(*wire.MapRequest){
		"local range":    change(func(a *wire.ApplicationDataLCAF) { a.LocalPortHigh++ }),
		"remote range":   change(func(a *wire.ApplicationDataLCAF) { a.RemotePortHigh = 0xffff }),
		"port 0":         change(func(a *wire.ApplicationDataLCAF) { a.LocalPortLow, a.LocalPortHigh = 0, 0 }),
		"UDP":            change(func(a *wire.ApplicationDataLCAF) { a.Protocol = 17 }),
		"no EID":         change(func(a *wire.ApplicationDataLCAF) { a.Address = wire.NoAddress{} }),
		"a prefix":       func(m *wire.MapRequest) { m.Records[0].MaskLen = 24 },
		"no source":      func(m *wire.MapRequest) { m.SourceEID = wire.NoAddress{} },
		"another family": func(m *wire.MapRequest) { m.SourceEID = wire.IPv6{0x20, 1} },
		"another record": func(m *wire.MapRequest) { m.Records = append(m.Records, m.Records[0]) },
		"a plain record": func(m *wire.MapRequest) {
			m.Records = append(m.Records, wire.RequestRecord{EID: wire.IPv4{10, 2}, MaskLen: 16})
		},
	} {
		_, _, x2, ms := askingSites(t)
		if list := askETR(t, x2, testFlow("10.1.0.1", "10.2.0.1", 1000), "192.0.2.1", c); len(list) != 0 {
			t.Errorf("%s is answered: %+v", name, list[0])
		}
		x2.wantCounter(counter.RefusedSubflowRequest, 1)
		m := wire.MapRequest{Nonce: 7}
		m.AskFlow(testFlow("10.1.0.1", "10.2.0.1", 1000), []lisp.RLOC{rloc("192.0.2.1")})
		c(&m)
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", encapsulated(t, m, "10.2.0.0/16"))
		ms.wantCounter(counter.RefusedSubflowRequest, 1)
		ms.wantCounter(counter.MapRequestForwarded, 0)
		if len(x2.chosenPaths()) != 0 {
			t.Errorf("%s: the ETR knows %v", name, x2.chosenPaths())
		}
	}
}

// TestSubflowRequestsForNoOne are counted, and not answered: a negative answer would say nothing about the flow.
func TestSubflowRequestsForNoOne(t *testing.T) {
	_, _, x2, ms := askingSites(t)
	for i, destination := range []string{"10.9.0.1", "10.1.0.0"} { // of no site; of one that is not registered
		if i == 1 {
			ms.start()
		}
		m := wire.MapRequest{Nonce: 7}
		m.AskFlow(testFlow("10.3.0.1", destination, 1000), []lisp.RLOC{rloc("192.0.2.1")})
		ms.sent = nil
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", encapsulated(t, m, "10.2.0.0/16"))
		if len(ms.sent) != 0 {
			t.Errorf("%s: sent to %s", destination, ms.sent[0].Remote)
		}
		ms.wantCounter(counter.RefusedNoRoute, 1)
	}
	if list := askETR(t, x2, testFlow("10.1.0.1", "10.9.0.1", 1000), "192.0.2.1", asItIs); len(list) != 0 {
		t.Errorf("answered: %+v", list[0])
	}
}

// TestWrongAnswers are refused, whatever nonce they have; the right one is taken then.
func TestWrongAnswers(t *testing.T) {
	_, x1, _, _ := askingSites(t)
	f := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.sent = nil
	x1.subflow(f, mpCapable)
	request := sentMessages[*wire.MapRequest](x1)[0]
	locator := func(p lisp.Path) lisp.Locator {
		l := lisp.NewLocator(p.RLOC)
		l.Behind = p.Behind
		return l
	}
	good := wire.FlowRecord(request.Records[0], 2, locator(pathTo2(1)))
	about := func(other lisp.Flow) wire.Record {
		return wire.FlowRecord(wire.RequestRecord{EID: wire.FlowAddress(other), MaskLen: 32}, 2, locator(pathTo2(1)))
	}
	several, none, ranged := good, good, good
	several.Locators = append(slices.Clone(good.Locators), good.Locators[0])
	none.Locators = nil
	a := good.EID.(wire.ApplicationDataLCAF)
	a.RemotePortHigh++
	ranged.EID = a
	for _, c := range []struct {
		name    string
		nonce   uint64
		records []wire.Record
		refused Counter
	}{
		{"another nonce", request.Nonce + 1, []wire.Record{good}, counter.RefusedNonce},
		{"another port", request.Nonce, []wire.Record{about(testFlow("10.1.0.1", "10.2.0.1", 1001))}, counter.RefusedSubflowReply},
		{"another EID", request.Nonce, []wire.Record{about(testFlow("10.1.0.1", "10.2.0.2", 1000))}, counter.RefusedSubflowReply},
		{"a range of ports", request.Nonce, []wire.Record{ranged}, counter.RefusedSubflowReply},
		{"a path that the mapping has not", request.Nonce, []wire.Record{wire.FlowRecord(request.Records[0], 2, locator(pathTo2(5)))}, counter.RefusedSubflowReply},
		{"several locators", request.Nonce, []wire.Record{several}, counter.RefusedSubflowReply},
		{"no locator", request.Nonce, []wire.Record{none}, counter.RefusedSubflowReply},
		{"two records", request.Nonce, []wire.Record{good, good}, counter.RefusedSubflowReply},
		{"a mapping", request.Nonce, []wire.Record{wire.RecordOf(positive("10.2.0.0/16", 10))}, counter.RefusedNonce},
	} {
		before := x1.counter(c.refused)
		answer := wire.MapReply{Nonce: c.nonce, Records: c.records}
		b, err := answer.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", b)
		if got := x1.counter(c.refused); got != before+1 {
			t.Errorf("%s: %s is %d, before %d", c.name, c.refused, got, before)
		}
		x1.wantNotBound(f)
	}
	b, err := (&wire.MapReply{Nonce: request.Nonce, Records: []wire.Record{good}}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", b)
		x1.wantBound(f, pathTo2(1))
	}
	x1.wantCounter(counter.SubflowAnswered, 1) // its nonce counts once
}

// TestOneETRChooses for all flows of a site with several, and the next one where it does not answer.
func TestOneETRChooses(t *testing.T) {
	n, x1, x2, _ := askingSites(t)
	c := withPaths(xtrConfig(4, "192.0.2.100", []string{"192.0.2.4"}, "10.2.0.0/16", "2001:db8:2::/48"), 2)
	x4 := n.add("x4", c, "192.0.2.4")
	for port := range uint16(4) {
		n.run(47 * time.Second) // either registers last in turn
		x1.subflow(testFlow("10.1.0.1", "10.2.0.1", 1000+port), mpJoin)
		x1.useFlows(2 * time.Second)
	}
	if len(x4.chosenPaths()) != 0 {
		t.Errorf("the second ETR chose %v, the first %v", x4.chosenPaths(), x2.chosenPaths())
	}
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == x2 && p.Remote.Addr() == netip.MustParseAddr("192.0.2.1")
	}
	f := testFlow("10.1.0.1", "10.2.0.1", 2000)
	x1.subflow(f, mpCapable)
	x1.useFlows(5 * time.Second)
	x1.wantBound(f, pathTo2(0))
	if s, _ := x1.SubflowOf(f); s.AnsweredBy != netip.MustParseAddr("192.0.2.4") {
		t.Errorf("answered by %s", s.AnsweredBy)
	}
}
