// SPDX-License-Identifier: Apache-2.0

package user

// Opening and closing the engine.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/model"
	"loci/dataplane/user/tun"
	"loci/dataplane/user/underlay"
	"loci/forward"
	"loci/lisp"
)

const (
	// DefaultInterface names the TUN of a system that runs one instance.
	DefaultInterface = "loci0"
	// maxQueues bounds the queues of the TUN, each with two goroutines.
	maxQueues = 4
	// expiryPause is how often packets that have waited too long are looked for.
	expiryPause = 250 * time.Millisecond
)

// Options are what an engine is opened with.
type Options struct {
	Interface string // of the TUN; DefaultInterface when empty
	// Descriptors are those of a TUN that somebody else opened, inherited by this process; Socket is a Unix
	// socket where such ones are handed over. Without them the TUN is opened by its name, and made if there is
	// none.
	Descriptors []int
	Socket      string

	Mappings int // limit of the map-cache
	Queues   int // of a TUN opened by its name. 0: one for each processor, at most maxQueues
	Marking  forward.Marking
	Log      *slog.Logger
	Remade   func() // called on a goroutine of its own after the TUN had to be made anew

	now func() time.Time // of the tables, for tests
}

// Engine is a dataplane.Plane.
type Engine struct {
	log   *slog.Logger
	space *netspace.Space
	tun   *tun.Interface
	pool  *underlay.Pool
	model model.Hosted
	paths *paths

	sourcePorts sourcePorts
	// bindTrouble is what was last said of binding datagrams to interfaces. One path is asked for at a time.
	bindTrouble string

	// generation counts changes of tables and paths: flows of an earlier one are forgotten.
	generation atomic.Uint64
	marking    forward.Marking
	// plainHeaders: nothing but the Instance-ID of a LISP header that came is heeded.
	plainHeaders atomic.Bool
	subflows     atomic.Bool // Settings.Subflows
	emitter      emitter
	errors       *pathErrors // of datagrams that left

	remade   func()
	renewals atomic.Uint64 // how often the TUN was made anew

	changing   sync.Mutex                      // guards what follows
	receivers  map[uint16][]*underlay.Receiver // by port
	arriving   []string                        // interfaces by which packets for the TUN come in
	lost       bool                            // the TUN is gone, and was not made anew yet
	mtuTrouble string                          // what was last said of its MTU
	closed     bool

	stop    chan struct{}
	running sync.WaitGroup
}

var _ dataplane.Plane = (*Engine)(nil)

// Open opens the engine in the calling thread's network namespace.
func Open(o Options) (*Engine, error) {
	space, err := netspace.Current()
	if err != nil {
		return nil, err
	}
	if o.Interface == "" {
		o.Interface = DefaultInterface
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Queues == 0 {
		o.Queues = min(runtime.GOMAXPROCS(0), maxQueues)
	}
	if o.Remade == nil {
		o.Remade = func() {}
	}
	e := &Engine{
		log: o.Log, space: space, marking: o.Marking, remade: o.Remade,
		receivers: map[uint16][]*underlay.Receiver{}, stop: make(chan struct{}),
	}
	if err := e.open(o); err != nil {
		return nil, errors.Join(err, e.closeFiles(), e.space.Close())
	}
	e.start()
	return e, nil
}

func (e *Engine) open(o Options) (err error) {
	source := tun.Source{Name: o.Interface, Descriptors: o.Descriptors, Socket: o.Socket}
	if e.tun, err = tun.Open(e.space, source, o.Queues); err != nil {
		return err
	}
	e.setMTU()
	if err = e.space.Do(func() (err error) {
		e.pool, err = underlay.NewPool()
		return err
	}); err != nil {
		return err
	}
	e.sourcePorts = sourcePorts{e.space, e.pool}
	e.paths = newPaths(e.space, e.tun.Index(), e.bind, func() { e.generation.Add(1) })
	e.errors = newPathErrors(e.log, e.paths)
	e.emitter = newEmitter(e)
	random := newNonces()
	e.model = model.Hosted{Engine: model.New(model.Options{
		Now: o.now, Mappings: o.Mappings, Marking: o.Marking, Routed: true,
		Nonce: random.next, Emit: e.emitter.emit, PathMTU: e.paths.mtu, AnswerFrom: e.paths.addressTowards, IsHost: e.paths.isHost,
	})}
	e.errors.model = e.model
	e.plainHeaders.Store(true)
	if err := e.listen(forward.DataPort); err != nil {
		return err
	}
	e.tellTrains()
	return nil
}

// tellTrains says what the kernel lacks of what makes many datagrams cost little more than one.
func (e *Engine) tellTrains() {
	if !e.pool.Cuts() {
		e.log.Warn("this kernel does not take several datagrams as one (UDP_SEGMENT, Linux 4.18): TCP to the core is slower")
	}
	if !e.receivers[forward.DataPort][0].Joins() {
		e.log.Warn("this kernel does not give several datagrams as one (UDP_GRO, Linux 5.0): TCP from the core is slower")
	}
}

// bind has datagrams to an address leave by an interface, or by any, for 0. It is called for one path at a time.
func (e *Engine) bind(to netip.Addr, link int) {
	if e.pool.IsBound(to, link) {
		return
	}
	trouble := ""
	if err := e.space.Do(func() error { return e.pool.Bind(to, link) }); err != nil {
		trouble = err.Error()
	}
	if trouble != "" && e.bindTrouble != trouble {
		e.log.Error("packets to an RLOC whose route leads into the LISP interface are not sent", "rloc", to, "error", trouble)
	}
	e.bindTrouble = trouble
}

// listen opens a socket of each family for each queue. A host without IPv6 has those of IPv4 alone.
func (e *Engine) listen(port uint16) error {
	return e.space.Do(func() error {
		for range e.tun.Queues {
			four, err := underlay.Receive(false, port)
			if err != nil {
				return fmt.Errorf("data port: %w", err)
			}
			e.receivers[port] = append(e.receivers[port], four)
			six, err := underlay.Receive(true, port)
			if underlay.IsWithoutIPv6(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("data port, IPv6: %w", err)
			}
			e.receivers[port] = append(e.receivers[port], six)
		}
		return nil
	})
}

func (e *Engine) start() {
	for _, q := range e.tun.Queues {
		e.running.Go(newOutbound(e, q).run)
	}
	e.startReceivers(forward.DataPort)
	e.pool.Errors(&e.running, e.errors.pathError)
	e.running.Go(e.expire)
	e.running.Go(func() { e.errors.treatAgain(e.stop) })
	e.running.Go(e.tend)
}

func (e *Engine) startReceivers(port uint16) {
	for i, r := range e.receivers[port] {
		b := newInbound(e, port, e.tun.Queues[i%len(e.tun.Queues)].Writer(), underlay.NewSender(e.pool, e.errors.refusedByCache))
		e.running.Go(func() { b.run(r) })
	}
}

// expire gives up packets that have waited too long, also when nothing else happens.
func (e *Engine) expire() {
	ticks := time.NewTicker(expiryPause)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			e.model.Burden()
		case <-e.stop:
			return
		}
	}
}

// Mapping returns the map-cache entry of exactly that prefix.
func (e *Engine) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return e.model.Mapping(prefix)
}

// Mappings yields the map-cache as it is when the iteration begins.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] { return e.model.Mappings() }

// Database yields the Database in prefix order.
func (e *Engine) Database() iter.Seq[dataplane.DatabaseEntry] { return e.model.Database() }

// LocatorStates yields the locators that are down.
func (e *Engine) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return e.model.LocatorStates()
}

// Flows yields the flows that are bound, as they are when the iteration begins.
func (e *Engine) Flows() iter.Seq[dataplane.FlowEntry] { return e.model.Flows() }

// Settings returns what was last set.
func (e *Engine) Settings() dataplane.Settings { return e.model.Settings() }

// otherCounters are those of the model and of the caches.
var otherCounters = []string{"handed_over", "control_packets", "encapsulated_twice", "decapsulated_twice",
	"path_unidentified",
	"unreachables_sent", "subflows_limited", "tun_malformed"}

// Counters returns the totals, those that are 0 among them.
func (e *Engine) Counters() dataplane.Counters {
	c := e.model.Counters()
	for _, reason := range forward.DropReasons() {
		c.Drops[reason.String()] += 0
	}
	for _, name := range otherCounters {
		c.Other[name] += 0
	}
	c.Other["send_refused"] = e.errors.refusals.Load()
	c.Other["tun_renewed"] = e.renewals.Load()
	return c
}

// Events is where misses arrive.
func (e *Engine) Events() <-chan dataplane.Event { return e.model.Events() }

// EchoNonce implements dataplane.EchoReporter.
func (e *Engine) EchoNonce(rloc lisp.RLOC) dataplane.EchoState { return e.model.EchoNonce(rloc) }

// Sources implements dataplane.SourceReporter.
func (e *Engine) Sources() iter.Seq2[lisp.RLOC, time.Time] { return e.model.Sources() }

// PathMTU implements dataplane.PathReporter.
func (e *Engine) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) { return e.paths.reported(rloc) }

// Close ends forwarding. The TUN stays, so that packets of EIDs do not leave without encapsulation.
func (e *Engine) Close() error {
	e.changing.Lock()
	if e.closed {
		e.changing.Unlock()
		return nil
	}
	e.closed = true
	close(e.stop)
	err := e.closeFiles()
	e.changing.Unlock()
	e.running.Wait()
	return errors.Join(err, e.model.Close(), e.space.Close())
}

// closeFiles ends all reading and sending.
func (e *Engine) closeFiles() error {
	var errs []error
	for _, receivers := range e.receivers {
		for _, r := range receivers {
			errs = append(errs, r.Close())
		}
	}
	if e.pool != nil {
		errs = append(errs, e.pool.Close())
	}
	if e.tun != nil {
		errs = append(errs, e.tun.Close())
	}
	return errors.Join(errs...)
}

// ErrBusy says that another process has the TUN of that name.
var ErrBusy = tun.ErrBusy

// Remove removes the TUN that a process left, in the calling thread's network namespace; ErrBusy where it is in use.
func Remove(name string) error {
	space, err := netspace.Current()
	if err != nil {
		return err
	}
	return errors.Join(tun.Remove(space, name), space.Close())
}

// HostRouted implements dataplane.HostRouted: packets come by the TUN alone.
func (e *Engine) HostRouted() bool { return true }

// Detach ends forwarding and removes the TUN.
func (e *Engine) Detach(context.Context) error {
	e.changing.Lock()
	var err error
	if !e.closed {
		err = e.tun.Remove()
	}
	e.changing.Unlock()
	return errors.Join(err, e.Close())
}

// instance is the Instance-ID of the interfaces to the site.
func instanceOf(s *dataplane.Settings) (instance lisp.InstanceID) {
	for _, i := range s.Interfaces {
		if i.Side == dataplane.SideSite {
			return i.Instance
		}
	}
	return 0
}

// isForwarded reports whether a packet of the TUN is from elsewhere, with a hop that the host counted and that can be
// taken back.
func (e *Engine) isForwarded(p *plain) bool {
	return p.ttl < math.MaxUint8 && !e.paths.isOwn(p.source())
}
