// SPDX-License-Identifier: Apache-2.0

// One direction of one pair of nodes on an emulated link.

package testnet

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EmulatedCounts says what happened to the frames of one direction. Each frame that was sent is in exactly one of the others, or
// under way.
type EmulatedCounts struct {
	Sent, Delivered uint64
	Lost            uint64 // by the probability of Impairment.Loss, or at an interface that is down
	QueueDrops      uint64 // for which Impairment.Queue, or the emulation's own memory, had no place
	// Lateness is how much later than asked for the latest frames were delivered, sorted: the emulation's accuracy.
	Lateness []time.Duration
}

// latenessSamples is how many of the latest frames EmulatedCounts.Lateness knows.
const latenessSamples = 4096

type delayedFrame struct {
	due  time.Time
	data []byte
}

type emulatedPath struct {
	to *emulatedPort

	mu       sync.Mutex
	wake     *sync.Cond
	closed   bool
	random   *rand.Rand
	rules    Impairment
	sent     time.Time // when the sender's queue is empty, if nothing comes
	last     time.Time // when the newest frame in flight is due
	inFlight []delayedFrame
	counts   EmulatedCounts // Lateness is a ring
}

func newEmulatedPath(to *emulatedPort, random *rand.Rand) *emulatedPath {
	p := &emulatedPath{to: to, random: random}
	p.wake = sync.NewCond(&p.mu)
	return p
}

func (p *emulatedPath) impair(i Impairment) {
	if i.Queue == 0 {
		i.Queue = defaultQueue
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = i
}

func (p *emulatedPath) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake.Signal()
}

func (p *emulatedPath) count() EmulatedCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	counts.Lateness = slices.Sorted(slices.Values(counts.Lateness))
	return counts
}

// send takes a frame; the caller may use its memory again.
func (p *emulatedPath) send(frame []byte, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Sent++
	if p.random.Float64() < p.rules.Loss {
		p.counts.Lost++
		return
	}
	sent, fits := p.transmit(len(frame), now)
	if !fits || len(p.inFlight) >= maxDelayed {
		p.counts.QueueDrops++
		return
	}
	p.sent = sent
	due := sent.Add(p.delay())
	if due.Before(p.last) {
		due = p.last
	}
	p.last = due
	p.inFlight = append(p.inFlight, delayedFrame{due, bytes.Clone(frame)})
	p.wake.Signal()
}

// transmit returns when a frame has left the sender's queue at the rate, and whether the queue has a place for it.
func (p *emulatedPath) transmit(octets int, now time.Time) (time.Time, bool) {
	begin := now
	if p.sent.After(now) {
		begin = p.sent
	}
	if p.rules.Rate == 0 {
		return now, true
	}
	if begin.Sub(now) > p.rules.Queue {
		return begin, false
	}
	return begin.Add(time.Duration(float64(octets) * 8 / float64(p.rules.Rate) * float64(time.Second))), true
}

func (p *emulatedPath) delay() time.Duration {
	if p.rules.Jitter == 0 {
		return p.rules.Delay
	}
	return p.rules.Delay - p.rules.Jitter + time.Duration(p.random.Int64N(int64(2*p.rules.Jitter)+1))
}

// deliver hands over each frame when it is due, in order, until the path is closed.
func (p *emulatedPath) deliver() {
	for {
		frame, open := p.next()
		if !open {
			return
		}
		sleepUntil(frame.due)
		_, err := p.to.tap.Write(frame.data)
		p.delivered(frame, err)
	}
}

// sleepUntil is exact to some 0.1 ms. The runtime's timers are late by up to a millisecond, so the kernel's end the sleep.
func sleepUntil(due time.Time) {
	const timersAreLateBy = 2 * time.Millisecond
	time.Sleep(time.Until(due) - timersAreLateBy)
	if rest := time.Until(due); rest > 0 {
		left := unix.NsecToTimespec(int64(rest))
		for unix.Nanosleep(&left, &left) == unix.EINTR {
		}
	}
}

// next waits for a frame.
func (p *emulatedPath) next() (delayedFrame, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.inFlight) == 0 && !p.closed {
		p.wake.Wait()
	}
	if p.closed {
		return delayedFrame{}, false
	}
	frame := p.inFlight[0]
	p.inFlight[0] = delayedFrame{}
	p.inFlight = p.inFlight[1:]
	return frame, true
}

// delivered counts a frame. An interface that is down refuses it, as a cable would lose it.
func (p *emulatedPath) delivered(frame delayedFrame, err error) {
	late := time.Since(frame.due)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.counts.Lost++
		return
	}
	if len(p.counts.Lateness) < latenessSamples {
		p.counts.Lateness = append(p.counts.Lateness, late)
	} else {
		p.counts.Lateness[p.counts.Delivered%latenessSamples] = late
	}
	p.counts.Delivered++
}
