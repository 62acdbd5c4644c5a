// SPDX-License-Identifier: Apache-2.0

// The rate at which a path loses nothing. What is lost is lost because a burst overran a queue, so that the largest burst without
// loss is sought. A round with loss never counts.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/lab/bench/report"
)

const (
	// burstTries at one size: a loss may be due to something else that this machine did.
	burstTries = 3
	// warmUp is how long a path is tried before its first round.
	warmUp = 20 * time.Millisecond

	// MetricArriving is the rate of what arrives of what is sent faster than that, in bursts of lossyBurst.
	MetricArriving = "rate of what arrives"
	lossyBurst     = 4
)

// Lossless remembers the bursts that lost nothing, from round to round.
type Lossless map[string]uint32

// Measure is the rate of the stream that the traffic is aimed with, under a key of its own, at the largest burst that loses nothing.
// It is sought before the first round, and anew when a round lost something.
func (bursts Lossless) Measure(ctx context.Context, t *Traffic, key string, slot time.Duration) ([]report.Sample, error) {
	if bursts[key] == 0 {
		bursts[key] = MaxBurst
		if _, err := t.Run(ctx, Limits{Length: warmUp, Burst: MaxBurst}); err != nil {
			return nil, err
		}
	}
	for burst, try := bursts[key], 1; burst > 0; try++ {
		o, err := t.Run(ctx, Limits{Length: slot, Burst: burst})
		if err != nil {
			return nil, err
		}
		if o.Received == 0 {
			return nil, fmt.Errorf("none of %d packets arrived", o.Sent)
		}
		if o.Lost() == 0 {
			bursts[key] = burst
			return []report.Sample{report.Figure("rate", "packets/s", o.PerSecond()), report.Figure("burst", "packets", float64(burst))}, nil
		}
		if try%burstTries == 0 {
			burst /= 2
		}
	}
	return nil, errors.New("packets are lost at every offered rate")
}

// MeasureArriving is the rate of what arrives. The generator shares two processors with a daemon that forwards in user
// space, and sends more than that takes at any rate that it knows.
func (t *Traffic) MeasureArriving(ctx context.Context, slot time.Duration) ([]report.Sample, error) {
	o, err := t.Run(ctx, Limits{Length: slot, Burst: lossyBurst})
	return []report.Sample{report.Figure(MetricArriving, "packets/s", o.PerSecond())}, err
}
