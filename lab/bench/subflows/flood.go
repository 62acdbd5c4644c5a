// SPDX-License-Identifier: Apache-2.0

package subflows

// Flows that are bound, while another host of the site sends nothing but SYNs: those of Multipath TCP must take no more
// from them than plain ones do.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	floodRate   = 50000 // SYNs a second
	floodFrames = 4096  // from as many ports
	floodHost   = 3     // the flooding host's place in the site's prefix

	// boundFlows are open, from boundPort on. A host may open one each bindInterval.
	boundFlows   = 1000
	boundPort    = 10000
	bindInterval = 1500 * time.Microsecond
	bindWait     = 2 * time.Second
	boundRate    = 20000 // packets a second of all, far less than Enc can do
	sendPause    = time.Millisecond
)

// measureFlood measures bound flows beside a flood of plain SYNs, then beside one of Multipath TCP.
func (c *slot) measureFlood(ctx context.Context) ([]report.Sample, error) {
	bound, err := c.bind(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := c.flooded(ctx, bound, true)
	if err != nil {
		return nil, err
	}
	multipath, err := c.flooded(ctx, bound, false)
	if err != nil {
		return nil, err
	}
	c.bench.Report.Add(c.name, armPlainSYNs, plain)
	return multipath, c.allBound()
}

// bind opens flows, waits until they are bound, and returns what sends data segments of them in turn.
func (c *slot) bind(ctx context.Context) (*sender, error) {
	data := &sender{out: c.out, rate: boundRate}
	for i := range uint16(boundFlows) {
		s := segment{source: c.pair.Source(), destination: c.pair.Destination(), port: boundPort + i}
		frame, err := s.frame(c.out)
		if err != nil {
			return nil, err
		}
		data.frames = append(data.frames, frame)
		s.option = capable
		syn, err := s.frame(c.out)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if err := errors.Join(c.out.send(syn), c.out.send(frame)); err != nil {
			return nil, err
		}
		testnet.SleepHere(bindInterval)
	}
	for deadline := time.Now().Add(bindWait); ; testnet.SleepHere(testbed.PollInterval) {
		if err := c.allBound(); err == nil || time.Now().After(deadline) {
			return data, err
		}
	}
}

// allBound is an error where flows are not bound any more, or the engine has lost an event.
func (c *slot) allBound() error {
	ports, lost, err := c.bench.BoundAt(c.line.Enc, c.pair)
	if err != nil {
		return err
	}
	bound := 0
	for i := range uint16(boundFlows) {
		if ports[boundPort+i] {
			bound++
		}
	}
	if bound < boundFlows || lost > 0 {
		return fmt.Errorf("%d of %d flows are bound, %d events were lost", bound, boundFlows, lost)
	}
	return nil
}

// flooded is the rate of what arrives of the bound flows during a flood.
func (c *slot) flooded(ctx context.Context, bound *sender, padded bool) ([]report.Sample, error) {
	var arrived atomic.Uint64
	atDec := testnet.Capture{Namespace: c.line.Dec, Links: []string{testbed.CoreLink}, IncomingOnly: true}
	capture, err := atDec.Start(func(captured testnet.Captured) error {
		if s, ok := see(captured.Data, true); ok && !s.syn && s.port < lowestPort {
			arrived.Add(1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	flood, err := c.flood(padded)
	if err != nil {
		return nil, errors.Join(err, capture.Stop())
	}
	defer flood.out.close()
	go func() { done <- flood.send(flooding, testbed.MaxOverrun) }()
	err = bound.send(ctx, c.length/2)
	stop()
	if err = errors.Join(err, <-done, capture.Stop()); err != nil {
		return nil, err
	}
	if _, missed := capture.Packets(); missed > 0 {
		return nil, fmt.Errorf("the capture missed %d packets", missed)
	}
	return []report.Sample{
		report.Figure("rate", "packets/s", float64(arrived.Load())/bound.took.Seconds()),
		report.Figure("offered", "packets/s", bound.perSecond()),
		report.Figure("flood", "packets/s", flood.perSecond()),
	}, nil
}

// flood is what sends SYNs at floodRate.
func (c *slot) flood(padded bool) (*sender, error) {
	out, err := openLink(c.line.Second, c.line.Enc, testbed.SecondSiteLink)
	if err != nil {
		return nil, err
	}
	f := &sender{out: out, rate: floodRate, frames: make([][]byte, floodFrames)}
	for i := range f.frames {
		s := segment{testbed.Nth(c.pair.Sources, floodHost), c.pair.Destination(), lowestPort + uint16(i),
			capable, padded}
		if f.frames[i], err = s.frame(out); err != nil {
			out.close()
			return nil, err
		}
	}
	return f, nil
}

// sender sends frames in turn, at a rate.
type sender struct {
	out    *link
	frames [][]byte
	rate   float64 // frames a second

	sent uint64 // the last time
	took time.Duration
}

// send goes on for a while, or until its context ends.
func (s *sender) send(ctx context.Context, length time.Duration) error {
	s.sent = 0
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < length {
		for due := uint64(s.rate * time.Since(began).Seconds()); s.sent < due && ctx.Err() == nil; s.sent++ {
			if err := s.out.send(s.frames[s.sent%uint64(len(s.frames))]); err != nil {
				return fmt.Errorf("send a frame: %w", err)
			}
		}
		time.Sleep(sendPause)
	}
	s.took = time.Since(began)
	return nil
}

func (s *sender) perSecond() float64 { return float64(s.sent) / s.took.Seconds() }
