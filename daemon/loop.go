// SPDX-License-Identifier: Apache-2.0

package daemon

// The one event loop. Who has its lock owns the Node and takes a turn: it hands an
// event to the Node and drains the Node's effects to the queues of the sockets and
// the data plane. Nothing in a turn waits for anything else, so it is as long as the
// Node's own work. Events at rest are taken by whoever brings them (directturn.go), all
// others, and the Node's deadlines, by the loop's own goroutine.

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/events"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/lisp"
)

const (
	// callQueueLength bounds the questions that wait for the loop.
	callQueueLength = 64
	// planeEventBatch is how many events of the data plane one turn takes at most: under a flood
	// of misses their Map-Requests leave together.
	planeEventBatch = 64
)

// errStopping answers a question that comes too late.
var errStopping = errors.New("the daemon is stopping")

// controlSockets are where messages come from and go to.
type controlSockets interface {
	Messages() <-chan []transport.Message
	Release(batch []transport.Message)
	Waiting() bool
	Queue(control.SendPacket)
	EndTurn()
	SetKeyring(*control.Keyring)
	Backlogged() bool
}

// loop owns a Node.
type loop struct {
	mu      sync.Mutex  // who holds it is in a turn
	running bool        // from run's start to its end
	timer   *time.Timer // rings at the Node's next deadline

	node    *control.Node
	sockets controlSockets
	worker  *planeWorker           // nil without a data plane
	store   *store.Journal         // nil without a Map-Server that has one
	misses  <-chan dataplane.Event // nil without a data plane
	handed  *handover
	events  *events.Hub
	notices *events.NoticeLog
	log     *slog.Logger
	calls   chan func(now time.Time)
	stopped chan struct{}
	detour  func(to netip.Addr) // by which sibling the site's packets go; it must not wait
	looked  time.Time           // when it was looked last whether garbage is to be collected
	clock   turnClock
	garbage *collector
}

func newLoop(node *control.Node, s controlSockets, w *planeWorker, hub *events.Hub, log *slog.Logger) *loop {
	l := &loop{
		node: node, sockets: s, worker: w, events: hub, notices: events.NewNoticeLog(log), log: log,
		detour: func(netip.Addr) {}, calls: make(chan func(time.Time), callQueueLength), stopped: make(chan struct{}),
		timer: time.NewTimer(idle), garbage: newCollector(),
	}
	l.handed = newHandover(s.Queue)
	if w != nil {
		l.misses = w.plane.Events()
	}
	return l
}

// run is the loop; it returns when the context ends, the Node's last words queued.
func (l *loop) run(ctx context.Context) {
	defer close(l.stopped)
	defer l.timer.Stop()
	logging, endLogging := context.WithCancel(context.Background())
	var logged sync.WaitGroup
	logged.Go(func() { l.notices.Run(logging) })
	defer logged.Wait()
	defer endLogging()
	var usage chan []control.Usage
	var heard chan []control.Heard
	if l.worker != nil {
		usage, heard = l.worker.usage, l.worker.heard
	}
	l.setRunning(true)
	for {
		select {
		case batch := <-l.sockets.Messages():
			for rest := batch; len(rest) > 0; {
				l.turn(turnOfMessages, func(now time.Time) { rest = rest[l.receiveSome(now, rest):] })
			}
			l.sockets.Release(batch)
		case e := <-l.misses:
			l.turn(turnOfPlane, func(now time.Time) { l.planeEvents(now, e) })
		case u := <-usage:
			l.turn(turnOfUsage, func(now time.Time) { l.node.HandleUsage(now, u) })
		case h := <-heard:
			l.turn(turnOfUsage, func(now time.Time) { l.node.HandleHeard(now, h) })
		case f := <-l.calls:
			l.turn(turnOfCall, f)
		case <-l.timer.C:
			l.turn(turnOfTimeout, l.ring)
		case <-ctx.Done():
			l.setRunning(false)
			l.shutdown(time.Now().Add(shutdownTime))
			return
		}
	}
}

const (
	// shutdownTime bounds the Node's last words, shutdownPause is for the sender where they are many.
	shutdownTime  = 5 * time.Second
	shutdownPause = time.Millisecond
)

// shutdown lets the Node say its last words, a turn after the other, until that time.
func (l *loop) shutdown(end time.Time) {
	for more := true; more && time.Now().Before(end); {
		if l.sockets.Backlogged() {
			time.Sleep(shutdownPause)
			continue
		}
		l.turn(turnOfShutdown, func(now time.Time) { more = l.node.Shutdown(now) })
	}
}

// setRunning lets others take turns, or no longer.
func (l *loop) setRunning(running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = running
	l.setTimer(time.Now())
}

// ring gives the Node what is due, if anything is.
func (l *loop) ring(now time.Time) {
	if !now.Before(l.deadline(now)) {
		l.node.HandleTimeout(now)
	}
}

// turn is one event: mutate, then drain.
func (l *loop) turn(kind turnKind, handle func(time.Time)) {
	l.mu.Lock()
	l.turnLocked(beginTurn(kind), handle)
	l.mu.Unlock()
	if l.worker != nil {
		l.worker.wakeUp()
	}
	l.betweenTurns()
}

// turnLocked is a turn of whoever holds the lock.
func (l *loop) turnLocked(start turnStart, handle func(time.Time)) {
	l.node.Heed(l.heeded())
	handle(start.wall)
	l.drain(start.wall)
	l.sockets.EndTurn()
	l.sockets.SetKeyring(l.node.Keyring())
	l.setTimer(start.wall)
	l.clock.end(start)
}

// heeded reports whether anybody wants to know what happens with every message: nobody does, mostly, and there are several such notices
// for each packet that misses.
func (l *loop) heeded() bool {
	return l.events.Followed() || l.log.Enabled(context.Background(), slog.LevelDebug)
}

// lookInterval is how often it is looked whether garbage is to be collected.
const lookInterval = 10 * time.Millisecond

// betweenTurns is for what may take its time, when all that a turn wanted is done.
func (l *loop) betweenTurns() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.looked) > lookInterval {
		l.looked = now
		l.garbage.look()
	}
}

// drain carries out what the Node wants done.
func (l *loop) drain(now time.Time) {
	for effect, ok := l.node.Poll(); ok; effect, ok = l.node.Poll() {
		l.carryOut(now, effect)
	}
}

// idle is how long the loop sleeps when the Node waits for nothing.
const idle = time.Hour

// timerPause is the shortest time until the timer rings, unless something is due already: deadlines that follow each other
// closely, as those of a thousand resolutions, are one turn.
const timerPause = time.Millisecond

// setTimer has the timer ring at the Node's next deadline.
func (l *loop) setTimer(now time.Time) { l.timer.Reset(untilRing(now, l.deadline(now))) }

func untilRing(now, deadline time.Time) time.Duration {
	if !deadline.After(now) {
		return 0
	}
	return max(deadline.Sub(now), timerPause)
}

func (l *loop) deadline(now time.Time) time.Time {
	if deadline, ok := l.node.NextDeadline(); ok {
		return deadline
	}
	return now.Add(idle)
}

// receiveTime is how long a turn takes on messages: what is left of a batch is for the next.
const receiveTime = time.Millisecond

// receiveSome hands messages to the Node, one after the other, and returns how many.
func (l *loop) receiveSome(now time.Time, batch []transport.Message) (done int) {
	for i := range batch {
		l.node.Foresee(batch[i].Received)
	}
	for done < len(batch) {
		l.receive(now, batch[done])
		l.drain(now)
		if done++; time.Since(now) > receiveTime {
			break
		}
	}
	return done
}

func (l *loop) receive(now time.Time, i transport.Message) {
	if i.Refusal != nil {
		l.log.Debug("control message refused", "reason", i.Refusal)
		l.node.HandleRefusal(now, i.Refusal)
		return
	}
	l.node.HandleReceived(now, i.Received)
}

// planeEvents hands an event to the Node, and those that came since.
func (l *loop) planeEvents(now time.Time, first dataplane.Event) {
	l.planeEvent(now, first)
	l.drain(now)
	for range planeEventBatch - 1 {
		select {
		case e := <-l.misses:
			l.planeEvent(now, e)
			l.drain(now)
		default:
			return
		}
	}
}

func (l *loop) planeEvent(now time.Time, e dataplane.Event) {
	if l.events.Followed() {
		if told, ok := events.FromPlane(now, e); ok {
			l.events.Publish(told)
		}
	}
	switch e := e.(type) {
	case dataplane.Miss:
		if e.Handed {
			l.takeHanded(now, e)
		}
		l.node.HandleMiss(now, control.Miss{Instance: e.Instance, Source: e.Source, Destination: e.Destination})
	case dataplane.LocalVersionStale:
		l.node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.RemoteVersionStale:
		l.node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.StatusBitsChanged:
		l.node.HandleStatusBits(now, control.StatusBits{Prefix: e.Prefix, From: e.From, Bits: e.Bits, Count: e.Count})
	case dataplane.Gleaned:
		l.node.HandleGleaned(now, control.Gleaned{Instance: e.Instance, Source: e.Source, Destination: e.Destination, From: e.From})
	case dataplane.NonceMismatch:
		l.node.HandleNonceMismatch(now, e.RLOC)
	case dataplane.LocatorUnreachable:
		l.node.HandleUnreachable(now, e.RLOC)
	case nil: // the plane closed its channel
		l.misses = nil
	}
}

// takeHanded gives a packet to what sends such packets. It may have been handed over while its
// mapping was on its way to the data plane: nothing more comes for it then.
func (l *loop) takeHanded(now time.Time, e dataplane.Miss) {
	l.handed.take(now, e)
	if m, ok := l.node.MappingFor(e.Instance, e.Destination); ok {
		m.Prefix = lisp.HostPrefix(e.Instance, e.Destination)
		l.handed.mapped(now, &m)
	}
}

func (l *loop) carryOut(now time.Time, effect control.Effect) {
	switch e := effect.(type) {
	case control.SendPacket:
		l.sockets.Queue(e)
	case control.Detour:
		l.detour(e.To)
	case control.Notice:
		l.notice(e)
	case control.Journal:
		if l.store != nil {
			l.store.Queue(e)
		}
	case control.InstallMapping:
		l.change(e)
		l.handed.mapped(now, &e.Mapping)
	case control.SetLocatorState:
		l.change(e)
		l.handed.setState(e.RLOC, planeStates[e.State])
	default:
		l.change(effect)
	}
}

// planeStates are the data plane's words for the states that a Node tells.
var planeStates = map[control.LocatorState]dataplane.LocatorState{
	control.LocatorUp: dataplane.LocatorUp, control.LocatorHeard: dataplane.LocatorHeard,
	control.LocatorUnconfirmed: dataplane.LocatorUnconfirmed, control.LocatorDown: dataplane.LocatorDown,
}

// nodeState is the Node's word for a state that the data plane has.
func nodeState(s dataplane.LocatorState) control.LocatorState {
	for word, state := range planeStates {
		if state == s {
			return word
		}
	}
	return control.LocatorUp
}

// change queues a table change for the data plane.
func (l *loop) change(effect control.Effect) {
	if l.worker == nil {
		return
	}
	switch e := effect.(type) {
	case control.InstallMapping:
		l.worker.queue(changeKey{prefix: e.Mapping.Prefix}, dataplane.PutMapping{Entry: entryOf(e.MapCacheEntry)})
	case control.RemoveMapping:
		l.worker.queue(changeKey{prefix: e.Prefix}, dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		l.worker.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
			Prefix: e.Prefix, Locators: e.Locators, Version: e.Version,
		}})
	case control.SetLocatorState:
		// The key of an RLOC is in the one Instance-ID that no EID has.
		key := changeKey{prefix: lisp.HostPrefix(lisp.ControlInstanceID, lisp.EIDFromAddr(e.RLOC.Addr()))}
		l.worker.queue(key, dataplane.PutLocatorState{RLOC: e.RLOC, State: planeStates[e.State]})
	case control.RemoveDatabase:
		l.worker.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.DeleteDatabase{Prefix: e.Prefix})
	}
}

func (l *loop) notice(n control.Notice) {
	fields := events.NoticeFields(n)
	l.events.Publish(api.Event{At: n.At, Kind: string(n.Kind), Fields: fields})
	l.notices.Take(n, fields)
}

// ask runs f in the loop and returns what it returned. Who asks may leave before f
// runs: f must change nothing of his.
func ask[T any](ctx context.Context, l *loop, f func(now time.Time) T) (answer T, err error) {
	answers := make(chan T, 1)
	select {
	case l.calls <- func(now time.Time) { answers <- f(now) }:
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-l.stopped:
		return answer, errStopping
	}
	select {
	case answer = <-answers:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-l.stopped:
		return answer, errStopping
	}
}

// offer queues f for the loop unless too much waits there.
func (l *loop) offer(f func(now time.Time)) bool {
	select {
	case l.calls <- f:
		return true
	default:
		return false
	}
}

// entryOf is a map-cache entry as the data plane takes it.
func entryOf(e control.MapCacheEntry) dataplane.MapCacheEntry {
	return dataplane.MapCacheEntry{Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt}
}

// versionsOf are the Map-Versions of a packet for the Node.
func versionsOf(v dataplane.PacketVersions) control.MapVersions {
	return control.MapVersions{
		Instance: v.Instance, Source: v.Source, Destination: v.Destination, From: v.From,
		SourceVersion: v.SourceVersion, DestinationVersion: v.DestinationVersion,
	}
}
