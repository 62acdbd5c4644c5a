// SPDX-License-Identifier: Apache-2.0

package subflows

// How long SYNs take through both routers, and how long it takes until a flow is bound.

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
	synInterval     = time.Millisecond
	bindingInterval = 20 * time.Millisecond // as first packets of misses come
	// bindingData segments follow a SYN, one each dataInterval: until one goes by the flow's path.
	bindingData  = 400
	dataInterval = 20 * time.Microsecond
	settles      = 20 * time.Millisecond // for packets under way
	// leastFlows are opened, however short the slot is. Half of them are bound to the locator in reserve.
	leastFlows = 12
)

// passage is when packets of flows passed, by their source port. Each capture writes one map, and both are read when it
// is stopped.
type passage struct {
	arrived  map[uint16]time.Time // a SYN
	moved    map[uint16]time.Time // the first packet to the locator in reserve
	reserve4 bool                 // that locator is of IPv4
	captures []*testnet.Running
}

// watch begins to capture the packets of a slot.
func (c *slot) watch() (*passage, error) {
	p := &passage{arrived: map[uint16]time.Time{}, moved: map[uint16]time.Time{}, reserve4: !c.pair.Outer4()}
	at := func(ns *testnet.Namespace, link string, take func(testnet.Captured)) error {
		given := testnet.Capture{Namespace: ns, Links: []string{link}, IncomingOnly: true}
		running, err := given.Start(func(c testnet.Captured) error {
			take(c)
			return nil
		})
		if err == nil {
			p.captures = append(p.captures, running)
		}
		return err
	}
	err := errors.Join(at(c.line.Enc, testbed.SiteLink, p.atEnc), at(c.line.Dec, testbed.CoreLink, p.atDec))
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *passage) atEnc(c testnet.Captured) {
	if s, ok := see(c.Data, false); ok && s.syn {
		p.arrived[s.port] = c.Time
	}
}

// atDec sees packets with the time of their arrival at Enc: the engine hands them over without a new one.
func (p *passage) atDec(c testnet.Captured) {
	s, ok := see(c.Data, true)
	if !ok || s.syn || s.outer4 != p.reserve4 {
		return
	}
	if _, before := p.moved[s.port]; !before {
		p.moved[s.port] = c.Time
	}
}

func (p *passage) stop() (err error) {
	for _, c := range p.captures {
		err = errors.Join(err, c.Stop())
	}
	return err
}

// times are how long after the SYNs the first packets to the locator in reserve came, in nanoseconds.
func (p *passage) times() (times []float64, err error) {
	for port, at := range p.moved {
		if began, known := p.arrived[port]; known {
			times = append(times, float64(at.Sub(began)))
		}
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("none of %d flows was seen to be bound", len(p.arrived))
	}
	return times, nil
}

// measureSYNs times SYNs of Multipath TCP and plain ones in turn: the kernel takes each through both routers before
// the call returns that sends it.
func (c *slot) measureSYNs(ctx context.Context) ([]report.Sample, error) {
	var plain, multipath []float64
	send := func(padded bool) (float64, error) {
		frame, err := segment{c.pair.Source(), c.pair.Destination(), c.state.nextPort(), capable,
			padded}.frame(c.out)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		err = c.out.send(frame)
		return float64(time.Since(began)), err
	}
	err := c.line.Src.Do(func() error {
		return testbed.OnOneCore(func() error {
			return testbed.BeforeProcesses(func() error {
				_, err := testbed.AtEach(ctx, synInterval, c.length, func(time.Duration) (bool, error) {
					padded := len(plain) <= len(multipath)
					took, err := send(padded)
					if padded {
						plain = append(plain, took)
					} else {
						multipath = append(multipath, took)
					}
					return true, err
				})
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	c.bench.Report.Add(c.name, armPlain, percentiles(plain, "us", time.Microsecond))
	return percentiles(multipath, "us", time.Microsecond), nil
}

// measureBindings opens flows that join sessions the ITR has not seen. It spreads them over both locators; those that
// it binds to the one in reserve show when their binding is in force, for without it they go to the other one.
func (c *slot) measureBindings(ctx context.Context) ([]report.Sample, error) {
	p, err := c.watch()
	if err != nil {
		return nil, err
	}
	err = c.line.Src.Do(func() error {
		length := max(c.length, leastFlows*bindingInterval)
		_, err := testbed.AtEach(ctx, bindingInterval, length, func(time.Duration) (bool, error) {
			return true, c.openFlow()
		})
		return err
	})
	testnet.SleepHere(settles)
	if err := errors.Join(err, p.stop()); err != nil {
		return nil, err
	}
	times, err := p.times()
	return percentiles(times, "ms", time.Millisecond), err
}

// openFlow sends a SYN and what follows it.
func (c *slot) openFlow() error {
	flow := segment{source: c.pair.Source(), destination: c.pair.Destination(), port: c.state.nextPort()}
	data, err := flow.frame(c.out)
	if err != nil {
		return err
	}
	flow.option = join
	syn, err := flow.frame(c.out)
	if err != nil {
		return err
	}
	return errors.Join(c.out.send(syn), sendPaced(c.out, data))
}

// sendPaced sends data segments, one each dataInterval, without leaving the processor.
func sendPaced(o *link, data []byte) error {
	due := time.Now()
	for range bindingData {
		for due = due.Add(dataInterval); time.Now().Before(due); {
		}
		if err := o.send(data); err != nil {
			return err
		}
	}
	return nil
}
