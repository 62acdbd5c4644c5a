// SPDX-License-Identifier: Apache-2.0

package user

// The highest rate at which hardly anything is lost, by bisection. The engine is started anew before each step: OpenOverlayRouter
// forwards nothing any more after an overload, and what another engine's queues still hold would be in the way of the next step.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// lossAllowed is the share of the packets that may be lost.
	lossAllowed = 0.001
	// sentWanted is the share of a rate that the generator has to offer.
	sentWanted = 0.97
	// precision is the ratio of two neighbouring rates of which one works and the other does not.
	precision = 1.05
	// tries of a rate: a loss may be due to something else that this machine did.
	tries = 2
	// firstRate is where the first round begins, in packets a second; it doubles or halves. Others begin near the rate of the round before.
	firstRate             = 25_000
	firstGrowth, regrowth = 2, 1.15
	lowestRate            = 100
	// stepsOfSlot is how many steps share the time of a slot, each shortestStep at least.
	stepsOfSlot  = 8
	shortestStep = 50 * time.Millisecond
)

// offer sends at a rate for a while.
type offer func(ctx context.Context, rate float64, length time.Duration) (testbed.Outcome, error)

// measureRate is the highest rate of one arm in one case.
func (s *state) measureRate(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	kind, family, _ := strings.Cut(caseName, "/")
	e, key := s.engine(l.Arm.Name), l.Arm.Name+"/"+caseName
	send, err := offerOf(l, kind, pairs[family])
	if err != nil {
		return nil, err
	}
	step := max(slot/stepsOfSlot, shortestStep)
	try := func(rate float64) (bool, error) {
		for range tries {
			if err := e.Restart(ctx, b, l); err != nil {
				return false, err
			}
			o, err := send(ctx, rate, step)
			if err != nil {
				return false, err
			}
			if Keeps(o, rate, lossAllowed) {
				return true, nil
			}
		}
		return false, nil
	}
	from, growth := s.rates[key], float64(regrowth)
	if from == 0 {
		from, growth = firstRate, firstGrowth
	}
	rate, err := highest(from, growth, try)
	if err != nil {
		return nil, err
	}
	s.rates[key] = rate
	return []report.Sample{report.Figure("rate", "packets/s", rate)}, nil
}

// offerOf is how packets of a kind of cases are sent.
func offerOf(l *testbed.Line, kind string, p testbed.Pair) (offer, error) {
	// What counts single packets at Dst takes neither packets that an engine joined nor CHECKSUM_PARTIAL. Trains may arrive whole.
	whole := kind == kindSegment
	for _, feature := range []testnet.Feature{testnet.UDPSegmentation, testnet.TxChecksum} {
		if err := l.Dec.SetOffload(testbed.SiteLink, feature, whole); err != nil {
			return nil, err
		}
	}
	if whole {
		return trains{l, p}.offer, nil
	}
	octets := 0
	if _, err := fmt.Sscanf(kind, kindUDP+"-%d", &octets); err != nil {
		return nil, fmt.Errorf("no case %q", kind)
	}
	return func(ctx context.Context, rate float64, length time.Duration) (testbed.Outcome, error) {
		if err := l.Aim(testbed.Stream{Pair: p, Flows: 1, Destinations: 1, Octets: octets}); err != nil {
			return testbed.Outcome{}, err
		}
		return l.Traffic.Pace(ctx, rate, length)
	}, nil
}

// Keeps says whether a rate was offered, and no more than a share of the packets lost.
func Keeps(o testbed.Outcome, rate, loss float64) bool {
	return o.SentPerSecond() >= sentWanted*rate && float64(o.Lost()) <= loss*float64(o.Sent)
}

// Highest seeks the highest rate that works, beginning anywhere.
func Highest(works func(rate float64) (bool, error)) (float64, error) {
	return highest(firstRate, firstGrowth, works)
}

// highest seeks the highest rate that works, to the precision: away from the first one by a factor, then by bisection. 0: none works.
func highest(from, growth float64, works func(rate float64) (bool, error)) (float64, error) {
	low, high := 0.0, math.Inf(1)
	for rate := from; rate >= lowestRate && high > low*precision; {
		ok, err := works(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
		switch {
		case low == 0:
			rate /= growth
		case math.IsInf(high, 1):
			rate *= growth
		default:
			rate = math.Sqrt(low * high)
		}
	}
	return low, nil
}
