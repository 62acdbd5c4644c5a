// SPDX-License-Identifier: Apache-2.0

package user

// The cases, how they are measured, and what is wanted of them.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/misses"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// Kinds of cases, as their names begin.
const (
	kindTCP      = "tcp"
	kindTCP8     = "tcp-8" // flows
	kindUDP      = "udp"   // and the octets of a packet, behind a hyphen
	kindSegment  = "udp-segment"
	kindEcho     = "echo"
	kindFirst    = "first-packet"
	kindAllocate = "allocations"
)

const (
	// Name is that of the bench.
	Name   = "user"
	rounds = 3
	length = 3 * time.Minute
	// overrun is for the starts of engines: a dozen in each slot of the cases with UDP. After each,
	// OpenOverlayRouter forwards nothing for four seconds.
	overrun = 22 * time.Minute

	armUserITR   = "loci user, ITR"
	armKernelITR = "loci kernel, ITR"
)

// kinds and their weights in the measuring time.
var kinds = []struct {
	name  string
	share int
}{{kindTCP, 4}, {kindTCP8, 4}, {kindUDP + "-64", 8}, {kindUDP + "-1388", 8}, {kindSegment, 6}, {kindEcho, 2}, {kindFirst, 2}, {kindAllocate, 2}}

// state is what the rounds of a run know of each other.
type state struct {
	engines []*Engine
	itrs    map[string]*misses.FirstPackets // by arm
	rates   map[string]float64              // the latest, by arm and case
}

// Bench is the bench of the data plane in user space.
func Bench() testbed.Bench {
	s := &state{engines: Engines(), rates: map[string]float64{}, itrs: map[string]*misses.FirstPackets{
		armUserITR: misses.NewFirstPackets("user"), armKernelITR: misses.NewFirstPackets("kernel"),
	}}
	k := testbed.Bench{
		Name: Name, Title: "the data plane in user space beside a bare loop, other programs in user space, and the kernel",
		Rounds: rounds, Length: length, Overrun: overrun, Has: s.has, Share: share,
		Attach: s.attach, Prepare: s.prepare, Measure: s.measure, Judge: judge, Lacks: s.lacks,
	}
	for _, e := range s.engines {
		k.Arms = append(k.Arms, e.Arm())
	}
	k.Arms = append(k.Arms, s.itrs[armUserITR].Arm(armUserITR, "uitr"), s.itrs[armKernelITR].Arm(armKernelITR, "kitr"))
	for _, kind := range kinds {
		k.Cases = append(k.Cases, kind.name+"/ipv4", kind.name+"/ipv6")
	}
	return k
}

// engine is the one of an arm; nil for an ITR.
func (s *state) engine(arm string) *Engine {
	i := slices.IndexFunc(s.engines, func(e *Engine) bool { return e.Name == arm })
	if i < 0 {
		return nil
	}
	return s.engines[i]
}

// lacks is what this machine does not have for some arms.
func (s *state) lacks(arms []string) []testnet.Problem {
	return Missing(slices.DeleteFunc(slices.Clone(s.engines), func(e *Engine) bool { return !slices.Contains(arms, e.Name) }))
}

func (s *state) has(arm, caseName string) bool {
	kind, family, _ := strings.Cut(caseName, "/")
	e := s.engine(arm)
	switch {
	case kind == kindFirst || e == nil:
		return kind == kindFirst && e == nil
	case kind == kindAllocate:
		return arm == ArmUser
	case kind == kindTCP8 || arm == ArmUserPort:
		return (arm == ArmUser || arm == ArmUserPort) && (kind == kindTCP || kind == kindTCP8)
	}
	return e.carries(family)
}

func share(caseName string) int {
	for _, k := range kinds {
		if strings.HasPrefix(caseName, k.name+"/") {
			return k.share
		}
	}
	return 1
}

func (s *state) attach(l *testbed.Line) error {
	if s.itrs[l.Arm.Name] != nil {
		return nil
	}
	return l.Attach()
}

// prepare lets Src learn the path MTU of each family before anything is measured, and proves once that what arrives
// is what was sent.
func (s *state) prepare(b *testbed.Run, l *testbed.Line) error {
	if itr := s.itrs[l.Arm.Name]; itr != nil {
		return itr.Prepare(b, l)
	}
	for family, p := range pairs {
		if !s.engine(l.Arm.Name).carries(family) {
			continue
		}
		transfer := transferOf(l, p)
		transfer.Octets, transfer.Verify = 1<<20, true
		if _, err := transfer.Run(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", family, err)
		}
	}
	return nil
}

func transferOf(l *testbed.Line, p testbed.Pair) testnet.TCP {
	return testnet.TCP{Client: l.Src, Server: l.Dst, Source: p.Source(), Destination: p.Destination()}
}

func (s *state) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	kind, family, _ := strings.Cut(caseName, "/")
	p, known := pairs[family]
	if !known {
		return nil, fmt.Errorf("no case %q", caseName)
	}
	switch kind {
	case kindFirst:
		return s.itrs[l.Arm.Name].Measure(ctx, b, l, family, slot)
	case kindTCP, kindTCP8:
		flows := map[string]int{kindTCP: 1, kindTCP8: 8}[kind]
		rate, err := testbed.Goodput(ctx, transferOf(l, p), flows, slot)
		return []report.Sample{report.Figure("goodput", "Mbit/s", rate/1e6)}, err
	case kindEcho:
		return measureEcho(ctx, b, l, p, slot)
	case kindAllocate:
		return measureAllocations(ctx, b, l, p, slot)
	}
	return s.measureRate(ctx, b, l, caseName, slot)
}

func judge(r *report.Report) {
	others := []string{ArmRouting, ArmBare, ArmOOR, ArmOpenVPN, ArmWireGuard, ArmKernel}
	for _, metric := range []string{"goodput", "rate", "p50"} {
		for _, other := range others {
			r.Compare(metric, ArmUser, other)
		}
	}
	r.Compare("goodput", ArmUserPort, ArmUser)
	r.WantRatio("goodput", ArmUserPort, ArmUser, report.AtLeast(0.9))
	r.Compare("p50", armUserITR, armKernelITR)
	r.WantRatio("goodput", ArmUser, ArmOOR, report.AtLeast(8))
	r.WantRatio("goodput", ArmUser, ArmOpenVPN, report.AtLeast(5))
	r.WantRatio("goodput", ArmUser, ArmWireGuard, report.AtLeast(1.5))
	for _, kind := range []string{"udp-64/", "udp-1388/"} {
		r.WantRatioIn(kind, "rate", ArmUser, ArmOOR, report.AtLeast(3))
		r.WantRatioIn(kind, "rate", ArmUser, ArmBare, report.AtLeast(0.7))
	}
	r.WantRatio("p50", ArmUser, ArmBare, report.AtMost(1.5))
	r.WantRatio("p50", armUserITR, armKernelITR, report.AtMost(1.5))
	for family := range pairs {
		if found := r.Find(kindAllocate+"/"+family, ArmUser, metricAllocations); found != nil {
			r.Want(kindAllocate+"/"+family+": "+metricAllocations, found.Median, report.AtMost(allocationsAllowed))
		}
	}
}
