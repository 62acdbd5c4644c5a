// SPDX-License-Identifier: Apache-2.0

package daemon

// Following the host: when an address comes, an interface vanishes or a gateway changes, the
// plan is made anew and the changes are applied as after a reload: Database, registrations,
// SMRs, data plane, source routes. The configuration stays as it is.

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/trouble"
	"loci/internal/version"
)

const (
	// hostSettleTime gathers changes that come together, such as an address that is
	// replaced. An interface that goes down is acted upon at once.
	hostSettleTime = 20 * time.Millisecond
	// hostSettlePart: on a host where a look takes long, looking takes this part of the
	// time at most.
	hostSettlePart = 10
	// hostRetry is how long to wait after a change could not be applied.
	hostRetry = time.Second
	// hostLookInterval is how often the host is looked at in any case.
	hostLookInterval = 30 * time.Second
)

// planHere is the plan of a configuration on this host as it is now. again is when it
// should be made anew though nothing happens, zero for never. The caller holds
// reloading.
func (d *daemon) planHere(c *config.Config) (made plan.Plan, again time.Time, err error) {
	view, err := hostnet.Look()
	if err != nil {
		return plan.Plan{}, time.Time{}, err
	}
	host := d.memory.Recall(time.Now(), view, plan.InterfaceNames(c))
	host.Sibling = d.sibling()
	if rtrs := d.rtrs.Load(); rtrs != nil {
		host.RTRs = *rtrs
	}
	made, err = plan.Make(c, host)
	if err != nil {
		return plan.Plan{}, time.Time{}, err
	}
	changes, again := d.memory.States.Judge(view, made.OwnPaths(), time.Now())
	if down := d.memory.States.Down(); !maps.Equal(down, host.Down) {
		host.Down = down
		made, err = plan.Make(c, host)
	}
	for _, rule := range d.options.Engine.SkippedRules(c) {
		made.Warnings = append(made.Warnings, trouble.Trouble{Kind: trouble.FirewallBypassed, What: rule})
	}
	for _, key := range d.options.Engine.WithoutEffect(c) {
		made.Warnings = append(made.Warnings, trouble.Trouble{Kind: trouble.Configuration, What: key})
	}
	made.RLOCChanges, made.Own = changes, d.memory.OwnRLOCs(made.RLOCs, view)
	if current := d.InForce(); current != nil { // else start sees to it
		made = d.identity.give(made, *current, d.log)
	}
	return made, again, err
}

// followHost applies every change of the host until the context ends.
func (d *daemon) followHost(ctx context.Context, news *hostnet.Watch) {
	timer := time.NewTimer(hostLookInterval)
	defer timer.Stop()
	settle := hostSettleTime
	failing := lastingError{log: d.log, what: "a change of this host's interfaces is not applied", after: hostRetry}
	for {
		select {
		case <-news.Urgent:
		case <-d.replan:
		case <-timer.C:
		case <-news.Settling:
			select {
			case <-time.After(settle):
			case <-news.Urgent:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
		began := time.Now()
		again, err := d.followOnce(ctx, news)
		if ctx.Err() == nil {
			failing.tell(time.Now(), err)
		}
		if err != nil {
			again = time.Now().Add(hostRetry)
		}
		settle = max(hostSettleTime, hostSettlePart*time.Since(began))
		timer.Reset(untilNextLook(again))
	}
}

func untilNextLook(again time.Time) time.Duration {
	if again.IsZero() {
		return hostLookInterval
	}
	return min(max(time.Until(again), time.Millisecond), hostLookInterval)
}

// followOnce looks at the host and applies the changes.
func (d *daemon) followOnce(ctx context.Context, news *hostnet.Watch) (again time.Time, err error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	current := d.plan.Load()
	fresh, again, err := d.planHere(current.Config)
	if err != nil {
		return again, err
	}
	news.WatchGateways(fresh.Host.View)
	d.tellRLOCChanges(fresh.RLOCChanges)
	if fresh, err = d.applyFollowed(context.WithoutCancel(ctx), *current, fresh); err != nil {
		return again, err
	}
	d.setCurrent(fresh)
	d.nat.follow(fresh)
	d.tellWaits(*current, fresh)
	d.tellReadiness()
	if d.routed != nil {
		err = d.routed.FollowHost(fresh.Host.View)
	}
	d.trouble.look(fresh)
	d.Warnings() // notes since when each stands
	return again, err
}

// applyFollowed applies the changes, and returns the plan that is applied. While the own
// RLOCs are the same and only their states changed, the Node comes first: peers and
// siblings are told at once, and the data plane hears of forwarding by a sibling at the same time.
func (d *daemon) applyFollowed(ctx context.Context, current, fresh plan.Plan) (plan.Plan, error) {
	switch {
	case fresh.SameInForce(current):
		return fresh, nil
	case !slices.Equal(current.RLOCs, fresh.RLOCs):
		return fresh, d.apply(ctx, current, fresh)
	}
	if err := d.configureNode(ctx, fresh); err != nil {
		return fresh, err
	}
	// What the Node said meanwhile is carried out when the next question is answered.
	sibling, err := eventloop.Ask(ctx, d.loop, func(*control.Node, time.Time) netip.Addr { return d.sibling() })
	if err != nil {
		return fresh, err
	}
	if sibling != fresh.Host.Sibling {
		host := fresh.Host
		host.Sibling = sibling
		remade, err := plan.Make(fresh.Config, host)
		if err != nil {
			return fresh, err
		}
		remade.Own, remade.Warnings = fresh.Own, fresh.Warnings
		fresh = remade.WithXTRID(host.XTRID)
	}
	return fresh, d.applyPlane(fresh)
}

// sibling is the one that forwards the site's packets, zero for none.
func (d *daemon) sibling() netip.Addr {
	if to := d.forwardingSibling.Load(); to != nil {
		return *to
	}
	return netip.Addr{}
}

// tellRLOCChanges tells the operator of own RLOCs that came or went.
func (d *daemon) tellRLOCChanges(changes []hostnet.RLOCChange) {
	for _, c := range changes {
		kind := "own-rloc-down"
		if c.Up {
			kind = "own-rloc-up"
		}
		d.events.Publish(api.Event{At: c.ChangedAt, Kind: kind, RLOC: c.RLOC.String(), Reason: string(c.Reason)})
		d.log.Warn(kind, "rloc", c.RLOC, "reason", c.Reason)
	}
}

// tellWaits logs what the host does not have yet, once, and when it came.
func (d *daemon) tellWaits(current, fresh plan.Plan) {
	told := map[string]bool{}
	for _, w := range current.Waiting() {
		told[w] = true
	}
	for _, w := range fresh.Waiting() {
		if !told[w] {
			d.log.Warn(w)
		}
		delete(told, w)
	}
	for what := range told {
		d.log.Info("over: " + what)
	}
}

// tellReadiness says when there is something to work with, and what is awaited.
func (d *daemon) tellReadiness() {
	p := d.plan.Load()
	if !p.WaitsForRLOC() && !d.ready.Swap(true) {
		d.log.Info("ready", "version", version.String, "roles", p.Roles())
	}
	d.supervisor.state(p.State())
}

// setForwardingSibling notes which sibling forwards the site's packets; following the host applies it.
func (d *daemon) setForwardingSibling(to netip.Addr) {
	if to.IsValid() {
		d.forwardingSibling.Store(&to)
	} else {
		d.forwardingSibling.Store(nil)
	}
	d.replan.Set()
}

// Warnings are those about the configuration and about the host.
func (d *daemon) Warnings() []trouble.Trouble {
	warnings := slices.Concat(d.lostPlane(), d.plan.Load().Warnings, d.trouble.warnings())
	if d.routed != nil {
		for _, w := range d.routed.Warnings() {
			warnings = append(warnings, trouble.Trouble{Kind: trouble.RouteRefused, What: w})
		}
	}
	if d.nat != nil {
		warnings = append(warnings, d.nat.Trouble(time.Now())...)
	}
	for _, w := range d.pinWarnings() {
		warnings = append(warnings, trouble.Trouble{Kind: trouble.Pins, What: w})
	}
	if d.plan.Load().Settings.Subflows {
		warnings = append(warnings, flowTrouble(d.plane)...)
	}
	return d.trouble.since(time.Now(), warnings)
}
