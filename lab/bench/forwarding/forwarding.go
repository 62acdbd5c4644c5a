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

// burstTries at one size: a loss may be due to something else that this machine did.
const burstTries = 3

// forwardingMeasure is shorter than the usual, because three of the arms have daemons to start.
const forwardingMeasure = 30 * time.Second

// warmUp is how long a path is tried before its first round.
const warmUp = 20 * time.Millisecond

// Forwarding is the bench of packets per second.
func Forwarding() testbed.Bench { return (&forwardingState{bursts: map[string]uint32{}}).bench() }

func (f *forwardingState) bench() testbed.Bench {
	k := testbed.Bench{
		Name: Name, Title: "lossless packets per second through Enc and Dec, 64-octet packets, one core",
		Rounds: 7, Length: forwardingMeasure, Arms: []testbed.Arm{testbed.Routing, testbed.VXLAN, testbed.Redirect, testbed.LociTC, testbed.LociTCStack, testbed.LociXDP},
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
	bursts  map[string]uint32              // lossless ones, by arm and case
	entries map[string][]mappings.EntrySet // in the map-cache of enc, by arm; none where it holds a handful
}

// measure measures at the largest burst that loses nothing. It is sought before the first round, and anew when a
// round lost something.
func (f *forwardingState) measure(ctx context.Context, _ *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	s, err := forwardingStream(caseName)
	if err != nil {
		return nil, err
	}
	if err := f.aim(l, s); err != nil {
		return nil, err
	}
	key := l.Arm.Name + "/" + caseName
	if f.bursts[key] == 0 {
		f.bursts[key] = testbed.MaxBurst
		if _, err := l.Traffic.Run(ctx, testbed.Limits{Length: warmUp, Burst: testbed.MaxBurst}); err != nil {
			return nil, err
		}
	}
	for burst, try := f.bursts[key], 1; burst > 0; try++ {
		o, err := l.Traffic.Run(ctx, testbed.Limits{Length: slot, Burst: burst})
		if err != nil {
			return nil, err
		}
		if o.Received == 0 {
			return nil, fmt.Errorf("none of %d packets arrived", o.Sent)
		}
		if o.Lost() == 0 {
			f.bursts[key] = burst
			return []report.Sample{report.Figure("rate", "packets/s", o.PerSecond()), report.Figure("burst", "packets", float64(burst))}, nil
		}
		if try%burstTries == 0 {
			burst /= 2
		}
	}
	return nil, fmt.Errorf("packets are lost at every offered rate")
}

func judgeForwarding(r *report.Report) {
	for _, base := range []string{testbed.ArmRouting, testbed.ArmVXLAN, testbed.ArmRedirect} {
		r.Compare("rate", testbed.ArmTC, base)
		r.Compare("rate", testbed.ArmTCStack, base)
		r.Compare("rate", testbed.ArmXDP, base)
	}
	r.WantRatio("rate", testbed.ArmTC, testbed.ArmRouting, report.AtLeast(1.2))
	r.WantRatio("rate", testbed.ArmXDP, testbed.ArmRouting, report.AtLeast(3.5))
	r.WantRatio("rate", testbed.ArmXDP, testbed.ArmVXLAN, report.AtLeast(6))
	r.WantRatioIn("ipv4-in-", "rate", testbed.ArmXDP, testbed.ArmRedirect, report.AtLeast(0.8))
	r.WantRatioIn("ipv6-in-", "rate", testbed.ArmXDP, testbed.ArmRedirect, report.AtLeast(0.7))
}
