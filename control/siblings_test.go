// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/siblings"
	"loci/lisp"
	"loci/wire"
)

const (
	rlocA, rlocB, rlocC = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	linkA, linkB        = "10.1.0.1", "10.1.0.2"
)

// siblingConfig is an xTR of a site with two. Probes come every second.
func siblingConfig(id byte, own, link, sibling string) Config {
	c := xtrConfig(id, "192.0.2.100", []string{own}, "10.1.0.0/16")
	c.ETR.Database[0].Locators = locators(rlocA, rlocB)
	c.ITR.RLOCProbing = ProbingConfig{Interval: time.Second, Retries: 2, RetriesInterval: 200 * time.Millisecond}
	c.ETR.Siblings = []SiblingConfig{{Address: netip.MustParseAddr(sibling), Local: netip.MustParseAddr(link)}}
	return c
}

// siblingNetwork is a site with xTRs a and b, another one with c, and traffic between
// them by all three.
type siblingNetwork struct {
	*testNetwork
	a, b, c, ms *testNode
	cut         []string // RLOCs without a core
}

func newSiblingNetwork(t *testing.T) *siblingNetwork {
	t.Helper()
	n := &siblingNetwork{testNetwork: newNetwork(t)}
	n.lose = func(_ *testNode, p SendPacket) bool {
		return slices.Contains(n.cut, p.Local.Addr().String()) || slices.Contains(n.cut, p.Remote.Addr().String())
	}
	n.ms = n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16"), "192.0.2.100")
	n.a = n.add("a", siblingConfig(1, rlocA, linkA, linkB), linkA, rlocA)
	n.b = n.add("b", siblingConfig(2, rlocB, linkB, linkA), linkB, rlocB)
	remote := xtrConfig(3, "192.0.2.100", []string{rlocC}, "10.2.0.0/16")
	remote.ITR.RLOCProbing = n.a.config.ITR.RLOCProbing
	n.c = n.add("c", remote, rlocC)
	n.run(time.Second)
	n.a.miss("10.1.0.10", "10.2.0.10")
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.c.miss("10.2.0.10", "10.1.0.10")
	n.run(3 * time.Second)
	return n
}

// linkDown configures a as a daemon does whose core interface lost its carrier.
func (n *siblingNetwork) linkDown(down bool) {
	cfg := n.a.config
	etr := *cfg.ETR
	set := slices.Clone(etr.Database[0].Locators)
	set[0].Reachable = !down
	etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: set}}
	cfg.ETR = &etr
	n.cut = nil
	if down {
		n.cut = []string{rlocA}
	}
	n.a.configure(cfg)
}

// reachable are the locators of site 1 with R set, as a node's table has it.
func reachable(set lisp.LocatorSet) (list []string) {
	for _, l := range set {
		if l.Reachable {
			list = append(list, l.RLOC.String())
		}
	}
	return list
}

// want fails the test unless everybody takes these RLOCs of the site for reachable, and
// a's packets go there.
func (n *siblingNetwork) want(what string, handedTo string, rlocs ...string) {
	n.t.Helper()
	prefix := lisp.MustParsePrefix("10.1.0.0/16")
	for name, set := range map[string]lisp.LocatorSet{
		"a's Database": n.a.database[prefix].Locators, "b's Database": n.b.database[prefix].Locators,
		"c's map-cache": n.c.cache[prefix].Mapping.Locators, "the registration": n.ms.registered()[0].Merged.Locators,
	} {
		if got := reachable(set); !slices.Equal(got, rlocs) {
			n.t.Errorf("%s: %s: reachable %v, want %v", what, name, got, rlocs)
		}
	}
	got := ""
	if to := n.a.SiblingPath().To; to.IsValid() {
		got = to.String()
	}
	if got != handedTo {
		n.t.Errorf("%s: a's sibling path is by %q, want %q", what, got, handedTo)
	}
}

// TestSiblingSpeaksForWhoLostItsLink: all of it takes a hundred milliseconds where a message
// takes 5 ms, because no step waits for a timer.
func TestSiblingSpeaksForWhoLostItsLink(t *testing.T) {
	n := newSiblingNetwork(t)
	n.want("at first", "", rlocA, rlocB)
	n.linkDown(true)
	n.run(100 * time.Millisecond)
	n.want("without a link", linkB, rlocB)
	if w := n.a.SiblingPath(); w.Why != SiblingPathRLOCsDown {
		t.Errorf("reason %s", w.Why)
	}
	n.linkDown(false)
	n.run(5 * time.Second)
	n.want("with it", "", rlocA, rlocB)
	n.a.wantCounter(counter.SiblingPathTaken, 1)
}

// TestLongWithoutALink: who cannot ask learns nothing from silence, so other sites' locators are usable in the moment in which the link is back.
func TestLongWithoutALink(t *testing.T) {
	n := newSiblingNetwork(t)
	n.a.wantLocator(rlocC, LocatorUp, LocatorAnswered)
	n.linkDown(true)
	n.run(30 * time.Second)
	n.want("without a link", linkB, rlocB)
	n.a.wantLocator(rlocC, LocatorUp, LocatorAnswered)
	n.linkDown(false)
	n.a.wantLocator(rlocC, LocatorUp, LocatorAnswered)
	n.run(5 * time.Second)
	n.want("with it", "", rlocA, rlocB)
	n.linkDown(true)
	n.run(30 * time.Second)
	n.linkDown(false)
	n.cut = []string{rlocC} // it died meanwhile
	n.run(2 * time.Second)
	n.a.wantLocator(rlocC, LocatorUnconfirmed, LocatorUnanswered)
}

// TestSiblingTakesOverADeadPath whose link is up.
func TestSiblingTakesOverADeadPath(t *testing.T) {
	n := newSiblingNetwork(t)
	n.cut = []string{rlocA}
	n.run(3 * time.Second) // three probe intervals
	n.want("the path is dead", linkB, rlocB)
	if w := n.a.SiblingPath(); w.Why != SiblingPathNoCore {
		t.Errorf("reason %s", w.Why)
	}
	n.run(time.Hour) // nothing is in the map-cache any more
	n.c.miss("10.2.0.10", "10.1.0.10")
	n.run(time.Second)
	n.want("an hour later", linkB, rlocB)
	n.cut = nil
	n.run(20 * time.Second)
	n.want("the path is back", "", rlocA, rlocB)
}

// TestDeadPathIsFoundWithoutMappings: where nothing is left in the map-cache, that no Map-Resolver answers tells, also
// to who starts without a path; a sibling whose path it is does not take it for its own.
func TestDeadPathIsFoundWithoutMappings(t *testing.T) {
	for _, restart := range []bool{false, true} {
		n := newSiblingNetwork(t)
		for _, x := range []*testNode{n.a, n.b} {
			itr := *x.config.ITR
			itr.IdleTimeout = 10 * time.Second
			x.config.ITR = &itr
			x.start()
		}
		n.a.miss("10.1.0.10", "10.2.0.10")
		n.run(30 * time.Second)
		n.cut = []string{rlocA}
		if restart {
			n.a.start()
		}
		n.a.miss("10.1.0.10", "10.2.0.10")
		n.b.miss("10.1.0.10", "10.2.0.11")
		n.run(20 * time.Second)
		n.want("the path is dead", linkB, rlocB)
		n.cut = nil
		n.run(20 * time.Second)
		n.want("the path is back", "", rlocA, rlocB)
	}
}

// TestSilentMapResolversAreNoDeadPath while the sibling's RLOC answers through the core.
func TestSilentMapResolversAreNoDeadPath(t *testing.T) {
	n := newSiblingNetwork(t)
	n.a.start()
	n.cut = []string{"192.0.2.100"}
	n.a.miss("10.1.0.10", "10.2.0.10")
	n.run(30 * time.Second)
	if by := n.a.SiblingPath().To; by.IsValid() {
		t.Errorf("a hands its packets over by %s, and its path is good", by)
	}
}

// TestDeadSiteIsNoDeadPath: a sibling's RLOC answers through the core.
func TestDeadSiteIsNoDeadPath(t *testing.T) {
	n := newSiblingNetwork(t)
	n.cut = []string{rlocC}
	n.run(30 * time.Second)
	if n.a.SiblingPath().To.IsValid() || n.b.SiblingPath().To.IsValid() {
		t.Errorf("a: %+v, b: %+v", n.a.SiblingPath(), n.b.SiblingPath())
	}
	n.a.wantLocator(rlocC, LocatorUnconfirmed, LocatorUnanswered)
}

// TestBothWithoutAPath: one of them keeps its R bit, or no ITR would try them again.
func TestBothWithoutAPath(t *testing.T) {
	n := newSiblingNetwork(t)
	n.cut = []string{rlocA, rlocB}
	for range 30 {
		n.run(time.Second)
	}
	a, b := n.a.SiblingPath().To.IsValid(), n.b.SiblingPath().To.IsValid()
	if a && b {
		t.Error("each hands its packets to the other: a loop")
	}
	prefix := lisp.MustParsePrefix("10.1.0.0/16")
	if len(reachable(n.a.database[prefix].Locators)) == 0 || len(reachable(n.b.database[prefix].Locators)) == 0 {
		t.Error("the site has no reachable locator left")
	}
	n.cut = nil
	n.run(30 * time.Second)
	n.want("both are back", "", rlocA, rlocB)
}

// TestOneOfBothComesBack: none gave its packets away while both had no path. The one that is back says so to the other, which gives it
// its packets. Who starts without a path knows no RLOC to ask about.
func TestOneOfBothComesBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, back := range []string{rlocA, rlocB} {
			n := newSiblingNetwork(t)
			begin := func() {
				for _, x := range []*testNode{n.a, n.b} {
					itr := *x.config.ITR
					itr.IdleTimeout = 20 * time.Second
					x.config.ITR = &itr
					x.start()
					x.miss("10.1.0.10", "10.2.0.10")
				}
			}
			begin()
			n.run(10 * time.Second)
			n.cut = []string{rlocA, rlocB}
			n.lose = n.withoutCore
			if restart {
				begin()
			}
			n.run(3 * time.Minute) // nothing is left in the map-caches that could answer, nor asked for
			n.comesBack(back)
		}
	}
}

// withoutCore loses what leaves by an RLOC that is cut, also where the system chooses the source.
func (n *siblingNetwork) withoutCore(from *testNode, p SendPacket) bool {
	own := from.addrs[len(from.addrs)-1].String()
	inside := p.Remote.Addr().String() == linkA || p.Remote.Addr().String() == linkB
	return !inside && slices.Contains(n.cut, own) || slices.Contains(n.cut, p.Remote.Addr().String())
}

// comesBack gives one of both xTRs its path again.
func (n *siblingNetwork) comesBack(back string) {
	n.t.Helper()
	x, other := n.a, n.b
	n.cut = []string{rlocB}
	if back == rlocB {
		x, other, n.cut = n.b, n.a, []string{rlocA}
	}
	if x.SiblingPath().To.IsValid() || other.SiblingPath().To.IsValid() {
		n.t.Errorf("both have no path, and hand their packets over: %+v, %+v", x.SiblingPath(), other.SiblingPath())
	}
	n.run(time.Minute)
	x.miss("10.1.0.10", "10.2.0.10")
	other.miss("10.1.0.10", "10.2.0.10")
	n.run(30 * time.Second)
	if x.SiblingPath().To.IsValid() || !other.SiblingPath().To.IsValid() {
		n.t.Errorf("%s is back and hands its packets over: %+v, its sibling: %+v", x.name, x.SiblingPath(), other.SiblingPath())
	}
}

// TestSiblingIsNotAskedAtEachConfiguration: a carrier that comes and goes configures us anew each time.
func TestSiblingIsNotAskedAtEachConfiguration(t *testing.T) {
	n := newSiblingNetwork(t)
	before := n.a.counter(counter.SiblingAsked)
	for i := range 10 {
		n.linkDown(i%2 == 0)
		n.run(time.Millisecond)
	}
	if asked := n.a.counter(counter.SiblingAsked) - before; asked > 1 {
		t.Errorf("asked %d times in 10 ms, want one question every %s at most", asked, siblings.SiblingPause)
	}
	n.run(siblings.SiblingPause)
	if asked := n.a.counter(counter.SiblingAsked) - before; asked < 1 {
		t.Error("not asked after the configuration")
	}
}

// TestFlapsMakeNoSilentSibling: each has it asked, more often than it answers.
func TestFlapsMakeNoSilentSibling(t *testing.T) {
	n := newSiblingNetwork(t)
	before, refused := n.a.counter(counter.SiblingAsked), n.b.counter(counter.RefusedReplyLimit)
	for i := range 13 {
		n.linkDown(i%2 == 0)
		n.run(30 * time.Millisecond)
	}
	asked := n.a.counter(counter.SiblingAsked) - before
	if asked < 12 || n.b.counter(counter.RefusedReplyLimit) == refused {
		t.Fatalf("asked %d times, and all are answered", asked)
	}
	n.run(5 * time.Second)
	if slices.ContainsFunc(n.a.notices, func(n Notice) bool { return n.Kind == NoticeSiblingSilent }) {
		t.Error("a sibling is called silent that is there")
	}
	n.want("after the flaps", linkB, rlocB)
	// It is silent as soon as ever: after four questions of two seconds each.
	n.cut = append(n.cut, linkA)
	n.run(8*time.Second + 100*time.Millisecond)
	if n.a.SiblingPath().To.IsValid() {
		t.Errorf("by a silent sibling: %+v", n.a.SiblingPath())
	}
}

// TestNothingGoesToASilentSibling, nor to one that has no path itself.
func TestNothingGoesToASilentSibling(t *testing.T) {
	n := newSiblingNetwork(t)
	n.cut = []string{linkA}
	n.run(30 * time.Second)
	n.linkDown(true)
	n.cut = append(n.cut, linkA)
	n.run(10 * time.Second)
	if n.a.SiblingPath().To.IsValid() {
		t.Errorf("by a silent sibling: %+v", n.a.SiblingPath())
	}
	for s := range n.a.Siblings() {
		if s.Answers {
			t.Errorf("the sibling answers: %+v", s)
		}
	}
	n.cut = []string{rlocA}
	n.run(10 * time.Second)
	n.want("the site's link is back", linkB, rlocB)
}

// TestWhoIsNotAskedIsNotSilent: where each xTR has its own locators alone there is nothing to ask.
func TestWhoIsNotAskedIsNotSilent(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	c := siblingConfig(1, rlocA, linkA, linkB)
	c.ETR.Database[0].Locators = locators(rlocA)
	a := n.add("a", c, linkA, rlocA)
	n.run(30 * time.Second)
	if slices.ContainsFunc(a.notices, func(n Notice) bool { return n.Kind == NoticeSiblingSilent }) {
		t.Error("a sibling that is not asked is called silent")
	}
}

// TestSiblingSpeaksForItselfAlone: what it says of others' locators is nothing.
func TestSiblingSpeaksForItselfAlone(t *testing.T) {
	n := newSiblingNetwork(t)
	ask := n.a.siblings.Rows[0].Nonce
	for _, c := range []struct {
		name   string
		from   string
		change func(*wire.MapReply)
	}{
		{"our own locator", linkB, func(m *wire.MapReply) { m.Records[0].Locators[0].Local = true }},
		{"not its own", linkB, func(m *wire.MapReply) { m.Records[0].Locators[1].Local = false }},
		{"another nonce", linkB, func(m *wire.MapReply) { m.Nonce++ }},
		{"another address", "10.1.0.3", func(*wire.MapReply) {}},
	} {
		mapping := n.a.etr.Announced.At(0).Mapping()
		set := slices.Clone(mapping.Locators)
		for i := range set {
			set[i].Reachable, set[i].Local = false, set[i].RLOC == rloc(rlocB)
		}
		mapping.Locators = set
		m := &wire.MapReply{Probe: true, Nonce: ask, Records: []wire.Record{wire.RecordOf(mapping)}}
		c.change(m)
		if c.name == "our own locator" {
			m.Records[0].Locators = m.Records[0].Locators[:1]
		}
		payload, err := m.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		n.a.inject(linkA+":4342", c.from+":4342", payload)
		if got := reachable(n.a.database[mapping.Prefix].Locators); len(got) != 2 {
			t.Errorf("%s: reachable %v", c.name, got)
		}
	}
}

// TestFormerLocatorOfASiblingIsForgotten: what it said of an address that it had says nothing of its paths.
func TestFormerLocatorOfASiblingIsForgotten(t *testing.T) {
	n := newSiblingNetwork(t)
	for _, x := range []*testNode{n.a, n.b} {
		c := x.config
		etr := *c.ETR
		etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: locators(rlocA, "192.0.2.20")}}
		c.ETR = &etr
		if x == n.b {
			c.LocalRLOCs = []lisp.RLOC{rloc("192.0.2.20")}
			x.addrs = append(x.addrs, addrPort("192.0.2.20").Addr())
		}
		x.configure(c)
	}
	n.run(5 * time.Second)
	c := n.b.config
	etr := *c.ETR
	set := locators(rlocA, "192.0.2.20")
	set[1].Reachable = false
	etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: set}}
	c.ETR = &etr
	n.b.configure(c) // b has lost its link
	n.run(5 * time.Second)
	if by := n.b.SiblingPath().To.String(); by != linkA {
		t.Fatalf("b's sibling path is by %s", by)
	}
	n.linkDown(true)
	if by := n.a.SiblingPath().To; by.IsValid() {
		t.Errorf("a hands the site's packets to %s, which has no path", by)
	}
}

func TestRefusedSiblings(t *testing.T) {
	for name, change := range map[string]func(*SiblingConfig){
		"no address":          func(c *SiblingConfig) { c.Address = netip.Addr{} },
		"no address of ours":  func(c *SiblingConfig) { c.Local = netip.Addr{} },
		"two families":        func(c *SiblingConfig) { c.Local = netip.MustParseAddr("fd00::1") },
		"ourselves":           func(c *SiblingConfig) { c.Address = c.Local },
		"a negative interval": func(c *SiblingConfig) { c.Interval = -1 },
	} {
		c := siblingConfig(1, rlocA, linkA, linkB)
		change(&c.ETR.Siblings[0])
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	c := siblingConfig(1, rlocA, linkA, linkB)
	c.ETR.Siblings = append(c.ETR.Siblings, c.ETR.Siblings[0])
	if c.Validate() == nil {
		t.Error("a sibling twice is accepted")
	}
}
