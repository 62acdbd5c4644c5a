// SPDX-License-Identifier: Apache-2.0

package temptcp

// A run: the network is built once, transfers are measured in rounds, relations are judged, all is written.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/experiment"
)

// Options are those of any experiment, and how much is measured.
type Options struct {
	experiment.Options
	Full bool // what the paper measured
}

// defaultEngine is measured where none is asked for.
const defaultEngine = "kernel"

// List describes the experiment.
func List() (experiment.Listed, error) {
	p, err := readParameters(parametersFile)
	if err != nil {
		return experiment.Listed{}, err
	}
	return experiment.Listed{Name: p.Name, Description: p.Description, Origin: p.Origin, Variants: []string{}}, nil
}

// run is one run.
type run struct {
	*experiment.Network
	p        *parameters
	plan     plan
	watch    *watch
	document *Document
	screen   *report.Screen
	ports    int // that servers have signalled
}

// Run measures, prints what was found, and writes it. The error says that it could not, or that packets were on other
// paths than their own; relations that are not reproduced are none.
func Run(ctx context.Context, o Options) error {
	p, err := readParameters(parametersFile)
	if err != nil {
		return err
	}
	plan := planOf(p, p.Default)
	if o.Full {
		plan = planOf(p, p.Full)
	}
	_, err = p.run(ctx, plan, o.Options)
	return err
}

func (p *parameters) run(ctx context.Context, plan plan, o experiment.Options) (*Document, error) {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	if o.Engine == "" {
		o.Engine = defaultEngine
	}
	if problems := testnet.PreflightFor(o.Engine); len(problems) > 0 {
		return nil, &lab.PreflightError{Purpose: "run the experiment", Problems: problems}
	}
	if _, err := experiment.Runs.RemoveLeftovers(false); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	began, before := time.Now(), report.TimeShareNow()
	d := &Document{
		Name: p.Name, Environment: report.EnvironmentOf(o.Version, began), Engine: o.Engine, Seed: p.Seed,
		Rounds: plan.Rounds,
		Lasts:  jsondoc.SecondsOf(plan.Lasts), CongestionControl: p.CongestionControl, Choices: []Choice{},
		RoundTrips: []RoundTrip{}, Transfers: []Transfer{}, Relations: []Verdict{}, Deviations: []string{},
	}
	r := &run{p: p, plan: plan, document: d, screen: report.NewScreen(o.Progress)}
	r.screen.Line("%s", d.Environment)
	err := r.inNetwork(ctx, o)
	d.Environment.StolenPercent = before.StolenPercent(report.TimeShareNow())
	d.Took = jsondoc.SecondsOf(time.Since(began))
	if err == nil {
		d.Relations = p.judge(d)
		r.print()
		err = d.deviated()
	}
	if err != nil {
		d.Error = err.Error()
	}
	return d, errors.Join(err, d.write(p, o))
}

// deviated is the error of packets on other paths than their own.
func (d *Document) deviated() error {
	if len(d.Deviations) == 0 {
		return nil
	}
	return fmt.Errorf("%d subflows were on other paths than their own; the first: %s", len(d.Deviations),
		d.Deviations[0])
}

// inNetwork builds the network, measures in it, and removes it.
func (r *run) inNetwork(ctx context.Context, o experiment.Options) (err error) {
	file, err := r.p.network()
	if err != nil {
		return err
	}
	if r.Network, err = experiment.NewNetwork(file); err != nil {
		return err
	}
	defer func() {
		lab.StopDaemons(r.Started)
		err = errors.Join(err, r.Close())
	}()
	building, cancel := context.WithTimeout(ctx, experiment.DefaultTimeout)
	defer cancel()
	if err = r.Build(building, &o); err == nil {
		err = r.measure(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return lab.ErrInterrupted
	case err != nil:
		return lab.WithLogs(err, r.Started)
	}
	return nil
}

func (r *run) measure(ctx context.Context) error {
	if err := r.prepareHosts(ctx); err != nil {
		return err
	}
	rtrs := map[string]*testnet.Namespace{}
	for _, site := range r.p.withRTR() {
		rtrs[site] = r.Nodes[rtrOf(site)]
	}
	var err error
	if r.watch, err = startWatch(rtrs, r.p.destinationEIDs()); err != nil {
		return err
	}
	err = r.rounds(ctx)
	r.document.WiresLate = r.wiresLate()
	return errors.Join(err, r.watch.stop())
}

func (r *run) rounds(ctx context.Context) error {
	if err := r.impair(r.p.draw(0)); err != nil {
		return err
	}
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	for round := range r.plan.Rounds {
		if err := r.round(ctx, round+1); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	for round := range r.plan.SweepRounds {
		if err := r.sweepRound(ctx, round+1); err != nil {
			return fmt.Errorf("sweep, round %d: %w", round+1, err)
		}
	}
	return nil
}

// round measures each arm once, those of each binding together: routers then read their configuration once.
func (r *run) round(ctx context.Context, round int) error {
	d := r.p.draw(round)
	if err := r.impair(d); err != nil {
		return err
	}
	r.note(d, round)
	bindings := r.plan.bindings()
	if round%2 == 0 {
		slices.Reverse(bindings)
	}
	for _, binding := range bindings {
		if err := r.bind(ctx, binding); err != nil {
			return err
		}
		for _, a := range r.plan.arms(binding) {
			if err := r.arm(ctx, a, round, nil); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
	}
	return nil
}

// note remembers what was drawn, and what `loci te choose` takes by it.
func (r *run) note(d drawn, round int) {
	for i, q := range r.p.Pairs {
		r.document.RoundTrips = append(r.document.RoundTrips,
			RoundTrip{Round: round, Between: q.Between, RTT: jsondoc.SecondsOf(d[i])})
	}
	for _, s := range r.plan.Sources {
		choices := r.p.choices(d, s, round)
		r.document.Choices = append(r.document.Choices, choices...)
		r.screen.Line("%s", choices[len(choices)-1].text())
	}
}

// drains is how long what was under way when a connection ended may take to arrive. Its host answers each packet by a
// RST; these use up what routers look at of one EID, and the handshake of the next connection between the same two EIDs
// would not be seen.
const drains = time.Second

// sweepRound measures two paths whose RTTs differ by more and more. All RTTs are the least ones that may be drawn but
// the last link of the second path.
func (r *run) sweepRound(ctx context.Context, round int) error {
	if err := r.bind(ctx, bindingStateless); err != nil {
		return err
	}
	s := r.p.source(r.p.Sweep.Source)
	for _, difference := range r.p.Sweep.Differences {
		if err := r.impair(r.p.apart(*s, difference)); err != nil {
			return err
		}
		for _, buffer := range r.plan.Buffers {
			// The transfer before was between the same EIDs.
			if err := lab.Sleep(ctx, drains); err != nil {
				return err
			}
			if err := r.arm(ctx, arm{*s, mode{modeStateless, 2}, buffer}, round, &difference); err != nil {
				return err
			}
		}
	}
	return nil
}

// apart are RTTs by which the second path of a source has so much more than the first.
func (p *parameters) apart(s source, difference time.Duration) drawn {
	d := make(drawn, len(p.Pairs))
	for i, q := range p.Pairs {
		d[i] = q.From
	}
	first, second := p.pathRTT(d, s.Site, s.Paths[0]), p.pathRTT(d, s.Site, s.Paths[1])
	for i, q := range p.Pairs {
		if slices.Contains(q.Between, s.Paths[1]) && slices.Contains(q.Between, p.Destination) {
			d[i] += first + difference - second
		}
	}
	return d
}

// impair has all links between sites be as drawn.
func (r *run) impair(d drawn) error {
	exchange := r.Emulated[len(r.Emulated)-1]
	for i, q := range r.p.Pairs {
		err := exchange.ImpairBoth(r.Nodes[r.p.meetingPoint(q.Between[0])],
			r.Nodes[r.p.meetingPoint(q.Between[1])],
			testnet.Impairment{Delay: d[i] / 2, Rate: q.Rate, Loss: q.Loss})
		if err != nil {
			return err
		}
	}
	return nil
}

// wiresLate is how late the latest packets of the worst direction were, at the 99th percentile.
func (r *run) wiresLate() jsondoc.Seconds {
	worst := time.Duration(0)
	exchange := r.Emulated[len(r.Emulated)-1]
	for _, a := range r.p.sites() {
		for _, b := range r.p.sites() {
			counts, err := exchange.Counts(r.Nodes[r.p.meetingPoint(a)], r.Nodes[r.p.meetingPoint(b)])
			if late := counts.Lateness; err == nil && len(late) > 0 { // an error: to itself
				worst = max(worst, late[len(late)*99/100])
			}
		}
	}
	return jsondoc.SecondsOf(worst)
}

// bind has the routers of all sources, and the destination's, bind subflows in that way.
func (r *run) bind(ctx context.Context, binding string) error {
	for _, site := range append(r.p.siteNames(), r.p.Destination) {
		path := r.Directory.Path(xtrOf(site) + ".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.NewReplacer("binding: "+bindingStateless, "binding: "+binding,
			"binding: "+bindingStateful, "binding: "+binding).Replace(string(text))
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			return err
		}
		if _, err := r.Daemons[xtrOf(site)].Client.Reload(ctx); err != nil {
			return fmt.Errorf("%s: %w", xtrOf(site), err)
		}
	}
	return nil
}

// siteNames are those of all sources.
func (p *parameters) siteNames() (all []string) {
	for _, s := range p.Sources {
		all = append(all, s.Site)
	}
	return all
}
