// SPDX-License-Identifier: Apache-2.0

package control

// Proxy ETRs (RFC 6832 s.6.1).

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

func withProxies(c Config, addresses ...string) Config {
	itr := *c.ITR
	itr.ProxyETRs = locators(addresses...)
	c.ITR = &itr
	return c
}

// Shows RFC 6832 s.6 (2), RFC 6832 s.6.1 (1).
func TestNativelyForwardGoesToTheProxyETR(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	x1.configure(withProxies(x1.config, "203.0.113.1", "203.0.113.2"))
	n.run(time.Second)
	x1.miss("10.1.0.5", "198.51.100.9")
	n.run(time.Second)
	var hole lisp.Prefix
	for p, e := range x1.cache {
		hole = p
		if !ByProxyETR(e.Mapping) || len(e.Mapping.Locators) != 2 {
			t.Errorf("the data plane has %s, want the proxy ETRs", e.Mapping)
		}
	}
	for s := range x1.MapCache() { // what the mapping system said stays what it said
		if s.State != MapCacheNegative {
			t.Errorf("%s is %s", s.Mapping, s.State)
		}
	}
	for s := range x1.Locators() {
		if !s.ProxyETR || s.Mappings != 1 || s.Prefix != hole {
			t.Errorf("the proxy ETR is watched as %+v", s)
		}
	}
	if n := x1.itr.Prober.Table.Size(); n != 2 {
		t.Errorf("%d locators are watched, want both proxy ETRs", n)
	}
	// Another proxy ETR, then none, by reload.
	x1.configure(withProxies(x1.config, "203.0.113.3"))
	n.run(time.Second)
	x1.wantCached(hole.String(), "203.0.113.3")
	if n := x1.itr.Prober.Table.Size(); n != 1 {
		t.Errorf("%d locators are watched after the change, want one", n)
	}
	x1.configure(withProxies(x1.config))
	n.run(time.Second)
	if n := x1.itr.Prober.Table.Size(); n != 0 {
		t.Errorf("%d locators are watched without proxy ETRs", n)
	}
	if e := x1.cache[hole]; !e.Mapping.Negative() {
		t.Errorf("without proxy ETRs the data plane has %s", e.Mapping)
	}
	// Positive mappings are none of theirs.
	x1.configure(withProxies(x1.config, "203.0.113.1"))
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
}

func TestProxyETRLeavesOtherActionsAndStaticMappings(t *testing.T) {
	n, x := loneITR(t, Limits{})
	c := withProxies(x.config, "203.0.113.1")
	c.ITR.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Action: lisp.ActionNativelyForward}}
	x.configure(c)
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 1, Action: lisp.ActionDrop})
	n.run(time.Second)
	for _, p := range []string{"10.9.0.0/16", "10.2.0.0/16"} {
		if e := x.cache[lisp.MustParsePrefix(p)]; !e.Mapping.Negative() || e.Mapping.Prefix.IsZero() {
			t.Errorf("%s goes to a proxy ETR: %s", p, e.Mapping)
		}
	}
}

func TestProxyETRSurvivesARestart(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.configure(withProxies(x.config, "203.0.113.1"))
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: 15, Action: lisp.ActionNativelyForward})
	n.run(time.Second)
	kept := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	x.config = withProxies(x.config, "203.0.113.2") // changed while the daemon was away
	x.start()
	x.AdoptMapCache(n.now, []MapCacheEntry{kept})
	x.drain()
	x.wantCached("10.2.0.0/16", "203.0.113.2")
	for s := range x.MapCache() {
		if s.State != MapCacheNegative {
			t.Errorf("adopted as %s", s.State)
		}
	}
}

func TestRefusedProxyETRs(t *testing.T) {
	_, x := loneITR(t, Limits{})
	for _, address := range []string{"224.0.1.1", "255.255.255.255", "::"} {
		c := withProxies(x.config, address)
		if c.Validate() == nil {
			t.Errorf("proxy ETR %s is taken", address)
		}
	}
}

// proxied is an ITR with two proxy ETRs, the first preferred, that sends to a hole in each family, and answers RLOC-probes as answer says.
func proxied(t *testing.T, first, second string, answer func(to netip.Addr, m *wire.MapRequest) *wire.MapReply) (*testNetwork, *testNode) {
	t.Helper()
	n := newNetwork(t)
	x := n.add("x", Config{
		LocalRLOCs: []lisp.RLOC{rloc("192.0.2.1"), rloc("2001:db8:f::1")},
		ITR:        &ITRConfig{MapResolvers: []netip.AddrPort{addrPort("192.0.2.100")}},
	}, "192.0.2.1", "2001:db8:f::1")
	c := withProxies(x.config, first, second)
	for i := range c.ITR.ProxyETRs {
		if c.ITR.ProxyETRs[i].RLOC == rloc(second) {
			c.ITR.ProxyETRs[i].Priority = 2
		}
	}
	x.configure(c)
	n.lose = func(from *testNode, p SendPacket) bool {
		m, err := wire.Parse(p.Payload)
		if r, is := m.(*wire.MapRequest); err == nil && is && r.Probe {
			if reply := answer(p.Remote.Addr(), r); reply != nil {
				reply.Probe, reply.Nonce = true, r.Nonce
				b, _ := reply.AppendTo(nil)
				n.arrive(testPacket{n.now.Add(2 * oneWay), from.sourceFor(p), p.Remote, from, b, "proxy ETR"})
			}
		}
		return true
	}
	for source, to := range map[string]string{"10.1.0.1": "10.2.0.1", "2001:db8:1::1": "2001:db8:2::1"} {
		x.miss(source, to)
		for _, r := range sentMessages[*wire.MapRequest](x) {
			asked, _ := r.Records[0].Prefix()
			hole, _ := lisp.PrefixFrom(0, asked.EID(), 16)
			reply := wire.MapReply{Nonce: r.Nonce, Records: []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: hole, TTLMinutes: 60, Action: lisp.ActionNativelyForward})}}
			b, _ := reply.AppendTo(nil)
			x.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
		}
		x.sent, x.sentAt = nil, nil
	}
	return n, x
}

// TestProxyETRsFailOver: the first is dead, the second answers in whichever way; the data plane is told, in both families.
func TestProxyETRsFailOver(t *testing.T) {
	record := func(m *wire.MapRequest, edit func(*lisp.Mapping)) *wire.MapReply {
		asked, _ := m.Records[0].Prefix()
		mapping := lisp.Mapping{Prefix: asked, TTLMinutes: 1, Action: lisp.ActionNativelyForward}
		edit(&mapping)
		return &wire.MapReply{Records: []wire.Record{wire.RecordOf(mapping)}}
	}
	answers := map[string]func(m *wire.MapRequest) *wire.MapReply{
		"without a record": func(*wire.MapRequest) *wire.MapReply { return &wire.MapReply{} },
		"negative":         func(m *wire.MapRequest) *wire.MapReply { return record(m, func(*lisp.Mapping) {}) },
		"authoritative": func(m *wire.MapRequest) *wire.MapReply {
			return record(m, func(m *lisp.Mapping) { m.Authoritative = true })
		},
		"with another locator": func(m *wire.MapRequest) *wire.MapReply {
			return record(m, func(m *lisp.Mapping) {
				m.Authoritative, m.Locators = true, locators("198.51.100.77")
				m.Locators[0].Probed = true
			})
		},
	}
	for name, answer := range answers {
		for _, family := range [][2]string{{"203.0.113.1", "203.0.113.2"}, {"2001:db8:9::1", "2001:db8:9::2"}} {
			t.Run(name+" "+family[0], func(t *testing.T) {
				dead, alive := family[0], family[1]
				named := map[string]bool{}
				n, x := proxied(t, dead, alive, func(to netip.Addr, m *wire.MapRequest) *wire.MapReply {
					asked, _ := m.Records[0].Prefix()
					named[asked.String()] = true
					if to != netip.MustParseAddr(alive) {
						return nil
					}
					return answer(m)
				})
				begun := n.now
				for x.states[rloc(dead)] != LocatorUnconfirmed {
					if n.run(time.Second); n.now.Sub(begun) > 15*time.Second {
						t.Fatalf("the dead proxy ETR is used after %s: %v", n.now.Sub(begun), x.states)
					}
				}
				n.run(2 * time.Minute)
				x.wantLocator(dead, LocatorUnconfirmed, LocatorUnanswered)
				x.wantLocator(alive, LocatorUp, LocatorAnswered)
				if len(x.states) != 1 || len(x.cache) != 2 {
					t.Errorf("the data plane was told %v, %v", x.states, x.cachedPrefixes())
				}
				if s := x.locator(dead); !s.ProxyETR || s.ProbesAnswered != 0 || s.Mappings != 2 {
					t.Errorf("the dead one is %+v", s)
				}
				for p := range named {
					if !x.negativeHole(p) {
						t.Errorf("an RLOC-probe named %s", p)
					}
				}
			})
		}
	}
}

// negativeHole reports whether an EID-Prefix is in the map-cache and goes to proxy ETRs.
func (d *testNode) negativeHole(prefix string) bool {
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	return ok && ByProxyETR(e.Mapping)
}

// TestOnlyProxyETRsAnswerAnyhow: a locator of a mapping needs the A bit, and an answer with another nonce is no sign of life.
func TestOnlyProxyETRsAnswerAnyhow(t *testing.T) {
	n, x := proxied(t, "203.0.113.1", "203.0.113.2", func(netip.Addr, *wire.MapRequest) *wire.MapReply { return nil })
	n.run(20 * time.Second)
	reply := wire.MapReply{Probe: true, Nonce: 4711}
	b, _ := reply.AppendTo(nil)
	x.inject("192.0.2.1:4342", "203.0.113.2:4342", b)
	x.wantCounter(counter.RLOCProbeAnswered, 0)
	x.wantLocator("203.0.113.2", LocatorUnconfirmed, LocatorUnanswered)

	n, x = proxied(t, "203.0.113.1", "203.0.113.2", func(to netip.Addr, m *wire.MapRequest) *wire.MapReply {
		asked, _ := m.Records[0].Prefix()
		return &wire.MapReply{Records: []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: asked, TTLMinutes: 1, Action: lisp.ActionNativelyForward})}}
	})
	x.miss("10.1.0.1", "10.9.0.1")
	for _, r := range sentMessages[*wire.MapRequest](x) {
		if r.Probe {
			continue
		}
		mapping := positive("10.9.0.0/16", 10)
		reply := wire.MapReply{Nonce: r.Nonce, Records: []wire.Record{wire.RecordOf(mapping)}}
		b, _ := reply.AppendTo(nil)
		x.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
	}
	n.run(20 * time.Second)
	x.wantLocator("203.0.113.1", LocatorUp, LocatorAnswered)
	x.wantLocator("192.0.2.9", LocatorUnconfirmed, LocatorUnanswered)
}

// TestManyHolesShareTheirProxyETRs: counted with each entry, through a change of the proxy ETRs, and gone with the last.
func TestManyHolesShareTheirProxyETRs(t *testing.T) {
	n, x := loneITR(t, Limits{})
	x.configure(withProxies(x.config, "203.0.113.1", "203.0.113.2"))
	hole := func(i int) lisp.Mapping {
		return lisp.Mapping{Prefix: lisp.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i)), TTLMinutes: 1, Action: lisp.ActionNativelyForward}
	}
	for i := range 100 {
		x.itr.TakeRecord(hole(i), netip.AddrPort{}, nil)
	}
	x.drain()
	want := func(mappings int, proxies ...string) {
		t.Helper()
		for _, p := range proxies {
			if s := x.locator(p); s.Mappings != mappings || !s.ProxyETR {
				t.Errorf("%s has %d mappings, want %d", p, s.Mappings, mappings)
			}
		}
		if got := x.itr.Prober.Table.Size(); got != len(proxies) {
			t.Errorf("%d locators, want %v", got, proxies)
		}
	}
	want(100, "203.0.113.1", "203.0.113.2")
	x.configure(withProxies(x.config, "203.0.113.2", "203.0.113.3"))
	want(100, "203.0.113.2", "203.0.113.3")
	x.itr.TakeRecord(lisp.Mapping{Prefix: hole(7).Prefix}, netip.AddrPort{}, nil) // TTL 0
	drop := hole(8)
	drop.Action = lisp.ActionDrop
	x.itr.TakeRecord(drop, netip.AddrPort{}, nil)
	x.drain()
	want(98, "203.0.113.2", "203.0.113.3")
	x.configure(withProxies(x.config))
	want(0)
	x.configure(withProxies(x.config, "203.0.113.1"))
	want(98, "203.0.113.1")
	n.run(3 * time.Minute) // their TTL ends
	want(0)
}
