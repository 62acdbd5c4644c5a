// SPDX-License-Identifier: Apache-2.0

package control

// Several routers of one site behind NATs that register by one RTR (draft-ermagan-lisp-nat-traversal s.5.3): where the
// Map-Server merges what they register, the RTR forwards to all of them.

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

// mergingNode is a router of a site that asks its Map-Server to merge.
func mergingNode(id byte, ms, local string, weight uint8, prefixes ...string) Config {
	c := natNode(id, ms, local, prefixes...)
	c.ETR.MapServers[0].MergeRequest = true
	for i := range c.ETR.Database {
		set := slices.Clone(c.ETR.Database[i].Locators)
		set[0].Weight = weight
		c.ETR.Database[i].Locators = set
	}
	return c
}

// mergingSite are two routers of one site, with one private address behind two NATs, of IPv4 or IPv6.
type mergingSite struct {
	*testNetwork
	x1, x2, server *testNode
	at, private    string
}

var mergedPrefixes = []string{"10.1.0.0/16", "2001:db8:1::/48"}

func newMergingSite(t *testing.T, v6 bool, keys []Key) *mergingSite {
	t.Helper()
	s := &mergingSite{testNetwork: newNetwork(t), at: natServer, private: "192.168.1.2"}
	outside := []string{"198.51.100.1", "198.51.100.2"}
	if v6 {
		s.at, s.private, outside = natServer6, "fd00::2", []string{"2001:db8:e::1", "2001:db8:e::2"}
	}
	s.server = s.add("server", natServerConfig(keys, strings.Join(mergedPrefixes, " ")), natServer, natServer6)
	s.x1, s.x2 = s.add("x1", Config{}, s.private), s.add("x2", Config{}, s.private)
	s.nat(outside[:1], s.x1)
	s.nat(outside[1:], s.x2)
	return s
}

func (s *mergingSite) register() {
	s.x1.configure(mergingNode(1, s.at, s.private, 30, mergedPrefixes...))
	s.run(time.Second)
	s.x2.configure(mergingNode(2, s.at, s.private, 70, mergedPrefixes...))
	s.run(time.Second)
}

// wantForwardedTo asserts that the RTR sends packets of an EID-Prefix to just these nodes, each by its NAT.
func (d *testNode) wantForwardedTo(prefix string, to ...*testNode) {
	d.net.t.Helper()
	var got, want []string
	for _, l := range d.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators {
		outside, by := netip.AddrPortFrom(l.RLOC.Addr(), l.RLOC.Port()), "no node"
		for _, box := range d.net.boxes {
			if flow, known := box.byPort[outside]; known && flow.remote.Port() == wire.ControlPort &&
				l.SourcePort == wire.ControlPort {
				by = box.inside[flow.inside].name
			}
		}
		got = append(got, by)
	}
	for _, n := range to {
		want = append(want, n.name)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		d.net.t.Errorf("%s forwards %s to %v, want %v", d.name, prefix, got, want)
	}
}

func (s *mergingSite) wantBoth() {
	s.t.Helper()
	for _, p := range mergedPrefixes {
		s.server.wantForwardedTo(p, s.x1, s.x2)
	}
}

// TestMergingRoutersBehindNATs: both are forwarded to by their weights, each is told by its xTR-ID, and nothing is
// refused or moves while nothing changes.
func TestMergingRoutersBehindNATs(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := newMergingSite(t, v6, rtrKeys())
		s.register()
		for range 2 {
			s.wantBoth()
			var weights []string
			for _, l := range s.server.cache[lisp.MustParsePrefix("10.1.0.0/16")].Mapping.Locators {
				weights = append(weights, fmt.Sprintf("%d/%d", l.Priority, l.Weight))
			}
			if !slices.Equal(weights, []string{"1/30", "1/70"}) {
				t.Errorf("priorities and weights: %v", weights)
			}
			bindings := s.server.NATBindingsOf(lisp.MustParsePrefix("10.1.0.0/16"))
			if len(bindings) != 2 || bindings[0].XTRID != [16]byte{1} || bindings[1].XTRID != [16]byte{2} ||
				bindings[0].Silent || bindings[1].Silent {
				t.Errorf("%+v", bindings)
			}
			if used := NATInUse(bindings); len(used) != 2 {
				t.Errorf("in use: %+v", used)
			}
			if n := s.server.NATBindingCount(); n != 4 {
				t.Errorf("%d bindings", n)
			}
			for _, d := range []*testNode{s.x1, s.x2} {
				d.wantByRTR(s.at)
				d.wantCounter(counter.NATBindingLost, 0)
			}
			s.run(20 * time.Minute)
		}
		s.server.wantCounter(counter.RefusedNATClaim, 0)
		s.server.wantCounter(counter.NATBindingMoved, 0)
		s.server.wantCounter(counter.NATRLOCExpired, 0)
	}
}

// TestMergingRoutersBehindOneNAT have two addresses inside, and one outside.
func TestMergingRoutersBehindOneNAT(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	s.x2.addrs = []netip.Addr{netip.MustParseAddr("192.168.1.3")}
	s.nat([]string{"198.51.100.9"}, s.x1, s.x2)
	s.x1.configure(mergingNode(1, s.at, s.private, 30, mergedPrefixes...))
	s.x2.configure(mergingNode(2, s.at, "192.168.1.3", 70, mergedPrefixes...))
	s.run(5 * time.Minute)
	s.wantBoth()
	s.server.wantCounter(counter.NATBindingMoved, 0)
}

// TestMergingRouterDies: it gets no packets before its binding expires, the other one carries on, and it is back with
// its first keepalive.
func TestMergingRouterDies(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for dead := range 2 {
			s := newMergingSite(t, v6, rtrKeys())
			s.register()
			nodes := []*testNode{s.x1, s.x2}
			s.run(time.Minute)
			s.server.natSteps()
			s.lose = func(from *testNode, _ SendPacket) bool { return from == nodes[dead] }
			s.run(76 * time.Second)
			for _, p := range mergedPrefixes {
				s.server.wantForwardedTo(p, nodes[1-dead])
				if b := s.server.NATBindingsOf(lisp.MustParsePrefix(p)); len(b) != 2 ||
					!b[dead].Silent || len(NATInUse(b)) != 1 {
					t.Errorf("%s: %+v", p, b)
				}
			}
			if got := s.server.natSteps(); strings.Count(got, "nat-rloc-removed") != 2 ||
				!strings.Contains(got, " silent") {
				t.Errorf("silent: %s", got)
			}
			s.lose = nil
			s.run(settings.DefaultKeepalive + time.Second)
			s.wantBoth()
			s.lose = func(from *testNode, _ SendPacket) bool { return from == nodes[dead] }
			s.run(5 * time.Minute)
			s.server.wantForwardedTo("10.1.0.0/16", nodes[1-dead])
			if b := s.server.NATBindingsOf(lisp.MustParsePrefix("10.1.0.0/16")); len(b) != 1 ||
				b[0].Silent {
				t.Errorf("expired: %+v", b)
			}
			s.lose = nil
			s.run(2 * time.Minute)
			s.wantBoth()
		}
	}
}

// TestMergingRoutersWithoutKeepalives are not silent between their Map-Registers; where both are silent packets go
// to both.
func TestMergingRoutersWithoutKeepalives(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	for i, d := range []*testNode{s.x1, s.x2} {
		c := mergingNode(byte(i+1), s.at, s.private, 50, mergedPrefixes...)
		c.ETR.NAT.Keepalive = -1
		d.configure(c)
	}
	s.run(10 * time.Minute)
	s.wantBoth()
	s.server.wantCounter(counter.NATRLOCExpired, 0)
	s.lose = func(from *testNode, _ SendPacket) bool { return from != s.server }
	s.run(100 * time.Second)
	s.wantBoth()
	if b := s.server.NATBindingsOf(lisp.MustParsePrefix("10.1.0.0/16")); len(b) != 2 || b[0].Silent || b[1].Silent {
		t.Errorf("%+v", b)
	}
	s.run(2 * time.Minute)
	s.server.wantNotCached("10.1.0.0/16")
}

// TestKeepaliveEndsSilenceOfAllEIDPrefixes: a node whose Map-Registers do not come through sends keepalives for one
// EID-Prefix; packets of the others go there again, too.
func TestKeepaliveEndsSilenceOfAllEIDPrefixes(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	s.register()
	s.run(time.Minute)
	s.lose = func(from *testNode, _ SendPacket) bool { return from == s.x1 }
	s.run(76 * time.Second)
	for _, p := range mergedPrefixes {
		s.server.wantForwardedTo(p, s.x2)
	}
	s.lose = func(from *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		ecm, is := m.(*wire.EncapsulatedControlMessage)
		return from == s.x1 && err == nil && is && ecm.ForRTR
	}
	s.server.natSteps()
	s.run(settings.DefaultKeepalive + time.Second)
	s.wantBoth()
	if got := s.server.natSteps(); strings.Count(got, "nat-rloc-added") != 2 ||
		strings.Contains(got, "nat-rloc-removed") {
		t.Errorf("steps: %s", got)
	}
}

// TestStepsOfSilentRouters: an event says where packets go. When the last router goes silent they go to both again, and
// when one of them is heard to that one only.
func TestStepsOfSilentRouters(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	s.x1.configure(mergingNode(1, s.at, s.private, 30, "10.1.0.0/16"))
	s.run(time.Second)
	s.x2.configure(mergingNode(2, s.at, s.private, 70, "10.1.0.0/16"))
	s.run(time.Minute)
	s.server.natSteps()
	const added, removed = "nat-rloc-added 10.1.0.0/16 192.168.1.2 at ",
		"nat-rloc-removed 10.1.0.0/16 192.168.1.2 at "
	s.lose = func(from *testNode, _ SendPacket) bool { return from == s.x1 }
	s.run(76 * time.Second)
	s.server.wantForwardedTo("10.1.0.0/16", s.x2)
	s.server.wantSteps("one is silent", removed+"198.51.100.1 silent")

	s.lose = nil
	s.run(settings.DefaultKeepalive + time.Second)
	s.server.wantForwardedTo("10.1.0.0/16", s.x1, s.x2)
	s.server.natSteps()
	s.lose = func(from *testNode, _ SendPacket) bool { return from == s.x1 }
	s.run(30 * time.Second)
	s.lose = func(from *testNode, _ SendPacket) bool { return from != s.server }
	s.run(47 * time.Second)
	s.server.wantForwardedTo("10.1.0.0/16", s.x2)
	s.server.wantSteps("one is silent again", removed+"198.51.100.1 silent")
	s.run(30 * time.Second)
	s.server.wantForwardedTo("10.1.0.0/16", s.x1, s.x2)
	s.server.wantSteps("both are silent", added+"198.51.100.1")

	s.lose = func(from *testNode, _ SendPacket) bool { return from == s.x1 }
	s.run(settings.DefaultKeepalive + time.Second)
	s.server.wantForwardedTo("10.1.0.0/16", s.x2)
	if got := s.server.natSteps(); !strings.HasPrefix(got, removed+"198.51.100.1 silent") ||
		strings.Contains(got, "nat-rloc-added") {
		t.Errorf("one is heard: %s", got)
	}
}

// TestMergingRouterLeaves: with its withdrawal packets go only to the other one, whichever of both it is, and of this
// EID-Prefix only.
func TestMergingRouterLeaves(t *testing.T) {
	for gone := range 2 {
		s := newMergingSite(t, gone == 1, rtrKeys())
		s.register()
		nodes := []*testNode{s.x1, s.x2}
		nodes[gone].configure(mergingNode(byte(gone+1), s.at, s.private, 30, mergedPrefixes[0]))
		s.run(time.Second)
		s.server.wantForwardedTo(mergedPrefixes[1], nodes[1-gone])
		s.server.wantForwardedTo(mergedPrefixes[0], s.x1, s.x2)
		nodes[1-gone].configure(mergingNode(byte(2-gone), s.at, s.private, 70, mergedPrefixes[0]))
		s.run(time.Second)
		s.server.wantNotCached(mergedPrefixes[1])
		s.server.wantForwardedTo(mergedPrefixes[0], s.x1, s.x2)
	}
}

// TestMergingIsConfirmed: a second router gets an EID-Prefix only where both ask for merging, under a key of the
// Map-Server, and where the Map-Server acknowledges it.
func TestMergingIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		what      string
		keys      []Key
		ask       [2]bool
		forged    bool // the second one has another key than the site
		forwarded bool // to both
		refused   counter.Counter
	}{
		{"both ask", rtrKeys(), [2]bool{true, true}, false, true, counter.RefusedNATClaim},
		{"the first one does not ask", rtrKeys(), [2]bool{false, true}, false, false, counter.RefusedNATClaim},
		{"the second one does not ask", rtrKeys(), [2]bool{true, false}, false, false, counter.RefusedNATClaim},
		{"the RTR has no key", nil, [2]bool{true, true}, false, false, counter.RefusedNATClaim},
		{"forged", rtrKeys(), [2]bool{true, true}, true, false, counter.RefusedAuthentication},
	} {
		s := newMergingSite(t, false, c.keys)
		for i, d := range []*testNode{s.x1, s.x2} {
			config := mergingNode(byte(i+1), s.at, s.private, 50, mergedPrefixes...)
			config.ETR.MapServers[0].MergeRequest = c.ask[i]
			if i == 0 || !c.forged {
				d.configure(config)
				s.run(time.Second)
			}
		}
		if c.forged {
			m := &wire.MapRegister{ProxyReply: true, WantMapNotify: true, MergeRequest: true,
				XTRIDPresent: true, XTRID: [16]byte{2}, SiteID: 7, Nonce: 1 << 62,
				KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32),
				Records: []wire.Record{wire.RecordOf(lisp.Mapping{
					Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 3,
					Locators: locators(natServer)})}}
			s.server.inject(natServer+":4342", outsider,
				forRTR(t, m, natServer+":4342", []byte("not the site's key")))
		}
		s.run(5 * time.Minute)
		if c.forwarded {
			s.wantBoth()
			s.server.wantCounter(c.refused, 0)
			continue
		}
		s.server.wantForwardedTo("10.1.0.0/16", s.x1)
		if s.server.counter(c.refused) == 0 {
			t.Errorf("%s: %s is 0", c.what, c.refused)
		}
		s.server.wantCounter(counter.NATBindingExpired, 0)
	}
}

// TestMergingEnds: a router that asks for merging no more gets the EID-Prefix only when the other one is gone.
func TestMergingEnds(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	s.register()
	s.x1.configure(natNode(1, s.at, s.private, mergedPrefixes...))
	s.run(10 * time.Minute)
	s.server.wantForwardedTo("10.1.0.0/16", s.x2)
	if s.server.counter(counter.RefusedNATClaim) == 0 {
		t.Error("the claim is not counted")
	}
	s.lose = func(from *testNode, _ SendPacket) bool { return from == s.x2 }
	s.run(5 * time.Minute)
	s.server.wantForwardedTo("10.1.0.0/16", s.x1)
}

// TestWithdrawalWithoutMerging: a router that asks for merging no more when it leaves takes nothing from the other one,
// also where the RTR relays its withdrawal twice before it is acknowledged: a retransmission has a nonce of its own.
func TestWithdrawalWithoutMerging(t *testing.T) {
	for _, twice := range []bool{false, true} {
		s := newMergingSite(t, false, rtrKeys())
		s.register()
		seen := s.server.NATBindingsOf(lisp.MustParsePrefix(mergedPrefixes[1]))[0].Seen
		s.x1.configure(natNode(1, s.at, s.private, mergedPrefixes[0]))
		relayed := s.server.counter(counter.NATRegisterRelayed)
		if twice {
			s.run(oneWay) // the first one is relayed, and not acknowledged
			s.server.inject(s.at+":4342", seen.String(), withdrawalAgain(t, s.x1))
		}
		s.run(time.Second)
		if n := s.server.counter(counter.NATRegisterRelayed) - relayed; twice && n < 2 {
			t.Errorf("%d Map-Registers were relayed", n)
		}
		s.server.wantForwardedTo(mergedPrefixes[1], s.x2)
		s.server.wantForwardedTo(mergedPrefixes[0], s.x1, s.x2)
		s.server.wantCounter(counter.NATBindingExpired, 1)
	}
}

// withdrawalAgain is the withdrawal that a node sent last, with another nonce.
func withdrawalAgain(t *testing.T, d *testNode) []byte {
	t.Helper()
	for _, p := range slices.Backward(d.sent) {
		message, err := wire.Parse(p.Payload)
		ecm, is := message.(*wire.EncapsulatedControlMessage)
		if err != nil || !is || !ecm.ForRTR {
			continue
		}
		if message, err = wire.Parse(ecm.Inner.Message); err != nil {
			t.Fatal(err)
		}
		m := *message.(*wire.MapRegister)
		withdraws := func(r wire.Record) bool { return r.TTLMinutes == 0 }
		if !slices.ContainsFunc(m.Records, withdraws) {
			continue
		}
		m.Nonce += 1 << 20
		inner, err := wire.AppendSigned(nil, &m, secret(1).Secret)
		if err != nil {
			t.Fatal(err)
		}
		again := *ecm
		again.Inner.Message = inner
		b, err := again.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Fatal("no withdrawal was sent")
	return nil
}

// TestRestartsOfMerging: both are forwarded to a keepalive and a second after the RTR restarted, without an outage
// where its data plane kept the mapping; and after a restart of one of them, with the NATs' bindings forgotten.
func TestRestartsOfMerging(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := newMergingSite(t, v6, rtrKeys())
		s.register()
		var kept []MapCacheEntry
		for _, e := range s.server.cache {
			kept = append(kept, e)
		}
		s.server.start()
		s.server.AdoptMapCache(s.now, kept)
		s.server.drain()
		for range 26 {
			if s.run(time.Second); len(s.server.cache[lisp.MustParsePrefix("10.1.0.0/16")].Mapping.Locators) == 0 {
				t.Fatal("an outage")
			}
		}
		s.wantBoth()
		for _, box := range s.boxes {
			box.flush()
		}
		s.x2.start()
		s.run(settings.DefaultKeepalive + time.Second)
		s.wantBoth()
	}
}

// TestMergingRoutersOfOneEIDPrefixAreBounded: beyond sixteen none is forwarded to; the others are all the same.
func TestMergingRoutersOfOneEIDPrefixAreBounded(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	s.server.host.Limits.RegistrantsPerPrefix = 2 * settings.NATRouters // of the Map-Server
	var nodes []*testNode
	for i := range settings.NATRouters + 2 {
		d := s.add(fmt.Sprintf("r%02d", i), Config{}, s.private)
		s.nat([]string{fmt.Sprintf("198.51.100.%d", 100+i)}, d)
		d.configure(mergingNode(byte(10+i), s.at, s.private, 50, "10.1.0.0/16"))
		s.run(time.Second)
		nodes = append(nodes, d)
	}
	s.run(5 * time.Minute)
	s.server.wantForwardedTo("10.1.0.0/16", nodes[:settings.NATRouters]...)
	if s.server.counter(counter.RefusedNATTable) == 0 {
		t.Error("none is refused")
	}
	if n := s.server.NATBindingCount(); n != settings.NATRouters {
		t.Errorf("%d bindings", n)
	}
}

// TestMergedBindingsCount: those of each router count for the limit of its site.
func TestMergedBindingsCount(t *testing.T) {
	s := newMergingSite(t, false, rtrKeys())
	half := settings.NATBindingsPerSite/2 + 50
	for id, d := range []*testNode{s.x1, s.x2} {
		c := mergingNode(byte(id+1), s.at, s.private, 50)
		for i := range half {
			p, err := lisp.PrefixFrom(0,
				lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})), 32)
			if err != nil {
				t.Fatal(err)
			}
			c.ETR.Database = append(c.ETR.Database,
				DatabaseMapping{Prefix: p, Locators: locators(s.private)})
		}
		d.configure(c)
	}
	s.run(20 * time.Second)
	if n := s.server.NATBindingCount(); n != settings.NATBindingsPerSite {
		t.Errorf("%d bindings", n)
	}
}

// TestUnsolicitedNotifyForMergedRouters goes to each of them, once.
func TestUnsolicitedNotifyForMergedRouters(t *testing.T) {
	w := newNATNews(t, false)
	key := rtrKeys()[0]
	x2 := w.add("x2", Config{}, w.private)
	w.nat([]string{"198.51.100.2"}, x2)
	w.x.configure(mergingNode(1, w.server, w.private, 50, "10.1.0.0/16"))
	w.run(time.Second)
	x2.configure(mergingNode(2, w.server, w.private, 50, "10.1.0.0/16"))
	w.run(time.Second)
	w.rtr.wantForwardedTo("10.1.0.0/16", w.x, x2)
	before := w.rtr.counter(counter.NATNotifySent)
	w.notify(w.server, &key, w.rtr.addrs[0].String())
	w.rtr.wantCounter(counter.NATNotifySent, before+2)
	w.rtr.wantCounter(counter.NATNotifyUnsolicited, 1)
}
