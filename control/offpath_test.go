// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
)

// relayWith is a relay whose map-cache has one mapping of those locators.
func relayWith(t *testing.T, change func(*Config), locators ...lisp.Locator) (*testNetwork, *testNode) {
	t.Helper()
	c := relayConfig(RoleRTR, rtr1, "10.2.0.0/16")
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		t.Fatal(err)
	}
	c.ITR.StaticMappings = []lisp.Mapping{{Prefix: pathPrefix, Locators: set}}
	if change != nil {
		change(&c)
	}
	n := newNetwork(t)
	d := n.add("r1", c, rtr1)
	n.run(time.Second)
	return n, d
}

func withPriority(l lisp.Locator, priority uint8) lisp.Locator {
	l.Priority = priority
	return l
}

// wantPriorities are those of the locators that the data plane has, in its order.
func (d *testNode) wantPriorities(what string, want ...uint8) {
	d.net.t.Helper()
	set := d.cache[pathPrefix].Mapping.Locators
	got := make([]uint8, len(set))
	for i := range set {
		got[i] = set[i].Priority
	}
	if string(got) != string(want) {
		d.net.t.Errorf("%s: priorities %v of %v, want %v", what, got, set, want)
	}
}

// A relay that the ITR sent to because another path is dead for it must not choose that other one: relayed packets cannot take it,
// and would be dropped (TestSeeds of package sim, seed 7 at that time).
func TestRelayUsesThePathsThatItStandsOn(t *testing.T) {
	const etr = "192.0.2.2"
	by1, by2 := withPriority(testPath(nil, rtr1, etr), 2), testPath(nil, rtr2, etr)
	plain := lisp.Locator{RLOC: rloc(etr), Priority: 7, Weight: 100, MulticastPriority: 255, Reachable: true}
	withSite := func(c *Config) {
		c.ETR = &ETRConfig{Database: []DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), Locators: lisp.LocatorSet{{RLOC: rloc(rtr1), Reachable: true}}}}}
	}
	_, d := relayWith(t, nil, by1, by2)
	d.wantPriorities("by us and by another", 2, 255)
	_, d = relayWith(t, nil, plain, by2)
	d.wantPriorities("plain and by another", 7, 255)
	_, d = relayWith(t, nil, by2)
	d.wantPriorities("by another alone: the data plane tells why it drops", 1)
	asPITR := func(c *Config) {
		c.Roles = append(c.Roles, RolePolicy{Role: RolePITR, EIDs: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}})
	}
	_, d = relayWith(t, asPITR, plain, by2)
	d.wantPriorities("a PITR as well", 7, 255)
	_, d = relayWith(t, withSite, by1, by2)
	d.wantPriorities("an ITR as well, on a path", 2, 255)
	_, d = relayWith(t, withSite, plain, by2)
	d.wantPriorities("an ITR as well, on none", 7, 1)
	other := func(c *Config) { c.Roles[0].Instance = 7 }
	_, d = relayWith(t, other, by1, by2)
	d.wantPriorities("of another Instance-ID", 2, 1)
	unreachable := by1
	unreachable.Reachable = false
	_, d = relayWith(t, nil, unreachable, by2)
	d.wantPriorities("ours cannot be used", 2, 1)
}

// A role that is configured later, or taken away, reaches the mappings that are there.
func TestRelaysPathsFollowItsRole(t *testing.T) {
	by1, by2 := withPriority(testPath(nil, rtr1, "192.0.2.2"), 2), testPath(nil, rtr2, "192.0.2.2")
	n, d := relayWith(t, func(c *Config) { c.Roles = nil }, by1, by2)
	d.wantPriorities("no relay", 2, 1)
	with, without := d.config, d.config
	with.Roles = relayConfig(RoleRTR, rtr1, "10.2.0.0/16").Roles
	d.configure(with)
	n.run(time.Second)
	d.wantPriorities("a relay", 2, 255)
	d.configure(without)
	n.run(time.Second)
	d.wantPriorities("no relay any more", 2, 1)
}

// An RTR on several paths of a mapping, with different next hops, says so once, unless it can tell which one a packet is on.
func TestAmbiguousPaths(t *testing.T) {
	const etr, before = "192.0.2.2", "192.0.2.50"
	first, second := testPath(nil, rtr1, etr), testPath(nil, before, rtr1, "192.0.2.3")
	same := testPath(nil, before, rtr1, etr)
	for what, c := range map[string]struct {
		change    func(*Config)
		locators  []lisp.Locator
		ambiguous bool
	}{
		"two next hops":             {nil, []lisp.Locator{first, second}, true},
		"one next hop":              {nil, []lisp.Locator{first, same}, false},
		"one path by us":            {nil, []lisp.Locator{first, testPath(nil, rtr2, "192.0.2.3")}, false},
		"one of them is never used": {nil, []lisp.Locator{first, withPriority(second, 255)}, false},
		"told":                      {func(c *Config) { c.ITR.IdentifiesPaths = true }, []lisp.Locator{first, second}, false},
		"no RTR":                    {func(c *Config) { c.Roles = nil }, []lisp.Locator{first, second}, false},
	} {
		_, d := relayWith(t, c.change, c.locators...)
		prefix, _, ambiguous := d.AmbiguousPaths()
		if ambiguous != c.ambiguous || ambiguous && prefix != pathPrefix {
			t.Errorf("%s: %v %t, want %t", what, prefix, ambiguous, c.ambiguous)
		}
		d.wantCounter(counter.PathsAmbiguous, map[bool]uint64{true: 1}[c.ambiguous])
	}
}

// The warning ends with a setting by which the RTR can tell paths apart, and comes back without it.
func TestAmbiguousPathsFollowTheSetting(t *testing.T) {
	first, second := testPath(nil, rtr1, "192.0.2.2"), testPath(nil, "192.0.2.50", rtr1, "192.0.2.3")
	n, d := relayWith(t, nil, first, second)
	without, with := d.config, d.config
	itr := *with.ITR
	itr.IdentifiesPaths = true
	with.ITR = &itr
	for _, c := range []struct {
		config Config
		want   bool
	}{{without, true}, {with, false}, {without, true}} {
		d.configure(c.config)
		n.run(time.Second)
		if _, _, ambiguous := d.AmbiguousPaths(); ambiguous != c.want {
			t.Errorf("with the setting %t: %t", c.config.ITR.IdentifiesPaths, ambiguous)
		}
	}
}
