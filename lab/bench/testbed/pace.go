// SPDX-License-Identifier: Apache-2.0

// Packets at a rate: what is due at each interval, whether or not the path keeps up.

package testbed

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	// paceInterval is how often what is due is sent.
	paceInterval = time.Millisecond
	// drainWait bounds the wait for packets that are still queued when the last one was sent.
	drainWait = 300 * time.Millisecond
)

// Pace sends so many packets a second for a while, before all processes (SCHED_FIFO), as a card's interrupts come, and returns what
// arrived. Less was sent than the rate demands where the machine sends no more.
func (t *Traffic) Pace(ctx context.Context, rate float64, length time.Duration) (Outcome, error) {
	if err := t.Reset(); err != nil {
		return Outcome{}, err
	}
	var elapsed time.Duration
	err := t.From.Do(func() error {
		return OnOneCore(func() error {
			return BeforeProcesses(func() (err error) {
				elapsed, err = t.pace(ctx, rate, length)
				return err
			})
		})
	})
	if err != nil {
		return Outcome{}, err
	}
	o, err := t.SettleFor(ctx, drainWait)
	o.elapsed = elapsed
	return o, err
}

func (t *Traffic) pace(ctx context.Context, rate float64, length time.Duration) (time.Duration, error) {
	sent := 0
	return AtEach(ctx, paceInterval, length, func(elapsed time.Duration) (goOn bool, err error) {
		due := min(int(rate*(elapsed+paceInterval).Seconds())-sent, framesPerCall)
		if due > 0 {
			err = t.SendFrames(uint32(due), min(uint32(due), MaxBurst))
			sent += due
		}
		return true, err
	})
}

// AtEach calls step at each interval for a while, or until step does not want to go on, in the calling thread: with the time since the
// beginning, and again at once when it took longer than the interval. It returns how long all took.
func AtEach(ctx context.Context, interval, length time.Duration, step func(elapsed time.Duration) (goOn bool, err error)) (time.Duration, error) {
	began := time.Now()
	for elapsed := time.Duration(0); elapsed < length; elapsed = time.Since(began) {
		goOn, err := step(elapsed)
		if err := errors.Join(ctx.Err(), err); err != nil {
			return 0, err
		}
		if !goOn {
			break
		}
		testnet.SleepHere(time.Until(began.Add(elapsed.Truncate(interval) + interval)))
	}
	return time.Since(began), nil
}

// OutcomeOf is what a sender and a receiver of another kind counted.
func OutcomeOf(sent, received uint64, elapsed time.Duration) Outcome {
	return Outcome{Sent: sent, Received: received, elapsed: elapsed}
}

// SentPerSecond is the rate at which packets were sent.
func (o Outcome) SentPerSecond() float64 { return float64(o.Sent) / o.elapsed.Seconds() }

// BeforeProcesses runs f in a thread that no process keeps from its core, as nothing keeps a card's packets from the router: what is
// measured is not how a generator fares that shares its machine with the router. Where that is not allowed, it competes.
func BeforeProcesses(f func() error) error {
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	usual := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if unix.SchedSetAttr(0, first, 0) != nil {
		return f()
	}
	return errors.Join(f(), unix.SchedSetAttr(0, usual, 0))
}
