// SPDX-License-Identifier: Apache-2.0

// Package subflows is `loci bench subflows`: what it costs that an ITR reports the SYNs of Multipath TCP and binds
// their flows. The ITR binds without asking (`itr.mptcp`), to mappings of two locators.
package subflows

import (
	"context"
	"slices"
	"strings"
	"time"

	"loci/lab/bench/misses"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// Kinds of cases, as their names begin.
const (
	kindSYN     = "syn"
	kindBinding = "binding"
	kindFlood   = "flood"
)

const (
	// Name is that of the bench.
	Name   = "subflows"
	rounds = 7
	length = 60 * time.Second

	armMiss      = "first packet of a miss"
	armPlain     = "plain TCP SYN"
	armPlainSYNs = "flood of plain TCP SYNs"

	wantedSYN     = 1.1
	wantedBinding = 1.0
	wantedKept    = 0.95
)

// families of EIDs, both over IPv4 RLOCs.
var families = map[string]testbed.Pair{"ipv4": testbed.Pairs[0], "ipv6": testbed.Pairs[2]}

// state is what the rounds of a run know of each other.
type state struct {
	miss  *misses.FirstPackets
	ports uint16 // of sources, that flows have had
}

// Bench is the bench of subflows.
func Bench() testbed.Bench {
	s := &state{miss: misses.NewFirstPackets("kernel")}
	k := testbed.Bench{
		Name: Name, Title: "SYNs of Multipath TCP, and how soon their flows are bound",
		Rounds: rounds, Length: length,
		Arms:   []testbed.Arm{testbed.LociTCSubflows, s.miss.Arm(armMiss, "sfmis")},
		Attach: s.attach, Prepare: s.prepare, Measure: s.measure, Has: has, Judge: judge,
	}
	for _, kind := range []string{kindSYN, kindBinding, kindFlood} {
		k.Cases = append(k.Cases, kind+"/ipv4", kind+"/ipv6")
	}
	return k
}

func has(arm, caseName string) bool {
	return arm != armMiss || strings.HasPrefix(caseName, kindBinding+"/")
}

func (s *state) attach(l *testbed.Line) error {
	if l.Arm.Name == armMiss {
		return nil
	}
	return l.Attach()
}

// prepare keeps Dst from answering SYNs: it has no way back.
func (s *state) prepare(b *testbed.Run, l *testbed.Line) error {
	if l.Arm.Name == armMiss {
		return s.miss.Prepare(b, l)
	}
	return l.Silence()
}

// slot is one case in one round.
type slot struct {
	state  *state
	bench  *testbed.Run
	line   *testbed.Line
	name   string // of the case
	pair   testbed.Pair
	length time.Duration
	out    *link // of Src
}

func (s *state) measure(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string,
	length time.Duration) (samples []report.Sample, err error) {
	kind, family, _ := strings.Cut(caseName, "/")
	if l.Arm.Name == armMiss {
		return s.miss.Measure(ctx, b, l, family, length)
	}
	c := &slot{state: s, bench: b, line: l, name: caseName, pair: families[family], length: length}
	if c.out, err = openLink(l.Src, l.Enc, testbed.SiteLink); err != nil {
		return nil, err
	}
	defer c.out.close()
	switch kind {
	case kindSYN:
		return c.measureSYNs(ctx)
	case kindBinding:
		return c.measureBindings(ctx)
	}
	return c.measureFlood(ctx)
}

// nextPort is a source port that no flow had for long.
func (s *state) nextPort() uint16 {
	if s.ports++; s.ports < lowestPort {
		s.ports = lowestPort
	}
	return s.ports
}

// percentiles of times in nanoseconds, in a unit.
func percentiles(times []float64, name string, unit time.Duration) []report.Sample {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	return []report.Sample{
		report.Figure("p50", name, report.Percentile(times, 0.50)/float64(unit)),
		report.Figure("p99", name, report.Percentile(times, 0.99)/float64(unit)),
		report.Figure("packets", "packets", float64(len(times))),
	}
}

func judge(r *report.Report) {
	r.Compare("p50", testbed.ArmTCSubflows, armPlain)
	r.Compare("p50", testbed.ArmTCSubflows, armMiss)
	r.Compare("rate", testbed.ArmTCSubflows, armPlainSYNs)
	for family := range families {
		r.WantRatioIn(kindSYN+"/"+family, "p50", testbed.ArmTCSubflows, armPlain, report.AtMost(wantedSYN))
		r.WantRatioIn(kindBinding+"/"+family, "p50", testbed.ArmTCSubflows, armMiss,
			report.AtMost(wantedBinding))
		r.WantRatioIn(kindFlood+"/"+family, "rate", testbed.ArmTCSubflows, armPlainSYNs,
			report.AtLeast(wantedKept))
	}
}
