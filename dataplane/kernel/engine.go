// SPDX-License-Identifier: Apache-2.0

// This file opens an engine, adopts what an earlier process left in force, and ends
// it: Close leaves everything in force, Detach removes it (dataplane.Plane). It
// never touches a packet.

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

// Limits that hold when Options leave them 0. What they bound is memory of the
// kernel: 64 octets for a mapping and 24 for its counters on each processor, 232
// for a locator-set of two locators. These are set aside when the maps are made; the forwarding
// table, some 32 octets for a mapping, grows and shrinks.
const (
	DefaultMappingLimit = 1 << 16
	DefaultTableOctets  = 1 << 29
)

// DefaultLocatorSetLimit is how many locator-sets there is room for beside so many
// mappings: one for each up to 65536 (15 MB), and one for every 32 beyond, because
// equal sets are stored once and mappings of one site mostly have the same. Some are
// spare: a set that replaces another needs a place beside it for a moment.
func DefaultLocatorSetLimit(mappings int) int {
	const (
		oneEach   = 1 << 16
		shareBy   = 32
		spareSets = 1 << 8
	)
	return min(mappings, oneEach) + max(mappings-oneEach, 0)/shareBy + spareSets
}

// Options say where an engine lives and how large it may grow.
type Options struct {
	Instance     string // names the pins; DefaultInstance when empty
	PinDirectory string // in a BPF file system, which is mounted if it is not there; DefaultPinDirectory when empty
	TAP          string // name of the TAP; DefaultTAP when empty
	Attach       AttachMode

	// Limits of the tables. Those of mappings (with the Database's entries) and
	// locator-sets hold from the making of the maps until Detach.
	MappingLimit    int
	LocatorSetLimit int // DefaultLocatorSetLimit of the mappings when 0
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
	log   *slog.Logger
	pins  *pinDirectory
	space *space
	store *mapStore
	clock bootClock
	hooks *hooks
	tap   *tap
	room  *room

	paths      paths
	reassembly reassembly
	misses     *misses
	ring       *eventRing
	stop       chan struct{}
	running    sync.WaitGroup

	tapRemade  func()
	noShortcut bool
	fresh      bool // nothing was in force before

	// changing is held by whoever changes anything, mu as well while tables,
	// settings or interfaces are at hand. Both are taken in this order.
	changing sync.Mutex
	mu       sync.Mutex

	clockAdjusted moment          // when the clocks were compared last; for who holds changing, as the next three
	missing       map[string]bool // interfaces that were told not to be there
	unusable      string          // why interfaces could not be followed; empty: they could
	tapAmiss      bool            // the TAP was set down or renamed, which was told
	closed        bool

	tables     *tables
	graces     *reclaim.Clock
	ways       ways
	settings   dataplane.Settings
	interfaces map[uint32]attached // by ifindex
	lists      listsInForce
	byFlow     bool  // routes look at ports
	noXDP      error // why the kernel refuses the XDP program; nil when it does not
}

// An attached interface is one that programs know.
type attached struct {
	name   string
	record abi.Interface
	choice hookChoice
	device uint32 // of a VLAN: the kernel's own device for it; 0: none
}

var _ dataplane.PromptPlane = (*Engine)(nil)

// Open makes an engine in the calling thread's network namespace, or adopts the one
// that a process of the same instance left. The errors are ErrBusy, ErrABI, ErrNewer,
// ErrElsewhere, ErrKernel and those of the system.
func Open(options Options) (*Engine, error) {
	options = withDefaults(options)
	e := &Engine{reassembly: reassembly{sockets: map[netip.AddrPort]*net.UDPConn{}}, log: options.Logger, tapRemade: options.TAPRemade, noShortcut: options.NoShortcut, graces: reclaim.NewClock(), stop: make(chan struct{}), interfaces: map[uint32]attached{}, missing: map[string]bool{}}
	if err := e.open(options); err != nil {
		return nil, errors.Join(fmt.Errorf("kernel data plane: %w", err), e.giveUp(), missingFeatures())
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
	set(&o.Instance, DefaultInstance)
	set(&o.PinDirectory, DefaultPinDirectory)
	set(&o.TAP, DefaultTAP)
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
	if e.space, err = currentSpace(); err != nil {
		return err
	}
	if e.pins, err = openPins(o.PinDirectory, o.Instance); err != nil {
		return err
	}
	e.fresh = e.pins.isEmpty()
	if e.tap, err = openTAP(e.space, o.TAP); err != nil {
		return err
	}
	found, err := e.openStore(o)
	if err != nil {
		return err
	}
	if err := e.store.endAbandonedWatch(e.pins.maps()); err != nil {
		return err
	}
	e.clock = bootClock{offset: &e.store.words[wordClockOffset], sample: sampleClocks}
	if err := e.clock.adjust(); err != nil {
		return err
	}
	if err := e.openTables(o); err != nil {
		return err
	}
	programs, err := e.store.programs(haveDecapFlags())
	if err != nil {
		return err
	}
	if e.hooks, err = openHooks(e.space, e.pins, o.Instance, programs, e.loadXDP); err != nil {
		return err
	}
	e.hooks.clsact = o.Attach == AttachClsact
	if e.ring, err = openEventRing(e.store.maps[abi.MapEvents]); err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	e.misses = newMisses(&e.store.words[wordEventsLost], e.interfaceName, e.roomTells)
	e.misses.covering = e.covering
	e.store.unread.begin(tapQueuePackets)
	e.room = newRoom(e.tap, e, e.misses, e.store.words, e.log)
	e.room.unread = e.store.unread
	e.lookAtRoutes()
	e.room.fragments.space = e.space
	e.listenToPaths()
	if err := errors.Join(e.restoreSettings(found), e.forgetAllStatusBits()); err != nil {
		return err
	}
	if err := e.hooks.replacePrograms(); err != nil {
		return err
	}
	return e.pins.forget()
}

// ErrElsewhere says that the instance forwards in another network namespace.
var ErrElsewhere = errors.New("the instance is in force in another network namespace: use another name")

// openStore opens the maps. Those of a network namespace that is gone are removed.
func (e *Engine) openStore(o Options) (found bool, err error) {
	limits := mapLimits{mappings: o.MappingLimit, locatorSets: o.LocatorSetLimit}
	older, err := openOlder(e.pins)
	if err != nil {
		return false, err
	}
	if older != nil {
		if older.words[wordNamespace] == e.space.cookie {
			e.log.Info("converting the tables in force", "from", older.version, "to", abi.Version)
			e.store, err = older.convert(e.pins, limits)
			return true, errors.Join(err, older.close())
		}
		if err := errors.Join(e.removeElsewhere(older.maps), older.close()); err != nil {
			return false, err
		}
	}
	if e.store, found, err = openMapStore(e.pins, limits); err != nil {
		return false, err
	}
	home := &e.store.words[wordNamespace]
	if !found {
		*home = e.space.cookie
		return false, nil
	}
	if *home == e.space.cookie {
		e.warnOfLimits(limits)
		return true, nil
	}
	if err := errors.Join(e.removeElsewhere(e.store.maps), e.store.close()); err != nil {
		return false, err
	}
	if e.store, _, err = openMapStore(e.pins, limits); err != nil {
		return false, err
	}
	e.store.words[wordNamespace] = e.space.cookie
	return false, nil
}

// removeElsewhere removes what an instance left in another network namespace, unless
// it is in force there.
func (e *Engine) removeElsewhere(maps map[string]*ebpf.Map) error {
	if attached, err := attachedAnywhere(e.pins, maps); attached || err != nil {
		return cmp.Or(err, ErrElsewhere)
	}
	e.log.Info("removing what an instance left in a network namespace that is gone", "directory", e.pins.path)
	return removeAll(e.pins.maps(), e.pins.links(), e.pins.disciplines())
}

func (e *Engine) warnOfLimits(wanted mapLimits) {
	if wanted.locatorSets <= 0 {
		wanted.locatorSets = DefaultLocatorSetLimit(len(e.store.records))
	}
	differs := func(wanted, have int) bool { return wanted > 0 && wanted != have }
	if differs(wanted.mappings, len(e.store.records)) || differs(wanted.locatorSets, len(e.store.sets)) {
		e.log.Warn("limits of the tables in force hold until they are detached",
			"mappings", len(e.store.records), "locator_sets", len(e.store.sets))
	}
}

// openTables reads back what is in force and puts it in force again, by a forwarding
// table of this process.
func (e *Engine) openTables(o Options) error {
	started := time.Now()
	var err error
	e.tables, err = newTables(tableParts{
		memory: e.store, clearUsage: e.store.clearUsage, changed: e.store.changed, records: e.store.records, pages: e.store.pages, sets: e.store.sets, locators: e.store.locators, cellLimit: o.TableOctets / lpm.CellOctets,
		now:  func() time.Duration { return time.Since(started) },
		wait: reclaim.WaitForPrograms, passed: e.graces.Now, hurry: e.graces.Hurry,
	})
	if err != nil {
		return err
	}
	if err := e.restoreStates(); err != nil {
		return err
	}
	refused, err := e.tables.adopt()
	if err != nil {
		return fmt.Errorf("adopting the tables in force: %w", err)
	}
	tellRefused(e.log, refused)
	if err := e.tables.goOnline(); err != nil {
		return err
	}
	if n := e.tables.entries.count; n > 0 {
		e.log.Info("adopted the tables in force", "entries", n)
	}
	return nil
}

// start begins to read.
func (e *Engine) start() {
	e.running.Go(e.room.run)
	e.running.Go(func() { e.graces.Run(e.stop, reclaim.WaitForPrograms) })
	e.running.Go(func() { e.misses.read(e.ring, e.log) })
	e.running.Go(e.watchLinks)
	e.running.Go(e.watchSurroundings)
	e.running.Go(e.watchFeatures)
	e.running.Go(e.watchWays)
	e.running.Go(e.listenToWays)
	e.startPaths()
}

// Events implements dataplane.Plane.
func (e *Engine) Events() <-chan dataplane.Event { return e.misses.events }

// TellAtOnce implements dataplane.PromptPlane.
func (e *Engine) TellAtOnce(take func([]dataplane.Event) bool) { e.misses.atOnce.Store(&take) }

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
	err := errors.Join(e.hooks.keepOnly(nil), e.tap.remove(), removeAll(e.pins.maps(), e.pins.links()))
	err = errors.Join(err, e.releaseAll(), e.pins.remove())
	e.pins = nil
	return err
}

// end stops all goroutines; false when that was done before.
func (e *Engine) end() bool {
	if !e.markClosed() {
		return false
	}
	close(e.stop)
	_ = e.ring.close()
	_ = e.closePaths()
	e.closeReassembly()
	e.room.stop()
	e.running.Wait()
	close(e.misses.events)
	return true
}

func (e *Engine) markClosed() bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.closed
	e.closed = true
	return !was
}

// giveUp lets go of everything when the engine cannot be opened. What it made goes, unless there was something in force before.
func (e *Engine) giveUp() error {
	if !e.fresh {
		return e.release()
	}
	var errs []error
	if e.hooks != nil {
		errs = append(errs, e.hooks.keepOnly(nil))
	}
	if e.tap != nil && e.tap.made {
		errs = append(errs, e.tap.remove())
	}
	return errors.Join(append(errs, e.releaseAll(), e.pins.remove())...)
}

// release lets go of everything that this process holds.
func (e *Engine) release() error {
	err := e.releaseAll()
	if e.pins != nil {
		err = errors.Join(err, e.pins.close())
	}
	return err
}

func (e *Engine) releaseAll() error {
	var errs []error
	if e.ring != nil {
		errs = append(errs, e.ring.close())
	}
	errs = append(errs, e.closePaths())
	e.closeReassembly()
	if e.hooks != nil {
		errs = append(errs, e.hooks.close())
	}
	if e.tap != nil {
		errs = append(errs, e.tap.file.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.close())
	}
	if e.space != nil {
		errs = append(errs, e.space.close())
	}
	return errors.Join(errs...)
}

// isGone reports whether an interface vanished while it was being changed.
func isGone(err error) bool { return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) }
