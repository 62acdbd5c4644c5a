// SPDX-License-Identifier: Apache-2.0

package daemon

// A process that runs the data plane alone.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"loci/config"
	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/dataplane/lispers"
	"loci/internal/version"
)

// noControlSocket says what a user of this process misses.
const noControlSocket = "this process has no control socket: loci status, show and reload ask the one with the control plane"

// runDataPlane runs the data plane alone, until the context ends.
func (d *daemon) runDataPlane(ctx context.Context, p plan.Plan) error {
	if err := d.supervisor.during(openingPlane, func() error { return d.openEngine(p) }); err != nil {
		return errors.Join(err, d.abandon())
	}
	for _, w := range append(trouble.Lines(p.Warnings), d.chosen.Load().missing...) {
		d.log.Warn(w)
	}
	d.log.Info(noControlSocket)
	var following sync.WaitGroup
	defer following.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	following.Go(func() { d.followRoutes(ctx) })
	following.Go(func() { d.routed.Run(ctx) })
	// The control plane that drives it by the mapping socket finds the interfaces and RLOCs set: before anything
	// that takes time. The server for lispers.net's sets them itself.
	l := p.Config.Datapath.Lispers
	if l == nil {
		if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...); err != nil {
			return errors.Join(fmt.Errorf("data plane: %w", err), d.release())
		}
	}
	d.nat.follow(p)
	d.nat.runIn(&following, ctx)
	if l != nil {
		return errors.Join(d.serveLispers(ctx, l, p), d.release())
	}
	d.log.Info("ready", "version", version.String, "planes", d.options.Planes, "mapping_socket", p.Config.Datapath.MappingSocket.Path)
	tellSupervisor("READY=1")
	d.ignoreHangups(ctx)
	tellSupervisor("STOPPING=1")
	d.log.Info("stopping")
	return d.release()
}

// ignoreHangups waits for the end. A supervisor that reloads all its processes must
// not end this one, which is told everything by the control plane.
func (d *daemon) ignoreHangups(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
			d.log.Info("the data plane alone reloads nothing: the control plane tells it everything; a change of mobile-node takes a restart")
		case <-ctx.Done():
			return
		}
	}
}

// withoutHandOver replaces hand-over by queueing: lispers.net's control plane takes no packets.
func withoutHandOver(s dataplane.Settings) dataplane.Settings {
	s = s.Clone()
	if s.MissPolicy == dataplane.MissHandOver {
		s.MissPolicy = dataplane.MissQueue
	}
	for instance, policy := range s.MissPolicies {
		if policy == dataplane.MissHandOver {
			s.MissPolicies[instance] = dataplane.MissQueue
		}
	}
	return s
}

// serveLispers lets the control plane of lispers.net drive the engine.
func (d *daemon) serveLispers(ctx context.Context, c *config.Lispers, p plan.Plan) error {
	options := lispers.ServerOptions{Directory: c.Directory, Settings: withoutHandOver(p.Settings), Log: d.log}
	if c.NoLocators != nil {
		options.NoLocators = *c.NoLocators
	}
	server, err := lispers.NewServer(d.plane, options)
	if err != nil {
		return err
	}
	d.log.Info("ready", "version", version.String, "planes", d.options.Planes, "lispers", c.Directory)
	tellSupervisor("READY=1")
	var hangups sync.WaitGroup
	hangups.Go(func() { d.ignoreHangups(ctx) })
	err = server.Serve(ctx)
	hangups.Wait()
	tellSupervisor("STOPPING=1")
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, server.Close())
}

// followRoutes brings rules and routes into line with the host until the context ends,
// where the data plane alone is this process's.
func (d *daemon) followRoutes(ctx context.Context) {
	news := hostnet.NewWatch(int(d.plan.Load().Config.Datapath.RouteProtocol), d.log)
	news.Prompt = func() bool { return d.InForce().IsMobile() }
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { news.Run(ctx) })
	for {
		select {
		case <-news.Urgent:
		case <-news.Settling:
			time.Sleep(hostSettleTime)
		case <-ctx.Done():
			return
		}
		view, err := hostnet.Look()
		if err == nil {
			news.WatchGateways(view)
			err = d.routed.FollowHost(view)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Error("policy routing", "error", err)
		}
	}
}
