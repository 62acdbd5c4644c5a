// SPDX-License-Identifier: Apache-2.0

package daemon

// Following the host: when an address comes, an interface vanishes or a gateway changes,
// the plan is made anew and what differs is put in force, as after a reload: Database,
// registrations, SMRs, data plane, source routes. The configuration stays what it is.

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"loci/config"
	"loci/daemon/api"
	"loci/daemon/hostnet"
	"loci/internal/version"
)

const (
	// hostSettleTime gathers changes that come together, such as an address that is
	// replaced. An interface that goes down is acted upon at once.
	hostSettleTime = 20 * time.Millisecond
	// hostSettlePart: on a host where a look takes long, looking takes this part of the
	// time at most.
	hostSettlePart = 10
	// hostRetry is how long to wait after a change could not be put in force.
	hostRetry = time.Second
	// hostLookInterval is how often the host is looked at in any case.
	hostLookInterval = 30 * time.Second
)

// planHere is the plan of a configuration on this host as it is now. again is when it
// should be made anew though nothing happens, zero for never. The caller holds
// reloading.
func (d *daemon) planHere(c *config.Config) (made plan, again time.Time, err error) {
	view, err := hostnet.Look()
	if err != nil {
		return plan{}, time.Time{}, err
	}
	host := d.memory.Recall(view, interfaceNames(c))
	host.Detour = d.detourBy.Load() != nil
	made, err = makePlan(c, host)
	if err != nil {
		return plan{}, time.Time{}, err
	}
	changes, again := d.memory.States.Judge(view, made.ownPaths(), time.Now())
	if down := d.memory.States.Down(); !maps.Equal(down, host.Down) {
		host.Down = down
		made, err = makePlan(c, host)
	}
	made.host, made.rlocChanges, made.own = host, changes, d.memory.OwnRLOCs(made.rlocs, view)
	return made, again, err
}

// FollowHost puts every change of the host in force until the context ends.
func (d *daemon) followHost(ctx context.Context, news *hostnet.Watch) {
	timer := time.NewTimer(hostLookInterval)
	defer timer.Stop()
	settle := hostSettleTime
	trouble := lastingError{log: d.log, what: "a change of this host's interfaces is not in force"}
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
			trouble.tell(time.Now(), err)
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

// followOnce looks at the host and puts in force what differs.
func (d *daemon) followOnce(ctx context.Context, news *hostnet.Watch) (again time.Time, err error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	current := d.plan.Load()
	fresh, again, err := d.planHere(current.config)
	if err != nil {
		return again, err
	}
	news.WatchGateways(fresh.host.View)
	d.tellRLOCChanges(fresh.rlocChanges)
	if fresh, err = d.applyFollowed(context.WithoutCancel(ctx), *current, fresh); err != nil {
		return again, err
	}
	d.enforce(fresh)
	d.tellWaits(*current, fresh)
	d.tellReadiness()
	if d.routed != nil {
		err = d.routed.FollowHost(fresh.host.View)
	}
	d.lookForTrouble(fresh)
	return again, err
}

// applyFollowed puts in force what differs, and returns the plan that is. While the own
// RLOCs are the same and only their states changed, the Node comes first: peers and
// siblings are told at once, and the data plane hears of a detour in the same breath.
func (d *daemon) applyFollowed(ctx context.Context, current, fresh plan) (plan, error) {
	d.chooseSibling()
	switch {
	case fresh.sameInForce(current):
		return fresh, nil
	case !slices.Equal(current.rlocs, fresh.rlocs):
		return fresh, d.apply(ctx, current, fresh)
	}
	if err := d.configureNode(ctx, fresh); err != nil {
		return fresh, err
	}
	// What the Node said meanwhile is carried out when the next question is answered.
	detour, err := ask(ctx, d.loop, func(time.Time) bool { return d.detourBy.Load() != nil })
	if err != nil {
		return fresh, err
	}
	if detour != fresh.host.Detour {
		host := fresh.host
		host.Detour = detour
		remade, err := makePlan(fresh.config, host)
		if err != nil {
			return fresh, err
		}
		remade.host, remade.own = host, fresh.own
		fresh = remade
	}
	d.chooseSibling()
	return fresh, d.applyPlane(fresh)
}

// ChooseSibling tells policy routing by whom a detour goes.
func (d *daemon) chooseSibling() {
	if d.routed != nil {
		d.routed.ChooseSibling(d.detourBy.Load())
	}
}

// enforce notes the plan that is in force now. The caller holds reloading, or is alone.
func (d *daemon) enforce(p plan) {
	d.memory.Owned = p.rlocs
	if d.madeFor == 0 {
		d.madeFor = p.mappingLimit()
	}
	d.plan.Store(&p)
}

// sameInForce reports whether two plans of one configuration mean the same to the Node
// and to the data plane.
func (p plan) sameInForce(o plan) bool {
	return reflect.DeepEqual(p.control, o.control) && reflect.DeepEqual(p.settings, o.settings)
}

// tellRLOCChanges tells the operator of own RLOCs that came or went.
func (d *daemon) tellRLOCChanges(changes []hostnet.RLOCChange) {
	for _, c := range changes {
		kind := "own-rloc-down"
		if c.Up {
			kind = "own-rloc-up"
		}
		d.events.Publish(api.Event{At: c.ChangedAt, Kind: kind, Fields: map[string]string{"rloc": c.RLOC.String(), "detail": string(c.Reason)}})
		d.log.Warn(kind, "rloc", c.RLOC, "reason", c.Reason)
	}
}

// tellWaits logs what is waited for, once.
func (d *daemon) tellWaits(current, fresh plan) {
	told := map[string]bool{}
	for _, w := range current.waits {
		told[w.problem.Error()] = true
	}
	for _, w := range fresh.waits {
		if !told[w.problem.Error()] {
			d.log.Warn(w.problem.Error())
		}
		delete(told, w.problem.Error())
	}
	for what := range told {
		d.log.Info("over: " + what)
	}
}

// tellReadiness says when there is something to work with.
func (d *daemon) tellReadiness() {
	if d.ready.Load() || d.plan.Load().waitsForRLOC() {
		return
	}
	d.ready.Store(true)
	d.log.Info("ready", "version", version.String, "roles", roles(d.plan.Load().config))
	tellSupervisor("READY=1\nSTATUS=ready")
}

// checkNewWaits refuses a reload that names interfaces which are not there, unless the
// configuration in force named them as well, and one that would leave this router
// without an RLOC: those are mistakes more often than patience.
func checkNewWaits(current, fresh plan) error {
	named := interfaceNames(current.config)
	unreachable := len(current.settings.LocalRLOCs) > 0 && fresh.waitsForRLOC()
	var errs []error
	for _, w := range fresh.waits {
		if unreachable || w.link != "" && !slices.Contains(named, w.link) {
			errs = append(errs, w.problem)
		}
	}
	return errors.Join(errs...)
}

// interfaceNames are the interfaces that a configuration refers to by name.
func interfaceNames(c *config.Config) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, s := range c.Interfaces.Site {
		add(s.Interface.Name)
	}
	for _, r := range c.Interfaces.Core {
		add(r.Interface.Name)
	}
	for _, set := range c.LocatorSets {
		for _, l := range set {
			add(l.Interface)
		}
	}
	if c.ITR != nil {
		for _, l := range c.ITR.RLOCs.Locators {
			add(l.Interface)
		}
	}
	if c.ETR != nil {
		for _, e := range c.ETR.LocalEIDs {
			for _, l := range e.RLOCs.Locators {
				add(l.Interface)
			}
		}
	}
	return names
}

// followRoutes brings rules and routes into line with the host until the context ends,
// where the data plane alone is this process's.
func (d *daemon) followRoutes(ctx context.Context) {
	news := hostnet.NewWatch(int(d.plan.Load().config.Datapath.RouteProtocol), d.log)
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

// detour notes who gets the site's packets; who follows the host puts it in force.
func (d *daemon) detour(to netip.Addr) {
	if to.IsValid() {
		d.detourBy.Store(&to)
	} else {
		d.detourBy.Store(nil)
	}
	d.replan.Set()
}

// hostWarnings are those that may change with the host.
func (d *daemon) hostWarnings() []string {
	var warnings []string
	if stored := d.trouble.Load(); stored != nil {
		warnings = slices.Clone(*stored)
	}
	if d.routed != nil {
		warnings = append(warnings, d.routed.Warnings()...)
	}
	if d.pinWarning != "" {
		warnings = append(warnings, d.pinWarning)
	}
	return warnings
}

// lookForTrouble finds out what reverse path filters and stale routes do, and tells what is new and what is over.
func (d *daemon) lookForTrouble(p plan) {
	filters := hostnet.FilterCheck{View: p.host.View, Own: p.ownPaths(), Servers: p.servers(), Link: p.config.Datapath.Interface}
	trouble := append(filters.Trouble(), p.host.StaleGateways(coreNames(p))...)
	if now := hostnet.FilteredPackets(); now > d.filtered.Swap(now) && d.trouble.Load() != nil {
		trouble = append(trouble, "the kernel's reverse path filter dropped packets just now: see net.ipv4.conf.*.rp_filter, and IPReversePathFilter in /proc/net/netstat")
	}
	told := d.trouble.Swap(&trouble)
	for _, w := range trouble {
		if told == nil || !slices.Contains(*told, w) {
			d.log.Warn(w)
		}
	}
	if told == nil {
		return
	}
	for _, w := range *told {
		if !slices.Contains(trouble, w) {
			d.log.Info("over: " + w)
		}
	}
}
