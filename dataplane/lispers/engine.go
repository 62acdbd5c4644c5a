// SPDX-License-Identifier: Apache-2.0

package lispers

// Engine is the control plane's end: a dataplane.Plane whose packets a foreign data
// plane forwards. It keeps the tables, since nothing can be read back, and tells the
// data plane of their changes; enginetables.go holds the tables, enginesend.go what is
// told, enginereceive.go what the data plane says. It forwards nothing itself, and no
// method waits for the data plane.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// The limits of an Engine, where EngineOptions name none.
const (
	// DefaultMappings is how many map-cache entries fit; hardware of the kind that
	// speaks this interface holds about as many.
	DefaultMappings = 1 << 17
	// DefaultDatagramOctets is what lispers.net's own data plane reads of a message.
	DefaultDatagramOctets = 8192

	// maxLocatorStates bounds the locators whose state is kept.
	maxLocatorStates = 1 << 16
	eventsWaiting    = 1024
)

// EngineOptions say where the data plane is and what it should be told.
type EngineOptions struct {
	Directory  string     // of both sockets
	Parameters Parameters // what lispers.net's control plane would say

	Mappings int // limit of the map-cache; DefaultMappings when 0
	// DatagramOctets bounds the entire map-cache in one message; what goes beyond it
	// follows entry by entry. DefaultDatagramOctets when 0, at most MaxDatagram.
	DatagramOctets int
	WatchInterval  time.Duration // DefaultWatchInterval when 0
	SocketMode     fs.FileMode   // DefaultSocketMode when 0
	Log            *slog.Logger  // none when nil
	Now            func() time.Time
}

func (o *EngineOptions) complete() error {
	if o.DatagramOctets < 0 || o.DatagramOctets > MaxDatagram {
		return fmt.Errorf("lispers.net interface: messages of %d octets: at most %d", o.DatagramOctets, MaxDatagram)
	}
	if o.DatagramOctets == 0 {
		o.DatagramOctets = DefaultDatagramOctets
	}
	if o.Mappings == 0 {
		o.Mappings = DefaultMappings
	}
	fillDefaults(&o.WatchInterval, &o.SocketMode, &o.Log, &o.Now)
	return nil
}

// Engine is a dataplane.Plane; Lacks says what it cannot do.
type Engine struct {
	options  EngineOptions
	endpoint *endpoint
	limiter  limiter
	tally    tally
	wake     chan struct{} // has room for one: something is to be told
	done     chan struct{}
	work     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	tables   engineTables
	untold   untold
	counters dataplane.Counters
	events   chan dataplane.Event
}

var _ dataplane.Plane = (*Engine)(nil)

// OpenEngine binds the control plane's socket. The data plane may come later; when it
// does, it is told everything.
func OpenEngine(options EngineOptions) (*Engine, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	end, err := open(options.Directory, ControlPlaneSocket, DataPlaneSocket, options.SocketMode)
	if err != nil {
		return nil, fmt.Errorf("lispers.net interface: %w", err)
	}
	e := &Engine{
		options: options, endpoint: end, wake: make(chan struct{}, 1), done: make(chan struct{}),
		tables: newEngineTables(options.Mappings), events: make(chan dataplane.Event, eventsWaiting),
	}
	e.counters.Drops = map[string]uint64{}
	e.tables.parameters, e.untold.limit = options.Parameters, options.Mappings+maxUntold
	e.work.Go(e.receive)
	e.work.Go(e.tell)
	return e, nil
}

// Apply changes the tables in order and has the data plane told. It does not wait
// until the data plane has done it (LacksCompletion).
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.mu.Lock()
	failed := dataplane.ApplyEach(operations, e.apply)
	e.mu.Unlock()
	e.rouse()
	return failed
}

func (e *Engine) apply(operation dataplane.Operation) error {
	if e.closed {
		return dataplane.ErrClosed
	}
	switch o := operation.(type) {
	case dataplane.PutMapping:
		if err := e.tables.putMapping(o.Entry); err != nil {
			return err
		}
		e.untold.mapping(o.Entry.Mapping.Prefix)
	case dataplane.DeleteMapping:
		return e.deleteMapping(o.Prefix)
	case dataplane.PutDatabase:
		return e.changedDatabase(e.tables.putDatabase(o.Entry))
	case dataplane.DeleteDatabase:
		return e.changedDatabase(e.tables.deleteDatabase(o.Prefix))
	case dataplane.PutLocatorState:
		return e.putLocatorState(o)
	case dataplane.SetSettings:
		return e.set(o.Settings)
	case dataplane.Flush:
		e.flush(o)
	default:
		return fmt.Errorf("operation %T: %w", operation, dataplane.ErrUnsupported)
	}
	return nil
}

// deleteMapping also tells that the mapping had expired, unless many events wait.
func (e *Engine) deleteMapping(prefix lisp.Prefix) error {
	entry := e.tables.mappings[prefix]
	if err := e.tables.deleteMapping(prefix); err != nil {
		return err
	}
	e.untold.mapping(prefix)
	switch {
	case !entry.HasExpired(e.options.Now()):
	case len(e.events) >= cap(e.events)/2:
		e.counters.EventsLost++
	default:
		e.events <- dataplane.Expired{Prefix: prefix} // only those who hold mu send
	}
	return nil
}

func (e *Engine) changedDatabase(err error) error {
	if err == nil {
		e.untold.database = true
	}
	return err
}

// putLocatorState tells every mapping of the locator anew: the interface leaves out
// locators that are not used.
func (e *Engine) putLocatorState(o dataplane.PutLocatorState) error {
	changed, err := e.tables.putLocatorState(o.Path(), o.State)
	if err != nil || !changed {
		return err
	}
	e.retell(func(l lisp.Locator) bool { return l.Path() == o.Path() })
	return nil
}

// retell tells the mappings anew that have such a locator.
func (e *Engine) retell(is func(lisp.Locator) bool) {
	for prefix, entry := range e.tables.mappings {
		if slices.ContainsFunc(entry.Mapping.Locators, is) {
			e.untold.mapping(prefix)
		}
	}
}

func (e *Engine) set(s dataplane.Settings) error {
	if err := checkSettings(s); err != nil {
		return err
	}
	if asksMore(&s) && !reflect.DeepEqual(missSettings(&s), missSettings(&e.tables.settings)) {
		e.tally.add(settingsNotTold)
		e.options.Log.Warn("the lispers.net interface cannot tell the data plane what to do with packets that no mapping covers", "miss_policy", s.MissPolicy)
	}
	e.tables.settings = s.Clone()
	e.untold.interfaces = true
	return nil
}

// missSettings are what of the settings concerns misses.
func missSettings(s *dataplane.Settings) dataplane.Settings {
	return dataplane.Settings{MissPolicy: s.MissPolicy, MissPolicies: s.MissPolicies, MissForm: s.MissForm}
}

// asksMore reports whether settings want something else of a miss than the interface
// has: the packet waits, and the control plane learns its EIDs.
func asksMore(s *dataplane.Settings) bool {
	return s.MissPolicy != dataplane.MissQueue || s.MissForm != dataplane.MissFormEID || len(s.MissPolicies) > 0
}

func (e *Engine) flush(o dataplane.Flush) {
	if o.MapCache {
		clear(e.tables.mappings)
		e.untold.everything(true)
	}
	if o.Database {
		e.tables.clearDatabase()
		e.untold.database = true
	}
}

// Mapping returns the entry of exactly that prefix.
func (e *Engine) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry, ok := e.tables.mappings[prefix]
	return entry, ok
}

// Mappings yields the map-cache. It holds the prefixes that were there when it began.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		e.mu.Lock()
		prefixes := make([]lisp.Prefix, 0, len(e.tables.mappings))
		for prefix := range e.tables.mappings {
			prefixes = append(prefixes, prefix)
		}
		e.mu.Unlock()
		for _, prefix := range prefixes {
			if entry, ok := e.Mapping(prefix); ok && !yield(entry) {
				return
			}
		}
	}
}

// Database yields the Database in prefix order, as it is when the iteration begins.
func (e *Engine) Database() iter.Seq[dataplane.DatabaseEntry] {
	return func(yield func(dataplane.DatabaseEntry) bool) {
		e.mu.Lock()
		entries := e.tables.databaseEntries()
		e.mu.Unlock()
		for _, entry := range entries {
			if !yield(entry) {
				return
			}
		}
	}
}

// LocatorStates yields the locators whose state was set, in path order.
func (e *Engine) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return func(yield func(lisp.Path, dataplane.LocatorState) bool) {
		e.mu.Lock()
		states := make(map[lisp.Path]dataplane.LocatorState, len(e.tables.states))
		order := make([]lisp.Path, 0, len(states))
		for path, state := range e.tables.states {
			states[path] = state
			order = append(order, path)
		}
		e.mu.Unlock()
		slices.SortFunc(order, lisp.Path.Compare)
		for _, path := range order {
			if !yield(path, states[path]) {
				return
			}
		}
	}
}

// Flows yields nothing: the interface has no words for flows that are bound to a path.
func (e *Engine) Flows() iter.Seq[dataplane.FlowEntry] {
	return func(func(dataplane.FlowEntry) bool) {}
}

// Settings returns what was last set, also what the data plane cannot be told.
func (e *Engine) Settings() dataplane.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tables.settings.Clone()
}

// Counters returns what the data plane has told, and in Other what the interface
// counts. MissPackets are discoveries.
func (e *Engine) Counters() dataplane.Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.counters
	c.Drops = make(map[string]uint64, len(e.counters.Drops))
	for reason, packets := range e.counters.Drops {
		c.Drops[reason] = packets
	}
	c.Other = make(map[string]uint64, counterCount)
	e.tally.into(c.Other)
	return c
}

// Events is where misses arrive.
func (e *Engine) Events() <-chan dataplane.Event { return e.events }

// Connected reports whether the data plane was there when it was last looked for.
func (e *Engine) Connected() bool { return e.endpoint.connected() }

// SetParameters changes what the data plane is told beyond tables.
func (e *Engine) SetParameters(p Parameters) {
	e.mu.Lock()
	e.tables.parameters = p
	e.untold.parameters = true
	e.mu.Unlock()
	e.rouse()
}

// PutEncryptionKeys gives the keys for packets to an RLOC, in whichever mappings it
// stands; none removes them (RFC 8061). ErrFull when too many RLOCs have keys.
func (e *Engine) PutEncryptionKeys(to lisp.RLOC, keys ...Key) error {
	return e.putKeys(to, keys, func() error {
		if err := e.tables.keys.encrypt(to, keys); err != nil {
			return err
		}
		e.retell(func(l lisp.Locator) bool { return l.NextHop() == to })
		return nil
	})
}

// PutDecryptionKeys gives the keys for packets that an RLOC sends from a UDP port, 0
// for any; none tells the data plane an empty list.
func (e *Engine) PutDecryptionKeys(from lisp.RLOC, port uint16, keys ...Key) error {
	return e.putKeys(from, keys, func() error {
		at := peerPort{from, port}
		if len(e.untold.keys) > 2*maxKeyed {
			return dataplane.ErrFull // the data plane does not read
		}
		if err := e.tables.keys.decrypt(at, keys); err != nil {
			return err
		}
		e.untold.keysOf(at)
		return nil
	})
}

func (e *Engine) putKeys(of lisp.RLOC, keys []Key, keep func() error) error {
	if err := of.Valid(); err != nil {
		return fmt.Errorf("keys of %s: %w: %w", of, dataplane.ErrInvalid, err)
	}
	if len(keys) > maxKeys {
		return fmt.Errorf("keys of %s: %d of them, at most %d: %w", of, len(keys), maxKeys, dataplane.ErrInvalid)
	}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return fmt.Errorf("keys of %s: %w: %w", of, dataplane.ErrInvalid, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return dataplane.ErrClosed
	}
	defer e.rouse()
	if err := keep(); err != nil {
		return fmt.Errorf("keys of %s: %w", of, err)
	}
	return nil
}

// Close ends the interface. The data plane keeps its tables and forwards on.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.events)
	close(e.done)
	e.mu.Unlock()
	err := e.endpoint.close()
	e.work.Wait()
	return err
}

// drainInterval is how often Detach looks whether all is told.
const drainInterval = 5 * time.Millisecond

// Detach empties the data plane's tables and closes. It waits until the data plane was
// told, or is not there, or the context ends.
func (e *Engine) Detach(ctx context.Context) error {
	settings := e.Settings()
	settings.Interfaces = nil
	failed := e.Apply(dataplane.Flush{MapCache: true, Database: true}, dataplane.SetSettings{Settings: settings})
	if slices.ContainsFunc(failed, func(err error) bool { return errors.Is(err, dataplane.ErrClosed) }) {
		return nil
	}
	ticker := time.NewTicker(drainInterval)
	defer ticker.Stop()
	for !e.idle() && e.endpoint.connected() {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("lispers.net interface: the data plane was not told to empty its tables: %w", ctx.Err()), e.Close())
		case <-ticker.C:
		}
	}
	return errors.Join(errors.Join(failed...), e.Close())
}
