// SPDX-License-Identifier: Apache-2.0

package faults

// control-cut: two sites with two routers each, between which the core drops control messages (UDP port 4342) and
// carries data packets. No datagram may be lost, meanwhile and afterwards.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"loci/config"
	"loci/internal/testnet"
	"loci/lab"
)

// A Cut is a variant of control-cut.
type Cut struct {
	Name    string
	where   []string // places
	probing string
	lasts   time.Duration
	kill    string // the daemon that is killed meanwhile, and started again
	dead    string // the router whose provider drops all UDP half a second later
}

const (
	// cutLasts is how long control messages are dropped, cutLong how long where routers probe as seldom as by
	// default.
	cutLasts = 60 * time.Second
	cutLong  = 400 * time.Second
	// cutAfter is how long datagrams are watched afterwards.
	cutAfter = 60 * time.Second
	// settles is how long everything goes well before.
	settles = 10 * time.Second
	// killAfter is when a daemon is killed, restartAfter when it is started again.
	killAfter    = 20 * time.Second
	restartAfter = 2 * time.Second
	// deadAfter is when a provider dies. givesUp is how long its router's packets are lost then, with a doubt
	// that probing begins.
	deadAfter = 500 * time.Millisecond
	givesUp   = 20 * time.Second
)

// twoAndTwo is the network of control-cut.
var twoAndTwo = plan{2, 2}

// Cuts are all variants; the first is the usual one.
func Cuts() (list []Cut) {
	list = []Cut{
		{Name: "everywhere", where: []string{coreName}},
		{Name: "towards-site", where: []string{"xtr0 " + towards, "xtr0b " + towards}},
		{Name: "from-site", where: []string{"xtr0 " + from, "xtr0b " + from}},
		{Name: "provider", where: []string{"xtr0 " + both}},
	}
	for i := range list {
		list[i].probing, list[i].lasts = quickProbing, cutLasts
	}
	for _, c := range slices.Clone(list) {
		for _, daemon := range append(twoAndTwo.xtrNames(), msName) {
			killed := c
			killed.Name, killed.kill = c.Name+"-kill-"+daemon, daemon
			list = append(list, killed)
		}
	}
	dead := list[0]
	dead.Name, dead.dead = "everywhere-dead-provider", "xtr0"
	return append(list, dead, Cut{Name: "long", where: []string{coreName}, lasts: cutLong})
}

// CutReport is what came of a variant.
type CutReport struct {
	Cut    Cut
	Sent   int
	Lost   int // without an excuse
	Losses []Loss
	Wrong  []Wrong
	// Excused were lost because a provider was dead.
	Excused int
}

// Failed says what did not hold; nil: all did.
func (r *CutReport) Failed() error {
	var errs []error
	if r.Lost > 0 {
		errs = append(errs, fmt.Errorf("%s: %d of %d datagrams were lost", r.Cut.Name, r.Lost, r.Sent))
	}
	if len(r.Wrong) > 0 {
		errs = append(errs, fmt.Errorf("%s: %d datagrams arrived at another host, twice or changed", r.Cut.Name, len(r.Wrong)))
	}
	return errors.Join(errs...)
}

// RunCut runs one variant.
func RunCut(ctx context.Context, o Options, c Cut) (report *CutReport, err error) {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	if problems := testnet.PreflightFor(string(o.Engine)); len(problems) > 0 {
		return nil, &lab.PreflightError{Purpose: "cut control messages", Problems: problems}
	}
	if _, err := Runs.RemoveLeftovers(false); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	n, err := newNetwork(twoAndTwo, c.probing)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, network: n}
	err = n.during(ctx, func(ctx context.Context) (err error) {
		report, err = r.cut(ctx, c, settles, cutAfter)
		return err
	})
	return report, err
}

// cut drops control messages after a time, and watches what is sent until another time after the end.
func (r *run) cut(ctx context.Context, c Cut, before, after time.Duration) (report *CutReport, err error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.network.build(starting, r.options); err != nil {
		return nil, err
	}
	if r.traffic, err = newTraffic(r.network.at, len(r.network.plan)); err != nil {
		return nil, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	r.traffic.start(sending)
	defer func() { err = errors.Join(err, r.traffic.close()) }()
	if err := r.await(starting, 0); err != nil {
		return nil, fmt.Errorf("not all pairs of hosts reach each other: %w", err)
	}
	known := r.now()
	sleep(ctx, before)
	if err := r.dropDuring(ctx, c); err != nil {
		return nil, err
	}
	sleep(ctx, after)
	stop()
	r.traffic.sending.Wait()
	r.traffic.awaitQuiet()
	if err := errors.Join(r.network.alive(), ctx.Err()); err != nil {
		return nil, err
	}
	report = &CutReport{Cut: c, Wrong: r.traffic.allWrong()}
	report.Losses, report.Sent, report.Excused = losses(r.traffic.streams, known, r.excuses, r.report.Faults)
	for _, l := range report.Losses {
		report.Lost += l.Packets
	}
	return report, nil
}

// dropDuring drops control messages for as long as the variant says, and does meanwhile what else it says.
func (r *run) dropDuring(ctx context.Context, c Cut) error {
	core, begun := r.network.at[coreName], r.now()
	note := func(name, target string, from, to time.Duration) {
		r.report.Faults = append(r.report.Faults, Done{name, target, from, to})
	}
	r.say("%8.1fs  control messages are dropped: %s\n", begun.Seconds(), strings.Join(c.where, ", "))
	var rules []testnet.Drop
	for _, place := range c.where {
		rules = append(rules, drops(place, testnet.Drop{Port: controlPort})...)
	}
	if err := core.DropForwarded("control", rules...); err != nil {
		return err
	}
	note("control-dropped", strings.Join(c.where, ", "), begun, begun+c.lasts)
	if c.dead != "" {
		sleep(ctx, deadAfter)
		note("provider-dead", c.dead, r.now(), begun+c.lasts)
		if err := core.DropForwarded("provider", drops(c.dead+" "+both, testnet.Drop{})...); err != nil {
			return err
		}
		// What the other site sends there it cannot know to be lost.
		r.excuses = append(r.excuses, excuse{from: r.now() - inFlight, to: r.now() + givesUp, site: siteOf(c.dead)},
			excuse{from: r.now() - inFlight, to: begun + c.lasts + recovery, site: siteOf(c.dead), towardsOnly: true})
	}
	if c.kill != "" {
		sleep(ctx, min(killAfter, c.lasts/3))
		r.say("%8.1fs  kill %s\n", r.now().Seconds(), c.kill)
		note("kill", c.kill, r.now(), r.now()+restartAfter)
		if err := r.network.daemons[c.kill].Kill(); err != nil {
			return err
		}
		sleep(ctx, restartAfter)
		if err := r.network.launch(c.kill); err != nil { // it may get ready when control messages pass again
			return err
		}
	}
	sleep(ctx, begun+c.lasts-r.now())
	r.say("%8.1fs  control messages pass\n", r.now().Seconds())
	err := core.PassForwarded("control")
	if c.dead != "" {
		err = errors.Join(err, core.PassForwarded("provider"))
	}
	return err
}

// HasKill reports whether a daemon is killed meanwhile; one that forwards packets itself loses some then.
func (c Cut) HasKill() bool { return c.kill != "" }

// FindCuts finds variants by name; without a name it is the usual one, and "all" is each that an engine can pass.
func FindCuts(names []string, engine config.EngineChoice) (list []Cut, err error) {
	all := Cuts()
	if len(names) == 0 {
		return all[:1], nil
	}
	for _, name := range names {
		if name == "all" {
			return slices.DeleteFunc(all, func(c Cut) bool { return engine == config.EngineUser && c.HasKill() }), nil
		}
		i := slices.IndexFunc(all, func(c Cut) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("control-cut has no variant %q; loci lab list names them", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}
