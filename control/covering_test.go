// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"

	"loci/control/internal/message"
	"loci/lisp"
)

// wantWhole demands that 10.1.0.0/16 is not cached without the more specific mapping
// that belongs into it.
func (d *testNode) wantWhole() {
	d.net.t.Helper()
	_, wide := d.cache[lisp.MustParsePrefix("10.1.0.0/16")]
	_, specific := d.cache[lisp.MustParsePrefix("10.1.5.0/24")]
	if wide && !specific {
		d.net.t.Errorf("%s: 10.1.0.0/16 decides for 10.1.5.0/24: cached are %v", d.name, d.cachedPrefixes())
	}
}

// TestUnregisteredPrefixOfAnotherSite: no ITR may be told a mapping that covers EIDs
// which the Map-Server knows to be another site's.
func TestUnregisteredPrefixOfAnotherSite(t *testing.T) {
	n := newNetwork(t)
	n.add("ms", mapServerConfig("10.1.0.0/16", "10.1.5.0/24", "10.2.0.0/16"), "192.0.2.100")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	c.ETR.MapServers[0].ProxyReply = true
	n.add("x1", c, "192.0.2.1")
	x2 := n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/16"), "192.0.2.2")
	n.run(time.Second)
	x2.miss("10.2.0.5", "10.1.9.1")
	n.run(time.Second)
	answered := false
	for p, e := range x2.cache {
		answered = answered || p.Contains(0, eid("10.1.9.1")) && !e.Mapping.Negative()
		if p.Covers(lisp.MustParsePrefix("10.1.5.0/24")) {
			t.Errorf("%s is cached, 10.1.5.0/24 in it is another site's", p)
		}
	}
	if !answered {
		t.Error("10.1.9.1 is not resolved")
	}
}

// TestShortLivedMoreSpecific: a more specific mapping that comes alone, and for a shorter
// time, must not leave its EIDs to the covering one when it ends. That one is asked for
// again before, while it is in use.
func TestShortLivedMoreSpecific(t *testing.T) {
	n, x2 := moreSpecificSites(t, func(*Config) {})
	x2.miss("10.2.0.5", "10.1.9.1")
	n.run(time.Second)
	x2.wantCached("10.1.5.0/24", "192.0.2.1")
	specific := lisp.MustParsePrefix("10.1.5.0/24")
	x2.itr.Take(specific, &message.MapReply{Mappings: []lisp.Mapping{{Prefix: specific, TTLMinutes: 1, Action: lisp.ActionNativelyForward}}})
	x2.drain()
	for range 20 {
		x2.use("10.1.0.0/16")
		n.run(5 * time.Second)
		x2.wantCached("10.1.0.0/16", "192.0.2.1")
		x2.wantWhole()
	}
	n.run(2 * time.Minute) // no packet uses them any more: they leave together, the covering one first
	x2.itr.Take(specific, &message.MapReply{Mappings: []lisp.Mapping{{Prefix: specific, TTLMinutes: 1, Action: lisp.ActionDrop}}})
	x2.drain()
	for range 20 {
		n.run(5 * time.Second)
		x2.wantWhole()
	}
	x2.wantNotCached("10.1.0.0/16")
}

func moreSpecificSites(t *testing.T, change func(*Config)) (n *testNetwork, x2 *testNode) {
	t.Helper()
	n = newNetwork(t)
	n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"), "192.0.2.100")
	n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16", "10.1.5.0/24"), "192.0.2.1")
	n.add("x3", xtrConfig(3, "192.0.2.100", []string{"192.0.2.3"}, "10.3.0.0/24", "10.3.1.0/24", "10.3.2.0/24"), "192.0.2.3")
	c := xtrConfig(2, "192.0.2.100", []string{"192.0.2.2"}, "10.2.0.0/16")
	change(&c)
	x2 = n.add("x2", c, "192.0.2.2")
	n.run(time.Second)
	return n, x2
}

// TestEvictionKeepsCoveredMappingsWhole: what is evicted must not leave its EIDs to a
// less specific mapping.
func TestEvictionKeepsCoveredMappingsWhole(t *testing.T) {
	for entries := 1; entries < 5; entries++ {
		n, x2 := moreSpecificSites(t, func(c *Config) { c.Limits.MapCacheEntries = entries })
		for _, to := range []string{"10.1.9.1", "10.3.0.1", "10.3.1.1", "10.3.2.1", "10.1.5.1", "10.3.0.1", "10.1.9.1", "10.3.2.1"} {
			x2.miss("10.2.0.5", to)
			n.run(5 * time.Second)
			x2.wantWhole()
		}
	}
}

// TestIdleMappingsStayUnderThoseInUse: as above, for removal when idle.
func TestIdleMappingsStayUnderThoseInUse(t *testing.T) {
	n, x2 := moreSpecificSites(t, func(c *Config) { c.ITR.IdleTimeout = time.Minute })
	x2.miss("10.2.0.5", "10.1.9.1")
	n.run(time.Second)
	x2.wantCached("10.1.5.0/24", "192.0.2.1")
	for range 20 {
		x2.use("10.1.0.0/16")
		n.run(20 * time.Second)
		x2.wantCached("10.1.0.0/16", "192.0.2.1")
		x2.wantWhole()
	}
	n.run(10 * time.Minute)
	x2.wantNotCached("10.1.0.0/16")
	x2.wantNotCached("10.1.5.0/24")
}
