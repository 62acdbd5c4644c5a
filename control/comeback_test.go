// SPDX-License-Identifier: Apache-2.0

package control

// A link that returns has its carrier before the host has next hops: the site's packets stay with the sibling until
// the core has answered in each family, and no router is left without a path.

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// comebackNetwork is a site with xTRs a and b, and a remote one, with RLOCs of one family or both. Its Map-Server has
// IPv4 or IPv6.
type comebackNetwork struct {
	*testNetwork
	a, b, c, ms *testNode
	lost        []string // RLOCs of a to which nothing passes
	deaf        []string // RLOCs to and from which no control message passes in the core
	inside      bool     // the link inside the site is cut
}

// rlocsIn are the RLOCs of a host number, in families "4", "6" or "46".
func rlocsIn(families, number string) (list []string) {
	if strings.Contains(families, "4") {
		list = append(list, "192.0.2."+number)
	}
	if strings.Contains(families, "6") {
		list = append(list, "2001:db8:f::"+number)
	}
	return list
}

func newComebackNetwork(t *testing.T, families string) *comebackNetwork {
	t.Helper()
	n := &comebackNetwork{testNetwork: newNetwork(t)}
	n.lose = func(from *testNode, p SendPacket) bool {
		to := p.Remote.Addr()
		if strings.HasPrefix(to.String(), "10.") {
			return n.inside
		}
		cut := append(slices.Clone(n.lost), n.deaf...)
		isCut := func(a netip.Addr) bool { return a.Is4() == to.Is4() && slices.Contains(cut, a.String()) }
		return slices.ContainsFunc(from.addrs, isCut) || isCut(to)
	}
	server := rlocsIn(families, "100")
	n.ms = n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16"), server...)
	probing := ProbingConfig{Interval: time.Second, Retries: 2, RetriesInterval: 200 * time.Millisecond}
	for _, x := range []struct {
		node                  **testNode
		id                    byte
		number, link, sibling string
	}{{&n.a, 1, "1", linkA, linkB}, {&n.b, 2, "2", linkB, linkA}} {
		c := xtrConfig(x.id, server[0], rlocsIn(families, x.number), "10.1.0.0/16")
		c.ETR.Database[0].Locators = locators(append(rlocsIn(families, "1"), rlocsIn(families, "2")...)...)
		c.ITR.RLOCProbing = probing
		c.ETR.Siblings = []SiblingConfig{{Address: netip.MustParseAddr(x.sibling), Local: netip.MustParseAddr(x.link)}}
		*x.node = n.add(string('a'+rune(x.id-1)), c, append([]string{x.link}, rlocsIn(families, x.number)...)...)
	}
	remote := xtrConfig(3, server[0], rlocsIn(families, "3"), "10.2.0.0/16")
	remote.ITR.RLOCProbing = probing
	n.c = n.add("c", remote, rlocsIn(families, "3")...)
	n.run(serverStart + time.Second)
	n.a.miss("10.1.0.10", "10.2.0.10")
	n.b.miss("10.1.0.11", "10.2.0.10")
	n.c.miss("10.2.0.10", "10.1.0.10")
	n.run(3 * time.Second)
	return n
}

// setLinks configures a router as a daemon does whose core interface has or lost its carrier.
func setLinks(x *testNode, up bool) {
	cfg := x.config
	etr := *cfg.ETR
	set := slices.Clone(etr.Database[0].Locators)
	for i := range set {
		if slices.Contains(cfg.LocalRLOCs, set[i].RLOC) {
			set[i].Reachable = up
		}
	}
	etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: set}}
	cfg.ETR = &etr
	x.configure(cfg)
}

// away takes the carrier of a for a time, and gives it back without next hops.
func (n *comebackNetwork) away(families string, d time.Duration) {
	n.t.Helper()
	n.lost = rlocsIn(families, "1")
	setLinks(n.a, false)
	n.run(d)
	n.want("without a link", linkB, SiblingPathRLOCsDown)
	setLinks(n.a, true)
	n.want("the carrier is back", linkB, SiblingPathUnproven)
}

// want fails the test unless a's packets go there, and the R bits of a's locators agree with that.
func (n *comebackNetwork) want(what, to string, why SiblingPathReason) {
	n.t.Helper()
	path, got := n.a.SiblingPath(), ""
	if path.To.IsValid() {
		got = path.To.String()
	}
	if got != to || path.Why != why {
		n.t.Fatalf("%s: a's packets go to %q (%s), want %q (%s)", what, got, path.Why, to, why)
	}
	for _, l := range n.a.database[lisp.MustParsePrefix("10.1.0.0/16")].Locators {
		if slices.Contains(n.a.config.LocalRLOCs, l.RLOC) && l.Reachable != (to == "") {
			n.t.Fatalf("%s: the R bit of %s is %t", what, l.RLOC, l.Reachable)
		}
	}
}

// TestPacketsComeBackWithTheCoresAnswer and not with the carrier, in each family.
func TestPacketsComeBackWithTheCoresAnswer(t *testing.T) {
	for _, families := range []string{"4", "6", "46"} {
		for _, away := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 5 * time.Minute} {
			n := newComebackNetwork(t, families)
			n.away(families, away)
			for range 60 {
				n.run(10 * time.Millisecond)
				n.want("no next hop "+families, linkB, SiblingPathUnproven)
			}
			if families == "46" {
				n.lost = rlocsIn("6", "1")
				for range 60 {
					n.run(10 * time.Millisecond)
					n.want("IPv4 only", linkB, SiblingPathUnproven)
				}
			}
			n.lost = nil
			n.run(1700 * time.Millisecond)
			n.want("next hops are there "+families, "", SiblingPathNone)
			n.a.removed = nil
			n.run(time.Minute)
			n.want("a minute later "+families, "", SiblingPathNone)
		}
	}
}

// TestPacketsComeBackAtOnce where the link has its next hops with the carrier.
func TestPacketsComeBackAtOnce(t *testing.T) {
	for _, families := range []string{"4", "6", "46"} {
		n := newComebackNetwork(t, families)
		n.lost = rlocsIn(families, "1")
		setLinks(n.a, false)
		n.run(time.Second)
		n.lost = nil
		setLinks(n.a, true)
		n.run(20 * time.Millisecond)
		n.want("a round trip later "+families, "", SiblingPathNone)
		n.run(100 * time.Millisecond)
		if got := reachable(n.ms.registered()[0].Merged.Locators); len(got) != 2*len(families) {
			t.Errorf("family %s: registered as reachable are %v", families, got)
		}
	}
}

// TestAFamilyThatStaysSilent does not keep the packets away for long.
func TestAFamilyThatStaysSilent(t *testing.T) {
	n := newComebackNetwork(t, "46")
	n.away("46", time.Second)
	n.lost = rlocsIn("6", "1")
	n.run(4900 * time.Millisecond)
	n.want("IPv6 may come yet", linkB, SiblingPathUnproven)
	n.run(2 * time.Second)
	n.want("IPv6 does not come", "", SiblingPathNone)
}

// TestDeafAfterTheReturn: control messages do not pass. The packets stay where they arrive, until that path ends: by
// the sibling's own word, or because it is silent.
func TestDeafAfterTheReturn(t *testing.T) {
	for _, families := range []string{"4", "6", "46"} {
		for name, end := range map[string]func(n *comebackNetwork){
			"link": func(n *comebackNetwork) {
				setLinks(n.b, false)
				n.run(20 * time.Millisecond)
			},
			"silent": func(n *comebackNetwork) {
				n.inside = true
				n.run(10 * time.Second)
			},
		} {
			for _, soon := range []bool{true, false} {
				n := newComebackNetwork(t, families)
				n.away(families, time.Second)
				n.lost, n.deaf = nil, append(rlocsIn(families, "1"), rlocsIn(families, "2")...)
				why := SiblingPathUnproven
				if !soon {
					n.run(2 * time.Minute)
					why = SiblingPathNoCore
				}
				n.want("deaf "+families, linkB, why)
				end(n)
				n.want(name+" "+families, "", SiblingPathNone)
			}
		}
	}
}

// TestComebackAfterDeafness ends as that of a router that the core did not answer.
func TestComebackAfterDeafness(t *testing.T) {
	n := newComebackNetwork(t, "46")
	n.away("46", time.Second)
	n.run(2 * time.Minute)
	n.want("nothing passes", linkB, SiblingPathNoCore)
	n.lost = nil
	n.run(10 * time.Second)
	n.want("all passes", "", SiblingPathNone)
}

// TestComebackWithNobodyToAsk: no locator, no RLOC of a sibling and no Map-Server in a family of ours.
func TestComebackWithNobodyToAsk(t *testing.T) {
	n := newComebackNetwork(t, "46")
	for _, x := range []*testNode{n.a, n.b} {
		c := x.config
		itr, etr := *c.ITR, *c.ETR
		own := "192.0.2.1"
		if x == n.b {
			own = "2001:db8:f::2"
		}
		c.LocalRLOCs = []lisp.RLOC{rloc(own)}
		etr.Database = []DatabaseMapping{{Prefix: etr.Database[0].Prefix, Locators: locators("192.0.2.1", "2001:db8:f::2")}}
		etr.MapServers, itr.MapResolvers = nil, nil
		c.ETR, c.ITR = &etr, &itr
		x.configure(c)
		x.start()
	}
	n.run(3 * time.Second)
	n.away("4", 3*time.Second)
	n.run(4 * time.Second)
	n.want("not yet", linkB, SiblingPathUnproven)
	n.run(2 * time.Second)
	n.want("there is nothing to wait for", "", SiblingPathNone)
}

// quiet has both siblings want no Map-Notify, or want it, and know no other site, and takes b its path to the core,
// which nothing shows.
func (n *comebackNetwork) quiet(wantMapNotify bool) {
	for _, x := range []*testNode{n.a, n.b} {
		c := x.config
		etr := *c.ETR
		etr.MapServers = slices.Clone(etr.MapServers)
		etr.MapServers[0].WantMapNotify = wantMapNotify
		c.ETR = &etr
		x.start()
		x.configure(c)
	}
	n.run(3 * time.Second)
	n.deaf = append(rlocsIn("4", "2"), rlocsIn("6", "2")...)
}

// TestComebackFromADeadSibling: the only RLOC to ask is that of the sibling that has our packets, and its path is dead.
func TestComebackFromADeadSibling(t *testing.T) {
	for _, families := range []string{"4", "6", "46"} {
		n := newComebackNetwork(t, families)
		n.quiet(false)
		n.away(families, 20*time.Second)
		n.lost = nil
		n.run(29 * time.Second)
		n.want("it may answer yet", linkB, SiblingPathUnproven)
		n.run(7 * time.Second)
		n.want("nothing else can be asked", "", SiblingPathNone)

		n.away(families, 20*time.Second) // the time begins anew
		n.lost = nil
		n.run(29 * time.Second)
		n.want("away again", linkB, SiblingPathUnproven)
	}
}

// TestComebackWaitsForOthers than the sibling as long as they do not answer: Map-Servers that acknowledge, and locators
// of other sites.
func TestComebackWaitsForOthers(t *testing.T) {
	n := newComebackNetwork(t, "4")
	n.quiet(true)
	n.away("4", 20*time.Second)
	n.run(5 * time.Minute)
	n.want("no Map-Notify", linkB, SiblingPathUnproven)
	n.lost = nil
	n.run(10 * time.Second)
	n.want("a Map-Notify", "", SiblingPathNone)

	n = newComebackNetwork(t, "4")
	n.quiet(false)
	n.deaf = nil
	n.a.miss("10.1.0.10", "10.2.0.10")
	n.run(3 * time.Second)
	n.away("4", 5*time.Second)
	n.lost = rlocsIn("4", "1")
	n.run(40 * time.Second)
	if to := n.a.SiblingPath().To.String(); to != linkB {
		t.Errorf("no locator answers, and a's packets go to %q", to)
	}
}

// TestAFlapBeginsAnew: an answer to what was sent before the link went away again says nothing.
func TestAFlapBeginsAnew(t *testing.T) {
	n := newComebackNetwork(t, "46")
	n.away("46", time.Second)
	n.lost = nil
	n.run(2 * time.Millisecond)
	n.lost = rlocsIn("46", "1")
	setLinks(n.a, false)
	n.run(time.Millisecond)
	setLinks(n.a, true)
	for range 50 {
		n.run(10 * time.Millisecond)
		n.want("after the second flap", linkB, SiblingPathUnproven)
	}
	n.lost = nil
	n.run(time.Second)
	n.want("next hops are there", "", SiblingPathNone)
}

// TestComebackLeavesASiblingToTheDoubt: while a doubt about the core has the sibling's RLOC asked at the retry interval, the return
// does not have it asked as well.
func TestComebackLeavesASiblingToTheDoubt(t *testing.T) {
	for _, families := range []string{"4", "6"} {
		n := newComebackNetwork(t, families)
		c := n.a.config
		itr := *c.ITR
		itr.RLOCProbing.Retries, itr.RLOCProbing.RetriesInterval = 6, time.Second
		c.ITR = &itr
		n.a.configure(c)
		n.away(families, 20*time.Second)
		n.a.sent, n.a.sentAt = nil, nil
		n.run(6 * time.Second)
		n.want("the core is silent", linkB, SiblingPathUnproven)
		var last time.Time
		asked := 0
		for i, p := range n.a.sent {
			m, err := wire.Parse(p.Payload)
			r, is := m.(*wire.MapRequest)
			if err != nil || !is || !r.Probe || p.Remote.Addr().String() != rlocsIn(families, "2")[0] {
				continue
			}
			asked++
			at := n.a.sentAt[i]
			if late := n.now.Sub(at) < 4*time.Second; late && at.Sub(last) < time.Second {
				t.Errorf("IPv%s: the sibling's RLOC is asked again after %s", families, at.Sub(last))
			}
			last = at
		}
		if asked < 4 {
			t.Errorf("IPv%s: the sibling's RLOC was asked %d times", families, asked)
		}
	}
}

// onlyResolution loses all control messages of a but Map-Requests by the mapping system, and what is to come but
// Map-Replies to them.
func (n *comebackNetwork) onlyResolution() {
	lose := n.lose
	n.lose = func(from *testNode, p SendPacket) bool {
		first := p.Payload[0]
		isRequest, isReply := first>>4 == 8, first>>4 == 2 && first&8 == 0
		isInside := strings.HasPrefix(p.Remote.Addr().String(), "10.")
		return lose(from, p) || !isInside && !isRequest && !isReply
	}
}

// TestAMapReplyBringsPacketsBack: it is the core's answer, too, where its Map-Request was sent since the RLOCs are up.
func TestAMapReplyBringsPacketsBack(t *testing.T) {
	for _, families := range []string{"4", "6"} {
		for _, early := range []bool{false, true} {
			n := newComebackNetwork(t, families)
			n.onlyResolution()
			if early {
				n.a.miss("10.1.0.10", "10.3.0.10")
			}
			setLinks(n.a, false)
			n.run(time.Millisecond)
			n.want("without a link", linkB, SiblingPathRLOCsDown)
			setLinks(n.a, true)
			if !early {
				n.a.miss("10.1.0.10", "10.3.0.10")
			}
			n.run(100 * time.Millisecond)
			if _, known := n.a.cache[lisp.MustParsePrefix("10.3.0.0/16")]; !known {
				t.Fatalf("IPv%s: the map-cache has %v", families, n.a.cachedPrefixes())
			}
			if early {
				n.want("an answer to what was sent before, IPv"+families, linkB, SiblingPathUnproven)
				continue
			}
			n.want("a Map-Reply came, IPv"+families, "", SiblingPathNone)
		}
	}
}

// TestAnAnswerOfTheOtherFamily says nothing about the one that was asked, nor about its own, and hastens nothing.
func TestAnAnswerOfTheOtherFamily(t *testing.T) {
	n := newComebackNetwork(t, "46")
	other := map[bool]string{
		true: "[2001:db8:f::1]:4342 [2001:db8:f::2]:4342", false: "192.0.2.1:4342 192.0.2.2:4342",
	}
	lose, asked := n.lose, map[bool]int{}
	n.lose = func(from *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		request, is := m.(*wire.MapRequest)
		isInside := strings.HasPrefix(p.Remote.Addr().String(), "10.")
		if from != n.a || isInside || err != nil || !is || !request.Probe {
			return lose(from, p)
		}
		isV4 := p.Remote.Addr().Is4()
		asked[isV4]++
		mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 1, Authoritative: true}
		mapping.Locators = slices.Clone(locators("192.0.2.2", "2001:db8:f::2"))
		records := []wire.Record{wire.RecordOf(mapping)}
		reply := wire.MapReply{Probe: true, Nonce: request.Nonce, Records: records}
		if b, err := reply.AppendTo(nil); err == nil {
			local, remote, _ := strings.Cut(other[isV4], " ")
			to, by := netip.MustParseAddrPort(local), netip.MustParseAddrPort(remote)
			n.arrive(testPacket{n.now.Add(oneWay), to, by, n.a, b, "b"})
		}
		return true
	}
	n.away("46", 20*time.Second)
	clear(asked)
	n.run(4500 * time.Millisecond)
	n.want("all answers are of the other family", linkB, SiblingPathUnproven)
	for isV4, times := range asked {
		if times < 4 || times > 16 {
			t.Errorf("in 4.5 s %d RLOC-probes were sent, IPv4 %t", times, isV4)
		}
	}
	n.lose, n.lost = lose, nil
	n.run(6 * time.Second)
	n.want("answers are of the family that was asked", "", SiblingPathNone)
}

// TestComebackAsksWhatNothingElseAsks: what the probing of locators asked within the last second, is left to it.
func TestComebackAsksWhatNothingElseAsks(t *testing.T) {
	for _, families := range []string{"4", "6"} {
		n := newComebackNetwork(t, families)
		c := n.a.config
		itr := *c.ITR
		itr.RLOCProbing.Interval = 10 * time.Second
		itr.RLOCProbing.Retries, itr.RLOCProbing.RetriesInterval = 6, 2*time.Second
		c.ITR = &itr
		n.a.configure(c)
		n.away(families, time.Second)
		remote := rlocsIn(families, "3")[0]
		notices, sent := len(n.a.notices), len(n.a.sent)
		var byOthers time.Time
		others, own := 0, 0
		for range 1000 {
			n.run(10 * time.Millisecond)
			n.want("no next hop, IPv"+families, linkB, SiblingPathUnproven)
			isOthers := false
			for _, notice := range n.a.notices[notices:] {
				isProbe := notice.Kind == NoticeRLOCProbeSent && notice.Remote.Addr().String() == remote
				isOthers = isOthers || isProbe
			}
			for i, p := range n.a.sent[sent:] {
				m, err := wire.Parse(p.Payload)
				r, is := m.(*wire.MapRequest)
				if err != nil || !is || !r.Probe || p.Remote.Addr().String() != remote {
					continue
				}
				at := n.a.sentAt[sent+i]
				switch {
				case isOthers:
					byOthers, isOthers = at, false
					others++
				case at.Sub(byOthers) < time.Second:
					t.Errorf("IPv%s: asked %s after another RLOC-probe", families, at.Sub(byOthers))
				default:
					own++
				}
			}
			notices, sent = len(n.a.notices), len(n.a.sent)
		}
		if others < 3 || own < 3 {
			t.Errorf("IPv%s: %d RLOC-probes by the probing, %d by the return", families, others, own)
		}
	}
}
