// SPDX-License-Identifier: Apache-2.0

package control

// A start on what the data plane kept, with other locators than before.

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// adopt starts a node again with its map-cache and its Database of before, as the daemon does.
func (d *testNode) adopt(cfg Config) {
	d.net.t.Helper()
	d.config = cfg
	cache, database := slices.Collect(maps.Values(d.cache)), slices.Collect(maps.Values(d.database))
	d.sent, d.sentAt = nil, nil
	d.start()
	d.AdoptDatabase(d.net.now, slices.Values(database))
	d.AdoptMapCache(d.net.now, cache)
	d.drain()
}

// firstSMR is when the first SMR to an address was sent, and the first Map-Register; zero for none.
func (d *testNode) firstSMR(to string) (smr, register time.Time) {
	for i, p := range d.sent {
		m, _ := wire.Parse(p.Payload)
		switch m := m.(type) {
		case *wire.MapRequest:
			if m.SMR && smr.IsZero() && p.Remote.Addr().String() == to {
				smr = d.sentAt[i]
			}
		case *wire.MapRegister:
			if register.IsZero() {
				register = d.sentAt[i]
			}
		}
	}
	return smr, register
}

// TestAdoptedPeersHearOfAnotherRLOC: those that a router sent packets to before its restart have its old RLOC. It tells them when the
// Map-Notify is there, or after a second without.
func TestAdoptedPeersHearOfAnotherRLOC(t *testing.T) {
	for _, c := range []struct {
		name                string
		silent              bool          // no Map-Notify comes
		after               time.Duration // the SMR, after the Map-Register
		source, destination string
	}{
		{"IPv4", false, 2 * oneWay, "10.2.0.9", "10.1.0.5"},
		{"IPv6", false, 2 * oneWay, "2001:db8:2::9", "2001:db8:1::5"},
		{"no Map-Notify", true, time.Second, "10.2.0.9", "10.1.0.5"},
	} {
		n, x1, x2, ms := twoSites(t)
		n.run(time.Second)
		x2.miss(c.source, c.destination)
		x1.miss(c.destination, c.source)
		n.run(2 * time.Second)
		if c.silent {
			n.lose = func(from *testNode, _ SendPacket) bool { return from == ms }
		}
		x2.addrs = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8:e::2")}
		x2.adopt(withDatabase(x2.config, "198.51.100.2", "2001:db8:e::2"))
		n.run(c.after + oneWay/2)
		smr, register := x2.firstSMR("192.0.2.1")
		if smr.IsZero() || smr.Sub(register) < c.after || smr.Sub(register) > c.after+oneWay/2 {
			t.Errorf("%s: the SMR was sent %s after the Map-Register, want %s", c.name, smr.Sub(register), c.after)
		}
		if c.silent {
			continue
		}
		n.run(5*oneWay + oneWay/2) // the SMR, the Map-Request by way of the Map-Server, the Map-Reply
		x1.wantCached(x1.cachedPrefixes()[0], "198.51.100.2", "2001:db8:e::2")
	}
}

// TestAdoptedPeersHearOfChangesAlone: a restart with the RLOCs of before tells no one, whatever their R and L bits were; nor does one
// without pins, nor one of another role.
func TestAdoptedPeersHearOfChangesAlone(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x2.miss("10.2.0.9", "10.1.0.5")
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	same := x2.config
	for p, m := range x2.database {
		m.Locators = slices.Clone(m.Locators)
		for i := range m.Locators {
			m.Locators[i].Reachable, m.Locators[i].Local = false, true
		}
		x2.database[p] = m
	}
	x2.adopt(same)
	n.run(5 * time.Second)
	x2.database[lisp.MustParsePrefix("10.9.0.0/16")] = DatabaseMapping{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Locators: locators("203.0.113.9")}
	x2.adopt(same) // an EID-Prefix that is not there any more is not registered anew: nothing changed that they could ask for
	n.run(5 * time.Second)
	x2.wantCounter(counter.SMRSent, 0)
	x2.config = withDatabase(same, "192.0.2.2")
	x2.start() // without pins
	n.run(5 * time.Second)
	x2.wantCounter(counter.SMRSent, 0)
	x2.adopt(Config{LocalRLOCs: same.LocalRLOCs, ITR: same.ITR})
	n.run(5 * time.Second)
	x2.wantCounter(counter.SMRSent, 0)
}

// TestAdoptedDatabaseIsBounded: of more EID-Prefixes than peers are told of, the others are counted.
func TestAdoptedDatabaseIsBounded(t *testing.T) {
	_, _, x2, _ := twoSites(t)
	c := x2.config
	d := *c.ETR
	d.Database = nil
	was := map[lisp.Prefix]DatabaseMapping{}
	for i := range 1030 {
		p := lisp.MustParsePrefix(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), 32).String())
		d.Database = append(d.Database, DatabaseMapping{Prefix: p, Locators: locators("192.0.2.2")})
		was[p] = DatabaseMapping{Prefix: p, Locators: locators("203.0.113.9")}
	}
	c.ETR = &d
	x2.database = was
	x2.adopt(c)
	x2.wantCounter(counter.RefusedSMRTable, 6)
}
