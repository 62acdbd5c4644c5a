// SPDX-License-Identifier: Apache-2.0

// `loci bench forwarding`: lossless packets per second through Enc and Dec, 64-octet packets, on one core.
// A round with loss never counts.

package forwarding

import (
	"context"
	"fmt"
	"time"

	"loci/lab/bench/mappings"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// Name is that of the bench that can have a full map-cache.
const Name = "forwarding"

// manyFlows is the number of flows of a case with many.
const manyFlows = 1000

// flowCounts by the end of the name of a case.
var flowCounts = []struct {
	name  string
	flows uint32
}{{"1-flow", 1}, {"1000-flows", manyFlows}}

// forwardingMeasure is shorter than the usual, because three of the arms have daemons to start.
const forwardingMeasure = 30 * time.Second

// Forwarding is the bench of packets per second.
func Forwarding() testbed.Bench { return (&forwardingState{bursts: testbed.Lossless{}}).bench() }

func (f *forwardingState) bench() testbed.Bench {
	k := testbed.Bench{
		Name: Name, Title: "lossless packets per second through Enc and Dec, 64-octet packets, one core",
		Rounds: 7, Length: forwardingMeasure, Arms: []testbed.Arm{testbed.Routing, testbed.VXLAN, testbed.Redirect, testbed.LociTC, testbed.LociTCStack, testbed.LociXDP, testbed.LociTCPort, testbed.LociXDPPort},
		Attach:  (*testbed.Line).Attach,
		Measure: f.measure, Judge: judgeForwarding,
	}
	for _, p := range testbed.Pairs {
		for _, c := range flowCounts {
			k.Cases = append(k.Cases, p.Name+"/"+c.name)
		}
	}
	return k
}

func forwardingStream(caseName string) (testbed.Stream, error) {
	for _, p := range testbed.Pairs {
		for _, f := range flowCounts {
			if p.Name+"/"+f.name == caseName {
				return testbed.Stream{Pair: p, Flows: f.flows, Destinations: 1}, nil
			}
		}
	}
	return testbed.Stream{}, fmt.Errorf("no case %q", caseName)
}

// forwardingState is what the rounds of a run know of each other.
type forwardingState struct {
	bursts  testbed.Lossless               // by arm and case
	entries map[string][]mappings.EntrySet // in the map-cache of enc, by arm; none where it holds a handful
}

func (f *forwardingState) measure(ctx context.Context, _ *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	s, err := forwardingStream(caseName)
	if err != nil {
		return nil, err
	}
	if err := f.aim(l, s); err != nil {
		return nil, err
	}
	return f.bursts.Measure(ctx, l.Traffic, l.Arm.Name+"/"+caseName, slot)
}

func judgeForwarding(r *report.Report) {
	for _, base := range []string{testbed.ArmRouting, testbed.ArmVXLAN, testbed.ArmRedirect} {
		r.Compare("rate", testbed.ArmTC, base)
		r.Compare("rate", testbed.ArmTCStack, base)
		r.Compare("rate", testbed.ArmXDP, base)
	}
	r.Compare("rate", testbed.ArmTCPort, testbed.ArmTC)
	r.Compare("rate", testbed.ArmXDPPort, testbed.ArmXDP)
	r.WantRatio("rate", testbed.ArmTCPort, testbed.ArmTC, report.AtLeast(0.95))
	r.WantRatio("rate", testbed.ArmXDPPort, testbed.ArmXDP, report.AtLeast(0.95))
	r.WantRatio("rate", testbed.ArmTC, testbed.ArmRouting, report.AtLeast(1.2))
	r.WantRatio("rate", testbed.ArmXDP, testbed.ArmRouting, report.AtLeast(3.5))
	r.WantRatio("rate", testbed.ArmXDP, testbed.ArmVXLAN, report.AtLeast(6))
	r.WantRatioIn("ipv4-in-", "rate", testbed.ArmXDP, testbed.ArmRedirect, report.AtLeast(0.8))
	r.WantRatioIn("ipv6-in-", "rate", testbed.ArmXDP, testbed.ArmRedirect, report.AtLeast(0.7))
}
