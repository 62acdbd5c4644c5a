// SPDX-License-Identifier: Apache-2.0

// This file opens an engine, adopts what an earlier process left in force, and ends
// it: Close leaves everything in force, Detach removes it (dataplane.Plane). It
// never touches a packet.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/attach"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/nexthop"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/segmenter"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
)

// Limits that hold when Options leave them 0. What they bound is memory of the
// kernel: 64 octets for a mapping and 24 for its counters on each processor, 232
// for a locator-set of two locators. These are set aside when the maps are made; the forwarding
// table, some 32 octets for a mapping, grows and shrinks.
const (
	DefaultMappingLimit = tables.DefaultMappings
	DefaultTableOctets  = 1 << 29
)

// AttachMode says how programs are attached.
type AttachMode uint8

// AttachAuto takes tcx where the kernel has it; AttachClsact always takes filters.
const (
	AttachAuto AttachMode = iota
	AttachClsact
)

// Options say where an engine lives and how large it may grow.
type Options struct {
	Instance     string // names the pins; DefaultInstance when empty
	PinDirectory string // in a BPF file system, which is mounted if it is not there; DefaultPinDirectory when empty
	TAP          string // name of the TAP; DefaultTAP when empty
	Attach       AttachMode

	// Limits of the tables. Those of mappings (with the Database's entries) and
	// locator-sets hold from the making of the maps until Detach.
	MappingLimit    int
	LocatorSetLimit int // by that of mappings when 0
	TableOctets     int // of the forwarding table, half a GiB at most

	// NoShortcut sends packets through the queue of each interface, also of those whose
	// other end is in a network namespace of this machine.
	NoShortcut bool

	// TAPRemade, if given, is called on a goroutine of its own after the TAP had to be
	// made anew: routes by it are gone then.
	TAPRemade func()

	Logger *slog.Logger // slog.Default() when nil
}

// Engine is the kernel data plane of one network namespace. It implements
// dataplane.Plane.
type Engine struct {
	log        *slog.Logger
	pins       *pins.Directory
	space      *netspace.Space
	store      *store.Store
	entries    *entries.Entries
	interfaces *attach.Interfaces
	tap        *tap.Keeper
	segmenter  segmenter.Segmenter // zero: the queue cuts GSO packets
	// cutsInUserSpace says that this was logged
	cutsInUserSpace bool
	queue           *pending.Queue
	programs        *programSettings
	ways            *nexthop.Watcher

	paths      *underlay.Paths
	reassembly *underlay.Reassembly
	misses     *pending.Misses
	ring       *pending.EventRing
	subflows   *pending.EventRing // of packets that begin or end a flow which may be bound
	stop       chan struct{}
	running    sync.WaitGroup

	fresh bool // nothing was in force before

	// A caller that changes anything holds changing. It is taken before every other lock of the data plane.
	changing sync.Mutex
	unusable string // why interfaces could not be followed; empty: they could
	closed   bool
}

var _ dataplane.PromptPlane = (*Engine)(nil)

// Open makes an engine in the calling thread's network namespace, or adopts the one
// that a process of the same instance left. The errors are ErrBusy, ErrABI, ErrNewer,
// ErrElsewhere, ErrKernel and those of the system.
func Open(options Options) (*Engine, error) {
	options = withDefaults(options)
	e := &Engine{log: options.Logger, stop: make(chan struct{})}
	if err := e.open(options); err != nil {
		return nil, errors.Join(fmt.Errorf("kernel data plane: %w", err), e.giveUp(), features.Missing())
	}
	e.start()
	return e, nil
}

func withDefaults(o Options) Options {
	set := func(value *string, fallback string) {
		if *value == "" {
			*value = fallback
		}
	}
	set(&o.Instance, pins.DefaultInstance)
	set(&o.PinDirectory, pins.DefaultDirectory)
	set(&o.TAP, tap.DefaultName)
	if o.TableOctets <= 0 {
		o.TableOctets = DefaultTableOctets
	}
	if o.TAPRemade == nil {
		o.TAPRemade = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (e *Engine) open(o Options) (err error) {
	if e.space, err = netspace.Current(); err != nil {
		return err
	}
	if e.pins, err = pins.Open(o.PinDirectory, o.Instance); err != nil {
		return err
	}
	e.fresh = e.pins.IsEmpty()
	opened, err := tap.Open(e.space, o.TAP)
	if err != nil {
		return err
	}
	e.tap = tap.NewKeeper(opened, tap.KeeperParts{
		Log: e.log, Space: e.space, Remade: o.TAPRemade,
		Failed: func() { atomic.AddUint64(&e.store.Words[store.WordTAPErrors], 1) },
	})
	e.keepSegmenter()
	limits := store.Limits{Mappings: o.MappingLimit, LocatorSets: o.LocatorSetLimit}
	maps, found, err := storeOpening{log: e.log, pins: e.pins, space: e.space, limits: limits}.open()
	if err != nil {
		return err
	}
	e.store = maps
	if err := observe.EndAbandonedWatch(e.store, e.pins.Maps()); err != nil {
		return err
	}
	if e.entries, err = entries.Open(entries.Parts{
		Log: e.log, Space: e.space, Store: e.store, TableOctets: o.TableOctets,
		Expired: func(event dataplane.Event) { e.misses.Tell(event) },
	}); err != nil {
		return err
	}
	programs, err := e.store.Programs(features.HaveDecapFlags())
	if err != nil {
		return err
	}
	e.interfaces, err = attach.Open(attach.Parts{
		Log: e.log, Space: e.space, Pins: e.pins, Instance: o.Instance, Store: e.store, TCPrograms: programs,
		Clsact: o.Attach == AttachClsact, NoShortcut: o.NoShortcut,
	})
	if err != nil {
		return err
	}
	if err := e.openPackets(opened, o.TAP); err != nil {
		return err
	}
	if err := errors.Join(e.restoreSettings(found), e.entries.ForgetAllStatusBits()); err != nil {
		return err
	}
	if err := e.interfaces.ReplacePrograms(); err != nil {
		return err
	}
	return e.pins.Forget()
}

// openPackets makes what deals with packets, and with routes that they take. start has it begin.
func (e *Engine) openPackets(opened *tap.TAP, name string) (err error) {
	if e.ring, err = pending.OpenEventRing(e.store.Map(abi.MapEvents)); err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	if e.subflows, err = pending.OpenEventRing(e.store.Map(abi.MapSubflows)); err != nil {
		return fmt.Errorf("ring buffer of subflows: %w", err)
	}
	e.misses = pending.NewMisses(
		&e.store.Words[store.WordEventsLost], e.interfaces.NameOf, e.entries.QueueReports, e.entries.Covering)
	e.queue = pending.NewQueue(pending.Parts{
		TAP: opened, ReopenTAP: e.reopenTAP, Entries: e.entries, Interfaces: e.interfaces, Misses: e.misses,
		Words: e.store.Words, Backlog: pending.NewBacklog(e.store.Backlog), Space: e.space, Log: e.log,
	})
	e.programs = &programSettings{log: e.log, space: e.space, store: e.store, tap: e.tap, segmenter: &e.segmenter}
	e.ways = nexthop.NewWatcher(nexthop.Parts{
		Log: e.log, Space: e.space, Entries: e.entries, Changed: e.store.Changed, TAP: name,
	})
	e.programs.lookAtRoutes()
	e.paths = underlay.NewPaths(underlay.PathParts{
		Log: e.log, Space: e.space, Tables: e.entries, Tell: e.misses.Tell,
		Refused: &e.store.Words[store.WordPathErrorsRefused],
	})
	e.reassembly = underlay.NewReassembly(underlay.ReassemblyParts{
		Log: e.log, Space: e.space, IsCore: e.isCore, Drop: e.queue.Drop, Done: &e.store.Words[store.WordReassembled],
		Device: func() tap.TAP { return *e.tap.TAP() },
		Tell:   func(p dataplane.ControlPacket) { e.misses.Tell(p) }, ControlDone: &e.store.Words[store.WordControlPackets],
	})
	return nil
}

// start begins to read.
func (e *Engine) start() {
	e.running.Go(e.queue.Run)
	e.running.Go(func() { e.entries.Run(e.stop) })
	e.running.Go(func() { e.misses.Read(e.ring, e.log) })
	e.running.Go(func() { e.misses.ReadSubflows(e.subflows, e.log) })
	following := &attach.Follower{Interfaces: e.interfaces, Stop: e.stop, Amiss: e.tap.IsAmiss, Resync: e.resync}
	e.running.Go(following.WatchLinks)
	e.running.Go(following.WatchFeatures)
	e.running.Go(e.watchSurroundings)
	e.running.Go(func() { e.ways.Watch(e.stop) })
	e.running.Go(func() { e.ways.Listen(e.stop) })
	e.paths.Start(e.stop)
}

// Close implements dataplane.Plane: the programs go on with the tables as they are.
func (e *Engine) Close() error {
	if !e.end() {
		return nil
	}
	return e.release()
}

// Detach implements dataplane.Plane. Of interfaces, it leaves those of others.
func (e *Engine) Detach(context.Context) error {
	if !e.end() {
		return dataplane.ErrClosed
	}
	err := errors.Join(e.interfaces.DetachAll(), e.tap.TAP().Remove(), segmenter.Remove(e.space, e.tap.TAP().Name),
		removeAll(e.pins.Maps(), e.pins.Links()))
	err = errors.Join(err, e.releaseAll(), e.pins.Remove())
	e.pins = nil
	return err
}

// end stops all goroutines; false when that was done before.
func (e *Engine) end() bool {
	if !e.markClosed() {
		return false
	}
	close(e.stop)
	_ = e.ring.Close()
	_ = e.subflows.Close()
	_ = e.paths.Close()
	e.reassembly.Close()
	e.queue.Stop()
	e.running.Wait()
	e.misses.Close()
	return true
}

func (e *Engine) markClosed() bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.closed = true
	return e.entries.Close()
}

// giveUp lets go of everything when the engine cannot be opened. What it made goes, unless there was something in
// force before.
func (e *Engine) giveUp() error {
	if !e.fresh {
		return e.release()
	}
	var errs []error
	if e.interfaces != nil {
		errs = append(errs, e.interfaces.DetachAll())
	}
	if e.tap != nil && e.tap.TAP().Made {
		errs = append(errs, e.tap.TAP().Remove(), segmenter.Remove(e.space, e.tap.TAP().Name))
	}
	return errors.Join(append(errs, e.releaseAll(), e.pins.Remove())...)
}

// release lets go of everything that this process holds.
func (e *Engine) release() error {
	err := e.releaseAll()
	if e.pins != nil {
		err = errors.Join(err, e.pins.Close())
	}
	return err
}

func (e *Engine) releaseAll() error {
	var errs []error
	if e.ring != nil {
		errs = append(errs, e.ring.Close())
	}
	if e.subflows != nil {
		errs = append(errs, e.subflows.Close())
	}
	if e.paths != nil {
		errs = append(errs, e.paths.Close())
	}
	if e.reassembly != nil {
		e.reassembly.Close()
	}
	if e.interfaces != nil {
		errs = append(errs, e.interfaces.Close())
	}
	if e.tap != nil {
		errs = append(errs, e.tap.TAP().File.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	if e.space != nil {
		errs = append(errs, e.space.Close())
	}
	return errors.Join(errs...)
}
