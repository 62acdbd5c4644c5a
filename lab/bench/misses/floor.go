// SPDX-License-Identifier: Apache-2.0

// The floors of `loci bench miss`: what an echo server in the Map-Server's namespace takes for messages from enc, measured in
// the same round. A first packet needs a Map-Request that goes by way of the Map-Server to the ETR, and a Map-Reply: two round
// trips between processes are what it can hardly be faster than. Each miss needs several messages, so the rate of misses is a
// part of the rate of messages.

package misses

import (
	"context"
	"slices"
	"time"

	"loci/lab/bench/echo"
	"loci/lab/bench/report"
)

const (
	armTrips = "two UDP echo round trips"
	armRate  = "UDP echo server"
)

// floorTrips times two round trips as often as first packets are sent.
func (m *missRun) floorTrips(ctx context.Context, caseName string, length time.Duration) error {
	var times []float64
	err := m.line.Enc.Do(func() (err error) {
		times, err = echo.Trips(ctx, echoTrips, firstPacketInterval, length)
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(times)
	m.bench.Report.Add(caseName, armTrips, []report.Sample{
		report.Figure("p50", "ms", report.Percentile(times, 0.50)/1e6), report.Figure("p99", "ms", report.Percentile(times, 0.99)/1e6),
	})
	return nil
}

// floorRate measures how many messages a second the server answers, on all cores.
func (m *missRun) floorRate(ctx context.Context, caseName string, length time.Duration) (rate float64, err error) {
	err = m.line.Enc.Do(func() (err error) {
		rate, err = echo.Rate(ctx, echoRate, length)
		return err
	})
	if err == nil {
		m.bench.Report.Add(caseName, armRate, []report.Sample{report.Figure("rate without loss", "messages/s", rate)})
	}
	return rate, err
}
