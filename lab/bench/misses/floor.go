// SPDX-License-Identifier: Apache-2.0

// The floors of `loci bench miss`: what an echo server in the Map-Server's namespace takes for messages from enc, measured in
// the same round. A first packet needs a Map-Request that goes by way of the Map-Server to the ETR, and a Map-Reply: two round
// trips between processes are what it can hardly be faster than. Each miss needs several messages, so the rate of misses is a
// part of the rate of messages.

package misses

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/echo"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	armTrips = "two UDP echo round trips"
	armRate  = "UDP echo server"
)

// floorTrips times two round trips as often as first packets are sent.
func floorTrips(ctx context.Context, b *testbed.Run, enc *testnet.Namespace, caseName string, length time.Duration) error {
	var times []float64
	err := enc.Do(func() (err error) {
		times, err = echo.Trips(ctx, echo.Question{To: echoTrips, Trips: 2}, firstPacketInterval, length)
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(times)
	b.Report.Add(caseName, armTrips, []report.Sample{
		report.Figure("p50", "ms", report.Percentile(times, 0.50)/1e6), report.Figure("p99", "ms", report.Percentile(times, 0.99)/1e6),
	})
	return nil
}

// floorRate measures how many messages a second the server answers, on all cores.
func floorRate(ctx context.Context, b *testbed.Run, enc *testnet.Namespace, caseName string, length time.Duration) (rate float64, err error) {
	err = enc.Do(func() (err error) {
		rate, err = echo.Rate(ctx, echoRate, length)
		return err
	})
	if err == nil {
		b.Report.Add(caseName, armRate, []report.Sample{report.Figure("rate without loss", "messages/s", rate)})
	}
	return rate, err
}

// The echo servers beside the Map-Server: one that takes a datagram at a time, and one that takes many.
var (
	echoTrips = netip.AddrPortFrom(missMS.Addr(), 7)
	echoRate  = netip.AddrPortFrom(missMS.Addr(), 1007)
)
