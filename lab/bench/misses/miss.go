// SPDX-License-Identifier: Apache-2.0

// `loci bench miss`: a first packet through miss, Map-Request, Map-Reply, installation and sending. Every packet
// goes to an EID that no packet went to before, and its Map-Reply covers that EID alone.
//
// The clock starts when the packet is written at src and stops when it reaches dec encapsulated. The ITR and the
// Map-Server (which is the Map-Resolver too) are daemons of their own with the limits that ship; the ETR that answers is part
// of the bench (etr.go), because no site has that many mappings to register.

package misses

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// missMeasure has the wanted rate held for as long as is wanted of it, in all rounds together, in both families.
	missMeasure = 70 * time.Second
	missRounds  = 5

	missShareFirst     = 2
	missShareSustained = 5
	// tripsShare and floorShare are the parts of a slot in which the floors are measured.
	tripsShare = 3
	floorShare = 7

	// holdTries are made at least, more while there is time, each at a lower rate, for the time that is left, and for that part of all
	// of it at least.
	holdTries    = 3
	shortestHold = 8
	// missSettle is how long packets that wait may take after the last one was sent: longer than a Map-Request's retry.
	missSettle = 2 * time.Second
	// missRecovery lets the buckets of the ITR's rate limits fill again: they hold what may be sent within a second.
	missRecovery = 1100 * time.Millisecond
	// maxRecoveries bounds the wait for an ITR that is behind.
	maxRecoveries = 5
)

// missRates are tried, in parts of the wanted rate, until one is held. There is none beyond it: to find out that it cannot be held
// would take the time in which the wanted one can.
var missRates = []float64{1, 0.75, 0.5, 0.4, 0.25, 0.1, 0.05, 0.025}

// Miss is the bench of first packets.
func Miss() testbed.Bench {
	s, a := &missState{sent: missCounts{}}, testbed.LociTC
	a.Build = s.build
	return testbed.Bench{
		Name: "miss", Title: "first packets through miss, Map-Request, Map-Reply, installation and sending",
		Rounds: missRounds, Length: missMeasure, Arms: []testbed.Arm{a}, Prepare: prepareMiss, Measure: s.measure, Judge: judgeMiss, Share: missShare,
		Cases: []string{"first-packet/ipv4", "first-packet/ipv6", "sustained/ipv4", "sustained/ipv6"},
	}
}

// missShare is the weight of a case in the time of the bench.
func missShare(caseName string) int {
	if strings.HasPrefix(caseName, "first-packet/") {
		return missShareFirst
	}
	return missShareSustained
}

// missState is what the rounds of a run know of each other.
type missState struct {
	sent missCounts
	itr  *testbed.Process
}

// build makes a mapping system, an ITR at enc, and the echo servers.
func (s *missState) build(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	ms, err := buildMappingSystem(ctx, b, l)
	if err != nil {
		return err
	}
	if s.itr, err = b.StartDaemon(ctx, l.Enc, missITRConfig(testbed.SiteLink)); err != nil {
		return err
	}
	if _, err := b.StartEcho(ctx, ms, echoTrips, false); err != nil {
		return err
	}
	_, err = b.StartEcho(ctx, ms, echoRate, true)
	return err
}

func prepareMiss(_ *testbed.Run, l *testbed.Line) error {
	t, err := testbed.NewTraffic(testbed.TrafficSizes{Slots: missSlots, Stages: missStages})
	if err != nil {
		return err
	}
	l.Traffic = t
	l.Closers = append(l.Closers, t.Close)
	return errors.Join(l.KeepDispatched(), l.Enc.SetOffload(testbed.SiteLink, testnet.GRO, true),
		l.AttachTCX(l.Dec, testbed.CoreLink, t.Programs().BenchSinkTc, &l.Closers),
		l.AttachTCX(l.Dec, testbed.CoreLink, t.Programs().BenchAnswer, &l.Closers), attachStages(l))
}

// missCounts is how many EIDs were sent to so far, by family: no packet goes to one of them again.
type missCounts map[string]uint32

func (s *missState) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	kindName, familyName, _ := strings.Cut(caseName, "/")
	i := slices.IndexFunc(missFamilies, func(f missFamily) bool { return f.name == familyName })
	if i < 0 {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	m := &missRun{bench: b, line: l, family: missFamilies[i], sent: s.sent}
	if kindName == "first-packet" {
		if err := floorTrips(ctx, b, l.Enc, caseName, slot/tripsShare); err != nil {
			return nil, err
		}
		return m.firstPackets(ctx, slot-slot/tripsShare)
	}
	rate, err := floorRate(ctx, b, l.Enc, caseName, slot/floorShare)
	if err != nil {
		return nil, err
	}
	return m.sustained(ctx, s.itr, wantedRateShare*rate, slot-slot/floorShare)
}

// missRun is one slot of one case.
type missRun struct {
	bench  *testbed.Run
	line   *testbed.Line
	family missFamily
	sent   missCounts
}

// aim takes EIDs that nothing was sent to yet.
func (m *missRun) aim() error {
	t := m.line.Traffic
	s := testbed.Stream{Pair: m.family.pair, Flows: 1, Destinations: missSlots}
	if err := m.line.AimAt(s, m.family.first); err != nil {
		return err
	}
	t.Settings.FirstDestination += uint64(m.sent[m.family.name])
	t.Settings.SinkOffset = uint32(testbed.EthernetOctets + m.line.Arm.Outer(s.Pair))
	t.Settings.Ttl, t.Settings.Record = uint32(testbed.SentTTL-m.line.Arm.Hops), 1
	return t.Reset()
}

// missOutcome is what came of one rate.
type missOutcome struct {
	testbed.Outcome
	times []float64 // nanoseconds, sorted
	kept  bool      // nothing was lost, and nothing fell far behind
}

// offer sends so many packets a second for a while, waits for those that wait, and counts.
func (m *missRun) offer(ctx context.Context, rate float64, length, interval time.Duration) (o missOutcome, err error) {
	p := &pacer{traffic: m.line.Traffic, rate: rate, length: length, interval: interval}
	return m.offerBy(ctx, p, func() error { return p.run(ctx) })
}

// offerBy is offer with a pacer, and how to run it.
func (m *missRun) offerBy(ctx context.Context, p *pacer, run func() error) (o missOutcome, err error) {
	if err := m.aim(); err != nil {
		return o, err
	}
	t := p.traffic
	if err := t.From.Do(run); err != nil {
		return o, err
	}
	if o.Outcome, err = t.SettleFor(ctx, missSettle); err != nil {
		return o, err
	}
	m.sent[m.family.name] += uint32(o.Sent)
	o.times, err = t.Times(o.Sent)
	slices.Sort(o.times)
	o.kept = o.Lost() == 0 && !p.behind
	m.bench.Screen.Line("%s: %.0f misses/s for %v: %s", m.family.name, p.rate, p.length.Round(10*time.Millisecond), o.describe(p.behind))
	return o, err
}

func (o missOutcome) describe(behind bool) string {
	text := fmt.Sprintf("%d of %d arrived, the last after %.1f ms", o.Received, o.Sent, report.Percentile(o.times, 1)/1e6)
	if behind {
		text += ", given up because they fell behind"
	}
	return text
}

// firstPackets times misses that come alone. The generator sleeps again before the packet goes on, which would else wait for it
// where both have one core.
func (m *missRun) firstPackets(ctx context.Context, slot time.Duration) ([]report.Sample, error) {
	if err := m.line.Traffic.ForgetStages(); err != nil {
		return nil, err
	}
	p := &pacer{traffic: m.line.Traffic, rate: 1 / firstPacketInterval.Seconds(), length: slot, interval: firstPacketInterval}
	o, err := m.offerBy(ctx, p, func() error { return testbed.BeforeProcesses(func() error { return p.run(ctx) }) })
	if err != nil {
		return nil, err
	}
	times := o.times
	if len(times) == 0 {
		return nil, fmt.Errorf("none of %d first packets arrived", o.Sent)
	}
	stages, err := stageSamples(m.line.Traffic, o.Sent)
	if err != nil {
		return nil, err
	}
	const ms = 1e6
	return append([]report.Sample{
		report.Figure("p50", "ms", report.Percentile(times, 0.50)/ms), report.Figure("p90", "ms", report.Percentile(times, 0.90)/ms),
		report.Figure("p99", "ms", report.Percentile(times, 0.99)/ms), report.Figure("max", "ms", times[len(times)-1]/ms),
		report.Figure("lost", "packets", float64(o.Lost())), report.Figure("sent", "packets", float64(o.Sent)),
	}, stages...), nil
}

// recover gives rate limits and queues of the ITR the time to be as before a run: until it sends nothing any more.
func (m *missRun) recover(ctx context.Context, itr *testbed.Process) error {
	before := uint64(0)
	for range maxRecoveries {
		counters, err := itr.Client.Counters(ctx)
		if err != nil {
			return fmt.Errorf("counters of the ITR: %w", err)
		}
		sent := counters.Control["map_request_sent_total"]
		if sent == before && sent > 0 {
			return nil
		}
		before = sent
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(missRecovery):
		}
	}
	return nil
}

// sustained holds the wanted rate. When it cannot be held, the next lower one is, for the time that is left.
func (m *missRun) sustained(ctx context.Context, itr *testbed.Process, wanted float64, slot time.Duration) ([]report.Sample, error) {
	left, deadline := slot, time.Now().Add(slot)
	for i, part := range missRates {
		rate := math.Ceil(part * wanted)
		o, err := m.offer(ctx, rate, left, paceInterval)
		if err != nil {
			return nil, err
		}
		if o.kept {
			return []report.Sample{
				report.Figure("rate without loss", "misses/s", rate), report.Figure("held for", "s", left.Seconds()),
				report.Figure("p50", "ms", report.Percentile(o.times, 0.50)/1e6), report.Figure("p99", "ms", report.Percentile(o.times, 0.99)/1e6),
				report.Figure("sent", "packets", float64(o.Sent)),
			}, nil
		}
		if err := m.recover(ctx, itr); err != nil {
			return nil, err
		}
		if left = time.Until(deadline); left <= 0 && i+1 >= holdTries {
			break
		}
		left = max(left, slot/shortestHold)
	}
	return []report.Sample{report.Figure("rate without loss", "misses/s", 0)}, nil
}
