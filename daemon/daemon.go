// SPDX-License-Identifier: Apache-2.0

package daemon

// The start of a daemon, its work, and its end.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"loci/config"
	"loci/config/source"
	"loci/control"
	"loci/daemon/apiserver"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/metrics"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/remoteplane"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/internal/errorkind"
	"loci/internal/nodeplane"
	"loci/internal/wakeup"
	"loci/lisp"
)

// ErrConfiguration marks errors of Run that are mistakes of the configuration: another start fails as well. What is
// wrong with this host for the configuration is none: the host may change.
var ErrConfiguration = errors.New("the configuration is wrong")

// asMistake marks an error that is about what the configuration file says.
func asMistake(err error) error {
	var problems *source.Problems
	var problem source.Problem
	if errors.As(err, &problems) || errors.As(err, &problem) {
		return errorkind.Mark(err, ErrConfiguration)
	}
	return err
}

// Run reads the configuration and runs what it describes until the context ends.
// A configuration with an error starts nothing.
func Run(ctx context.Context, options Options) error {
	d := &daemon{
		options: options, startedAt: time.Now(), events: events.NewHub(), memory: hostnet.NewMemory(),
		replan: wakeup.New(), supervisor: supervisor{every: moreTimeEvery},
	}
	p, err := d.load()
	if err != nil {
		return err
	}
	d.log = newLogger(options.LogTo, p.Config.Logging, &d.logLevel)
	d.trouble.log = d.log
	d.setCurrent(p)
	if err := checkPlanes(options.Planes, p.Config, options.DetachOnStop); err != nil {
		return errorkind.Mark(err, ErrConfiguration)
	}
	if options.Planes == PlanesData {
		return d.runDataPlane(ctx, p)
	}
	if err := d.start(p); err != nil {
		return errors.Join(err, d.abandon())
	}
	return d.run(ctx)
}

func newLogger(to io.Writer, c config.Logging, level *logLevel) *slog.Logger {
	level.configure(c.Level)
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// start acquires everything; whatever fails, abandon releases the rest.
func (d *daemon) start(p plan.Plan) (err error) {
	warn(d.log, trouble.Lines(p.Warnings))
	d.tellRLOCChanges(p.RLOCChanges)
	d.tellWaits(plan.Plan{}, p)
	if d.socket, err = apiserver.Listen(p.Config.Control.Socket, d.log); err != nil {
		return err
	}
	p = d.identity.give(p, p, d.log)
	d.setCurrent(p)
	d.metrics = metrics.New(d.log)
	if d.served, err = d.metrics.Prepare(p.Config.Metrics); err != nil {
		return fmt.Errorf("%s: %w", d.options.ConfigFile, err)
	}
	if d.sockets, err = transport.Listen(p.Config.Control.Addresses, p.Config.Control.Port, d.log); err != nil {
		return err
	}
	if p.Config.UsesDataPlane() {
		if err := d.startPlane(p); err != nil {
			return err
		}
	}
	// The Node's clock starts when everything else is ready: opening the data plane
	// takes longer than the first retransmission.
	now := time.Now()
	var lastNonce uint64
	if path := p.Config.NonceFile(); path != "" {
		if d.nonces, lastNonce, err = store.OpenNonceFile(path, now, d.log); err != nil {
			return err
		}
	}
	node, err := control.Restarted(p.Control, now, new(random).read, lastNonce)
	if err != nil {
		return fmt.Errorf("%s: %w", d.options.ConfigFile, err)
	}
	node.SetXTRID(d.identity.xtrID)
	if d.plane != nil {
		node.AdoptDatabase(now, nodeplane.Database(d.plane))
		d.adoptMapCache(node, now)
	}
	if err := d.startStore(p, node); err != nil {
		return err
	}
	d.sockets.SetKeyring(node.Keyring())
	d.handed = handover.New(d.sockets.Queue)
	d.handed.Configure(plan.HandoverOf(p))
	d.loop = eventloop.New(eventloop.Parts{
		Node: node, Sockets: d.sockets, Worker: d.worker, Journal: d.store, Handed: d.handed, Events: d.events,
		SiblingPath: d.setForwardingSibling, RTRs: func(rtrs []lisp.RLOC) { d.rtrs.Store(&rtrs); d.replan.Set() }, Log: d.log,
	})
	if remote, ok := d.engine.(*remoteplane.Plane); ok {
		remote.WhenRenewed(d.tellAgain)
	}
	return nil
}

// startStore gives the Map-Server what an earlier run stored.
func (d *daemon) startStore(p plan.Plan, node *control.Node) (err error) {
	if p.Config.MapServer == nil || p.Config.MapServer.StateDirectory == "" {
		return nil
	}
	d.store, err = store.OpenJournal(p.Config.MapServer.StateDirectory, d.log, func(piece []byte, _ bool) error {
		d.supervisor.atWork("reading the registrations that were stored")
		return node.ReplayJournal(time.Now(), piece)
	})
	if err != nil {
		return err
	}
	d.store.BeginCheckpoint = func() bool { return d.loop.BeginCheckpoint() }
	d.log.Info("took over the registrations that were stored", "eid_prefixes", node.Sizes().Registrations)
	return nil
}

// startPlane opens the data plane, or takes over the one that an earlier run left.
func (d *daemon) startPlane(p plan.Plan) (err error) {
	if err := d.supervisor.during(openingPlane, func() error { return d.openPlane(p) }); err != nil {
		return err
	}
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...); err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	d.nat.follow(p)
	d.forgetDatabase(p)
	d.worker = planeworker.New(d.plane, d.log)
	return nil
}

// run is everything at work; it returns when the context ends.
func (d *daemon) run(ctx context.Context) error {
	// The loop stops first, then those who carry out its last effects.
	rest, stopRest := context.WithCancel(context.Background())
	defer stopRest()
	var workers sync.WaitGroup
	d.settle()
	workers.Go(func() { d.sockets.Run(rest) })
	if d.worker != nil {
		workers.Go(func() { d.worker.Run(rest) })
		host := pathHost{
			loop: d.loop, plane: d.plane, engine: d.engine,
			inForce: d.InForce, events: d.events, log: d.log,
		}
		d.paths = checkUsed(host, d.worker)
		workers.Go(func() { d.worker.ReportUsage(rest) })
		workers.Go(func() { d.paths.Run(rest) })
	}
	if d.store != nil {
		workers.Go(func() { d.store.Run(rest) })
	}
	if d.nonces != nil {
		workers.Go(func() { d.nonces.Run(rest, func() (uint64, bool) { return d.lastNonce(rest) }) })
	}
	if d.routed != nil {
		workers.Go(func() { d.routed.Run(rest) })
		d.nat.runIn(&workers, rest)
	}
	workers.Go(func() { d.reloadOnHangup(rest) })
	var watch *hostnet.Watch
	if d.plan.Load().Config.UsesDataPlane() {
		watch = hostnet.NewWatch(int(d.plan.Load().Config.Datapath.RouteProtocol), d.log)
		watch.Prompt = func() bool { return d.InForce().IsMobile() }
		workers.Go(func() { watch.Run(rest) })
		workers.Go(func() { d.followHost(rest, watch) })
	}
	answers := d.answerer(watch)
	server := apiserver.New(d.socket, answers, d.events, d.log)
	workers.Go(func() { server.Run(rest) })
	d.metrics.Start(answers)
	d.served.Make()
	workers.Go(func() { d.metrics.Run(rest) })
	d.tellReadiness()
	if !d.ready.Load() {
		d.log.Warn("not ready: this router has no RLOC yet")
	}
	d.supervisor.start()
	d.loop.Run(ctx)
	tellSupervisor("STOPPING=1")
	d.log.Info("stopping")
	stopRest()
	workers.Wait()
	if d.nonces != nil {
		d.nonces.End(d.loop.LastNonce())
	}
	return d.release()
}

// lastNonce asks the Node; false when the daemon stops.
func (d *daemon) lastNonce(ctx context.Context) (uint64, bool) {
	nonce, err := eventloop.Ask(ctx, d.loop, func(node *control.Node, _ time.Time) uint64 { return node.LastRegisterNonce() })
	return nonce, err == nil
}

// settle brings what the Node says at its start to the data plane, before anything
// runs: ready means that packets of this site's EIDs are taken.
func (d *daemon) settle() {
	d.loop.Settle()
	for d.worker != nil && d.worker.ApplyBatch() {
	}
	if d.routed != nil {
		d.routed.Settle()
	}
}
