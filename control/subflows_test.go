// SPDX-License-Identifier: Apache-2.0

package control

// Subflows of Multipath TCP at a Node: which locators of the map-cache they are bound to.

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
)

// multipathSite is an ITR that binds subflows to two paths, and to a plain RLOC of a worse priority.
func multipathSite(t *testing.T) (*testNetwork, *testNode) {
	t.Helper()
	n := newNetwork(t)
	c := Config{
		LocalRLOCs: []lisp.RLOC{rloc("192.0.2.1"), rloc("2001:db8:f::1")},
		ITR:        &ITRConfig{BindSubflows: true, StaticMappings: []lisp.Mapping{multipathMapping("10.2.0.0/16", 2), multipathMapping("2001:db8:2::/48", 2)}},
		ETR: &ETRConfig{Database: []DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"),
			Locators: lisp.LocatorSet{lisp.NewLocator(rloc("192.0.2.1"))}}}},
	}
	return n, n.add("x1", c, "192.0.2.1", "2001:db8:f::1")
}

// multipathMapping has paths by the RTRs 192.0.2.71, .72, ..., all strict, to one ETR, and that ETR by itself.
func multipathMapping(prefix string, paths int) lisp.Mapping {
	plain := lisp.NewLocator(rloc("198.51.100.1"))
	plain.Priority = 3
	set := lisp.LocatorSet{plain}
	for i := range paths {
		l := lisp.NewLocator(multipath(i).RLOC)
		l.Behind, l.Bits = multipath(i).Behind,
			lisp.PathBits{lisp.HopExplicit | lisp.HopStrict, lisp.HopExplicit | lisp.HopStrict}
		set = append(set, l)
	}
	sorted, err := lisp.NewLocatorSet(set...)
	if err != nil {
		panic(err)
	}
	return lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: sorted, TTLMinutes: lisp.TTLUnlimited}
}

func multipath(i int) lisp.Path {
	p, err := lisp.NewPath(rloc("192.0.2.7"+string(rune('1'+i))), rloc("198.51.100.1"))
	if err != nil {
		panic(err)
	}
	return p
}

func testFlow(source, destination string, port uint16) lisp.Flow {
	return lisp.Flow{Source: eid(source), Destination: eid(destination), Protocol: 6, SourcePort: port,
		DestinationPort: 443}
}

// subflow reports the SYN of a host in the site, with an option of Multipath TCP in hexadecimal digits.
func (d *testNode) subflow(f lisp.Flow, option string) {
	d.segment(f, false, 0x02, 100, 0, option)
}

func (d *testNode) segment(f lisp.Flow, fromCore bool, flags byte, sequence, acknowledged uint32, option string) {
	octets, err := hex.DecodeString(strings.ReplaceAll(option, " ", ""))
	if err != nil || len(octets)%4 != 0 {
		d.net.t.Fatalf("option %q: %v", option, err)
	}
	b := make([]byte, 20, 60)
	b[12], b[13] = byte(5+len(octets)/4)<<4, flags
	binary.BigEndian.PutUint32(b[4:], sequence)
	binary.BigEndian.PutUint32(b[8:], acknowledged)
	if fromCore {
		f = f.Reverse()
	}
	d.HandleSubflow(d.net.now, Subflow{Flow: f, FromCore: fromCore, TCP: append(b, octets...)})
	d.drain()
}

const (
	mpCapable = "1e040101"
	mpJoin    = "1e0c1001deadbeef11223344"
)

// bound are the flows as the data plane was told.
func (d *testNode) wantBound(f lisp.Flow, p lisp.Path) {
	d.net.t.Helper()
	if got, ok := d.flows[f]; !ok || got != p {
		d.net.t.Errorf("%s: %s is bound to %s, %t, want %s", d.name, f, got, ok, p)
	}
}

func (d *testNode) wantNotBound(f lisp.Flow) {
	d.net.t.Helper()
	if got, ok := d.flows[f]; ok {
		d.net.t.Errorf("%s: %s is bound to %s", d.name, f, got)
	}
}

// useFlows reports that every bound flow is in use, each second for so long.
func (d *testNode) useFlows(during time.Duration) {
	for ; during > 0; during -= time.Second {
		var used []BoundFlow
		for f, p := range d.flows {
			used = append(used, BoundFlow{Flow: f, Path: p, LastUsedAt: d.net.now})
		}
		d.HandleFlows(d.net.now, used)
		d.drain()
		d.net.run(time.Second)
	}
}

// TestSubflowsTakePaths: the best path, then the others, those of worse priorities last. Both families.
func TestSubflowsTakePaths(t *testing.T) {
	for _, eids := range [][2]string{{"10.1.0.1", "10.2.0.1"}, {"2001:db8:1::1", "2001:db8:2::1"}} {
		_, x1 := multipathSite(t)
		x1.subflow(testFlow(eids[0], eids[1], 1000), mpCapable)
		for port := range uint16(3) {
			x1.subflow(testFlow(eids[0], eids[1], 1001+port), mpJoin)
		}
		x1.wantBound(testFlow(eids[0], eids[1], 1000), multipath(0))
		x1.wantBound(testFlow(eids[0], eids[1], 1001), multipath(1))
		x1.wantBound(testFlow(eids[0], eids[1], 1002), lisp.PathTo(rloc("198.51.100.1")))
		x1.wantBound(testFlow(eids[0], eids[1], 1003), multipath(0))
		x1.wantCounter(counter.SubflowUnknownSession, 3)
	}
}

// TestSubflowsWithoutMapping are not bound.
func TestSubflowsWithoutMapping(t *testing.T) {
	_, x1 := multipathSite(t)
	f := testFlow("10.1.0.1", "10.99.0.1", 1000)
	x1.subflow(f, mpCapable)
	x1.wantNotBound(f)
	x1.wantCounter(counter.SubflowUnbound, 1)
}

// TestSubflowsAvoidPathsThatAreDown, and keep the path that they have: the data plane leaves it and returns to it. One
// that does not answer is no choice while others do.
func TestSubflowsAvoidPathsThatAreDown(t *testing.T) {
	n, x1 := multipathSite(t)
	rtr := func(address string) *testNode {
		policy := RolePolicy{Role: RoleRTR, EIDs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		return n.add("rtr "+address, Config{LocalRLOCs: []lisp.RLOC{rloc(address)}, ITR: &ITRConfig{},
			Roles: []RolePolicy{policy}}, address)
	}
	rtr("192.0.2.71")
	rtr2 := rtr("192.0.2.72")
	n.run(time.Minute)
	a, b, c := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001),
		testFlow("10.1.0.1", "10.2.0.1", 1002)
	x1.subflow(a, mpCapable)
	x1.subflow(b, mpJoin)
	x1.wantBound(b, multipath(1))
	n.lose = func(from *testNode, _ SendPacket) bool { return from == rtr2 }
	x1.useFlows(30 * time.Second)
	if x1.paths[multipath(1)] != LocatorDown {
		t.Fatalf("states of paths: %v", x1.paths)
	}
	x1.wantBound(b, multipath(1))
	x1.subflow(c, mpJoin)
	x1.segment(c, true, 0x12, 900, 101, "1e101001010203040506070811223344")
	x1.wantNotBound(c) // the plain RLOC does not answer: one path is no choice
	n.lose = nil
	x1.useFlows(50 * time.Second)
	x1.wantBound(b, multipath(1))
	x1.wantBound(c, multipath(0))
}

// TestSubflowsLeaveAnRLOCThatDoesNotAnswer, and return to it when it does: it is never down, and the data plane would
// use it.
func TestSubflowsLeaveAnRLOCThatDoesNotAnswer(t *testing.T) {
	n, x1 := multipathSite(t)
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: lisp.TTLUnlimited,
		Locators: lisp.LocatorSet{
			lisp.NewLocator(rloc("192.0.2.2")), lisp.NewLocator(rloc("192.0.2.3")),
		}}}
	c.ITR = &itr
	x1.configure(c)
	etr := n.add("x2", Config{
		LocalRLOCs: []lisp.RLOC{rloc("192.0.2.2"), rloc("192.0.2.3")},
		ETR: &ETRConfig{Database: []DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.2.0.0/16"),
			Locators: lisp.LocatorSet{
				lisp.NewLocator(rloc("192.0.2.2")), lisp.NewLocator(rloc("192.0.2.3")),
			}}}},
	}, "192.0.2.2", "192.0.2.3")
	n.run(time.Minute)
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	x1.wantBound(a, lisp.PathTo(rloc("192.0.2.2")))
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == etr && p.Local.Addr() == netip.MustParseAddr("192.0.2.2")
	}
	x1.useFlows(20 * time.Second)
	x1.wantBound(a, lisp.PathTo(rloc("192.0.2.3")))
	n.lose = nil
	x1.useFlows(2 * time.Minute)
	x1.wantBound(a, lisp.PathTo(rloc("192.0.2.2")))
}

// twoLocators is a mapping of two RLOCs, whose priorities are their order.
func twoLocators(prefix, best, other string) lisp.Mapping {
	set := lisp.LocatorSet{lisp.NewLocator(rloc(best)), lisp.NewLocator(rloc(other))}
	set[0].Priority, set[1].Priority = 1, 2
	sorted, err := lisp.NewLocatorSet(set...)
	if err != nil {
		panic(err)
	}
	return lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: sorted, TTLMinutes: lisp.TTLUnlimited}
}

// mappings configures the static mappings of an ITR.
func (d *testNode) mappings(list ...lisp.Mapping) {
	c := d.config
	itr := *c.ITR
	itr.StaticMappings = list
	c.ITR = &itr
	d.configure(c)
}

// TestSubflowsTakeNoLocatorOfAnotherFamily, nor an own RLOC, nor a hop that is an EID without a second layer: no packet
// does.
func TestSubflowsTakeNoLocatorOfAnotherFamily(t *testing.T) {
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	lookup := twoLocators("10.2.0.0/16", "192.0.2.2", "192.0.2.3")
	lookup.Locators[0].Behind, lookup.Locators[0].Bits = multipath(0).Behind,
		lisp.PathBits{lisp.HopExplicit | lisp.HopStrict | lisp.HopLookup, lisp.HopExplicit}
	for _, c := range []struct {
		what, own string
		depth     uint8
		mapping   lisp.Mapping
		bound     bool
	}{
		{"IPv4 alone", "192.0.2.1", 1, twoLocators("10.2.0.0/16", "2001:db8:f::2", "192.0.2.2"), false},
		{"IPv6 alone", "2001:db8:f::1", 1, twoLocators("10.2.0.0/16", "2001:db8:f::2", "192.0.2.2"), false},
		{"one family", "192.0.2.1", 1, twoLocators("10.2.0.0/16", "192.0.2.3", "192.0.2.2"), true},
		{"an own RLOC", "192.0.2.1", 1, twoLocators("10.2.0.0/16", "192.0.2.1", "192.0.2.2"), false},
		{"one layer", "192.0.2.1", 1, lookup, false},
		{"two layers", "192.0.2.1", 2, lookup, true},
	} {
		n := newNetwork(t)
		x1 := n.add("x1", Config{
			LocalRLOCs: []lisp.RLOC{rloc(c.own)}, RecursionDepth: c.depth,
			ITR: &ITRConfig{BindSubflows: true, StaticMappings: []lisp.Mapping{c.mapping}},
		}, c.own)
		x1.subflow(a, mpCapable)
		x1.subflow(b, mpJoin)
		if len(x1.flows) != map[bool]int{true: 2}[c.bound] {
			t.Errorf("%s: bound %v", c.what, x1.flows)
		}
	}
}

// TestSubflowsFollowACoveringMapping: where a mapping goes and a less specific one is left, its paths count.
func TestSubflowsFollowACoveringMapping(t *testing.T) {
	_, x1 := multipathSite(t)
	wide, narrow := twoLocators("10.2.0.0/16", "192.0.2.2", "192.0.2.3"),
		twoLocators("10.2.0.0/24", "192.0.2.4", "192.0.2.5")
	x1.mappings(wide, narrow)
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	x1.wantBound(a, lisp.PathTo(rloc("192.0.2.4")))
	x1.mappings(wide)
	x1.useFlows(3 * time.Second)
	x1.wantBound(a, lisp.PathTo(rloc("192.0.2.2")))
}

// TestSubflowsFollowTheMapping: where a path leaves it, its subflows get another one.
func TestSubflowsFollowTheMapping(t *testing.T) {
	_, x1 := multipathSite(t)
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	x1.subflow(a, mpCapable)
	x1.subflow(b, mpJoin)
	x1.wantBound(b, multipath(1))
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{multipathMapping("10.2.0.0/16", 1)}
	c.ITR = &itr
	x1.configure(c)
	x1.useFlows(2 * time.Second)
	x1.wantBound(a, multipath(0))
	x1.wantBound(b, lisp.PathTo(rloc("198.51.100.1")))
	x1.wantCounter(counter.SubflowMoved, 1)
	x1.useFlows(30 * time.Second) // no path answers: each subflow has its own
	x1.wantBound(a, multipath(0))
	x1.wantBound(b, lisp.PathTo(rloc("198.51.100.1")))
}

// TestSubflowsThroughARestart: the data plane's bindings go on, or end where the new configuration binds nothing.
func TestSubflowsThroughARestart(t *testing.T) {
	n, x1 := multipathSite(t)
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	x1.subflow(a, mpCapable)
	restart := func() {
		var kept []BoundFlow
		for f, p := range x1.flows {
			kept = append(kept, BoundFlow{Flow: f, Path: p, CreatedAt: n.now, LastUsedAt: n.now})
		}
		x1.start()
		x1.AdoptFlows(n.now, kept)
		x1.drain()
	}
	restart()
	x1.subflow(b, mpJoin)
	x1.useFlows(2 * time.Minute)
	x1.wantBound(a, multipath(0))
	x1.wantBound(b, multipath(1))
	x1.config.ITR = &ITRConfig{StaticMappings: x1.config.ITR.StaticMappings}
	restart()
	x1.wantNotBound(a)
	x1.wantNotBound(b)
}

// TestSubflowsOfAnITRThatIsOff are unbound, and nothing is bound.
func TestSubflowsOfAnITRThatIsOff(t *testing.T) {
	n, x1 := multipathSite(t)
	a := testFlow("10.1.0.1", "10.2.0.1", 1000)
	x1.subflow(a, mpCapable)
	c := x1.config
	c.ITR = nil
	x1.configure(c)
	n.run(time.Second)
	x1.wantNotBound(a)
	x1.subflow(a, mpCapable)
	x1.wantNotBound(a)
}

// TestSubflowsWithPolicies: a locator that a policy excludes is no candidate.
func TestSubflowsWithPolicies(t *testing.T) {
	_, x1 := multipathSite(t)
	c := x1.config
	itr, unused := *c.ITR, uint8(lisp.PriorityUnused)
	itr.LocatorPolicies = []LocatorPolicy{{RLOCs: netip.MustParsePrefix("192.0.2.71/32"), Priority: &unused}}
	c.ITR = &itr
	x1.configure(c)
	a, b := testFlow("10.1.0.1", "10.2.0.1", 1000), testFlow("10.1.0.1", "10.2.0.1", 1001)
	x1.subflow(a, mpCapable)
	x1.subflow(b, mpJoin)
	x1.wantBound(a, multipath(1))
	x1.wantBound(b, lisp.PathTo(rloc("198.51.100.1")))
}
