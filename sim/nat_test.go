// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"
)

// A few seeds of nodes behind NATs; `loci sim --nat` runs more.
func TestSeedsOfNATs(t *testing.T) {
	faults, lost, several := map[string]uint64{}, uint64(0), false
	for r := range collect(t, Options{Seed: 1, Routers: 20, Duration: 6 * time.Minute, NAT: true}, 12) {
		if r.Violation != nil {
			t.Errorf("seed %d: %s", r.Seed, r.Violation)
		}
		if r.Stats.PacketsArrived == 0 || r.Stats.PacketsRelayed == 0 || r.Stats.NATBoxes == 0 {
			t.Errorf("seed %d did not do anything: %+v", r.Seed, r.Stats)
		}
		for name, count := range r.Stats.Faults {
			if faults[name] += count; strings.HasPrefix(name, "rtr-lost-") {
				lost += count
			}
		}
		several = several || r.Stats.Relays > 1
	}
	for _, name := range []string{"nat-forgets", "nat-rewrites-ports", "nat-gets-address", "nat-restarts", "move", "rtr-power-loss", "rtr-freeze"} {
		if faults[name] == 0 {
			t.Errorf("no seed has %s: %v", name, faults)
		}
	}
	if !several || lost == 0 {
		t.Errorf("several RTRs: %t; %d of them are lost at the end", several, lost)
	}
}

// 1,000 nodes behind one address, which start at once: without faults, and with a NAT that forgets and an RTR that
// does.
func TestThousandNodesBehindOneAddress(t *testing.T) {
	for _, o := range []Options{
		{Seed: 1, Routers: 1011, Duration: 90 * time.Second, NAT: true, OneAddress: true, Calm: true},
		{Seed: 1, Routers: 1011, Duration: 5 * time.Minute, NAT: true, OneAddress: true},
	} {
		r := Run(o)
		if r.Violation != nil {
			t.Errorf("%+v: %s", o, r.Violation)
		}
		if r.Stats.NATBoxes != 1 || r.Stats.PacketsArrived < 1000 || !o.Calm && len(r.Stats.Faults) == 0 {
			t.Errorf("%+v did not do anything: %+v", o, r.Stats)
		}
	}
}

// A run is its seed, with NATs as well.
func TestSameSeedSameTraceWithNATs(t *testing.T) {
	o := Options{Seed: 42, Routers: 16, Duration: 5 * time.Minute, NAT: true}
	first := Run(o)
	o.Trace = true // must not move anything
	second := Run(o)
	o.Seed++
	other := Run(o)
	if first.Hash != second.Hash || first.Stats.Events != second.Stats.Events {
		t.Errorf("the same seed gave %016x after %d events and %016x after %d", first.Hash, first.Stats.Events, second.Hash, second.Stats.Events)
	}
	if first.Hash == other.Hash {
		t.Errorf("two seeds gave %016x", first.Hash)
	}
	if len(second.Trace) == 0 || len(first.Trace) != 0 {
		t.Errorf("%d and %d lines of trace", len(second.Trace), len(first.Trace))
	}
}
