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
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

	// firstPacketInterval is that of the P4-LISP paper: 50 packets a second.
	firstPacketInterval = 20 * time.Millisecond
	// paceInterval is how often a sustained run sends what is due.
	paceInterval = 2 * time.Millisecond
	// holdTries are made at least, more while there is time, each at a lower rate, for the time that is left, and for that part of all
	// of it at least.
	holdTries    = 3
	shortestHold = 8
	// maxBehind is how far arrivals may fall behind: more is a backlog that grows, and would collapse.
	maxBehind      = 250 * time.Millisecond
	behindInterval = 50 * time.Millisecond
	behindAllowed  = 100 // packets, beside what maxBehind allows
	// missSettle is how long packets that wait may take after the last one was sent: longer than a Map-Request's retry.
	missSettle = 2 * time.Second
	// missRecovery lets the buckets of the ITR's rate limits fill again: they hold what may be sent within a second.
	missRecovery = 1100 * time.Millisecond
	// maxRecoveries bounds the wait for an ITR that is behind.
	maxRecoveries = 5
	// missSlots bounds the packets of one run: 60 s at 30,000/s, and some.
	missSlots = 1 << 21
)

// missRates are tried, in parts of the wanted rate, until one is held. There is none beyond it: to find out that it cannot be held
// would take the time in which the wanted one can.
var missRates = []float64{1, 0.75, 0.5, 0.4, 0.25, 0.1, 0.05, 0.025}

// missFamily is one family of EIDs, both over IPv4 RLOCs.
type missFamily struct {
	name   string
	pair   testbed.Pair
	remote netip.Prefix // of the ETR's site; its last 22 bits at least are free
	first  netip.Addr   // destination of the first packet
}

var missFamilies = []missFamily{
	{"ipv4", testbed.Pairs[0], netip.MustParsePrefix("10.64.0.0/10"), netip.MustParseAddr("10.64.0.1")},
	{"ipv6", testbed.Pairs[2], netip.MustParsePrefix("2001:db8:f::/48"), netip.MustParseAddr("2001:db8:f::1")},
}

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

var (
	missEnc  = netip.MustParsePrefix("172.16.3.1/24")
	missMS   = netip.MustParsePrefix("172.16.3.2/24")
	missLink = "ms"
)

// missState is what the rounds of a run know of each other.
type missState struct {
	sent missCounts
	itr  *testbed.Process
}

// The echo servers beside the Map-Server: one that takes a datagram at a time, and one that takes many.
var (
	echoTrips = netip.AddrPortFrom(missMS.Addr(), 7)
	echoRate  = netip.AddrPortFrom(missMS.Addr(), 1007)
)

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

// buildMappingSystem hangs a Map-Server on enc, and puts the bench's ETR in the place of dec's daemon. It returns the
// namespace of the Map-Server.
func buildMappingSystem(ctx context.Context, b *testbed.Run, l *testbed.Line) (*testnet.Namespace, error) {
	ms, err := b.Network.Namespace(l.Arm.Key + "-ms")
	if err != nil {
		return nil, err
	}
	ends := [2]testnet.End{
		{Namespace: ms, Name: testbed.CoreLink, Addresses: []netip.Prefix{missMS}, MTU: testbed.LinkMTUOctets},
		{Namespace: l.Enc, Name: missLink, Addresses: []netip.Prefix{missEnc}, MTU: testbed.LinkMTUOctets},
	}
	err = errors.Join(testnet.Connect(ends[0], ends[1]),
		ms.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: missEnc.Addr()}),
		l.Dec.AddRoute(testnet.Route{Destination: missMS.Masked(), Via: testbed.Core4Enc.Addr()}))
	if err != nil {
		return nil, err
	}
	e, err := newETR(l.Dec, testbed.Core4Dec.Addr(), missMS.Addr())
	if err != nil {
		return nil, err
	}
	l.Closers = append(l.Closers, e.close)
	if _, err := b.StartDaemon(ctx, ms, e.mapServerConfig()); err != nil {
		return nil, err
	}
	return ms, e.register(ctx)
}

func missITRConfig(sites ...string) string {
	var local strings.Builder
	for _, p := range testbed.Pairs {
		fmt.Fprintf(&local, "    - {eid: %q, rlocs: [{address: %q}]}\n", p.Sources, testbed.Core4Enc.Addr())
	}
	return "interfaces:\n  site: [" + strings.Join(sites, ", ") + "]\n  core: [" + testbed.CoreLink + "]\n" +
		"itr:\n  map-resolvers: [" + missMS.Addr().String() + "]\netr:\n  local-eids:\n" + local.String() + "control:\n"
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
		if err := m.floorTrips(ctx, caseName, slot/tripsShare); err != nil {
			return nil, err
		}
		return m.firstPackets(ctx, slot-slot/tripsShare)
	}
	rate, err := m.floorRate(ctx, caseName, slot/floorShare)
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
	began := time.Now()
	for elapsed := time.Duration(0); elapsed < p.length && !p.behind; elapsed = time.Since(began) {
		// What was sent before is looked at first: nothing of this follows a packet that was just sent.
		if err := errors.Join(ctx.Err(), p.check(elapsed), p.sendDue(elapsed)); err != nil {
			return err
		}
		sleepHere(time.Until(began.Add(elapsed.Truncate(p.interval) + p.interval)))
	}
	return nil
}

// sleepHere sleeps in the calling thread. Go's own sleep would hand the thread's processor to others first and wake them for it, all in
// front of the packet that was just sent.
func sleepHere(length time.Duration) {
	if length <= 0 {
		return
	}
	wanted := unix.NsecToTimespec(length.Nanoseconds())
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &wanted, nil) // a signal ends it early: then nothing is due
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

// firstPackets times misses that come alone. The generator sleeps again before the packet goes on, which would else wait for it
// where both have one core.
func (m *missRun) firstPackets(ctx context.Context, slot time.Duration) ([]report.Sample, error) {
	if err := m.line.Traffic.ForgetStages(); err != nil {
		return nil, err
	}
	p := &pacer{traffic: m.line.Traffic, rate: 1 / firstPacketInterval.Seconds(), length: slot, interval: firstPacketInterval}
	o, err := m.offerBy(ctx, p, func() error { return beforeProcesses(func() error { return p.run(ctx) }) })
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
