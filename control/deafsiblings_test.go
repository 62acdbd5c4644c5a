// SPDX-License-Identifier: Apache-2.0

package control

// Two sites with two xTRs each, and a core that drops control messages: who hears nothing gives the site's packets to a
// sibling that hears something, or that data packets still come to, and to no other.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/wire"
)

const (
	rlocD        = "192.0.2.4"
	linkC, linkD = "10.2.0.1", "10.2.0.2"
)

// deafNetwork is a site with xTRs a and b, one with c and d, a Map-Server, and a core that loses control messages.
type deafNetwork struct {
	*testNetwork
	ipv6           bool // all addresses and EID-Prefixes; in names that a test gives, of reaches them
	a, b, c, d, ms *testNode
	deaf           []string // RLOCs that control messages neither come to nor leave from, in the core
	inside         bool     // the links inside the sites are cut
}

// quadConfig is an xTR of one of the two sites.
func quadConfig(id byte, own, other, link, sibling, prefix string) Config {
	return (&deafNetwork{}).xtr(id, own, other, link, sibling, prefix)
}

func (n *deafNetwork) xtr(id byte, own, other, link, sibling, prefix string) Config {
	c := xtrConfig(id, n.of("192.0.2.100"), []string{n.of(own)}, n.of(prefix))
	c.ITR.RLOCProbing = ProbingConfig{Interval: time.Second, Retries: 2, RetriesInterval: 200 * time.Millisecond}
	c.ETR.Siblings = []SiblingConfig{
		{Address: netip.MustParseAddr(n.of(sibling)), Local: netip.MustParseAddr(n.of(link))},
	}
	c.ETR.Database[0].Locators = locators(n.of(min(own, other)), n.of(max(own, other)))
	return c
}

// of is an address or EID-Prefix of the network: 10.1.0.2 in IPv6 is 2001:db8:1::2, 192.0.2.2 is 2001:db8:f::2.
func (n *deafNetwork) of(s string) string {
	if !n.ipv6 {
		return s
	}
	var site, host int
	if at, within := strings.CutPrefix(s, "192.0.2."); within {
		return "2001:db8:f::" + at
	}
	if _, err := fmt.Sscanf(s, "10.%d.0.0/16", &site); err == nil {
		return fmt.Sprintf("2001:db8:%d::/48", site)
	}
	if _, err := fmt.Sscanf(s, "10.%d.0.%d", &site, &host); err != nil {
		n.t.Fatal(s, err)
	}
	return fmt.Sprintf("2001:db8:%d::%d", site, host)
}

func newDeafNetwork(t *testing.T) *deafNetwork {
	t.Helper()
	return newDeafNetworkOf(t, false)
}

func newDeafNetworkOf(t *testing.T, ipv6 bool) *deafNetwork {
	t.Helper()
	n := &deafNetwork{testNetwork: newNetwork(t), ipv6: ipv6}
	n.lose = func(_ *testNode, p SendPacket) bool {
		local, remote := p.Local.Addr().String(), p.Remote.Addr().String()
		if !strings.HasPrefix(remote, "192.0.2.") && !strings.HasPrefix(remote, "2001:db8:f:") {
			return n.inside
		}
		return slices.ContainsFunc(n.deaf, func(r string) bool { return n.of(r) == local || n.of(r) == remote })
	}
	sites := mapServerConfig(n.of("10.1.0.0/16"), n.of("10.2.0.0/16"), n.of("10.3.0.0/16"))
	n.ms = n.add("ms", sites, n.of("192.0.2.100"))
	for _, x := range []struct {
		id                                byte
		to                                **testNode
		own, other, link, sibling, prefix string
	}{
		{1, &n.a, rlocA, rlocB, linkA, linkB, "10.1.0.0/16"},
		{2, &n.b, rlocB, rlocA, linkB, linkA, "10.1.0.0/16"},
		{3, &n.c, rlocC, rlocD, linkC, linkD, "10.2.0.0/16"},
		{4, &n.d, rlocD, rlocC, linkD, linkC, "10.2.0.0/16"},
	} {
		c := n.xtr(x.id, x.own, x.other, x.link, x.sibling, x.prefix)
		*x.to = n.add(string('a'+rune(x.id)-1), c, n.of(x.link), n.of(x.own))
	}
	n.run(serverStart + time.Second)
	n.a.miss(n.of("10.1.0.10"), n.of("10.2.0.10"))
	n.c.miss(n.of("10.2.0.10"), n.of("10.1.0.10"))
	n.run(5 * time.Second)
	n.a.wantCached(n.of("10.2.0.0/16"), n.of(rlocC), n.of(rlocD))
	return n
}

// linkOf configures an xTR as a daemon does whose core interface lost its carrier, or has it again.
func (n *deafNetwork) linkOf(x *testNode, up bool) {
	cfg := x.config
	etr := *cfg.ETR
	set := slices.Clone(etr.Database[0].Locators)
	for i := range set {
		if set[i].RLOC == cfg.LocalRLOCs[0] {
			set[i].Reachable = up
		}
	}
	etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: set}}
	cfg.ETR = &etr
	x.configure(cfg)
}

// forward lets time pass with data packets that each second come to those xTRs from an RLOC, and use the mapping of the other site.
func (n *deafNetwork) forward(d time.Duration, hear map[*testNode]string, use ...*testNode) {
	n.t.Helper()
	for range int(d / time.Second) {
		n.run(time.Second)
		for _, x := range use {
			p := "10.2.0.0/16"
			if x == n.c || x == n.d {
				p = "10.1.0.0/16"
			}
			x.use(n.of(p))
		}
		for x, from := range hear {
			x.HandleHeard(n.now, []Heard{{RLOC: rloc(n.of(from)), LastHeardAt: n.now}})
			x.drain()
		}
	}
}

// wantPath fails the test unless an xTR's packets go to the sibling with that address, "" for itself.
func (n *deafNetwork) wantPath(x *testNode, want string, what string) {
	n.t.Helper()
	got := ""
	if to := x.SiblingPath().To; to.IsValid() {
		got = to.String()
	}
	if want != "" {
		want = n.of(want)
	}
	if got != want {
		n.t.Errorf("%s: the packets of %s go to %q, want %q", what, x.name, got, want)
	}
}

var everyRLOC = []string{rlocA, rlocB, rlocC, rlocD}

// TestDeafSiblingsKeepTheirPackets: where control messages are lost and data packets are not, no router gives anything away.
func TestDeafSiblingsKeepTheirPackets(t *testing.T) {
	for name, deaf := range map[string][]string{"everywhere": everyRLOC, "one site": {rlocA, rlocB}} {
		n := newDeafNetwork(t)
		n.deaf = deaf
		all := map[*testNode]string{n.a: rlocC, n.b: rlocC, n.c: rlocA, n.d: rlocA}
		for i := range 100 {
			n.forward(time.Second, all, n.a, n.c)
			for _, x := range []*testNode{n.a, n.b, n.c, n.d} {
				n.wantPath(x, "", name)
				if t.Failed() {
					t.Fatalf("%s: after %d s", name, i+1)
				}
			}
			n.a.wantCached("10.2.0.0/16", rlocC, rlocD)
		}
		n.deaf = nil
		n.forward(20*time.Second, all, n.a, n.c)
		for _, x := range []*testNode{n.a, n.b, n.c, n.d} {
			n.wantPath(x, "", name+", over")
			x.wantCounter(counter.SiblingPathTaken, 0)
		}
	}
}

// TestDeafRouterGivesToTheSiblingThatHears, at once, with the mappings of its packets; and it stays there though that one goes deaf later.
func TestDeafRouterGivesToTheSiblingThatHears(t *testing.T) {
	n := newDeafNetwork(t)
	n.b.wantNotCached("10.2.0.0/16")
	n.deaf = []string{rlocA}
	n.forward(3*time.Second, nil, n.a)
	n.wantPath(n.a, linkB, "a is deaf")
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
	if w := n.a.SiblingPath(); w.Why != SiblingPathNoCore {
		t.Errorf("reason %s", w.Why)
	}
	n.deaf = everyRLOC
	n.forward(2*time.Minute, map[*testNode]string{n.b: rlocC}, n.b)
	n.wantPath(n.a, linkB, "b is deaf as well, later")
	n.wantPath(n.b, "", "b has no sibling to give to")
	n.deaf = nil
	n.forward(20*time.Second, nil, n.b)
	n.wantPath(n.a, "", "the core answers")
}

// sentMessage is a message of one type that an xTR sent, with the packet.
type sentMessage[M wire.Message] struct {
	SendPacket
	m M
}

// sentFrom are those messages of one type that an xTR sent behind its first packets.
func sentFrom[M wire.Message](x *testNode, first int, wanted func(SendPacket, M) bool) (list []sentMessage[M]) {
	for _, p := range x.sent[first:] {
		parsed, err := wire.Parse(p.Payload)
		if m, ok := parsed.(M); err == nil && ok && wanted(p, m) {
			list = append(list, sentMessage[M]{p, m})
		}
	}
	return list
}

// TestSiblingProbesTheLocatorThatTheAskerNames, from its own RLOC, and answers over the site's link.
func TestSiblingProbesTheLocatorThatTheAskerNames(t *testing.T) {
	for family, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		n := newDeafNetworkOf(t, ipv6)
		n.deaf = []string{rlocA}
		fromA, fromB := len(n.a.sent), len(n.b.sent)
		n.forward(3*time.Second, nil, n.a)
		n.wantPath(n.a, linkB, family)
		questions := sentFrom(n.a, fromA, func(_ SendPacket, m *wire.MapRequest) bool {
			return m.MapReplyRecord != nil
		})
		if len(questions) == 0 {
			t.Fatalf("%s: a asks nothing", family)
		}
		asked, err := questions[0].m.MapReplyRecord.Mapping()
		if err != nil || len(asked.Locators) != 1 || asked.Prefix.String() != n.of("10.2.0.0/16") {
			t.Fatalf("%s: a asks about %+v, %v", family, asked, err)
		}
		named := asked.Locators[0].RLOC
		if named != rloc(n.of(rlocC)) && named != rloc(n.of(rlocD)) {
			t.Errorf("%s: a names %s", family, named)
		}
		probes := sentFrom(n.b, fromB, func(p SendPacket, _ *wire.MapRequest) bool {
			return p.Remote.Addr() == named.Addr()
		})
		own := []wire.Address{wire.RLOCAddress(rloc(n.of(rlocB)))}
		of := []wire.RequestRecord{{EID: wire.AddressOf(asked.Prefix), MaskLen: uint8(asked.Prefix.Bits())}}
		if len(probes) == 0 {
			t.Fatalf("%s: b does not probe %s", family, named)
		}
		if p := probes[0]; !p.m.Probe || p.m.MapDataPresent || p.Remote.Port() != wire.ControlPort ||
			p.Local.Addr().String() != n.of(rlocB) || !slices.Equal(p.m.ITRRLOCs, own) ||
			!slices.Equal(p.m.Records, of) {
			t.Errorf("%s: b's RLOC-probe, %s to %s: %+v", family, p.Local, p.Remote, p.m)
		}
		answers := sentFrom(n.b, fromB, func(p SendPacket, m *wire.MapReply) bool {
			return m.Nonce == questions[0].m.Nonce &&
				p.Local.Addr().String() == n.of(linkB) && p.Remote.Addr().String() == n.of(linkA)
		})
		if len(answers) != 1 || !answers[0].m.Records[0].Locators[0].Reachable {
			t.Errorf("%s: b answers %+v", family, answers)
		}
	}
}

// TestHandoverEndsWithTheSibling: it loses its link, or falls silent.
func TestHandoverEndsWithTheSibling(t *testing.T) {
	for name, lose := range map[string]func(n *deafNetwork){
		"silent":         func(n *deafNetwork) { n.inside = true },
		"without a link": func(n *deafNetwork) { n.linkOf(n.b, false) },
	} {
		n := newDeafNetwork(t)
		n.deaf = []string{rlocA}
		n.forward(4*time.Second, nil, n.a)
		n.wantPath(n.a, linkB, name)
		n.deaf = []string{rlocA, rlocB}
		lose(n)
		n.forward(20*time.Second, nil, n.a)
		n.wantPath(n.a, "", name)
	}
}

// TestDataPacketsDecideWhereAllAreDeaf: the router to which they no more come gives to the one to which they do.
func TestDataPacketsDecideWhereAllAreDeaf(t *testing.T) {
	n := newDeafNetwork(t)
	both := map[*testNode]string{n.a: rlocC, n.b: rlocC}
	n.forward(5*time.Second, both, n.a)
	n.deaf = everyRLOC
	n.forward(time.Second, both, n.a)
	onlyB := map[*testNode]string{n.b: rlocC} // a's provider is dead
	n.forward(8*time.Second, onlyB, n.a)
	n.wantPath(n.a, "", "ten seconds are not over")
	n.forward(6*time.Second, onlyB, n.a)
	n.wantPath(n.a, linkB, "packets come to b alone")
	n.wantPath(n.b, "", "and b keeps them")
	n.b.wantCached("10.2.0.0/16", rlocC, rlocD)
	n.forward(time.Minute, nil, n.b)
	n.wantPath(n.a, linkB, "nothing comes any more")
	n.deaf = nil
	n.forward(20*time.Second, onlyB, n.b)
	n.wantPath(n.a, "", "the core answers")
}

// TestNoPacketsAreGivenWithoutEvidence: packets come to neither, or never came to the one that is silent, or go on coming.
func TestNoPacketsAreGivenWithoutEvidence(t *testing.T) {
	for name, c := range map[string]struct{ before, after []string }{
		"never came":     {nil, []string{"b"}},
		"come to none":   {[]string{"a", "b"}, nil},
		"still come":     {[]string{"a", "b"}, []string{"a", "b"}},
		"come to a":      {[]string{"a", "b"}, []string{"a"}},
		"no data at all": {nil, nil},
	} {
		n := newDeafNetwork(t)
		hear := func(names []string) map[*testNode]string {
			made := map[*testNode]string{}
			for _, x := range []*testNode{n.a, n.b} {
				if slices.Contains(names, x.name) {
					made[x] = rlocC
				}
			}
			return made
		}
		n.forward(20*time.Second, hear(c.before), n.a)
		n.deaf = everyRLOC
		n.forward(60*time.Second, hear(c.after), n.a)
		n.wantPath(n.a, "", name)
	}
}

// TestFirstOfThreeThatSaidYes gets the packets, not the first of the configuration.
func TestFirstOfThreeThatSaidYes(t *testing.T) {
	n := newDeafNetwork(t)
	n.addThird()
	n.forward(5*time.Second, nil, n.a)
	n.deaf = []string{rlocA, rlocB}
	n.forward(4*time.Second, nil, n.a)
	n.wantPath(n.a, linkE, "b is deaf, e is not")
}

const rlocE, linkE = "192.0.2.5", "10.1.0.3"

// addThird adds an xTR to the site of a and b. Each of the three knows both others.
func (n *deafNetwork) addThird() {
	n.t.Helper()
	three := locators(rlocA, rlocB, rlocE)
	e := siblingConfig(5, rlocE, linkE, linkA)
	withSibling := func(c Config, sibling string) Config {
		etr := *c.ETR
		etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: three}}
		added := SiblingConfig{Address: netip.MustParseAddr(sibling), Local: etr.Siblings[0].Local}
		etr.Siblings = append(slices.Clone(etr.Siblings), added)
		c.ETR = &etr
		return c
	}
	n.add("e", withSibling(e, linkB), linkE, rlocE)
	for _, x := range []*testNode{n.a, n.b} {
		x.configure(withSibling(x.config, linkE))
	}
}

// TestHandoverEndsWithTheSiblingsOwn: a gave its packets to b, which goes deaf and gives its own to e. Then b has no
// path for them, and they go to e as well.
func TestHandoverEndsWithTheSiblingsOwn(t *testing.T) {
	n := newDeafNetwork(t)
	n.addThird()
	n.forward(5*time.Second, nil, n.a, n.b)
	n.deaf = []string{rlocA, rlocE}
	n.forward(4*time.Second, nil, n.a, n.b)
	n.wantPath(n.a, linkB, "e is deaf, b is not")
	n.deaf = []string{rlocA, rlocB}
	n.forward(6*time.Second, nil, n.b)
	n.wantPath(n.b, linkE, "b is deaf, e is not")
	n.wantPath(n.a, linkE, "b has handed over itself")
	n.deaf = nil
	n.forward(20*time.Second, nil, n.a, n.b)
	for _, x := range []*testNode{n.a, n.b} {
		n.wantPath(x, "", "the core answers")
	}
}

// TestOldYesIsNoAnswer: the core answers the sibling, then it does not any more, all before the first router knows that its own path is
// lost. The last answer counts.
func TestOldYesIsNoAnswer(t *testing.T) {
	for name, again := range map[string]bool{"deaf": false, "not deaf again": true} {
		n := newDeafNetwork(t)
		c := n.a.config
		c.ITR.RLOCProbing = ProbingConfig{Interval: time.Second, Retries: 9, RetriesInterval: 200 * time.Millisecond}
		n.a.configure(c)
		n.forward(2*time.Second, nil, n.a)
		n.deaf = []string{rlocA}
		n.awaitWord(n.a, true)
		n.deaf = everyRLOC
		n.awaitWord(n.a, false)
		n.wantPath(n.a, "", name+": a does not know yet")
		want := ""
		if again {
			n.deaf, want = []string{rlocA}, linkB
		}
		n.forward(10*time.Second, nil, n.a)
		n.wantPath(n.a, want, name)
	}
}

// awaitWord lets time pass until the sibling of x says that the core answers it, or does not.
func (n *deafNetwork) awaitWord(x *testNode, yes bool) {
	n.t.Helper()
	for range 500 {
		n.run(10 * time.Millisecond)
		for s := range x.Siblings() {
			if !s.CoreAskedAt.IsZero() && s.CoreAnswers == yes {
				return
			}
		}
	}
	n.t.Fatalf("no sibling of %s says %t", x.name, yes)
}

// TestWhatTheCoreAnswersForASiblingEndsTheDoubt: when it answers again, a router may find out for its sibling before it does for itself.
// From then on it gives nothing away, whatever the sibling says.
func TestWhatTheCoreAnswersForASiblingEndsTheDoubt(t *testing.T) {
	first := 0
	for i := range 12 {
		n := newDeafNetwork(t)
		all := map[*testNode]string{n.a: rlocC, n.b: rlocC, n.c: rlocA, n.d: rlocA}
		for _, x := range []*testNode{n.a, n.b} {
			c := x.config
			c.ITR.RLOCProbing = ProbingConfig{Interval: 10 * time.Second}
			x.configure(c)
		}
		n.b.miss("10.1.0.11", "10.2.0.10")
		n.forward(15*time.Second, all, n.a, n.b, n.c)
		n.deaf = everyRLOC
		n.forward(50*time.Second, all, n.a, n.b, n.c)
		n.run(time.Duration(i) * 900 * time.Millisecond)
		n.deaf = nil
		back := n.now
		answered := map[*testNode]bool{}
		for range 300 {
			n.run(10 * time.Millisecond)
			for _, x := range []*testNode{n.a, n.b} {
				path := x.SiblingPath()
				if !path.To.IsValid() && path.UnansweredSince.After(back) && !answered[x] {
					answered[x] = true
					first++
				}
				if !answered[x] {
					continue
				}
				if n.wantPath(x, "", fmt.Sprint("end ", i)); t.Failed() {
					return
				}
			}
		}
	}
	if first == 0 {
		t.Error("none found out for its sibling first")
	}
}

// TestOneAnswerEndsTheDoubt: an answer of a locator that was down does not bring it back, and what the sibling said
// before it counts no more all the same: the router is not deaf, and gives no packets away without another yes.
func TestOneAnswerEndsTheDoubt(t *testing.T) {
	for _, answered := range []bool{true, false} {
		n := newDeafNetwork(t)
		var held []SendPacket // answers to RLOC-probes of a that do not arrive by themselves
		deafB := true
		n.lose = func(from *testNode, p SendPacket) bool {
			to := p.Remote.Addr().String()
			switch m, _ := wire.Parse(p.Payload); m := m.(type) {
			case *wire.MapReply:
				_, ofLocator := n.a.itr.Prober.ByNonce[m.Nonce]
				if ofLocator && to == rlocA && from == n.c {
					held = append(held, p)
				}
			case *wire.MapRequest:
				if from == n.a && m.Probe && to == rlocC {
					return false
				}
			}
			isB := from == n.b && to != rlocA || from != n.a && to == rlocB
			return !strings.HasPrefix(to, "10.") && (deafB || !isB)
		}
		n.forward(30*time.Second, nil, n.a)
		n.wantPath(n.a, "", "all are deaf")
		n.a.wantLocator(rlocC, LocatorUnconfirmed, LocatorUnanswered)
		deafB = false
		n.awaitWord(n.a, true)
		n.wantPath(n.a, "", "b said yes a moment ago")
		if deafB = true; answered {
			last := held[len(held)-1]
			n.a.inject(last.Remote.String(), last.Local.String(), last.Payload)
			n.a.wantLocator(rlocC, LocatorUnconfirmed, LocatorReturning)
		}
		for range 300 {
			n.run(10 * time.Millisecond)
			if answered {
				n.wantPath(n.a, "", "the core answered after the yes")
			}
		}
		if !answered {
			n.wantPath(n.a, linkB, "the core did not answer")
		}
	}
}
