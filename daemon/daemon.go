// SPDX-License-Identifier: Apache-2.0

// Package daemon is the running program around a control.Node: sockets, clock,
// netlink, the data plane, the control socket and the one event loop that joins
// them. It decides nothing about LISP: the Node does.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/answers"
	"loci/daemon/api"
	"loci/daemon/apiserver"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/policyroute"
	"loci/daemon/remoteplane"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/internal/wakeup"
	"loci/lisp"
)

// Options are what the command line says.
type Options struct {
	ConfigFile   string
	DetachOnStop bool // on a clean stop remove the data plane from the kernel
	Planes       Planes
	Engine       EngineFactory
	LogTo        io.Writer
}

// EngineFactory opens the data plane that runs in this process, and tells what this host has for it.
type EngineFactory interface {
	// Open opens the data plane of a configuration for so many mappings, or takes over the one that an earlier run
	// left. remade is called when the LISP interface was made anew.
	Open(c *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error)
	// Missing names the features that this host lacks, with what is lost by each.
	Missing() []string
	// SkippedRules warns of rules of this host for forwarded packets that the data plane passes by.
	SkippedRules(c *config.Config) []string
	// PinTrouble says what is wrong with the pin directory: an error where the data plane could not start.
	PinTrouble(c *config.Config) (warning string, err error)
	// PassingPins warns of pins that end with this mount namespace.
	PassingPins(directory string) (warning string)
}

// stopTimeout bounds the removal of the data plane on a clean stop.
const stopTimeout = 10 * time.Second

// daemon is one running configuration.
type daemon struct {
	options   Options
	log       *slog.Logger
	logLevel  slog.LevelVar
	startedAt time.Time
	plan      atomic.Pointer[plan.Plan]
	ready     atomic.Bool
	reloading sync.Mutex
	madeFor   int                        // how many mappings the data plane was made for; reloading guards it
	memory    *hostnet.Memory            // guarded by reloading
	detourBy  atomic.Pointer[netip.Addr] // the sibling that gets the site's packets, nil for none
	replan    wakeup.Signal              // wakes who follows the host
	trouble   atomic.Pointer[[]string]   // with the host's settings
	filtered  atomic.Uint64              // packets that reverse path filters had dropped at the last look

	sockets *transport.Sockets
	plane   dataplane.Plane    // what the control plane drives; nil when no role forwards packets
	engine  dataplane.Plane    // what is closed or detached in the end: plane itself, or what is behind it
	routed  *policyroute.Plane // the same, where rules and routes are this process's
	missing []string           // kernel features, with what is lost without them
	// pinWarning is about the directory for pins as the data plane found it; empty for none.
	pinWarning string
	worker     *planeworker.Worker // nil without a plane
	store      *store.Journal      // nil without a Map-Server that has one
	nonces     *store.NonceFile    // nil where nonces follow the clock alone
	// stopServing ends the mapping socket; nil when nothing serves one.
	stopServing func()
	handed      *handover.Handover
	loop        *eventloop.Loop
	events      *events.Hub
	socket      *apiserver.Socket
}

// Run reads the configuration and runs what it describes until the context ends.
// A configuration with an error starts nothing.
func Run(ctx context.Context, options Options) error {
	d := &daemon{options: options, startedAt: time.Now(), events: events.NewHub(), memory: hostnet.NewMemory(), replan: wakeup.New()}
	p, err := d.load()
	if err != nil {
		return err
	}
	d.log = newLogger(options.LogTo, p.Config.Logging, &d.logLevel)
	d.enforce(p)
	if err := checkPlanes(options.Planes, p.Config, options.DetachOnStop); err != nil {
		return err
	}
	if options.Planes == PlanesData {
		return d.runDataPlane(ctx, p)
	}
	if err := d.start(p); err != nil {
		return errors.Join(err, d.abandon())
	}
	return d.run(ctx)
}

// load reads the file and makes a plan of it; it changes nothing.
func (d *daemon) load() (plan.Plan, error) {
	c, err := config.Load(d.options.ConfigFile)
	if err != nil {
		return plan.Plan{}, err
	}
	made, _, err := d.planHere(c)
	return made, err
}

func newLogger(to io.Writer, c config.Logging, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.Level)) // the configuration was checked
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// start acquires everything; whatever fails, abandon releases the rest.
func (d *daemon) start(p plan.Plan) (err error) {
	d.warn(p.Warnings)
	d.tellRLOCChanges(p.RLOCChanges)
	d.tellWaits(plan.Plan{}, p)
	if d.socket, err = apiserver.Listen(p.Config.Control.Socket, d.log); err != nil {
		return err
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
	if d.plane != nil {
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
		SiblingPath: d.detour, Log: d.log,
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
	d.store, err = store.OpenJournal(p.Config.MapServer.StateDirectory, d.log, func(piece []byte, _ bool) error { return node.ReplayJournal(time.Now(), piece) })
	if err != nil {
		return err
	}
	d.store.BeginCheckpoint = func() bool { return d.loop.BeginCheckpoint() }
	d.log.Info("took over the registrations that were stored", "eid-prefixes", node.Sizes().Registrations)
	return nil
}

// startPlane opens the data plane, or takes over the one that an earlier run left.
func (d *daemon) startPlane(p plan.Plan) (err error) {
	if err := d.openPlane(p); err != nil {
		return err
	}
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...); err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	d.forgetDatabase(p)
	d.worker = planeworker.New(d.plane, d.log)
	return nil
}

// forgetDatabase removes EID-Prefixes that an earlier configuration had, in one change.
func (d *daemon) forgetDatabase(p plan.Plan) {
	wanted := map[lisp.Prefix]bool{}
	if p.Control.ETR != nil {
		for _, m := range p.Control.ETR.Database {
			wanted[m.Prefix] = true
		}
	}
	var gone []dataplane.Operation
	for entry := range d.plane.Database() {
		if !wanted[entry.Prefix] {
			gone = append(gone, dataplane.DeleteDatabase{Prefix: entry.Prefix})
		}
	}
	if len(gone) > 0 {
		d.plane.Apply(gone...)
	}
}

// adoptPiece is how many mappings are taken over at a time.
const adoptPiece = 1 << 10

// adoptMapCache gives the Node the mappings that the data plane kept.
func (d *daemon) adoptMapCache(node *control.Node, now time.Time) {
	entries := 0
	piece := make([]control.MapCacheEntry, 0, adoptPiece)
	adopt := func() {
		node.AdoptMapCache(now, piece)
		entries += len(piece)
		piece = piece[:0]
	}
	for e := range d.plane.Mappings() {
		piece = append(piece, control.MapCacheEntry{Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt})
		if len(piece) == adoptPiece {
			adopt()
		}
	}
	adopt()
	if entries > 0 {
		d.log.Info("took over the mappings that the data plane kept", "entries", entries)
	}
	var kept []control.SetLocatorState
	for rloc, state := range d.plane.LocatorStates() {
		if state != dataplane.LocatorUp {
			kept = append(kept, control.SetLocatorState{RLOC: rloc, State: planeworker.NodeState(state)})
		}
	}
	node.AdoptLocatorStates(now, kept)
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
		workers.Go(func() { d.worker.ReportUsage(rest) })
	}
	if d.store != nil {
		workers.Go(func() { d.store.Run(rest) })
	}
	if d.nonces != nil {
		workers.Go(func() { d.nonces.Run(rest, func() (uint64, bool) { return d.lastNonce(rest) }) })
	}
	if d.routed != nil {
		workers.Go(func() { d.routed.Run(rest) })
	}
	workers.Go(func() { d.reloadOnHangup(rest) })
	var watch *hostnet.Watch
	if d.plan.Load().Config.UsesDataPlane() {
		watch = hostnet.NewWatch(int(d.plan.Load().Config.Datapath.RouteProtocol), d.log)
		workers.Go(func() { watch.Run(rest) })
		workers.Go(func() { d.followHost(rest, watch) })
	}
	server := apiserver.New(d.socket, d.answerer(watch), d.events, d.log)
	workers.Go(func() { server.Run(rest) })
	d.tellReadiness()
	if !d.ready.Load() {
		d.log.Warn("not ready: this router has no RLOC yet")
		tellSupervisor("STATUS=waiting for an address that can be an RLOC")
	}
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

// answerer answers at the control socket; only a reload changes anything.
type answerer struct {
	*answers.Answers
	d *daemon
}

func (a answerer) Reload(ctx context.Context) (api.Reload, error) { return a.d.reload(ctx) }

// answerer is what the control socket is answered by.
func (d *daemon) answerer(watch *hostnet.Watch) answerer {
	return answerer{d: d, Answers: &answers.Answers{
		ConfigFile: d.options.ConfigFile, StartedAt: d.startedAt, Missing: d.missing, Remote: d.options.Planes == PlanesControl,
		Loop: d.loop, Sockets: d.sockets, Handed: d.handed, Plane: d.plane, Engine: d.engine, Worker: d.worker, Journal: d.store,
		Watch: watch, State: d,
	}}
}

func (d *daemon) InForce() *plan.Plan { return d.plan.Load() }

func (d *daemon) IsReady() bool { return d.ready.Load() }

// LastNonce asks the Node; false when the daemon stops.
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

// release gives back what a clean stop gives back. The kernel goes on forwarding
// unless the user asked for an end of that.
func (d *daemon) release() error {
	if d.engine == nil {
		return nil
	}
	if d.stopServing != nil {
		d.stopServing()
	}
	if !d.options.DetachOnStop {
		if d.routed != nil {
			d.routed.Settle()
		}
		return d.engine.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return d.engine.Detach(ctx)
}

// abandon undoes a start that failed half-way.
func (d *daemon) abandon() (err error) {
	if d.socket != nil {
		err = d.socket.Close()
	}
	if d.sockets != nil {
		d.sockets.Close()
	}
	if d.stopServing != nil {
		d.stopServing()
	}
	if d.engine != nil {
		err = errors.Join(err, d.engine.Close())
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}

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

// reloadPatience is how long the answer to a reload waits for Map-Notifies.
const reloadPatience = 2 * time.Second

// reload is reread for somebody who wants to know which Map-Servers did not acknowledge what changed.
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

// reread reads the file again and applies what differs. A file with an error, or
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
	if err := errors.Join(plan.NeedsRestart(*current, fresh, d.madeFor), plan.CheckNewWaits(*current, fresh)); err != nil {
		return api.Reload{}, err
	}
	if err := d.apply(ctx, *current, fresh); err != nil {
		return api.Reload{}, err
	}
	d.enforce(fresh)
	_ = d.logLevel.UnmarshalText([]byte(fresh.Config.Logging.Level)) // the configuration was checked
	d.warn(fresh.Warnings)
	d.replan.Set() // states of own RLOCs that are new
	done := api.Reload{Changes: []string{}}
	for _, change := range changes {
		done.Changes = append(done.Changes, change.String())
	}
	for _, line := range linesOf(changes) {
		d.log.Info("configuration changed", "change", line)
		d.events.Publish(api.Event{At: time.Now(), Kind: "configuration-changed", Fields: map[string]string{"change": line}})
	}
	return done, nil
}

// apply puts a plan in force, or goes back to the current one.
func (d *daemon) apply(ctx context.Context, current, fresh plan.Plan) error {
	if err := d.applyPlane(fresh); err != nil {
		return errors.Join(err, d.applyPlane(current))
	}
	if err := d.configureNode(ctx, fresh); err != nil {
		return errors.Join(err, d.applyPlane(current))
	}
	return nil
}

// configureNode puts the control plane's part of a plan in force, whole or not at all.
// It is made ready outside the loop, which takes as long as it is.
func (d *daemon) configureNode(ctx context.Context, fresh plan.Plan) error {
	inForce, err := eventloop.Ask(ctx, d.loop, func(node *control.Node, _ time.Time) *control.Prepared { return node.InForce() })
	if err != nil {
		return err
	}
	prepared, err := control.Prepare(fresh.Control, inForce)
	if err != nil {
		return err
	}
	_, err = eventloop.Ask(ctx, d.loop, func(node *control.Node, now time.Time) struct{} {
		node.PutInForce(now, prepared)
		d.handed.Configure(plan.HandoverOf(fresh))
		return struct{}{}
	})
	return err
}

func (d *daemon) applyPlane(p plan.Plan) error {
	if d.plane == nil {
		return nil
	}
	return errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...)
}
