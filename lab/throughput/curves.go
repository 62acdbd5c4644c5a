// SPDX-License-Identifier: Apache-2.0

package throughput

// How the curves are measured: first each engine's knee, then what all of them carry of the same offered rates.

import (
	"context"
	"math"
	"time"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lab/bench/user"
)

const (
	// packetOctets are those of the paper.
	packetOctets = 1388
	// lossAtKnee is the share of packets that may be lost up to the knee.
	lossAtKnee = 0.05
	// pointsOfCurve are what each curve has, from well below the slowest knee to beyond the fastest one.
	pointsOfCurve       = 14
	belowKnee, pastKnee = 0.25, 1.5
	// steps are how many the search for a knee takes, for the most part: they share its time.
	steps        = 10
	shortestStep = 50 * time.Millisecond
)

// Curve is what an engine carries.
type Curve struct {
	Knee   float64     `json:"knee"` // packets/s, the highest rate with hardly a loss
	Points []CurvePair `json:"points"`
}

// CurvePair is one point, in packets/s. What was offered is what the generator sent.
type CurvePair struct {
	Offered float64 `json:"offered"`
	Carried float64 `json:"carried"`
}

type state struct {
	experiment Experiment
	engines    []*user.Engine
	curves     map[string]Curve // by arm
}

func (s *state) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	var engine *user.Engine
	for _, e := range s.engines {
		if e.Name == l.Arm.Name {
			engine = e
		}
	}
	try := func(rate float64, length time.Duration) (o testbed.Outcome, err error) {
		if err := engine.Restart(ctx, b, l); err != nil {
			return o, err
		}
		if s.experiment.PerCent > 0 {
			if err := limit(b, l, s.experiment.PerCent); err != nil {
				return o, err
			}
		}
		if err := l.Aim(testbed.Stream{Pair: testbed.Pairs[0], Flows: 1, Destinations: 1, Octets: packetOctets}); err != nil {
			return o, err
		}
		return l.Traffic.Pace(ctx, rate, length)
	}
	if caseName == casePeak {
		return s.knee(l.Arm.Name, max(slot/steps, shortestStep), try)
	}
	return s.curve(l.Arm.Name, max(slot/pointsOfCurve, shortestStep), try)
}

func (s *state) knee(arm string, step time.Duration, try func(float64, time.Duration) (testbed.Outcome, error)) ([]report.Sample, error) {
	knee, err := user.Highest(func(rate float64) (bool, error) {
		o, err := try(rate, step)
		return user.Keeps(o, rate, lossAtKnee), err
	})
	s.curves[arm] = Curve{Knee: knee}
	return []report.Sample{report.Figure("knee", "packets/s", knee), report.Figure("knee in Mbit/s", "Mbit/s", megabits(knee))}, err
}

func (s *state) curve(arm string, step time.Duration, try func(float64, time.Duration) (testbed.Outcome, error)) (samples []report.Sample, err error) {
	c := s.curves[arm]
	for _, rate := range s.rates() {
		o, err := try(rate, step)
		if err != nil {
			return nil, err
		}
		pair := CurvePair{Offered: o.SentPerSecond(), Carried: o.PerSecond()}
		c.Points = append(c.Points, pair)
		samples = append(samples, report.Figure("carried of "+report.Digits(megabits(rate)), "Mbit/s", megabits(pair.Carried)))
	}
	s.curves[arm] = c
	return samples, nil
}

// rates are those that are offered to all engines: equal steps on a logarithmic axis.
func (s *state) rates() (all []float64) {
	slowest, fastest := math.Inf(1), 0.0
	for _, c := range s.curves {
		slowest, fastest = min(slowest, max(c.Knee, 1)), max(fastest, c.Knee)
	}
	from, to := belowKnee*slowest, pastKnee*fastest
	for i := range pointsOfCurve {
		all = append(all, from*math.Pow(to/from, float64(i)/(pointsOfCurve-1)))
	}
	return all
}

// megabits are those of the packets, from their IP headers on.
func megabits(packets float64) float64 { return packets * packetOctets * 8 / 1e6 }
