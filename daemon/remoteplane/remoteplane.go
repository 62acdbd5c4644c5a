// SPDX-License-Identifier: Apache-2.0

package remoteplane

// The data plane of another process, reached through its mapping socket. The
// connection is made anew when the other process was away; what the tables should
// hold is then told again, because it is not known what they hold.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

const (
	firstRedial = 50 * time.Millisecond
	lastRedial  = 2 * time.Second
	// dialPatience is how long a start waits for the other process.
	dialPatience = 30 * time.Second
	// eventPlaces is how many events wait for the loop before more are lost.
	eventPlaces = 4096
)

// Plane is a dataplane.Plane that outlives its connections.
type Plane struct {
	path    string
	log     *slog.Logger
	client  atomic.Pointer[mapsock.Client]
	events  chan dataplane.Event
	lost    atomic.Uint64
	alive   context.Context // until Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	tell   func() error // tells the other process everything; nil until it can be
	untold bool         // the connection was made anew when tell was nil
}

var _ dataplane.Plane = (*Plane)(nil)

// Dial connects to the data plane behind a mapping socket and waits for it.
func Dial(path string, log *slog.Logger) (*Plane, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	p := &Plane{path: path, log: log, events: make(chan dataplane.Event, eventPlaces)}
	if err := p.dial(ctx); err != nil {
		return nil, fmt.Errorf("no data plane at the mapping socket %s within %s: %w", path, dialPatience, err)
	}
	p.alive, p.stop = context.WithCancel(context.Background())
	p.running.Go(func() { p.run(p.alive) })
	return p, nil
}

// dial tries until it succeeds or the context ends.
func (p *Plane) dial(ctx context.Context) error {
	for pause := firstRedial; ; pause = min(2*pause, lastRedial) {
		client, err := mapsock.Dial(p.path)
		if err == nil {
			p.client.Store(client)
			return nil
		}
		p.log.Debug("mapping socket", "path", p.path, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// run passes events on and redials, until Close.
func (p *Plane) run(ctx context.Context) {
	defer close(p.events)
	for {
		p.passEvents(ctx)
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("the data plane is away: its mappings stay as they are", "path", p.path, "error", p.client.Load().Err())
		if p.dial(ctx) != nil {
			return
		}
		p.log.Info("the data plane is back: telling it everything again", "path", p.path)
		p.renewed()
	}
}

// WhenRenewed says how the other process is told everything after the connection was
// made anew; if it was made anew already, it is told now.
func (p *Plane) WhenRenewed(tell func() error) {
	p.mu.Lock()
	p.tell = tell
	untold := p.untold
	p.untold = false
	p.mu.Unlock()
	if untold {
		p.renewed()
	}
}

// renewed has the other process told everything, until that succeeds or the connection
// ends. Events are passed on meanwhile.
func (p *Plane) renewed() {
	p.mu.Lock()
	tell := p.tell
	p.untold = tell == nil
	p.mu.Unlock()
	if tell == nil {
		return
	}
	client := p.client.Load()
	p.running.Go(func() {
		for pause := firstRedial; client.Err() == nil && p.client.Load() == client; pause = min(2*pause, lastRedial) {
			err := tell()
			if err == nil {
				return
			}
			p.log.Error("the data plane was not told everything: trying again", "error", err)
			select {
			case <-time.After(pause):
			case <-p.alive.Done():
				return
			}
		}
	})
}

// passEvents returns when the connection or the context ends.
func (p *Plane) passEvents(ctx context.Context) {
	from := p.client.Load().Events()
	for {
		select {
		case e, ok := <-from:
			if !ok {
				return
			}
			p.pass(e)
		case <-ctx.Done():
			return
		}
	}
}

func (p *Plane) pass(e dataplane.Event) {
	select {
	case p.events <- e:
	default:
		p.lost.Add(1)
	}
}

// Apply implements dataplane.Plane.
func (p *Plane) Apply(operations ...dataplane.Operation) []error {
	return p.client.Load().Apply(operations...)
}

// Mapping implements dataplane.Plane.
func (p *Plane) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return p.client.Load().Mapping(prefix)
}

// Mappings implements dataplane.Plane.
func (p *Plane) Mappings() iter.Seq[dataplane.MapCacheEntry] { return p.client.Load().Mappings() }

// Database implements dataplane.Plane.
func (p *Plane) Database() iter.Seq[dataplane.DatabaseEntry] { return p.client.Load().Database() }

// LocatorStates implements dataplane.Plane.
func (p *Plane) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return p.client.Load().LocatorStates()
}

// Flows implements dataplane.Plane.
func (p *Plane) Flows() iter.Seq[dataplane.FlowEntry] { return p.client.Load().Flows() }

// Sources implements dataplane.SourceReporter.
func (p *Plane) Sources() iter.Seq2[lisp.RLOC, time.Time] { return p.client.Load().Sources() }

// Settings implements dataplane.Plane.
func (p *Plane) Settings() dataplane.Settings { return p.client.Load().Settings() }

// Counters implements dataplane.Plane.
func (p *Plane) Counters() dataplane.Counters {
	counters := p.client.Load().Counters()
	counters.EventsLost += p.lost.Load()
	return counters
}

// PathStates are what the other process knows of the paths to remote locators, as far as it is there to be asked.
func (p *Plane) PathStates(remote []lisp.RLOC) []mapsock.PathState {
	paths, err := p.client.Load().PathStates(remote)
	if err != nil {
		p.log.Warn("the data plane does not tell of paths", "error", err)
	}
	return paths
}

// Events implements dataplane.Plane.
func (p *Plane) Events() <-chan dataplane.Event { return p.events }

// Close ends the connection. The other process forwards on.
func (p *Plane) Close() error {
	p.stop()
	err := p.client.Load().Close()
	p.running.Wait()
	return err
}

// Detach is not this process's to do.
func (p *Plane) Detach(context.Context) error {
	return errors.Join(errors.New("the data plane belongs to another process, which alone can detach it"), p.Close())
}
