// SPDX-License-Identifier: Apache-2.0

package relay

// The cases, how they are measured, and what is wanted of them.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// length leaves the rest of three minutes for building twelve lines.
	length = 80 * time.Second
	rounds = 9

	tcpFlows  = 10
	manyFlows = 1000

	// Beginnings of the names of cases.
	casesTCP  = "tcp/"
	casesPath = "path/"

	// Weights of the cases in the measuring time.
	shareRate     = 1
	shareTCP      = 6
	sharePath     = 2
	shareBindings = 2
)

// twoPairs are one of each family.
var twoPairs = []testbed.Pair{testbed.Pairs[0], testbed.Pairs[3]}

// Bench is the bench of relays.
func Bench() testbed.Bench { return bench(bindingsOfEach) }

// bench has so many bindings of each family at the RTR.
func bench(bindings int) testbed.Bench {
	s := &state{bursts: testbed.Lossless{}, bindings: bindings}
	k := testbed.Bench{
		Name: "relay", Title: "packets per second and TCP through ITR, RTR and ETR in a line; the cost of a path of four hops, and of bindings",
		Rounds: rounds, Length: length, Arms: append(arms(), bindingArms(bindings)...), Has: has, Share: share,
		Attach: attach, Prepare: prepare, Measure: s.measure, Judge: judge,
	}
	for _, p := range testbed.Pairs {
		k.Cases = append(k.Cases, p.Name+"/1-flow", fmt.Sprintf("%s/%d-flows", p.Name, manyFlows))
	}
	for _, p := range twoPairs {
		k.Cases = append(k.Cases, casesTCP+p.Name)
	}
	for _, p := range twoPairs {
		k.Cases = append(k.Cases, casesPath+p.Name)
	}
	for _, p := range twoPairs {
		k.Cases = append(k.Cases, casesBindings+p.Name)
	}
	return k
}

// has says which arm measures which case.
func has(arm, caseName string) bool {
	switch {
	case strings.HasPrefix(caseName, casesBindings) || isRTRAlone(arm):
		return strings.HasPrefix(caseName, casesBindings) && isRTRAlone(arm)
	case strings.HasPrefix(caseName, casesPath):
		return arm == armAlone
	case strings.HasPrefix(caseName, casesTCP):
		return carriesTCP(arm)
	}
	return arm != armAlone
}

// carriesTCP leaves out XDP programs, which take no GSO packets.
func carriesTCP(arm string) bool {
	return arm == testbed.ArmRouting || arm == testbed.ArmVXLAN || arm == armTC
}

func share(caseName string) int {
	switch {
	case strings.HasPrefix(caseName, casesPath):
		return sharePath
	case strings.HasPrefix(caseName, casesBindings):
		return shareBindings
	case strings.HasPrefix(caseName, casesTCP):
		return shareTCP
	}
	return shareRate
}

// attach puts generator and sink to the ends of a line: to Src and Dst, or to Enc and Dec where Rel is alone.
func attach(l *testbed.Line) error {
	if l.Arm.Name == armAlone || isRTRAlone(l.Arm.Name) {
		return attachRTR(l)
	}
	return l.Attach()
}

// prepare lets Src learn the path MTU of each family before anything is measured, and proves once that what arrives is what was sent.
func prepare(_ *testbed.Run, l *testbed.Line) error {
	if !carriesTCP(l.Arm.Name) {
		return nil
	}
	for _, p := range twoPairs {
		transfer := transferOf(l, p)
		transfer.Octets, transfer.Verify = 4<<20, true
		if _, err := transfer.Run(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

func transferOf(l *testbed.Line, p testbed.Pair) testnet.TCP {
	return testnet.TCP{Client: l.Src, Server: l.Dst, Source: p.Source(), Destination: p.Destination()}
}

// state is what the rounds of a run know of each other.
type state struct {
	bursts   testbed.Lossless
	bindings int // of each family
}

func (s *state) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	p, err := pairOf(caseName)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(caseName, casesTCP):
		rate, err := testbed.Goodput(ctx, transferOf(l, p), tcpFlows, slot)
		return []report.Sample{report.Figure("goodput", "Mbit/s", rate/1e6)}, err
	case strings.HasPrefix(caseName, casesPath):
		return s.measureAlone(ctx, b, l, p, slot)
	case strings.HasPrefix(caseName, casesBindings):
		return s.measureBindings(ctx, l, p, slot)
	}
	stream := testbed.Stream{Pair: p, Flows: 1, Destinations: 1}
	if !strings.HasSuffix(caseName, "/1-flow") {
		stream.Flows = manyFlows
	}
	if err := l.Aim(stream); err != nil {
		return nil, err
	}
	return s.bursts.Measure(ctx, l.Traffic, l.Arm.Name+"/"+caseName, slot)
}

// pairOf is the pair of families that a case names.
func pairOf(caseName string) (testbed.Pair, error) {
	for _, p := range testbed.Pairs {
		if slices.Contains(strings.Split(caseName, "/"), p.Name) {
			return p, nil
		}
	}
	return testbed.Pair{}, fmt.Errorf("no case %q", caseName)
}

func judge(r *report.Report) {
	for _, base := range []string{testbed.ArmRouting, testbed.ArmRedirect, testbed.ArmVXLAN} {
		r.Compare("rate", armXDP, base)
		r.Compare("rate", armTC, base)
		r.Compare("goodput", armTC, base)
	}
	r.Compare(metricTime, armAlonePath, armAlone)
	r.WantRatio("rate", armXDP, testbed.ArmRouting, report.AtLeast(3))
	r.WantRatio("rate", armXDP, testbed.ArmRedirect, report.AtLeast(0.75))
	r.WantRatio("goodput", armTC, testbed.ArmRouting, report.AtLeast(0.95))
	r.WantRatio(metricTime, armAlonePath, armAlone, report.AtMost(1.1))
	judgeBindings(r)
}
