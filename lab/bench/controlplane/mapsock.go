// SPDX-License-Identifier: Apache-2.0

// `loci bench mapsock`: what a mapping socket carries. The data plane is `loci run --planes data` at enc, with the kernel's
// engine; writer, listeners and the client that dumps are this process, each with connections of its own. Packets of src make
// misses. No control plane runs but the bench.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/mapsock"
)

const (
	mapsockMeasure = 30 * time.Second

	// addsTogether share a datagram where adds are batched, and datagramsAhead of them may be unanswered.
	addsTogether   = 128
	datagramsAhead = 4
	// addsAhead may be unanswered of a writer that sends each in a datagram of its own but does not wait.
	addsAhead = 16
	// resolutionInterval is how often a packet misses while a dump runs.
	resolutionInterval = 5 * time.Millisecond
)

const (
	caseBatched      = "adds-batched/1-listener"
	caseOneByOne     = "adds-one-by-one/1-listener"
	caseOneByOneMany = "adds-one-by-one/64-listeners"
	caseEvent        = "event/1-listener"
	caseEventMany    = "event/64-listeners"
	caseDump         = "dump/1000000-mappings"

	// As above, with the data plane, writer and listener on one core.
	caseOneByOneCore = "adds-one-by-one/1-listener-one-core"
	caseEventCore    = "event/1-listener-one-core"
	// As above, by a writer that does not wait for each answer before the next add.
	caseOneByOneAhead = "adds-one-by-one/1-listener-ahead"
	// What the machine takes between two cores, without Loci.
	caseEcho = "bare-echo/2-cores"
	// Packets of a known mapping beside a listener that does not read, and without it.
	caseStopped = "forwarding/stopped-listener"
)

// Mapsock is the bench of mapping sockets.
func Mapsock() testbed.Bench {
	p, a := &mapsockPlane{next: 1}, testbed.LociTC
	a.Build = p.build
	return testbed.Bench{
		Name: "mapsock", Title: "mapping sockets: adds, events and dumps beside listeners",
		Rounds: 3, Length: mapsockMeasure, Arms: []testbed.Arm{a}, Measure: p.measure, Judge: judgeMapsock,
		Cases: []string{
			caseBatched, caseOneByOne, caseOneByOneCore, caseOneByOneAhead, caseOneByOneMany, caseEvent, caseEventCore, caseEventMany, caseStopped, caseEcho, caseDump,
		},
	}
}

func (p *mapsockPlane) measure(ctx context.Context, _ *testbed.Run, _ *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	listeners := 1
	if strings.HasSuffix(caseName, "/64-listeners") {
		listeners = manyListeners
	}
	switch caseName {
	case caseBatched:
		return p.measureAdds(ctx, listeners, adding{addsTogether, datagramsAhead}, slot)
	case caseOneByOne, caseOneByOneMany:
		return p.measureAdds(ctx, listeners, adding{1, 1}, slot)
	case caseOneByOneAhead:
		return p.measureAdds(ctx, listeners, adding{1, addsAhead}, slot)
	case caseOneByOneCore:
		return p.sharingCore(func() ([]report.Sample, error) { return p.measureAdds(ctx, listeners, adding{1, 1}, slot) })
	case caseEvent, caseEventMany:
		return p.measureEvents(ctx, listeners, slot)
	case caseEventCore:
		return p.sharingCore(func() ([]report.Sample, error) { return p.measureEvents(ctx, listeners, slot) })
	case caseStopped:
		return p.measureStopped(ctx, slot)
	case caseEcho:
		return measureEcho(ctx, slot)
	}
	return p.measureDump(ctx)
}

// adding is how a writer adds: so many in a datagram, and so many datagrams unanswered.
type adding struct{ together, ahead int }

// measureAdds adds mappings for so long. The rate counts until every listener has heard of the last.
func (p *mapsockPlane) measureAdds(ctx context.Context, listeners int, by adding, slot time.Duration) ([]report.Sample, error) {
	heard, err := newAudience(p.socket, mapsock.HearOperations, listeners)
	if err != nil {
		return nil, err
	}
	defer heard.close()
	c, err := dialMapsock(p.socket)
	if err != nil {
		return nil, err
	}
	defer c.close()
	began := time.Now()
	added, ahead := 0, 0
	for time.Since(began) < slot && ctx.Err() == nil {
		if err := c.sendAdds(added, by.together); err != nil {
			return nil, err
		}
		added += by.together
		if ahead++; ahead == by.ahead {
			if err := c.await(by.together); err != nil {
				return nil, err
			}
			ahead--
		}
	}
	if err := c.await(ahead * by.together); err != nil {
		return nil, err
	}
	last, err := heard.await(ctx, int64(added*listeners))
	if err != nil {
		return nil, err
	}
	return []report.Sample{
		report.Figure("rate", "adds/s", float64(added)/last.Sub(began).Seconds()), report.Figure("lost by listeners", "messages", float64(heard.lost.Load())),
	}, ctx.Err()
}

// measureEvents lets packets miss, one after another, each when all have heard of the one before.
func (p *mapsockPlane) measureEvents(ctx context.Context, listeners int, slot time.Duration) ([]report.Sample, error) {
	heard, err := newAudience(p.socket, mapsock.HearEvents, listeners)
	if err != nil {
		return nil, err
	}
	defer heard.close()
	var delays []float64
	for began := time.Now(); time.Since(began) < slot && ctx.Err() == nil; {
		sent, err := p.miss()
		if err != nil {
			return nil, err
		}
		last, err := heard.await(ctx, int64((len(delays)+1)*listeners))
		if err != nil {
			return nil, err
		}
		delays = append(delays, float64(last.Sub(sent.at).Microseconds()))
	}
	slices.Sort(delays)
	return []report.Sample{
		report.Figure("p50 to the last", "µs", report.Percentile(delays, 0.5)), report.Figure("p99 to the last", "µs", report.Percentile(delays, 0.99)),
		report.Figure("lost by listeners", "messages", float64(heard.lost.Load())),
	}, ctx.Err()
}

// measureDump dumps a full table while packets miss and are resolved.
func (p *mapsockPlane) measureDump(ctx context.Context) ([]report.Sample, error) {
	if err := p.fill(ctx); err != nil {
		return nil, fmt.Errorf("filling the map-cache: %w", err)
	}
	resolver, err := dialMapsock(p.socket)
	if err != nil {
		return nil, err
	}
	defer resolver.close()
	if err := resolver.hear(mapsock.HearOwn | mapsock.HearEvents); err != nil {
		return nil, err
	}
	type dumped struct {
		took    time.Duration
		entries int
		err     error
	}
	done := make(chan dumped, 1)
	go func() {
		began := time.Now()
		entries, err := dumpAll(p.socket)
		done <- dumped{time.Since(began), entries, err}
	}()
	var delays []float64
	for {
		delay, err := p.resolve(resolver)
		if err != nil {
			return nil, errors.Join(err, (<-done).err)
		}
		delays = append(delays, float64(delay.Microseconds())/1e3)
		select {
		case d := <-done:
			if d.err == nil && d.entries < dumpedMappings {
				d.err = fmt.Errorf("a dump of %d entries, want %d", d.entries, dumpedMappings)
			}
			slices.Sort(delays)
			return []report.Sample{
				report.Figure("time", "s", d.took.Seconds()), report.Figure("p99 of resolutions meanwhile", "ms", report.Percentile(delays, 0.99)),
			}, errors.Join(d.err, ctx.Err())
		case <-time.After(resolutionInterval):
		}
	}
}

// resolve lets a packet miss, answers the miss, and returns when the answer is in force.
func (p *mapsockPlane) resolve(c *mapConnection) (time.Duration, error) {
	sent, err := p.miss()
	if err != nil {
		return 0, err
	}
	for {
		m, err := c.next()
		switch {
		case err != nil:
			return 0, err
		case m.Flags&mapsock.FlagOwn != 0:
			return time.Since(sent.at), m.Err()
		case m.Type == mapsock.TypeMissEID && m.Prefix.EID().Addr() == sent.to:
			add := addOf(netip.PrefixFrom(sent.to, 32), testbed.Core4Dec.Addr())
			if err := c.send(&add); err != nil {
				return 0, err
			}
		}
	}
}

func (p *mapsockPlane) fill(ctx context.Context) error {
	if p.filled {
		return nil
	}
	c, err := dialMapsock(p.socket)
	if err != nil {
		return err
	}
	defer c.close()
	ahead := 0
	for filled := 0; filled < dumpedMappings; filled += addsTogether {
		if err := errors.Join(ctx.Err(), c.sendHosts(mapsockFilled, filled, addsTogether)); err != nil {
			return err
		}
		if ahead++; ahead > datagramsAhead {
			if err := c.await(addsTogether); err != nil {
				return err
			}
			ahead--
		}
	}
	p.filled = true
	return c.await(ahead * addsTogether)
}

func judgeMapsock(r *report.Report) {
	for _, t := range []struct {
		caseName, metric, name string
		report.Bound
	}{
		{caseBatched, "rate", "adds/s", report.AtLeast(100_000)},
		{caseOneByOne, "rate", "adds/s", report.AtLeast(20_000)}, {caseOneByOneCore, "rate", "adds/s", report.AtLeast(20_000)}, {caseOneByOneAhead, "rate", "adds/s", report.AtLeast(20_000)},
		{caseOneByOneMany, "rate", "adds/s", report.AtLeast(5_000)}, {caseOneByOneMany, "lost by listeners", "messages lost", report.AtMost(0)},
		{caseEvent, "p50 to the last", "p50 in µs", report.AtMost(100)}, {caseEventCore, "p50 to the last", "p50 in µs", report.AtMost(100)}, {caseEventMany, "p50 to the last", "p50 in µs", report.AtMost(1000)},
		{caseStopped, "forwarded beside it", "times as many packets", report.AtLeast(0.95)}, {caseStopped, "lost by the other listener", "messages lost by others", report.AtMost(0)},
		{caseDump, "time", "seconds", report.AtMost(3)}, {caseDump, "p99 of resolutions meanwhile", "p99 of resolutions in ms", report.AtMost(5)},
	} {
		if found := r.Find(t.caseName, testbed.ArmTC, t.metric); found != nil {
			r.Want(t.caseName+": "+t.name, found.Value, t.Bound)
		}
	}
}
