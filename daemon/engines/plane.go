// SPDX-License-Identifier: Apache-2.0

package engines

// The data plane that outlives its engine: what it is asked goes to the engine that is in force, and the events of that one come
// by a channel of its own. No operation is carried out while the engine is replaced.

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// eventPlaces is how many events wait for the control plane before more are lost.
const eventPlaces = 4096

// plane is a dataplane.Plane whose engine may be replaced.
type plane struct {
	applying sync.RWMutex // held by who replaces the engine, shared by those who change its tables
	engine   atomic.Pointer[dataplane.Plane]
	events   chan dataplane.Event
	lost     atomic.Uint64
	take     atomic.Pointer[func([]dataplane.Event) bool] // of TellAtOnce
	pumps    sync.WaitGroup
	ended    bool // guarded by applying
}

var _ dataplane.PromptPlane = (*plane)(nil)

func newPlane(engine dataplane.Plane) *plane {
	p := &plane{events: make(chan dataplane.Event, eventPlaces)}
	p.put(engine)
	return p
}

// put has an engine be in force. The caller holds applying, or is alone.
func (p *plane) put(engine dataplane.Plane) {
	p.engine.Store(&engine)
	if take := p.take.Load(); take != nil {
		tellAtOnce(engine, *take)
	}
	p.pumps.Go(func() {
		for event := range engine.Events() {
			select {
			case p.events <- event:
			default:
				p.lost.Add(1)
			}
		}
	})
}

// replace has another engine be in force, unless exchange returns none. Nothing changes tables meanwhile.
func (p *plane) replace(exchange func(old dataplane.Plane) (dataplane.Plane, error)) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	fresh, err := exchange(p.current())
	if fresh != nil {
		p.put(fresh)
	}
	return err
}

func (p *plane) current() dataplane.Plane { return *p.engine.Load() }

// Apply implements dataplane.Plane.
func (p *plane) Apply(operations ...dataplane.Operation) []error {
	p.applying.RLock()
	defer p.applying.RUnlock()
	return p.current().Apply(operations...)
}

// TryApply implements dataplane.PromptPlane.
func (p *plane) TryApply(operations ...dataplane.Operation) (errs []error, done bool) {
	if !p.applying.TryRLock() {
		return nil, false
	}
	defer p.applying.RUnlock()
	if engine, ok := p.current().(dataplane.PromptPlane); ok {
		return engine.TryApply(operations...)
	}
	return nil, false
}

// TellAtOnce implements dataplane.PromptPlane.
func (p *plane) TellAtOnce(take func([]dataplane.Event) bool) {
	p.applying.RLock()
	defer p.applying.RUnlock()
	p.take.Store(&take)
	tellAtOnce(p.current(), take)
}

func tellAtOnce(engine dataplane.Plane, take func([]dataplane.Event) bool) {
	if prompt, ok := engine.(dataplane.PromptPlane); ok {
		prompt.TellAtOnce(take)
	}
}

// Mapping implements dataplane.Plane.
func (p *plane) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return p.current().Mapping(prefix)
}

// Mappings implements dataplane.Plane.
func (p *plane) Mappings() iter.Seq[dataplane.MapCacheEntry] { return p.current().Mappings() }

// Database implements dataplane.Plane.
func (p *plane) Database() iter.Seq[dataplane.DatabaseEntry] { return p.current().Database() }

// LocatorStates implements dataplane.Plane.
func (p *plane) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return p.current().LocatorStates()
}

// Flows implements dataplane.Plane.
func (p *plane) Flows() iter.Seq[dataplane.FlowEntry] { return p.current().Flows() }

// Settings implements dataplane.Plane.
func (p *plane) Settings() dataplane.Settings { return p.current().Settings() }

// Counters implements dataplane.Plane. They begin anew with another engine.
func (p *plane) Counters() dataplane.Counters {
	counters := p.current().Counters()
	counters.EventsLost += p.lost.Load()
	return counters
}

// Events implements dataplane.Plane.
func (p *plane) Events() <-chan dataplane.Event { return p.events }

// Close implements dataplane.Plane.
func (p *plane) Close() error { return p.end(dataplane.Plane.Close) }

// Detach implements dataplane.Plane.
func (p *plane) Detach(ctx context.Context) error {
	return p.end(func(engine dataplane.Plane) error { return engine.Detach(ctx) })
}

// end ends the engine by a method that closes its events. Of one that has ended nothing is left.
func (p *plane) end(by func(dataplane.Plane) error) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	err := by(p.current())
	if errors.Is(err, dataplane.ErrClosed) {
		err = nil
	}
	p.pumps.Wait()
	if !p.ended {
		close(p.events)
	}
	p.ended = true
	return err
}

// HostRouted implements dataplane.HostRouted.
func (p *plane) HostRouted() bool {
	engine, ok := p.current().(dataplane.HostRouted)
	return ok && engine.HostRouted()
}

// InterfaceStates implements dataplane.InterfaceReporter.
func (p *plane) InterfaceStates() []dataplane.InterfaceState {
	if engine, ok := p.current().(dataplane.InterfaceReporter); ok {
		return engine.InterfaceStates()
	}
	return nil
}

// PathMTU implements dataplane.PathReporter.
func (p *plane) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	if engine, ok := p.current().(dataplane.PathReporter); ok {
		return engine.PathMTU(rloc)
	}
	return 0, false
}

// EchoNonce implements dataplane.EchoReporter.
func (p *plane) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	if engine, ok := p.current().(dataplane.EchoReporter); ok {
		return engine.EchoNonce(rloc)
	}
	return dataplane.EchoState{}
}

// Sources implements dataplane.SourceReporter.
func (p *plane) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	if engine, ok := p.current().(dataplane.SourceReporter); ok {
		return engine.Sources()
	}
	return func(func(lisp.RLOC, time.Time) bool) {}
}

// Datapath implements dataplane.DatapathReporter.
func (p *plane) Datapath() (dataplane.DatapathState, error) {
	if engine, ok := p.current().(dataplane.DatapathReporter); ok {
		return engine.Datapath()
	}
	return dataplane.DatapathState{}, errors.New("this data plane does not tell of its programs and tables")
}
