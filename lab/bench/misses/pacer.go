// SPDX-License-Identifier: Apache-2.0

// How packets are sent at a rate: what is due at each interval, while arrivals keep up.

package misses

import (
	"context"
	"errors"
	"time"

	"loci/lab/bench/testbed"
)

const (
	// firstPacketInterval is that of the P4-LISP paper: 50 packets a second.
	firstPacketInterval = 20 * time.Millisecond
	// paceInterval is how often a sustained run sends what is due.
	paceInterval = 2 * time.Millisecond
	// maxBehind is how far arrivals may fall behind: more is a backlog that grows, and would collapse.
	maxBehind      = 250 * time.Millisecond
	behindInterval = 50 * time.Millisecond
	behindAllowed  = 100 // packets, beside what maxBehind allows
	// missSlots bounds the packets of one run: 60 s at 30,000/s, and some.
	missSlots = 1 << 21
)

// pacer sends what is due at each interval. A wake-up that comes late is made up for. It gives up when arrivals fall behind.
type pacer struct {
	traffic          *testbed.Traffic
	rate             float64 // packets a second
	length, interval time.Duration
	sent             int
	behind           bool
	checked          time.Duration
}

func (p *pacer) run(ctx context.Context) error {
	_, err := testbed.AtEach(ctx, p.interval, p.length, func(elapsed time.Duration) (goOn bool, err error) {
		// What was sent before is looked at first: nothing of this follows a packet that was just sent.
		err = errors.Join(p.check(elapsed), p.sendDue(elapsed))
		return !p.behind, err
	})
	return err
}

func (p *pacer) sendDue(elapsed time.Duration) error {
	due := min(int(p.rate*(elapsed+p.interval).Seconds())-p.sent, missSlots-p.sent)
	if due <= 0 {
		return nil
	}
	p.sent += due
	return p.traffic.SendFrames(uint32(due), min(uint32(due), testbed.MaxBurst))
}

func (p *pacer) check(elapsed time.Duration) error {
	if elapsed < p.checked+behindInterval {
		return nil
	}
	p.checked = elapsed
	o, err := p.traffic.Count()
	p.behind = float64(o.Lost()) > behindAllowed+p.rate*maxBehind.Seconds()
	return err
}
