// SPDX-License-Identifier: Apache-2.0

// `loci bench latency`: how long one packet stays in one router, Enc or Dec alone (Figures 11 and 12 of the OpenLISP paper).
// The clock starts where tc hands the packet to the router's programs, and stops where tc has it on the next node: one
// router and one veth crossing, nothing of the generator. Packets come one at a time, each after the one before is through.

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"loci/internal/testnet"
)

// Routers that are measured, as cases begin.
const (
	hopEnc = "enc"
	hopDec = "dec"
)

// latencyMeasure is less than other benches take: programs are attached and detached in every slot.
const latencyMeasure = 28 * time.Second

// latencyRounds of some 10,000 packets each.
const latencyRounds = 10

// maxTimed is how many packets one run can time: the size of the map `slots`.
const maxTimed = 131072

var latencyPairs = []pair{pairs[0], pairs[3]}

func latencyBench() kind {
	k := kind{
		name: "latency", title: "delay of a packet in Enc and in Dec, one packet at a time",
		rounds: latencyRounds, length: latencyMeasure, arms: []arm{routing, vxlan, lociTC},
		prepare: prepareLatency, measure: measureLatency, judge: judgeLatency,
	}
	for _, hop := range []string{hopEnc, hopDec} {
		for _, p := range latencyPairs {
			k.cases = append(k.cases, hop+"/"+p.name)
		}
	}
	return k
}

// prepareLatency lets frames enter dec as well.
func prepareLatency(_ *bench, l *line) error {
	t, err := newTraffic(trafficSizes{})
	if err != nil {
		return err
	}
	l.traffic = t
	l.closers = append(l.closers, t.objects.Close)
	return errors.Join(l.keepDispatched(), l.enc.SetOffload(siteLink, testnet.GRO, true), l.dec.SetOffload(coreLink, testnet.GRO, true))
}

func measureLatency(ctx context.Context, _ *bench, l *line, caseName string, slot time.Duration) (samples []sample, err error) {
	hop, pairName, _ := strings.Cut(caseName, "/")
	i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == pairName })
	if i < 0 {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	s := stream{pair: pairs[i], flows: 1, destinations: 1}
	if err := l.aim(s); err != nil {
		return nil, err
	}
	frame, err := l.watchEnc(ctx, s, hop == hopDec)
	if err != nil {
		return nil, err
	}
	if hop == hopDec {
		if err := l.watchDec(s, frame); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, l.unwatch()) }()
	return l.delays(ctx, slot)
}

// watchEnc puts the stamp before enc's programs and the sink behind its core link. With capture it sends one packet, returns
// it as it left enc, and takes both away.
func (l *line) watchEnc(ctx context.Context, s stream, capture bool) ([]byte, error) {
	t := l.traffic
	t.settings.StampOffset, t.settings.SinkOffset = ethernetOctets, uint32(ethernetOctets+l.arm.outer(s.pair))
	t.settings.Ttl, t.settings.Record = uint32(sentTTL-l.arm.hops), 1
	err := errors.Join(
		l.attachTCX(l.enc, siteLink, t.objects.BenchStamp, &l.watching), l.attachTCX(l.dec, coreLink, t.objects.BenchSinkTc, &l.watching))
	if err != nil || !capture {
		return nil, err
	}
	frame, err := t.captureOne(ctx)
	return frame, errors.Join(err, l.unwatch())
}

// watchDec makes enc send what it sent before, and watches dec.
func (l *line) watchDec(s stream, frame []byte) error {
	t := l.traffic
	core, err := linkOf(l.enc, coreLink)
	if err != nil {
		return err
	}
	inner := ethernetOctets + l.arm.outer(s.pair)
	t.from = l.enc
	t.settings.Ifindex = uint32(core.Index)
	t.settings.StampOffset, t.settings.SinkOffset = uint32(inner), ethernetOctets
	t.settings.Ttl = uint32(sentTTL - 2*l.arm.hops)
	t.settings.Checksum = headerSum([packetOctets]byte(frame[inner:]))
	if inner > ethernetOctets {
		forgetOuterChecksum(frame, s.pair)
	}
	t.send(frame, inner)
	return errors.Join(
		l.attachTCX(l.dec, coreLink, t.objects.BenchStamp, &l.watching), l.attachTCX(l.dst, hostLink, t.objects.BenchSinkTc, &l.watching))
}

// forgetOuterChecksum makes the outer UDP checksum zero, "none": a captured one may be unfinished, left to a device.
func forgetOuterChecksum(frame []byte, p pair) {
	at := ethernetOctets + ipv6Octets + 6
	if p.outer4() {
		at = ethernetOctets + ipv4Octets + 6
	}
	frame[at], frame[at+1] = 0, 0
}

func (l *line) unwatch() error {
	var all []error
	for _, f := range l.watching {
		all = append(all, f())
	}
	l.watching = nil
	return errors.Join(all...)
}

// captureOne sends one packet and returns the frame that reached the sink.
func (t *traffic) captureOne(ctx context.Context) ([]byte, error) {
	t.settings.Capture = 1
	defer func() { t.settings.Capture = 0 }()
	if err := t.objects.CapturedLength.Set(uint32(0)); err != nil {
		return nil, err
	}
	if _, err := t.run(ctx, limits{frames: 1, burst: 1}); err != nil {
		return nil, err
	}
	var length uint32
	var frame [192]uint8
	if err := errors.Join(t.objects.CapturedLength.Get(&length), t.objects.Captured.Get(&frame)); err != nil {
		return nil, err
	}
	if length < ethernetOctets+packetOctets || int(length) > len(frame) {
		return nil, errors.New("the packet did not come out of enc")
	}
	return frame[:length], nil
}

// delays times packets, one at a time.
func (l *line) delays(ctx context.Context, slot time.Duration) ([]sample, error) {
	o, err := l.traffic.run(ctx, limits{length: slot, frames: maxTimed, burst: 1})
	if err != nil {
		return nil, err
	}
	if o.lost() > 0 {
		return nil, fmt.Errorf("%d of %d packets were lost, one at a time", o.lost(), o.sent)
	}
	times, err := l.traffic.times(o.sent)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	return []sample{
		{"p50", "ns", percentile(times, 0.50)}, {"p90", "ns", percentile(times, 0.90)},
		{"p99", "ns", percentile(times, 0.99)}, {"p99.9", "ns", percentile(times, 0.999)},
		{"packets", "packets", float64(len(times))},
	}, nil
}

// times returns the delays of the first n packets in nanoseconds; those that did not arrive are left out.
func (t *traffic) times(n uint64) ([]float64, error) {
	keys, slots := make([]uint32, n), make([]trafficBenchSlot, n)
	var cursor ebpf.MapBatchCursor
	got, err := t.objects.Slots.BatchLookup(&cursor, keys, slots, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("read the times: %w", err)
	}
	var all []float64
	for _, s := range slots[:got] {
		if s.DelayNs > 0 {
			all = append(all, float64(s.DelayNs))
		}
	}
	return all, nil
}

func judgeLatency(r *Report) {
	for _, metric := range []string{"p50", "p99"} {
		r.compare(metric, armTC, armRouting)
		r.compare(metric, armTC, armVXLAN)
	}
	r.wantRatio("p50", armTC, armRouting, atMost(1.00))
	r.wantRatio("p99", armTC, armRouting, atMost(1.10))
}
