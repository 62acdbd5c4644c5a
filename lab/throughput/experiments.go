// SPDX-License-Identifier: Apache-2.0

package throughput

// The experiments, and what is wanted of them.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lab/bench/user"
	"loci/lab/chart"
)

// Options are those of benches; Cases, Entries and Lengths are not used.
type Options struct {
	testbed.Options
	Directory string // for the drawing and the report; empty is none
}

// Experiment is one of them.
type Experiment struct {
	Name, Description, Origin string
	// PerCent is the share of one processor that each router has; 0 is no quota.
	PerCent int
	// paper is what the paper's text says of its figure.
	paper chart.Panel
	arms  []string
	judge func(r *report.Report, curves map[string]Curve)
}

// List returns them, by name.
func List() []Experiment {
	return []Experiment{
		{
			Name: "oor-openvpn", Description: "Carried against offered under a quota of processor time, beside OpenVPN without cipher",
			Origin: "OpenOverlayRouter, Figure 4", PerCent: 20, arms: []string{user.ArmOOR, user.ArmOpenVPN, user.ArmUser},
			paper: chart.Panel{Title: "The paper, Figure 4", Notes: []string{
				"A Nexus 7 (Android 4.3) and a Netgear WNDR3800", "(OpenWrt 12.09). In both cases", "OpenOverlayRouter outperforms OpenVPN.",
				"Both show a slight decrease", "in performance under high loads.", "The text has no figures."}},
			judge: func(r *report.Report, curves map[string]Curve) {
				r.Compare("knee", user.ArmOOR, user.ArmOpenVPN) // the paper's claim, about other versions on other machines
				wantFaster(r, curves, user.ArmUser, user.ArmOOR, 2)
				wantFaster(r, curves, user.ArmUser, user.ArmOpenVPN, 2)
			},
		},
		{
			Name: "oor-throughput", Description: "Carried against offered, packets of 1388 octets: linear, then flat",
			Origin: "OpenOverlayRouter, Figure 3", arms: []string{user.ArmOOR, user.ArmUser, user.ArmKernel},
			paper: chart.Panel{Title: "The paper, Figure 3", X: offeredAxis, Y: carriedAxis, Lines: []chart.Line{

				{Name: user.ArmOOR, Points: []chart.Point{{X: 0, Y: 0}, {X: 800, Y: 800}, {X: 1000, Y: 800}}},
				{Name: "OpenLISP (kernel)", Points: []chart.Point{{X: 0, Y: 0}, {X: 1000, Y: 1000}}}},
				Notes: []string{"Core 2, 3 GHz, a link of 1 Gbit/s. From the text:", "linear up to 800 Mbit/s, then flat;", "OpenLISP very close to the link."}},
			judge: func(r *report.Report, curves map[string]Curve) {
				wantFaster(r, curves, user.ArmUser, user.ArmOOR, 3)
				wantFaster(r, curves, user.ArmKernel, user.ArmOOR, 3)
				wantFlat(r, curves, user.ArmUser)
			},
		},
	}
}

// Find returns the one of a name.
func Find(name string) (Experiment, bool) {
	all := List()
	i := slices.IndexFunc(all, func(e Experiment) bool { return e.Name == name })
	if i < 0 {
		return Experiment{}, false
	}
	return all[i], true
}

const (
	casePeak  = "knee"
	caseCurve = "curve"
	// length is that of measuring; starting engines comes on top.
	length  = 90 * time.Second
	overrun = 10 * time.Minute
)

// ErrOtherwise says that something came out otherwise than expected.
var ErrOtherwise = errors.New("not everything came out as expected")

// Run runs an experiment: prints its figures, and draws them.
func (e Experiment) Run(ctx context.Context, options Options) error {
	s := &state{experiment: e, curves: map[string]Curve{}}
	k := testbed.Bench{
		Name: e.Name, Title: e.Description, Rounds: 1, Length: length, Overrun: overrun, Cases: []string{casePeak, caseCurve},
		Attach: (*testbed.Line).Attach, Measure: s.measure, Lacks: s.lacks, Judge: func(r *report.Report) { e.judge(r, s.curves) },
	}
	for _, engine := range user.Engines() {
		if slices.Contains(e.arms, engine.Name) {
			s.engines = append(s.engines, engine)
			k.Arms = append(k.Arms, engine.Arm())
		}
	}
	r, err := testbed.Measure(ctx, k, e.Name, options.Options)
	if err == nil && options.Directory != "" {
		err = s.write(options.Directory, r)
	}
	if err == nil && len(r.Missed()) > 0 {
		err = ErrOtherwise
	}
	return err
}

func (s *state) lacks(arms []string) []testnet.Problem {
	problems := user.Missing(s.engines)
	if s.experiment.PerCent > 0 {
		if _, err := processorGroups(); err != nil {
			problems = append(problems, testnet.Problem{What: err.Error(), Do: "mount a cgroup file system with the controller cpu, and let root make groups in it"})
		}
	}
	return problems
}

// wantFaster demands that one engine carries so many times what another does before packets are lost.
func wantFaster(r *report.Report, curves map[string]Curve, of, than string, times float64) {
	r.Want(fmt.Sprintf("knee of %s / %s", of, than), curves[of].Knee/max(curves[than].Knee, 1), report.AtLeast(times))
	if curves[than].Knee == 0 {
		r.LeaveOpen(than + " carries nothing here")
	}
}

// wantFlat demands that an engine goes on carrying most of what it did at its knee when somewhat more is offered.
// Where far more is, the generator takes one of the processors that the routers have.
func wantFlat(r *report.Report, curves map[string]Curve, of string) {
	c := curves[of]
	least := c.Knee
	for _, p := range c.Points {
		if p.Offered > c.Knee && p.Offered <= flatUntil*c.Knee {
			least = min(least, p.Carried)
		}
	}
	r.Want(fmt.Sprintf("%s: least carried up to twice the knee / at it", of), least/max(c.Knee, 1), report.AtLeast(flatShare))
}

const (
	// flatShare is how much of what is carried at the knee has to be carried beyond it, up to flatUntil times as
	// much.
	flatShare = 0.6
	flatUntil = 2
)
