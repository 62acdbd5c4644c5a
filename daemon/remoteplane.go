// SPDX-License-Identifier: Apache-2.0

package daemon

// The data plane of another process, reached through its mapping socket. The
// connection is made anew when the other process was away; what the tables should
// hold is then told again, because nobody knows what they hold.

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

// remotePlane is a dataplane.Plane that outlives its connections.
type remotePlane struct {
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

var _ dataplane.Plane = (*remotePlane)(nil)

// dialPlane connects to the data plane behind a mapping socket and waits for it.
func dialPlane(path string, log *slog.Logger) (*remotePlane, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	p := &remotePlane{path: path, log: log, events: make(chan dataplane.Event, eventPlaces)}
	if err := p.dial(ctx); err != nil {
		return nil, fmt.Errorf("no data plane at the mapping socket %s within %s: %w", path, dialPatience, err)
	}
	p.alive, p.stop = context.WithCancel(context.Background())
	p.running.Go(func() { p.run(p.alive) })
	return p, nil
}

// dial tries until it succeeds or the context ends.
func (p *remotePlane) dial(ctx context.Context) error {
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
func (p *remotePlane) run(ctx context.Context) {
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

// whenRenewed says how the other process is told everything after the connection was
// made anew; if it was made anew already, it is told now.
func (p *remotePlane) whenRenewed(tell func() error) {
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
func (p *remotePlane) renewed() {
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
func (p *remotePlane) passEvents(ctx context.Context) {
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

func (p *remotePlane) pass(e dataplane.Event) {
	select {
	case p.events <- e:
	default:
		p.lost.Add(1)
	}
}

func (p *remotePlane) Apply(operations ...dataplane.Operation) []error {
	return p.client.Load().Apply(operations...)
}

func (p *remotePlane) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return p.client.Load().Mapping(prefix)
}

func (p *remotePlane) Mappings() iter.Seq[dataplane.MapCacheEntry] { return p.client.Load().Mappings() }

func (p *remotePlane) Database() iter.Seq[dataplane.DatabaseEntry] { return p.client.Load().Database() }

func (p *remotePlane) LocatorStates() iter.Seq2[lisp.RLOC, dataplane.LocatorState] {
	return p.client.Load().LocatorStates()
}

// Sources implements dataplane.SourceReporter.
func (p *remotePlane) Sources() iter.Seq2[lisp.RLOC, time.Time] { return p.client.Load().Sources() }

func (p *remotePlane) Settings() dataplane.Settings { return p.client.Load().Settings() }

func (p *remotePlane) Counters() dataplane.Counters {
	counters := p.client.Load().Counters()
	counters.EventsLost += p.lost.Load()
	return counters
}

// pathStates are what the other process knows of the paths to remote locators, as far as it is there to be asked.
func (p *remotePlane) pathStates(remote []lisp.RLOC) []mapsock.PathState {
	paths, err := p.client.Load().PathStates(remote)
	if err != nil {
		p.log.Warn("the data plane does not tell of paths", "error", err)
	}
	return paths
}

func (p *remotePlane) Events() <-chan dataplane.Event { return p.events }

// Close ends the connection. The other process forwards on.
func (p *remotePlane) Close() error {
	p.stop()
	err := p.client.Load().Close()
	p.running.Wait()
	return err
}

// Detach is not this process's to do.
func (p *remotePlane) Detach(context.Context) error {
	return errors.Join(errors.New("the data plane belongs to another process, which alone can detach it"), p.Close())
}
