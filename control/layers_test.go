// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
)

// layered is an ITR that looks RLOCs up.
func layered(t *testing.T) (*testNetwork, *testNode) {
	n, x := loneITR(t, Limits{})
	c := x.config
	c.RecursionDepth = 2
	x.configure(c)
	return n, x
}

func (d *testNode) answered(destination, prefix string, rlocs ...string) {
	d.miss("10.1.0.1", destination)
	answerAll(d, lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 10, Locators: locators(rlocs...)})
}

// TestMappingLoopsAreTold: a loop is counted and told once, when the mapping comes that closes it, in whatever order they come. A
// mapping that is refreshed unchanged is none of it.
func TestMappingLoopsAreTold(t *testing.T) {
	for name, order := range map[string][][3]string{
		"of two":              {{"10.2.0.1", "10.2.0.0/16", "172.20.0.5"}, {"172.20.0.5", "172.20.0.0/24", "172.21.0.5"}, {"172.21.0.5", "172.21.0.0/24", "172.20.0.6"}},
		"of one":              {{"10.2.0.1", "10.2.0.0/16", "172.20.0.5"}, {"172.20.0.5", "172.20.0.0/24", "172.20.0.6"}},
		"by this router":      {{"10.2.0.1", "10.2.0.0/16", "172.20.0.5"}, {"172.20.0.5", "172.20.0.0/24", "192.0.2.1"}},
		"known before packet": {{"172.20.0.5", "172.20.0.0/24", "198.51.100.9"}, {"198.51.100.9", "198.51.100.0/24", "172.20.0.6"}},
	} {
		_, x := layered(t)
		for i, m := range order {
			x.wantCounter(counter.MappingLoop, 0)
			x.answered(m[0], m[1], m[2])
			if i == len(order)-1 {
				x.wantCounter(counter.MappingLoop, 1)
			}
		}
		told := slices.IndexFunc(x.notices, func(n Notice) bool { return n.Kind == NoticeMappingLoop })
		if last := order[len(order)-1]; told < 0 || x.notices[told].Prefix.String() != last[1] || x.notices[told].Detail == "" {
			t.Errorf("%s: told %+v", name, x.notices)
		}
	}
}

// TestNoLoopWithOneLayer: RLOCs are not looked up.
func TestNoLoopWithOneLayer(t *testing.T) {
	_, x := loneITR(t, Limits{})
	x.answered("10.2.0.1", "10.2.0.0/16", "10.2.0.9")
	x.wantCounter(counter.MappingLoop, 0)
	if e := x.Explain(0, eid("10.2.0.1")); len(e.Locators) != 1 || e.Locators[0].SecondLayers != nil {
		t.Errorf("explained as %+v", e.Locators)
	}
}

// TestManyMappingsThatFollowEachOther: looking for a loop is bounded, however many locators lead on.
func TestManyMappingsThatFollowEachOther(t *testing.T) {
	n, x := layered(t)
	const length = 40
	prefix := func(i int) string { return fmt.Sprintf("172.20.%d.0/24", i) }
	var all []string
	for i := range lisp.MaxLocators {
		all = append(all, fmt.Sprintf("%d", i+1))
	}
	for i := range length {
		var rlocs []string
		for _, host := range all {
			rlocs = append(rlocs, fmt.Sprintf("172.20.%d.%s", i+1, host))
		}
		x.answered(fmt.Sprintf("172.20.%d.1", i), prefix(i), rlocs...)
		n.run(time.Second)
	}
	layers := x.SecondLayers(lisp.MustParsePrefix(prefix(0)))
	if len(layers) != lisp.MaxLocators || layers[0].Problem != LayerRecursionDepth {
		t.Errorf("%d layers, the first %+v", len(layers), layers[0])
	}
}

// TestMissesOfRLOCs: with two layers, the RLOC of a packet that a relay sends on is resolved, which no policy names: the data plane says
// by the own RLOC as source that it is one. With one layer, or from any other source, the policy decides.
func TestMissesOfRLOCs(t *testing.T) {
	for _, role := range []Role{RoleRTR, RolePITR} {
		for _, c := range []struct {
			depth  uint8
			source string
			asked  uint64
		}{{2, rtr1, 1}, {2, "198.51.100.1", 0}, {1, rtr1, 0}} {
			n := newNetwork(t)
			config := relayConfig(role, rtr1, "10.2.0.0/16")
			config.RecursionDepth = c.depth
			r := n.add("r", config, rtr1)
			r.miss(c.source, "172.20.0.5")
			r.wantCounter(counter.MapRequestSent, c.asked)
			r.wantCounter(counter.RefusedPolicy, 1-c.asked)
		}
	}
}

// TestRLOCsInHolesAreNoEIDs: a negative mapping that covers an RLOC says that it is not an EID, with proxy ETRs too.
func TestRLOCsInHolesAreNoEIDs(t *testing.T) {
	_, x := layered(t)
	x.configure(withProxies(x.config, "203.0.113.1"))
	x.answered("10.2.0.1", "10.2.0.0/16", "198.51.100.9")
	x.miss("10.1.0.1", "198.51.100.9")
	answerAll(x, lisp.Mapping{Prefix: lisp.MustParsePrefix("192.0.0.0/2"), TTLMinutes: 15, Action: lisp.ActionNativelyForward})
	x.wantCached("192.0.0.0/2", "203.0.113.1")
	x.wantCounter(counter.MappingLoop, 0)
	if layers := x.SecondLayers(lisp.MustParsePrefix("10.2.0.0/16")); layers != nil {
		t.Errorf("layers %+v", layers)
	}
}
