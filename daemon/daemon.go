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
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/events"
	"loci/daemon/hostnet"
	"loci/daemon/policyroute"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/internal/wakeup"
	"loci/lisp"
)

// Options are what the command line says.
type Options struct {
	ConfigFile   string
	DetachOnStop bool // on a clean stop remove the data plane from the kernel
	Planes       Planes
	LogTo        io.Writer
}

// stopTimeout bounds the removal of the data plane on a clean stop.
const stopTimeout = 10 * time.Second

// daemon is one running configuration.
type daemon struct {
	options   Options
	log       *slog.Logger
	logLevel  slog.LevelVar
	startedAt time.Time
	plan      atomic.Pointer[plan]
	ready     atomic.Bool
	reloading sync.Mutex
	madeFor   int                           // how many mappings the data plane was made for; reloading guards it
	memory    *hostnet.Memory               // guarded by reloading
	detourBy  atomic.Pointer[netip.Addr]    // the sibling that gets the site's packets, nil for none
	replan    wakeup.Signal                 // wakes who follows the host
	trouble   atomic.Pointer[[]string]      // with the host's settings
	filtered  atomic.Uint64                 // packets that reverse path filters had dropped at the last look
	newsLost  atomic.Pointer[atomic.Uint64] // times that netlink's news were lost

	sockets *transport.Sockets
	plane   dataplane.Plane    // what the control plane drives; nil when no role forwards packets
	engine  dataplane.Plane    // what is closed or detached in the end: plane itself, or what is behind it
	routed  *policyroute.Plane // the same, where rules and routes are this process's
	missing []string           // kernel features, with what is lost without them
	// pinWarning is about the directory for pins as the data plane found it; empty for none.
	pinWarning string
	worker     *planeWorker     // nil without a plane
	store      *store.Journal   // nil without a Map-Server that has one
	nonces     *store.NonceFile // nil where nonces follow the clock alone
	// stopServing ends the mapping socket; nil when nothing serves one.
	stopServing func()
	loop        *loop
	events      *events.Hub
	server      *server
}

// Run reads the configuration and runs what it describes until the context ends.
// A configuration with an error starts nothing.
func Run(ctx context.Context, options Options) error {
	d := &daemon{options: options, startedAt: time.Now(), events: events.NewHub(), memory: hostnet.NewMemory(), replan: wakeup.New()}
	p, err := d.load()
	if err != nil {
		return err
	}
	d.log = newLogger(options.LogTo, p.config.Logging, &d.logLevel)
	d.enforce(p)
	if err := checkPlanes(options.Planes, p.config, options.DetachOnStop); err != nil {
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
func (d *daemon) load() (plan, error) {
	c, err := config.Load(d.options.ConfigFile)
	if err != nil {
		return plan{}, err
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
func (d *daemon) start(p plan) (err error) {
	d.warn(p.warnings)
	d.tellRLOCChanges(p.rlocChanges)
	d.tellWaits(plan{}, p)
	socket, err := listenUnix(p.config.Control.Socket, d.log)
	if err != nil {
		return err
	}
	d.server = newServer(socket, d, d.events, d.log)
	if d.sockets, err = transport.Listen(p.config.Control.Addresses, p.config.Control.Port, d.log); err != nil {
		return err
	}
	if p.config.UsesDataPlane() {
		if err := d.startPlane(p); err != nil {
			return err
		}
	}
	// The Node's clock starts when everything else is ready: opening the data plane
	// takes longer than the first retransmission.
	now := time.Now()
	var lastNonce uint64
	if path := p.config.NonceFile(); path != "" {
		if d.nonces, lastNonce, err = store.OpenNonceFile(path, now, d.log); err != nil {
			return err
		}
	}
	node, err := control.Restarted(p.control, now, new(random).read, lastNonce)
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
	d.loop = newLoop(node, d.sockets, d.worker, d.events, d.log)
	d.loop.detour = d.detour
	d.loop.store = d.store
	d.loop.handed.configure(p)
	d.sockets.ReceiveDirectly(d.loop.receiveDirectly)
	if prompt, ok := d.plane.(dataplane.PromptPlane); ok {
		var finder transport.Activity // of the one goroutine that finds misses
		prompt.TellAtOnce(func(events []dataplane.Event) bool { return d.loop.tellAtOnce(&finder, events) })
	}
	if remote, ok := d.engine.(*remotePlane); ok {
		remote.whenRenewed(d.tellAgain)
	}
	return nil
}

// startStore gives the Map-Server what an earlier run stored.
func (d *daemon) startStore(p plan, node *control.Node) (err error) {
	if p.config.MapServer == nil || p.config.MapServer.StateDirectory == "" {
		return nil
	}
	d.store, err = store.OpenJournal(p.config.MapServer.StateDirectory, d.log, func(piece []byte, _ bool) error { return node.ReplayJournal(time.Now(), piece) })
	if err != nil {
		return err
	}
	d.store.BeginCheckpoint = func() bool { return d.loop.offer(d.loop.node.Checkpoint) }
	d.log.Info("took over the registrations that were stored", "eid-prefixes", node.Sizes().Registrations)
	return nil
}

// startPlane opens the data plane, or takes over the one that an earlier run left.
func (d *daemon) startPlane(p plan) (err error) {
	if err := d.openPlane(p); err != nil {
		return err
	}
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.settings})...); err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	d.forgetDatabase(p)
	d.worker = newPlaneWorker(d.plane, d.log)
	return nil
}

// missingFeatures names what the kernel lacks, with what is lost by it.
func missingFeatures() (missing []string) {
	for _, f := range kernel.Probe() {
		if !f.Present {
			missing = append(missing, fmt.Sprintf("the kernel lacks %s: without it, %s", f.Name, f.Lost))
		}
	}
	return missing
}

// forgetDatabase removes EID-Prefixes that an earlier configuration had, in one change.
func (d *daemon) forgetDatabase(p plan) {
	wanted := map[lisp.Prefix]bool{}
	if p.control.ETR != nil {
		for _, m := range p.control.ETR.Database {
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
			kept = append(kept, control.SetLocatorState{RLOC: rloc, State: nodeState(state)})
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
	workers.Go(func() { d.server.run(rest) })
	workers.Go(func() { d.loop.garbage.run(rest) })
	if d.worker != nil {
		workers.Go(func() { d.worker.run(rest) })
		workers.Go(func() { d.worker.reportUsage(rest) })
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
	if d.plan.Load().config.UsesDataPlane() {
		news := hostnet.NewWatch(int(d.plan.Load().config.Datapath.RouteProtocol), d.log)
		d.newsLost.Store(&news.Lost)
		workers.Go(func() { news.Run(rest) })
		workers.Go(func() { d.followHost(rest, news) })
	}
	d.tellReadiness()
	if !d.ready.Load() {
		d.log.Warn("not ready: this router has no RLOC yet")
		tellSupervisor("STATUS=waiting for an address that can be an RLOC")
	}
	d.loop.run(ctx)
	tellSupervisor("STOPPING=1")
	d.log.Info("stopping")
	stopRest()
	workers.Wait()
	if d.nonces != nil {
		d.nonces.End(d.loop.node.LastRegisterNonce())
	}
	return d.release()
}

// lastNonce asks the Node; false when the daemon stops.
func (d *daemon) lastNonce(ctx context.Context) (uint64, bool) {
	nonce, err := ask(ctx, d.loop, func(time.Time) uint64 { return d.loop.node.LastRegisterNonce() })
	return nonce, err == nil
}

// settle brings what the Node says at its start to the data plane, before anything
// runs: ready means that packets of this site's EIDs are taken.
func (d *daemon) settle() {
	d.loop.turn(turnOfCall, func(time.Time) {})
	for d.worker != nil && d.worker.applyBatch() {
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
	if d.server != nil {
		err = d.server.socket.Close()
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
		registering, err = ask(patience, d.loop, func(time.Time) bool { return d.loop.node.Registering() })
		if err == nil && registering {
			select {
			case <-time.After(reloadPatience / 40):
			case <-patience.Done():
			}
		}
	}
	list, err := ask(ctx, d.loop, func(time.Time) []api.MapServer { return d.mapServers() })
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
	changes := config.Diff(current.config, fresh.config)
	if err := errors.Join(needsRestart(*current, fresh, d.madeFor), checkNewWaits(*current, fresh)); err != nil {
		return api.Reload{}, err
	}
	if err := d.apply(ctx, *current, fresh); err != nil {
		return api.Reload{}, err
	}
	d.enforce(fresh)
	_ = d.logLevel.UnmarshalText([]byte(fresh.config.Logging.Level)) // the configuration was checked
	d.warn(fresh.warnings)
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
func (d *daemon) apply(ctx context.Context, current, fresh plan) error {
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
func (d *daemon) configureNode(ctx context.Context, fresh plan) error {
	inForce, err := ask(ctx, d.loop, func(time.Time) *control.Prepared { return d.loop.node.InForce() })
	if err != nil {
		return err
	}
	prepared, err := control.Prepare(fresh.control, inForce)
	if err != nil {
		return err
	}
	_, err = ask(ctx, d.loop, func(now time.Time) struct{} {
		d.loop.node.PutInForce(now, prepared)
		d.loop.handed.configure(fresh)
		return struct{}{}
	})
	return err
}

func (d *daemon) applyPlane(p plan) error {
	if d.plane == nil {
		return nil
	}
	return errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.settings})...)
}

// needsRestart names changes that a running daemon cannot make, whose data plane was made for so many mappings.
func needsRestart(current, fresh plan, madeFor int) error {
	old, to := current.config, fresh.config
	for _, c := range []struct {
		what    string
		differs bool
	}{
		{"control.socket", old.Control.Socket != to.Control.Socket},
		{"control.port", old.Control.Port != to.Control.Port},
		{"control.addresses", !slices.Equal(old.Control.Addresses, to.Control.Addresses)},
		{"map-server.state-directory", old.StateDirectory() != to.StateDirectory()},
		{"etr.nonce-file", old.NonceFile() != to.NonceFile()},
		{"datapath", !reflect.DeepEqual(fixedDatapath(old.Datapath), fixedDatapath(to.Datapath))},
		{"logging.format", old.Logging.Format != to.Logging.Format},
		{"the first role that forwards packets, or its removal,", old.UsesDataPlane() != to.UsesDataPlane()},
		// The kernel's tables are made once; a restart takes them over as they are.
		{"itr.map-cache.limit, or of etr.local-eids, beyond what the data plane was made for, and a clean stop with --detach,", fresh.mappingLimit() > madeFor},
	} {
		if c.differs {
			return fmt.Errorf("a change of %s needs a restart: nothing was changed", c.what)
		}
	}
	return nil
}
