// SPDX-License-Identifier: Apache-2.0

// `loci bench flood`: established traffic of one host while another host of the site sends each of its packets to an EID that no
// packet went to before. Each comes in by an interface of its own, as from two ports of a card; the rest of the network is that of
// `loci bench miss`, and the flood's EIDs are answered for, so that a packet costs the ITR all that a miss can cost.

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
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
	// floodLink is enc's interface to it.
	floodLink = "site2"
	// floodHost is the flooding host's place in the site's prefix.
	floodHost = 3
	// wantedKept is the part of its rate that established traffic must keep.
	wantedKept = 0.95

	armFlooded = "loci tc, flooded"
)

func floodBench() kind {
	a := lociTC
	a.build = buildFlood
	return kind{
		name: "flood", title: "established traffic while another host floods unknown EIDs", rounds: floodRounds, length: floodMeasure,
		arms: []arm{a}, prepare: prepareFlood, measure: measureFlood, judge: judgeFlood, cases: []string{"ipv4", "ipv6"},
	}
}

// buildFlood is buildMiss with a second site interface at enc.
func buildFlood(ctx context.Context, b *bench, l *line) error {
	flooder, err := b.network.Namespace(l.arm.key + "-flood")
	if err != nil {
		return err
	}
	ends := [2]testnet.End{{Namespace: flooder, Name: hostLink, MTU: linkMTUOctets}, {Namespace: l.enc, Name: floodLink, MTU: linkMTUOctets}}
	if err := testnet.Connect(ends[0], ends[1]); err != nil {
		return err
	}
	if err := errors.Join(l.enc.SetOffload(floodLink, testnet.GRO, true), buildMappingSystem(ctx, b, l)); err != nil {
		return err
	}
	if l.flood, err = newTraffic(trafficSizes{}); err != nil {
		return err
	}
	l.closers = append(l.closers, l.flood.objects.Close)
	l.flood.from = flooder
	_, err = b.startDaemon(ctx, l.enc, missITRConfig(siteLink, floodLink))
	return err
}

// prepareFlood adds a sink for what the ITR resolves of the flood.
func prepareFlood(b *bench, l *line) error {
	if err := prepareMiss(b, l); err != nil {
		return err
	}
	return errors.Join(keepDispatchedIn(l.flood.from, l.flood, &l.closers),
		l.attachTCX(l.dec, coreLink, l.flood.objects.BenchSinkTc, &l.closers))
}

// measureFlood measures both in a slot, alone first.
func measureFlood(ctx context.Context, b *bench, l *line, caseName string, slot time.Duration) ([]sample, error) {
	i := slices.IndexFunc(missFamilies, func(f missFamily) bool { return f.name == caseName })
	if i < 0 {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	f := &floodRun{missRun: missRun{bench: b, line: l, family: missFamilies[i]}, length: slot / floodShare}
	if err := f.establish(ctx); err != nil {
		return nil, err
	}
	alone, err := f.established(ctx)
	if err != nil {
		return nil, err
	}
	flooded, misses, err := f.flooded(ctx)
	if err != nil {
		return nil, err
	}
	b.screen.line("%s: %.0f packets/s alone, %.0f beside %.0f misses/s", caseName, alone.perSecond, flooded.perSecond, misses)
	b.report.add(caseName, armFlooded, append(flooded.samples(), sample{"flood", "misses/s", misses}))
	return alone.samples(), f.subside(ctx)
}

// floodRun is one slot.
type floodRun struct {
	missRun
	length time.Duration
}

// establish aims at one EID and has it resolved.
func (f *floodRun) establish(ctx context.Context) error {
	if err := f.aim(); err != nil {
		return err
	}
	f.line.traffic.settings.Destinations, f.line.traffic.settings.Record = 1, 0
	if err := f.line.traffic.reset(); err != nil {
		return err
	}
	f.bench.missed[f.family.name]++
	t := f.line.traffic
	if err := t.from.Do(func() error { return t.sendFrames(1, 1) }); err != nil {
		return err
	}
	if o, err := t.settleFor(ctx, maxOverrun); err != nil || o.lost() > 0 {
		return errors.Join(err, fmt.Errorf("%d first packets were lost", o.lost()))
	}
	return nil
}

// aimFlood has the flood go on with the EIDs that nothing was sent to yet.
func (f *floodRun) aimFlood() error {
	t, pair := f.line.flood, f.family.pair
	out, err := linkOf(t.from, hostLink)
	if err != nil {
		return err
	}
	next, err := linkOf(f.line.enc, floodLink)
	if err != nil {
		return err
	}
	t.streams++
	packet := innerPacket(nth(pair.sources, floodHost), f.family.first, floodMagic+t.streams)
	frame := append(append([]byte{}, next.HardwareAddr...), out.HardwareAddr...)
	frame = binary.BigEndian.AppendUint16(frame, etherType(pair.inner4()))
	t.expect(stream{pair: pair, flows: 1, destinations: missSlots}, packet, f.family.first)
	t.settings.Ifindex = uint32(out.Index)
	t.settings.FirstDestination += uint64(f.bench.missed[f.family.name])
	t.settings.SinkOffset = uint32(ethernetOctets + f.line.arm.outer(pair))
	t.settings.Ttl = uint32(sentTTL - f.line.arm.hops)
	t.send(append(frame, packet[:]...), ethernetOctets)
	return t.reset()
}

// arrived is what came of the established traffic.
type arrived struct{ perSecond, lost float64 }

func (a arrived) samples() []sample {
	return []sample{{"rate", "packets/s", a.perSecond}, {"lost", "packets", a.lost}}
}

// established sends at establishedRate.
func (f *floodRun) established(ctx context.Context) (arrived, error) {
	t := f.line.traffic
	if err := t.reset(); err != nil {
		return arrived{}, err
	}
	before, err := t.count()
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
	if err := t.from.Do(func() error { return onOneCore(func() error { return beforeProcesses(send) }) }); err != nil {
		return arrived{}, err
	}
	after, err := t.settleFor(ctx, missSettle)
	return arrived{float64(after.received-before.received) / elapsed.Seconds(), float64(after.lost())}, err
}

// beforeProcesses runs f in a thread that no process keeps from its core, as nothing keeps a card's packets from the router: what is
// measured is not how a generator fares that shares its machine with the router. Where that is not allowed, it competes.
func beforeProcesses(f func() error) error {
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	usual := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if unix.SchedSetAttr(0, first, 0) != nil {
		return f()
	}
	return errors.Join(f(), unix.SchedSetAttr(0, usual, 0))
}

// flooded is established while the flood goes on, and how many misses a second the flood was.
func (f *floodRun) flooded(ctx context.Context) (a arrived, misses float64, err error) {
	if err := f.aimFlood(); err != nil {
		return a, 0, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	t := f.line.flood
	p := &pacer{traffic: t, rate: floodRate, length: maxOverrun, interval: paceInterval, checked: maxOverrun}
	began, done := time.Now(), make(chan error, 1)
	go func() {
		done <- t.from.Do(func() error { return beforeProcesses(func() error { return p.run(flooding) }) })
	}()
	a, err = f.established(ctx)
	stop()
	if floodErr := <-done; !errors.Is(floodErr, context.Canceled) {
		err = errors.Join(err, floodErr)
	}
	elapsed := time.Since(began)
	sent, countErr := t.count()
	f.bench.missed[f.family.name] += uint32(sent.sent)
	return a, float64(sent.sent) / elapsed.Seconds(), errors.Join(err, countErr)
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

func judgeFlood(r *Report) {
	r.compare("rate", armFlooded, armTC)
	r.wantRatio("rate", armFlooded, armTC, atLeast(wantedKept))
}
