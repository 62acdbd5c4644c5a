// SPDX-License-Identifier: Apache-2.0

// `loci bench forwarding`: lossless packets per second through Enc and Dec, 64-octet packets, on one core.
// A round with loss never counts.

package bench

import (
	"context"
	"fmt"
	"time"
)

// Forwarding names the bench that can have a full map-cache.
const Forwarding = "forwarding"

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

func forwardingBench() kind {
	k := kind{
		name: Forwarding, title: "lossless packets per second through Enc and Dec, 64-octet packets, one core",
		rounds: 7, length: forwardingMeasure, arms: []arm{routing, vxlan, redirect, lociTC, lociTCStack, lociXDP},
		attach:  (*line).attach,
		measure: measureForwarding, judge: judgeForwarding,
	}
	for _, p := range pairs {
		for _, f := range flowCounts {
			k.cases = append(k.cases, p.name+"/"+f.name)
		}
	}
	return k
}

func forwardingStream(caseName string) (stream, error) {
	for _, p := range pairs {
		for _, f := range flowCounts {
			if p.name+"/"+f.name == caseName {
				return stream{pair: p, flows: f.flows, destinations: 1}, nil
			}
		}
	}
	return stream{}, fmt.Errorf("no case %q", caseName)
}

// measureForwarding measures at the largest burst that loses nothing. It is sought before the first round, and anew when a
// round lost something.
func measureForwarding(ctx context.Context, b *bench, l *line, caseName string, slot time.Duration) ([]sample, error) {
	s, err := forwardingStream(caseName)
	if err != nil {
		return nil, err
	}
	if err := l.aimForwarding(s); err != nil {
		return nil, err
	}
	key := l.arm.name + "/" + caseName
	if b.bursts[key] == 0 {
		b.bursts[key] = maxBurst
		if _, err := l.traffic.run(ctx, limits{length: warmUp, burst: maxBurst}); err != nil {
			return nil, err
		}
	}
	for burst, try := b.bursts[key], 1; burst > 0; try++ {
		o, err := l.traffic.run(ctx, limits{length: slot, burst: burst})
		if err != nil {
			return nil, err
		}
		if o.received == 0 {
			return nil, fmt.Errorf("none of %d packets arrived", o.sent)
		}
		if o.lost() == 0 {
			b.bursts[key] = burst
			return []sample{{"rate", "packets/s", o.perSecond()}, {"burst", "packets", float64(burst)}}, nil
		}
		if try%burstTries == 0 {
			burst /= 2
		}
	}
	return nil, fmt.Errorf("packets are lost at every offered rate")
}

func judgeForwarding(r *Report) {
	for _, base := range []string{armRouting, armVXLAN, armRedirect} {
		r.compare("rate", armTC, base)
		r.compare("rate", armTCStack, base)
		r.compare("rate", armXDP, base)
	}
	r.wantRatio("rate", armTC, armRouting, atLeast(1.2))
	r.wantRatio("rate", armXDP, armRouting, atLeast(3.5))
	r.wantRatio("rate", armXDP, armVXLAN, atLeast(6))
	r.wantRatioIn("ipv4-in-", "rate", armXDP, armRedirect, atLeast(0.8))
	r.wantRatioIn("ipv6-in-", "rate", armXDP, armRedirect, atLeast(0.7))
}
