// SPDX-License-Identifier: Apache-2.0

package answers

// Two layers: what is said of RLOCs that are EIDs is what the data plane does.

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
)

// udp is an IPv4 packet between EIDs.
func udp(from, to string) []byte {
	b := make([]byte, 28, 64)
	b[0], b[8], b[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	a, z := netip.MustParseAddr(from).As4(), netip.MustParseAddr(to).As4()
	copy(b[12:], a[:])
	copy(b[16:], z[:])
	binary.BigEndian.PutUint16(b[20:], 1000)
	binary.BigEndian.PutUint16(b[22:], 2000)
	binary.BigEndian.PutUint16(b[24:], 8)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	return b
}

// newLayered is an ITR that adds two layers, with such mappings.
func newLayered(t *testing.T, mappings map[string]string) *explained {
	x := newExplained(t)
	x.cfg.RecursionDepth = 2
	itr := *x.cfg.ITR
	itr.StaticMappings = nil
	for prefix, rloc := range mappings {
		m := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Action: lisp.ActionNativelyForward}
		if rloc != "" {
			m = lisp.Mapping{Prefix: m.Prefix, Locators: testLocators(t, rloc), TTLMinutes: lisp.TTLUnlimited}
		}
		itr.StaticMappings = append(itr.StaticMappings, m)
	}
	x.cfg.ITR = &itr
	s := x.plane.Settings()
	s.RecursionDepth = 2
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}
	if errs := x.plane.Apply(dataplane.SetSettings{Settings: s}); errs != nil {
		t.Fatal(errs)
	}
	if err := x.node.Configure(time.Now(), x.cfg); err != nil {
		t.Fatal(err)
	}
	x.drain()
	return x
}

// TestExplainLayersAsTheDataPlaneDoes: each reason is the one by which the data plane counts a packet.
func TestExplainLayersAsTheDataPlaneDoes(t *testing.T) {
	for name, c := range map[string]struct {
		mappings map[string]string
		outcome  api.Outcome
		drop     string
		back     bool
		why      string
	}{
		"second layer": {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "203.0.113.1"}, api.OutcomeEncapsulate, "", false,
			"RLOC 172.20.0.5 is an EID: the mapping 172.20.0.0/24 covers it, and leads to RLOC 203.0.113.1: packets get a second layer"},
		"not an EID": {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": ""}, api.OutcomeEncapsulate, "", false, "packets are encapsulated"},
		"back to itself": {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "172.20.0.9"}, api.OutcomeNoLocator, "mapping-loop", true,
			"leads to RLOC 172.20.0.9, which is back: packets are dropped, and counted as mapping-loop"},
		"RLOC of its own EID-Prefix": {map[string]string{"10.2.0.0/16": "10.2.0.9"}, api.OutcomeNoLocator, "mapping-loop", true, "which is back"},
		"back to this router":        {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "192.0.2.1"}, api.OutcomeNoLocator, "mapping-loop", true, "which is back"},
		"third layer": {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "172.21.0.5", "172.21.0.0/24": "203.0.113.1"}, api.OutcomeNoLocator, "recursion-depth", false,
			"leads to RLOC 172.21.0.5, which is an EID too: packets would get a third layer, and are dropped, and counted as recursion-depth"},
		"back by two mappings": {map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "172.21.0.5", "172.21.0.0/24": "172.20.0.6"}, api.OutcomeNoLocator, "recursion-depth", true,
			"the mappings behind it lead back"},
	} {
		x := newLayered(t, c.mappings)
		e := x.ask("eid=10.2.0.1")
		text := strings.Join(e.Why, "\n")
		if e.Outcome != c.outcome || !strings.Contains(text, c.why) || c.drop != "" && !strings.Contains(text, "none of its locators may be used: packets are dropped, and counted as "+c.drop) {
			t.Errorf("%s: %s\n%s\nwant %s, %q, drop %q", name, e.Outcome, text, c.outcome, c.why, c.drop)
		}
		x.plane.Send("site0", udp("10.1.0.7", "10.2.0.1"))
		drops := x.plane.Counters().Drops
		if c.drop != "" && (drops[c.drop] != 1 || len(drops) != 1) || c.drop == "" && len(drops) != 0 {
			t.Errorf("%s: the data plane counts %v, want %q", name, drops, c.drop)
		}
		for _, l := range e.Locators {
			for _, layer := range l.SecondLayers {
				if layer.LeadsBack != c.back || layer.Problem != c.drop {
					t.Errorf("%s: %+v, want problem %q, leads back %t", name, layer, c.drop, c.back)
				}
			}
		}
		x.wantLoopCounted(name, c.back)
	}
}

// wantLoopCounted demands that a loop was counted when its mapping came.
func (x *explained) wantLoopCounted(name string, is bool) {
	x.t.Helper()
	for counter, n := range x.node.Counters() {
		if counter == "mapping_loop_total" && (n > 0) != is {
			x.t.Errorf("%s: %d loops counted", name, n)
		}
	}
}

// TestShowMapCacheTellsLoops: the list of the map-cache has them too.
func TestShowMapCacheTellsLoops(t *testing.T) {
	x := newLayered(t, map[string]string{"10.2.0.0/16": "172.20.0.5", "172.20.0.0/24": "172.20.0.9"})
	layers := layersDocument(x.node.SecondLayers(lisp.MustParsePrefix("10.2.0.0/16")))
	b, err := json.Marshal(api.MapCacheEntry{SecondLayers: layers})
	want := `"second_layers":[{"rloc":"172.20.0.5","eid_prefix":"172.20.0.0/24","through":"172.20.0.9","problem":"mapping-loop","leads_back":true}]`
	if err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
	if x.cfg.RecursionDepth = 1; x.node.Configure(time.Now(), x.cfg) != nil || x.node.SecondLayers(lisp.MustParsePrefix("10.2.0.0/16")) != nil {
		t.Error("with one layer RLOCs are not looked up")
	}
}
