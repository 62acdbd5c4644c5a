// SPDX-License-Identifier: Apache-2.0

package user

// What a packet takes from the heap: what both daemons have allocated while packets ran, as Go's runtime counts it (`heap_allocations` of
// `loci show status`), without what they allocate in as much time without packets.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	metricAllocations = "heap allocations for a packet"
	// allocationsAllowed is none for a packet: what remains is a flow's, once a second, and the daemon's own.
	allocationsAllowed = 0.01
	// allocationRate is one that every machine forwards, in packets a second.
	allocationRate = 20_000
)

func measureAllocations(ctx context.Context, b *testbed.Run, l *testbed.Line, p testbed.Pair, slot time.Duration) ([]report.Sample, error) {
	if err := l.Aim(testbed.Stream{Pair: p, Flows: 1, Destinations: 1}); err != nil {
		return nil, err
	}
	idle, err := allocatedDuring(ctx, b, l, func() error {
		time.Sleep(slot / 2)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var o testbed.Outcome
	loaded, err := allocatedDuring(ctx, b, l, func() (err error) {
		o, err = l.Traffic.Pace(ctx, allocationRate, slot/2)
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.Received < o.Sent/2 {
		return nil, fmt.Errorf("%d of %d packets arrived", o.Received, o.Sent)
	}
	forPacket := max(0, float64(loaded)-float64(idle)) / float64(o.Received)
	return []report.Sample{report.Figure(metricAllocations, "objects", forPacket), report.Figure("received", "packets", float64(o.Received))}, nil
}

// allocatedDuring is how many objects both daemons allocate meanwhile.
func allocatedDuring(ctx context.Context, b *testbed.Run, l *testbed.Line, f func() error) (uint64, error) {
	before, err := allocated(ctx, b, l.Enc, l.Dec)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := allocated(ctx, b, l.Enc, l.Dec)
	return after - before, err
}

func allocated(ctx context.Context, b *testbed.Run, at ...*testnet.Namespace) (sum uint64, err error) {
	found := 0
	for _, p := range b.Daemons {
		for _, ns := range at {
			if p.Name != ns.Role() || p.Client == nil {
				continue
			}
			status, err := p.Client.Status(ctx)
			if err != nil {
				return 0, err
			}
			sum += status.HeapAllocations
			found++
		}
	}
	if found != len(at) {
		return 0, errors.New("a daemon is missing")
	}
	return sum, nil
}
