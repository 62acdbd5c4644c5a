// SPDX-License-Identifier: Apache-2.0

// `loci bench latency`: how long one packet stays in one router, Enc or Dec alone (Figures 11 and 12 of the OpenLISP paper).
// The clock starts where tc hands the packet to the router's programs, and stops where tc has it on the next node: one
// router and one veth crossing, nothing of the generator. Packets come one at a time, each after the one before is through.

package forwarding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
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

var latencyPairs = []testbed.Pair{testbed.Pairs[0], testbed.Pairs[3]}

// Latency is the bench of the delay in one router.
func Latency() testbed.Bench {
	k := testbed.Bench{
		Name: "latency", Title: "delay of a packet in Enc and in Dec, one packet at a time",
		Rounds: latencyRounds, Length: latencyMeasure, Arms: []testbed.Arm{testbed.Routing, testbed.VXLAN, testbed.LociTC},
		Prepare: prepareLatency, Measure: measureLatency, Judge: judgeLatency,
	}
	for _, hop := range []string{hopEnc, hopDec} {
		for _, p := range latencyPairs {
			k.Cases = append(k.Cases, hop+"/"+p.Name)
		}
	}
	return k
}

// prepareLatency lets frames enter dec as well.
func prepareLatency(_ *testbed.Run, l *testbed.Line) error {
	t, err := testbed.NewTraffic(testbed.TrafficSizes{})
	if err != nil {
		return err
	}
	l.Traffic = t
	l.Closers = append(l.Closers, t.Close)
	return errors.Join(l.KeepDispatched(), l.Enc.SetOffload(testbed.SiteLink, testnet.GRO, true), l.Dec.SetOffload(testbed.CoreLink, testnet.GRO, true))
}

func measureLatency(ctx context.Context, _ *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) (samples []report.Sample, err error) {
	hop, pairName, _ := strings.Cut(caseName, "/")
	i := slices.IndexFunc(testbed.Pairs, func(p testbed.Pair) bool { return p.Name == pairName })
	if i < 0 {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	s := testbed.Stream{Pair: testbed.Pairs[i], Flows: 1, Destinations: 1}
	if err := l.Aim(s); err != nil {
		return nil, err
	}
	w := &watch{line: l}
	defer func() { err = errors.Join(err, w.end()) }()
	frame, err := w.atEnc(ctx, s, hop == hopDec)
	if err != nil {
		return nil, err
	}
	if hop == hopDec {
		if err := w.atDec(s, frame); err != nil {
			return nil, err
		}
	}
	return delaysOf(ctx, l.Traffic, slot)
}

// watch is the stamp and the sink of one slot.
type watch struct {
	line    *testbed.Line
	closers []func() error
}

// atEnc puts the stamp before enc's programs and the sink behind its core link. With capture it sends one packet, returns
// it as it left enc, and takes both away.
func (w *watch) atEnc(ctx context.Context, s testbed.Stream, capture bool) ([]byte, error) {
	l, t := w.line, w.line.Traffic
	t.Settings.StampOffset, t.Settings.SinkOffset = testbed.EthernetOctets, uint32(testbed.EthernetOctets+l.Arm.Outer(s.Pair))
	t.Settings.Ttl, t.Settings.Record = uint32(testbed.SentTTL-l.Arm.Hops), 1
	err := errors.Join(
		l.AttachTCX(l.Enc, testbed.SiteLink, t.Programs().BenchStamp, &w.closers), l.AttachTCX(l.Dec, testbed.CoreLink, t.Programs().BenchSinkTc, &w.closers))
	if err != nil || !capture {
		return nil, err
	}
	frame, err := t.CaptureOne(ctx)
	return frame, errors.Join(err, w.end())
}

// atDec makes enc send what it sent before, and watches dec.
func (w *watch) atDec(s testbed.Stream, frame []byte) error {
	l, t := w.line, w.line.Traffic
	core, err := testbed.LinkOf(l.Enc, testbed.CoreLink)
	if err != nil {
		return err
	}
	inner := testbed.EthernetOctets + l.Arm.Outer(s.Pair)
	t.From = l.Enc
	t.Settings.Ifindex = uint32(core.Index)
	t.Settings.StampOffset, t.Settings.SinkOffset = uint32(inner), testbed.EthernetOctets
	t.Settings.Ttl = uint32(testbed.SentTTL - 2*l.Arm.Hops)
	t.Settings.Checksum = testbed.HeaderSum([testbed.PacketOctets]byte(frame[inner:]))
	if inner > testbed.EthernetOctets {
		forgetOuterChecksum(frame, s.Pair)
	}
	t.Send(frame, inner)
	return errors.Join(
		l.AttachTCX(l.Dec, testbed.CoreLink, t.Programs().BenchStamp, &w.closers), l.AttachTCX(l.Dst, testbed.HostLink, t.Programs().BenchSinkTc, &w.closers))
}

// forgetOuterChecksum makes the outer UDP checksum zero, "none": a captured packet may be CHECKSUM_PARTIAL, left to a device.
func forgetOuterChecksum(frame []byte, p testbed.Pair) {
	at := testbed.EthernetOctets + testbed.IPv6Octets + 6
	if p.Outer4() {
		at = testbed.EthernetOctets + testbed.IPv4Octets + 6
	}
	frame[at], frame[at+1] = 0, 0
}

func (w *watch) end() error {
	var all []error
	for _, f := range w.closers {
		all = append(all, f())
	}
	w.closers = nil
	return errors.Join(all...)
}

// delaysOf times packets, one at a time.
func delaysOf(ctx context.Context, t *testbed.Traffic, slot time.Duration) ([]report.Sample, error) {
	o, err := t.Run(ctx, testbed.Limits{Length: slot, Frames: maxTimed, Burst: 1})
	if err != nil {
		return nil, err
	}
	if o.Lost() > 0 {
		return nil, fmt.Errorf("%d of %d packets were lost, one at a time", o.Lost(), o.Sent)
	}
	times, err := t.Times(o.Sent)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	return []report.Sample{
		report.Figure("p50", "ns", report.Percentile(times, 0.50)), report.Figure("p90", "ns", report.Percentile(times, 0.90)),
		report.Figure("p99", "ns", report.Percentile(times, 0.99)), report.Figure("p99.9", "ns", report.Percentile(times, 0.999)),
		report.Figure("packets", "packets", float64(len(times))),
	}, nil
}

func judgeLatency(r *report.Report) {
	for _, metric := range []string{"p50", "p99"} {
		r.Compare(metric, testbed.ArmTC, testbed.ArmRouting)
		r.Compare(metric, testbed.ArmTC, testbed.ArmVXLAN)
	}
	r.WantRatio("p50", testbed.ArmTC, testbed.ArmRouting, report.AtMost(1.00))
	r.WantRatio("p99", testbed.ArmTC, testbed.ArmRouting, report.AtMost(1.10))
}
