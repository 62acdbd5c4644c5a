// SPDX-License-Identifier: Apache-2.0

package user

// Echoes: a UDP round trip from Src to a server in Dst, through both routers twice.

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"loci/lab/bench/echo"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// echoInterval is long enough for routers to go to sleep in between, as they do between packets that come alone.
const echoInterval = time.Millisecond

func measureEcho(ctx context.Context, b *testbed.Run, l *testbed.Line, p testbed.Pair, slot time.Duration) (samples []report.Sample, err error) {
	to := netip.AddrPortFrom(p.Destination(), 7)
	server, err := b.StartEcho(ctx, l.Dst, to, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop(server)) }()
	var times []float64
	err = l.Src.Do(func() (err error) {
		times, err = echo.Trips(ctx, echo.Question{From: p.Source(), To: to, Trips: 1}, echoInterval, slot)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	return []report.Sample{
		report.Figure("p50", "µs", report.Percentile(times, 0.50)/1e3), report.Figure("p99", "µs", report.Percentile(times, 0.99)/1e3),
	}, nil
}
