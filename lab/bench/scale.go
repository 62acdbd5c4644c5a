// SPDX-License-Identifier: Apache-2.0

// `loci bench scale`: what an operator meets when there is much of something. Each case is measured with n and with 4n, and
// judged by the exponent: 1 is linear. A start with many local-eids, a start after most of them left the configuration,
// and `loci show` of a million mappings and registrations, beside traffic.

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

const (
	armScale = "loci"

	caseFresh         = "start/fresh"
	caseShrunk        = "start/shrunk"
	caseMapCache      = "show/map-cache"
	caseRegistrations = "show/registrations"

	scaleMeasure = 20 * time.Second
	// scaleStep is how many times more there is of everything in the second measurement.
	scaleStep = 4
	// scaleEIDs and scaleEntries are the second one's, scaleEIDsShort and scaleEntriesShort when the bench is told to be short.
	scaleEIDs, scaleEntries           = 10_000, 1_000_000
	scaleEIDsShort, scaleEntriesShort = 400, 20_000
	// scaleShrinks is how many times fewer EID-Prefixes there are after a Database shrank.
	scaleShrinks = 10
	// linear is the exponent that counts as linear: two measurements on a machine with other work are not exact.
	linear = 1.15
)

func scaleBench() kind {
	return kind{
		name: "scale", title: "starts with many local-eids, and lists of a million entries", rounds: 1, length: scaleMeasure,
		arms:    []arm{{name: armScale, key: "scale", build: func(context.Context, *bench, *line) error { return nil }}},
		cases:   []string{caseFresh, caseShrunk, caseMapCache, caseRegistrations},
		measure: measureScale, judge: judgeScale, share: scaleShare,
	}
}

// scaleShare gives all the time to the case that measures at fixed rates: the others take what they take.
func scaleShare(caseName string) int {
	if caseName == caseRegistrations {
		return 1
	}
	return 0
}

func measureScale(ctx context.Context, b *bench, l *line, caseName string, slot time.Duration) ([]sample, error) {
	eids, entries := scaleEIDs, scaleEntries
	if b.options.Measure < controlShort {
		eids, entries = scaleEIDsShort, scaleEntriesShort
	}
	switch caseName {
	case caseFresh, caseShrunk:
		return b.scaleStarts(ctx, l, eids, caseName == caseShrunk)
	case caseMapCache:
		return b.scaleMapCache(ctx, l, entries)
	}
	return b.scaleRegistrations(ctx, l, slot)
}

// scaleStarts times starts of an xTR with a fourth of the EID-Prefixes and with all, or those after all but a tenth of them
// left its configuration while it was down.
func (b *bench) scaleStarts(ctx context.Context, l *line, most int, shrunk bool) ([]sample, error) {
	var samples []sample
	var work []float64
	for _, eids := range []int{most / scaleStep, most} {
		if shrunk {
			if _, err := b.timedStart(ctx, l.dec, eids); err != nil {
				return nil, err
			}
		}
		s, err := b.timedStart(ctx, l.dec, eids/divisor(shrunk))
		if err != nil {
			return nil, err
		}
		if err := b.detach(l.dec); err != nil {
			return nil, err
		}
		of := fmt.Sprintf(", %d EID-Prefixes", eids)
		samples = append(samples, sample{"until ready" + of, "s", s.took.Seconds()},
			sample{"processor time" + of, "s", s.work.Seconds()}, sample{"policy rules" + of, "", float64(s.rules)})
		work = append(work, s.work.Seconds())
	}
	return append(samples, sample{"exponent of processor time", "", exponent(work[0], work[1])}), nil
}

func divisor(shrunk bool) int {
	if shrunk {
		return scaleShrinks
	}
	return 1
}

// exponent is e where scaleStep times as much takes scaleStep^e times as long.
func exponent(first, second float64) float64 {
	return math.Log(second/first) / math.Log(scaleStep)
}

// scaleStart is what a start took.
type scaleStart struct {
	took, work time.Duration
	rules      int // in force then
}

// timedStart starts an xTR and stops it again.
func (b *bench) timedStart(ctx context.Context, ns *testnet.Namespace, eids int) (s scaleStart, err error) {
	began := time.Now()
	p, err := b.startDaemon(ctx, ns, scaleSite(eids))
	if err != nil {
		return s, err
	}
	s.took = time.Since(began)
	if s.work, err = processorTime(p.cmd.Process.Pid); err != nil {
		return s, err
	}
	err = ns.Do(func() error {
		rules, err := netlink.RuleList(netlink.FAMILY_ALL)
		s.rules = len(rules)
		return err
	})
	return s, errors.Join(err, b.stop(p))
}

// stop ends a daemon, which leaves its data plane in force.
func (b *bench) stop(p *process) error {
	b.daemons = slices.DeleteFunc(b.daemons, func(d *process) bool { return d == p })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(readyWait):
		return errors.Join(fmt.Errorf("the daemon of %s does not stop", p.name), p.cmd.Process.Kill())
	}
}

// detach removes what the last daemon of a namespace left in force.
func (b *bench) detach(ns *testnet.Namespace) error {
	cmd := exec.Command(b.options.Executable, "datapath", "detach", "--config", b.instance.Path(ns.Role()+".yaml"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := ns.Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("detach: %w: %s", err, said.String())
	}
	return nil
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
	return fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [%s]\netr:\n  local-eids:\n%scontrol:\n", siteLink, coreLink, local.String())
}

func judgeScale(r *Report) {
	for _, w := range []struct {
		caseName, metric, name string
		bound                  bound
	}{
		{caseFresh, fmt.Sprintf("until ready, %d EID-Prefixes", scaleEIDs), "s of a start with 10,000 local-eids", atMost(3)},
		{caseFresh, "exponent of processor time", "exponent of a start in local-eids", atMost(linear)},
		{caseShrunk, fmt.Sprintf("until ready, %d EID-Prefixes", scaleEIDs), "s of a start with 1,000 local-eids after 10,000", atMost(3)},
		{caseShrunk, "exponent of processor time", "exponent of such a start", atMost(linear)},
		{caseMapCache, "exponent of the time", "exponent of a list of the map-cache", atMost(linear)},
		{caseMapCache, "more memory", "MB more for a list of the map-cache", atMost(100)},
		{caseMapCache, "one EID", "ms to show one EID of the map-cache", atMost(50)},
		{caseRegistrations, "exponent of the time", "exponent of a list of registrations", atMost(linear)},
		{caseRegistrations, "more memory", "MB more for a list of registrations", atMost(100)},
		{caseRegistrations, "one EID", "ms to show one EID of the registrations", atMost(50)},
		{caseRegistrations, "p99 of answers beside lists / without", "p99 of answers beside a list, as a multiple", atMost(1.25)},
	} {
		if found := r.find(w.caseName, armScale, w.metric); found != nil {
			r.want(w.name, found.Value, w.bound)
		}
	}
}
