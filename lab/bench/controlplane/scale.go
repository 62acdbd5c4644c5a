// SPDX-License-Identifier: Apache-2.0

// `loci bench scale`: what an operator meets when there is much of something. Each case is measured with n and with 4n, and
// judged by the exponent: 1 is linear. A start with many local-eids, a start after most of them left the configuration,
// and lists of a million mappings and registrations, beside traffic, by the socket and by `loci show`.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	armScale = "loci"

	caseFresh         = "start/fresh"
	caseShrunk        = "start/shrunk"
	caseMapCache      = "show/map-cache"
	caseRegistrations = "show/registrations"

	scaleMeasure = 20 * time.Second
	// scaleOverrun has room for lists of a million by the command: a minute each on a busy machine.
	scaleOverrun = 8 * time.Minute
	// scaleEIDs and scaleEntries are the second one's, scaleEIDsShort and scaleEntriesShort when the bench is told to be short.
	scaleEIDs, scaleEntries           = 10_000, 1_000_000
	scaleEIDsShort, scaleEntriesShort = 400, 20_000
	// scaleShrinks is how many times fewer EID-Prefixes there are after a Database shrank.
	scaleShrinks = 10
	// linear is the exponent that counts as linear: two measurements on a machine with other work are not exact.
	linear = 1.15
)

// Scale is the bench of large configurations and tables.
func Scale() testbed.Bench {
	return testbed.Bench{
		Name: "scale", Title: "starts with many local-eids, and lists of a million entries",
		Rounds: 1, Length: scaleMeasure, Overrun: scaleOverrun,
		Arms:    []testbed.Arm{{Name: armScale, Key: "scale", Build: func(context.Context, *testbed.Run, *testbed.Line) error { return nil }}},
		Cases:   []string{caseFresh, caseShrunk, caseMapCache, caseRegistrations},
		Measure: measureScale, Judge: judgeScale, Share: scaleShare,
	}
}

// scaleShare gives all the time to the case that measures at fixed rates: the others take what they take.
func scaleShare(caseName string) int {
	if caseName == caseRegistrations {
		return 1
	}
	return 0
}

func measureScale(ctx context.Context, b *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	eids, entries := scaleEIDs, scaleEntries
	if b.Options.Measure < controlShort {
		eids, entries = scaleEIDsShort, scaleEntriesShort
	}
	switch caseName {
	case caseFresh, caseShrunk:
		return scaleStarts(ctx, b, l, eids, caseName == caseShrunk)
	case caseMapCache:
		return scaleMapCache(ctx, b, l, entries)
	}
	return scaleRegistrations(ctx, b, l, slot)
}

// scaleStarts times starts of an xTR with a fourth of the EID-Prefixes and with all, or those after all but a tenth of them
// left its configuration while it was down.
func scaleStarts(ctx context.Context, b *testbed.Run, l *testbed.Line, most int, shrunk bool) ([]report.Sample, error) {
	var samples []report.Sample
	var work []float64
	for _, eids := range []int{most / scaleStep, most} {
		if shrunk {
			if _, err := timedStart(ctx, b, l.Dec, eids); err != nil {
				return nil, err
			}
		}
		s, err := timedStart(ctx, b, l.Dec, eids/divisor(shrunk))
		if err != nil {
			return nil, err
		}
		if err := b.Detach(l.Dec); err != nil {
			return nil, err
		}
		of := fmt.Sprintf(", %d EID-Prefixes", eids)
		samples = append(samples, report.Figure("until ready"+of, "s", s.took.Seconds()),
			report.Figure("processor time"+of, "s", s.work.Seconds()), report.Figure("policy rules"+of, "", float64(s.rules)))
		work = append(work, s.work.Seconds())
	}
	return append(samples, report.Figure("exponent of processor time", "", exponent(work[0], work[1]))), nil
}

func divisor(shrunk bool) int {
	if shrunk {
		return scaleShrinks
	}
	return 1
}

// scaleStart is what a start took.
type scaleStart struct {
	took, work time.Duration
	rules      int // in force then
}

// timedStart starts an xTR and stops it again.
func timedStart(ctx context.Context, b *testbed.Run, ns *testnet.Namespace, eids int) (s scaleStart, err error) {
	began := time.Now()
	p, err := b.StartDaemon(ctx, ns, scaleSite(eids))
	if err != nil {
		return s, err
	}
	s.took = time.Since(began)
	if s.work, err = testbed.ProcessorTime(p.PID()); err != nil {
		return s, err
	}
	err = ns.Do(func() error {
		rules, err := netlink.RuleList(netlink.FAMILY_ALL)
		s.rules = len(rules)
		return err
	})
	return s, errors.Join(err, b.Stop(p))
}

// scaleSite is a site with so many EID-Prefixes, half of each family, that do not add up to larger ones.
func scaleSite(eids int) string {
	var local strings.Builder
	for i := range eids / 2 {
		at := 3 * i
		v4 := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + at>>16), byte(at >> 8), byte(at)}), 32)
		v6 := netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 1, byte(at >> 16), byte(at >> 8), byte(at)}), 64)
		fmt.Fprintf(&local, "    - {eid: %q}\n    - {eid: %q}\n", v4, v6)
	}
	return fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [%s]\netr:\n  local-eids:\n%scontrol:\n", testbed.SiteLink, testbed.CoreLink, local.String())
}

func judgeScale(r *report.Report) {
	for _, w := range []struct {
		caseName, metric, name string
		bound                  report.Bound
	}{
		{caseFresh, fmt.Sprintf("until ready, %d EID-Prefixes", scaleEIDs), "s of a start with 10,000 local-eids", report.AtMost(3)},
		{caseFresh, "exponent of processor time", "exponent of a start in local-eids", report.AtMost(linear)},
		{caseShrunk, fmt.Sprintf("until ready, %d EID-Prefixes", scaleEIDs), "s of a start with 1,000 local-eids after 10,000", report.AtMost(3)},
		{caseShrunk, "exponent of processor time", "exponent of such a start", report.AtMost(linear)},
		{caseMapCache, "exponent of the time", "exponent of a list of the map-cache", report.AtMost(linear)},
		{caseMapCache, "more memory", "MB more for a list of the map-cache", report.AtMost(100)},
		{caseMapCache, "one EID", "ms to show one EID of the map-cache", report.AtMost(50)},
		{caseMapCache, "processor time of a scrape", "ms of processor time for a scrape of the metrics", report.AtMost(10)},
		{caseRegistrations, "exponent of the time", "exponent of a list of registrations", report.AtMost(linear)},
		{caseRegistrations, "more memory", "MB more for a list of registrations", report.AtMost(100)},
		{caseRegistrations, "one EID", "ms to show one EID of the registrations", report.AtMost(50)},
		{caseRegistrations, metricCommand(scaleEntries), "s of loci show registrations", report.AtMost(10)},
		{caseRegistrations, metricRatio, "loci show registrations / --json", report.AtMost(1.5)},
		{caseRegistrations, metricFirstRow, "s to its first row", report.AtMost(0.2)},
		{caseRegistrations, metricPeak, "MB that it has at most", report.AtMost(64)},
		{caseRegistrations, "p99 of answers beside lists / without", "p99 of answers beside a list, as a multiple", report.AtMost(1.25)},
	} {
		if found := r.Find(w.caseName, armScale, w.metric); found != nil {
			r.Want(w.name, found.Value, w.bound)
		}
	}
}
