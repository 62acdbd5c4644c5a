// SPDX-License-Identifier: Apache-2.0

package daemon

// Reading the configuration again, while the daemon runs.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/answers"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/plan"
	"loci/daemon/trouble"
)

// load reads the file and makes a plan of it; it changes nothing.
func (d *daemon) load() (plan.Plan, error) {
	c, err := config.Load(d.options.ConfigFile)
	if err != nil {
		return plan.Plan{}, asMistake(err)
	}
	if err := c.NeedsResolver(); err != nil && d.options.Planes != PlanesData {
		return plan.Plan{}, asMistake(err)
	}
	made, _, err := d.planHere(c)
	return made, err
}

// reloadPatience is how long the answer to a reload waits for Map-Notifies.
const reloadPatience = 2 * time.Second

func (d *daemon) reloadOnHangup(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
			if _, err := d.reread(ctx); err != nil {
				d.log.Error("the configuration was not reloaded: nothing changed", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// reload is reread, and tells which Map-Servers did not acknowledge the changes.
func (d *daemon) reload(ctx context.Context) (api.Reload, error) {
	done, err := d.reread(ctx)
	if err != nil || len(done.Changes) == 0 {
		return done, err
	}
	patience, stop := context.WithTimeout(ctx, reloadPatience)
	defer stop()
	for registering := true; registering && patience.Err() == nil; {
		registering, err = eventloop.Ask(patience, d.loop, func(node *control.Node, _ time.Time) bool { return node.Registering() })
		if err == nil && registering {
			select {
			case <-time.After(reloadPatience / 40):
			case <-patience.Done():
			}
		}
	}
	list, err := eventloop.Ask(ctx, d.loop, func(node *control.Node, _ time.Time) []api.MapServer { return answers.MapServers(node) })
	for _, m := range list {
		if m.State == string(control.MapServerWaiting) || m.State == string(control.MapServerPartial) {
			done.MapServers = append(done.MapServers, m)
		}
	}
	return done, err
}

// reread reads the file again and applies the changes. A file with an error, or
// a change that needs a restart, changes nothing.
func (d *daemon) reread(ctx context.Context) (api.Reload, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	ctx = context.WithoutCancel(ctx) // who asked may leave, half a reload may not stay
	d.memory.Owned = nil             // whose an address is may be what was changed
	fresh, err := d.load()
	if err != nil {
		return api.Reload{}, err
	}
	current := d.plan.Load()
	changes := config.Diff(current.Config, fresh.Config)
	if err := errors.Join(plan.NeedsRestart(*current, fresh, d.madeFor), plan.CheckNewWaits(*current, fresh), checkOtherProcess(d.options.Planes, *current, fresh)); err != nil {
		return api.Reload{}, err
	}
	served, err := d.metrics.Prepare(fresh.Config.Metrics)
	if err != nil {
		return api.Reload{}, fmt.Errorf("%s: %w", d.options.ConfigFile, err)
	}
	if err := applyReload(ctx, d, *current, fresh); err != nil {
		served.Drop()
		return api.Reload{}, err
	}
	served.Make()
	d.setCurrent(fresh)
	d.nat.follow(fresh)
	d.logLevel.configure(fresh.Config.Logging.Level)
	warn(d.log, trouble.Lines(fresh.Warnings))
	d.replan.Set() // states of own RLOCs that are new
	done := api.Reload{Changes: []string{}}
	for _, change := range changes {
		done.Changes = append(done.Changes, change.String())
	}
	for _, line := range linesOf(changes) {
		d.log.Info("configuration changed", "change", line)
		d.events.Publish(api.Event{At: time.Now(), Kind: "configuration-changed", Detail: line})
	}
	return done, nil
}

// applyReload replaces the engine if the fresh plan chooses another, and applies the plan, or goes back to the current one.
func applyReload(ctx context.Context, d *daemon, current, fresh plan.Plan) error {
	if current.Config.Datapath.Engine == fresh.Config.Datapath.Engine {
		return d.apply(ctx, current, fresh)
	}
	if err := d.change(d.options.Engine, d.routed, fresh, d.log); err != nil {
		return err
	}
	if err := d.apply(ctx, current, fresh); err != nil {
		return errors.Join(err, d.change(d.options.Engine, d.routed, current, d.log))
	}
	return nil
}
