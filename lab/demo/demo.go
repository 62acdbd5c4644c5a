// SPDX-License-Identifier: Apache-2.0

// Package demo is `loci demo`, which loci-lab runs: two LISP sites and a mapping system in network namespaces of this machine, with Loci's own
// daemons as processes and the kernel data plane, shown step by step from the first miss to TCP transfers.
//
// It runs no external program, mocks nothing, and leaves nothing behind: not when it is interrupted, and after a crash the
// next run removes what is left. It never touches interfaces, routes or rules of the machine itself.
//
// watch and moveWatch have a lock each, which guards what their captures have seen.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
)

// DefaultTimeout bounds everything but the removal of the network.
const DefaultTimeout = 45 * time.Second

var runs = lab.Runs{Parent: "/run/loci-demo", Prefix: "loci-demo"}

// Options of one run.
type Options struct {
	JSON    bool          // print one object to Out; the progress goes to Err
	Keep    bool          // leave the network up
	Remove  bool          // only remove what kept and crashed runs left
	PcapDir string        // leave a capture of the core's links there; empty is none
	Move    bool          // instead of all else, let a site move to another RLOC
	Engine  string        // datapath.engine of the xTRs
	Split   bool          // each xTR's planes as two processes, the control plane's without privileges
	Timeout time.Duration // of all but the removal; 0 is DefaultTimeout

	Out, Err   io.Writer
	Executable string // the command loci; the daemons are started from it
	Version    string // of loci, for the report
}

func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, DefaultTimeout) }

// Run runs the demo. The report is filled as far as the demo went. When ctx ends, what was made is removed before Run
// returns. With Options.JSON the report is also printed.
func Run(ctx context.Context, options Options) (Report, error) {
	progress := options.Out
	if options.JSON {
		progress = options.Err
	}
	if options.Remove {
		removed, err := removeAll(newScreen(progress, time.Now()))
		if options.JSON {
			err = errors.Join(err, jsondoc.Write(options.Out, map[string][]string{"removed": removed}))
		}
		return Report{}, err
	}
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	r := &run{options: options, screen: newScreen(progress, time.Now())}
	began := time.Now()
	err := r.perform(ctx)
	r.report.Took = jsondoc.SecondsOf(time.Since(began))
	r.report.finish(err)
	if options.JSON {
		err = errors.Join(err, r.report.print(options.Out))
	}
	return r.report, err
}

func removeAll(s *screen) (removed []string, err error) {
	names, err := lab.Remove(runs)
	removed = append([]string{}, names...) // in JSON a list, also when it is empty
	for _, name := range removed {
		s.line("removed %s", name)
	}
	if err == nil && len(removed) == 0 {
		s.line("there is no demo network to remove")
	}
	return removed, err
}

// run is the state of one demo.
type run struct {
	options Options
	screen  *screen
	report  Report

	instance *lab.Directory
	topology topology
	daemons  []*lab.Daemon // those with a control socket, the mapping system's first

	dataPlanes  []*lab.Daemon // of a split demo
	siteBConfig string        // the configuration of site B
	core        *coreCapture
}

// perform does everything from preflight to removal.
func (r *run) perform(ctx context.Context) error {
	r.report.begin(r.options.Version)
	if problems := testnet.PreflightFor(r.options.Engine); len(problems) > 0 {
		return &lab.PreflightError{Purpose: "run the demo", Problems: problems}
	}
	removed, err := runs.RemoveLeftovers(false)
	if err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	if len(removed) > 0 {
		r.screen.line("removed what an earlier run left: %s", strings.Join(removed, ", "))
	}
	limited, cancel := context.WithTimeout(ctx, r.options.timeout())
	defer cancel()
	err = r.steps(limited)
	err = errors.Join(err, r.core.stop())
	if err == nil && r.options.Keep {
		return r.keep()
	}
	return r.end(ctx, limited, err)
}

// end removes the network, whatever happened, and tells an interruption and a timeout from other failures.
func (r *run) end(ctx, limited context.Context, err error) error {
	removal := r.remove()
	switch {
	case removal != nil:
		return errors.Join(err, fmt.Errorf("remove the network (`loci demo --remove` tries again): %w", removal))
	case err == nil:
		r.screen.good("Everything worked; the network is removed.")
		return nil
	case ctx.Err() != nil:
		return lab.ErrInterrupted
	case limited.Err() != nil:
		return fmt.Errorf("not finished after %v: %w", r.options.timeout(), err)
	}
	return err
}

// steps in the order in which they are shown.
func (r *run) steps(ctx context.Context) error {
	steps := []func(context.Context) error{
		r.buildNetwork, r.startDaemons, r.awaitRegistrations, r.pingAllPairs, r.transferAllPairs, r.showMapCaches,
	}
	if r.options.Move {
		steps = r.moveSteps()
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return lab.WithLogs(err, r.processes())
		}
	}
	return nil
}

func (r *run) buildNetwork(context.Context) error {
	r.screen.step("The network: two sites, a core, a mapping system")
	network, err := testnet.New(runs.Prefix)
	if err != nil {
		return err
	}
	r.topology.network = network
	if r.instance, err = runs.NewDirectory(network.Name()); err != nil {
		return err
	}
	if err := r.topology.build(); err != nil {
		return err
	}
	fmt.Fprint(r.screen.out, picture+"\n")
	rows := [][]string{{"site", "EID-Prefix", "RLOC"}}
	for _, s := range sites {
		for pair, prefix := range s.eidPrefixes {
			rows = append(rows, []string{s.name, prefix.String(), s.rloc(pair).String()})
		}
	}
	r.screen.table(rows)
	r.screen.good("6 namespaces, all links with MTU %d; the core has no route to any EID", linkMTUOctets)
	return r.startPcap()
}

// remove ends the daemons and takes everything away, also what was made in part.
func (r *run) remove() error {
	lab.StopDaemons(r.processes())
	var all []error
	if r.topology.network != nil {
		all = append(all, r.topology.network.Close())
	}
	if r.instance != nil {
		all = append(all, r.instance.Remove())
	}
	return errors.Join(all...)
}

// keep leaves everything and tells what can be done with it.
func (r *run) keep() error {
	for _, mark := range []func() error{r.instance.Keep, r.topology.network.Keep} {
		if err := mark(); err != nil {
			return errors.Join(err, r.remove())
		}
	}
	if err := r.topology.network.Close(); err != nil {
		return err
	}
	name := r.topology.network.Name()
	r.report.Network = name
	r.screen.step("The network stays up")
	r.screen.line("in a namespace    ip netns exec %s-%s ping -I %s %s", name, siteA.host, siteA.eid(0), siteB.eid(0))
	r.screen.line("                  ip netns exec %s-core tcpdump -ni any udp port 4341 or udp port 4342", name)
	for _, d := range r.daemons {
		r.screen.line("%-17s %s show status --socket %s", d.Name, r.options.Executable, d.Socket)
	}
	r.screen.line("map-cache         %s show map-cache --socket %s", r.options.Executable, r.daemons[1].Socket)
	r.screen.line("configuration     %s", r.instance.Path("*.yaml"))
	r.screen.line("logs              %s", r.instance.Path("*.log"))
	self, err := os.Executable()
	r.screen.line("remove it         %s demo --remove", self)
	return err
}
