// SPDX-License-Identifier: Apache-2.0

// `loci bench flood`: established traffic of one host while another host of the site sends each of its packets to an EID that no
// packet went to before. Each comes in by an interface of its own, as from two ports of a card; the rest of the network is that of
// `loci bench miss`, and the flood's EIDs are answered for, so that a packet costs the ITR all that a miss can cost.

package misses

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	floodMeasure = 30 * time.Second
	floodRounds  = 7

	// establishedRate is far less than enc can do, as is usual; the flood's is more than the ITR may ask for.
	establishedRate = 20000 // packets a second
	floodRate       = 50000 // misses a second

	// floodShare of a slot is measured, alone and again under the flood; the rest lets what waits come to its end.
	floodShare = 3
	// floodMagic and the number of the flood tell its packets from the others', and from those of an earlier one that come late.
	floodMagic = 1 << 15
	// floodHost is the flooding host's place in the site's prefix.
	floodHost = 3
	// wantedKept is the part of its rate that established traffic must keep.
	wantedKept = 0.95

	armFlooded = "loci tc, flooded"
)

// Flood is the bench of established traffic beside a flood of misses.
func Flood() testbed.Bench {
	f, a := &flood{sent: missCounts{}}, testbed.LociTC
	a.Build = f.build
	return testbed.Bench{
		Name: "flood", Title: "established traffic while another host floods unknown EIDs", Rounds: floodRounds, Length: floodMeasure,
		Arms: []testbed.Arm{a}, Prepare: f.prepare, Measure: f.measure, Judge: judgeFlood, Cases: []string{"ipv4", "ipv6"},
	}
}

// flood is the generator of unknown EIDs, from a link of its own.
type flood struct {
	traffic *testbed.Traffic
	sent    missCounts
}

// build is buildMiss with a second site interface at enc.
func (f *flood) build(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	if err := l.AddSecondHost(b.Network); err != nil {
		return err
	}
	if _, err := buildMappingSystem(ctx, b, l); err != nil {
		return err
	}
	traffic, err := testbed.NewTraffic(testbed.TrafficSizes{})
	if err != nil {
		return err
	}
	f.traffic = traffic
	l.Closers = append(l.Closers, f.traffic.Close)
	f.traffic.From = l.Second
	_, err = b.StartDaemon(ctx, l.Enc, missITRConfig(testbed.SiteLink, testbed.SecondSiteLink))
	return err
}

// prepare adds a sink for what the ITR resolves of the flood.
func (f *flood) prepare(b *testbed.Run, l *testbed.Line) error {
	if err := prepareMiss(b, l); err != nil {
		return err
	}
	return errors.Join(testbed.KeepDispatchedIn(f.traffic.From, f.traffic, &l.Closers),
		l.AttachTCX(l.Dec, testbed.CoreLink, f.traffic.Programs().BenchSinkTc, &l.Closers))
}

// measure measures both in a slot, alone first.
func (f *flood) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	i := slices.IndexFunc(missFamilies, func(f missFamily) bool { return f.name == caseName })
	if i < 0 {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	r := &floodRun{missRun: missRun{bench: b, line: l, family: missFamilies[i], sent: f.sent}, flood: f.traffic, length: slot / floodShare}
	if err := r.establish(ctx); err != nil {
		return nil, err
	}
	alone, err := r.established(ctx)
	if err != nil {
		return nil, err
	}
	flooded, misses, err := r.flooded(ctx)
	if err != nil {
		return nil, err
	}
	b.Screen.Line("%s: %.0f packets/s alone, %.0f beside %.0f misses/s", caseName, alone.perSecond, flooded.perSecond, misses)
	b.Report.Add(caseName, armFlooded, append(flooded.samples(), report.Figure("flood", "misses/s", misses)))
	return alone.samples(), r.subside(ctx)
}

// floodRun is one slot.
type floodRun struct {
	missRun
	flood  *testbed.Traffic
	length time.Duration
}

// establish aims at one EID and has it resolved.
func (f *floodRun) establish(ctx context.Context) error {
	if err := f.aim(); err != nil {
		return err
	}
	f.line.Traffic.Settings.Destinations, f.line.Traffic.Settings.Record = 1, 0
	if err := f.line.Traffic.Reset(); err != nil {
		return err
	}
	f.sent[f.family.name]++
	t := f.line.Traffic
	if err := t.From.Do(func() error { return t.SendFrames(1, 1) }); err != nil {
		return err
	}
	if o, err := t.SettleFor(ctx, testbed.MaxOverrun); err != nil || o.Lost() > 0 {
		return errors.Join(err, fmt.Errorf("%d first packets were lost", o.Lost()))
	}
	return nil
}

// aimFlood has the flood go on with the EIDs that nothing was sent to yet.
func (f *floodRun) aimFlood() error {
	t, pair := f.flood, f.family.pair
	out, err := testbed.LinkOf(t.From, testbed.HostLink)
	if err != nil {
		return err
	}
	next, err := testbed.LinkOf(f.line.Enc, testbed.SecondSiteLink)
	if err != nil {
		return err
	}
	t.Streams++
	packet := testbed.InnerPacket(testbed.Nth(pair.Sources, floodHost), f.family.first, floodMagic+t.Streams)
	frame := append(append([]byte{}, next.HardwareAddr...), out.HardwareAddr...)
	frame = binary.BigEndian.AppendUint16(frame, testbed.EtherType(pair.Inner4()))
	t.Expect(testbed.Stream{Pair: pair, Flows: 1, Destinations: missSlots}, packet, f.family.first)
	t.Settings.Ifindex = uint32(out.Index)
	t.Settings.FirstDestination += uint64(f.sent[f.family.name])
	t.Settings.SinkOffset = uint32(testbed.EthernetOctets + f.line.Arm.Outer(pair))
	t.Settings.Ttl = uint32(testbed.SentTTL - f.line.Arm.Hops)
	t.Send(append(frame, packet[:]...), testbed.EthernetOctets)
	return t.Reset()
}

// arrived is what came of the established traffic.
type arrived struct{ perSecond, lost float64 }

func (a arrived) samples() []report.Sample {
	return []report.Sample{report.Figure("rate", "packets/s", a.perSecond), report.Figure("lost", "packets", a.lost)}
}

// established sends at establishedRate.
func (f *floodRun) established(ctx context.Context) (arrived, error) {
	t := f.line.Traffic
	if err := t.Reset(); err != nil {
		return arrived{}, err
	}
	before, err := t.Count()
	if err != nil {
		return arrived{}, err
	}
	p := &pacer{traffic: t, rate: establishedRate, length: f.length, interval: paceInterval, checked: f.length}
	var elapsed time.Duration
	send := func() error {
		began := time.Now()
		err := p.run(ctx)
		elapsed = time.Since(began)
		return err
	}
	if err := t.From.Do(func() error { return testbed.OnOneCore(func() error { return testbed.BeforeProcesses(send) }) }); err != nil {
		return arrived{}, err
	}
	after, err := t.SettleFor(ctx, missSettle)
	return arrived{float64(after.Received-before.Received) / elapsed.Seconds(), float64(after.Lost())}, err
}

// flooded is established while the flood goes on, and how many misses a second the flood was.
func (f *floodRun) flooded(ctx context.Context) (a arrived, misses float64, err error) {
	if err := f.aimFlood(); err != nil {
		return a, 0, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	t := f.flood
	p := &pacer{traffic: t, rate: floodRate, length: testbed.MaxOverrun, interval: paceInterval, checked: testbed.MaxOverrun}
	began, done := time.Now(), make(chan error, 1)
	go func() {
		done <- t.From.Do(func() error { return testbed.BeforeProcesses(func() error { return p.run(flooding) }) })
	}()
	a, err = f.established(ctx)
	stop()
	if floodErr := <-done; !errors.Is(floodErr, context.Canceled) {
		err = errors.Join(err, floodErr)
	}
	elapsed := time.Since(began)
	sent, countErr := t.Count()
	f.sent[f.family.name] += uint32(sent.Sent)
	return a, float64(sent.Sent) / elapsed.Seconds(), errors.Join(err, countErr)
}

// subside waits for the flood to end in the ITR's queues as well.
func (f *floodRun) subside(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.length):
		return nil
	}
}

func judgeFlood(r *report.Report) {
	r.Compare("rate", armFlooded, testbed.ArmTC)
	r.WantRatio("rate", armFlooded, testbed.ArmTC, report.AtLeast(wantedKept))
}
