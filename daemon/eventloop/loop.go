// SPDX-License-Identifier: Apache-2.0

package eventloop

// The event loop. An iteration hands one event to the Node, and the Node's effects to the queues of the
// sockets and the data plane. Nothing in an iteration waits for anything else, so it takes as long as the
// Node's own work. The holder of the loop's lock runs the iteration: the goroutine that brings the event when the
// daemon is idle (direct.go), else the loop's own, which also handles the Node's deadlines.

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"loci/control"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/planeworker"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/internal/nodeplane"
	"loci/lisp"
)

const (
	// callQueueLength bounds the questions that wait for the loop.
	callQueueLength = 64
	// planeEventBatch is how many events of the data plane one iteration takes at most: under a flood
	// of misses their Map-Requests are sent together.
	planeEventBatch = 64
)

// ErrStopping answers a question that comes too late.
var ErrStopping = errors.New("the daemon is stopping")

// Loop owns a Node.
type Loop struct {
	mu      sync.Mutex  // its holder is in an iteration
	running bool        // from run's start to its end
	timer   *time.Timer // fires at the Node's next deadline

	node        *control.Node
	sockets     Sockets
	worker      *planeworker.Worker // nil without a data plane
	journal     *store.Journal      // nil without a Map-Server that has one
	handed      *handover.Handover
	events      *events.Hub
	siblingPath func(to netip.Addr)
	rtrs        func([]lisp.RLOC)
	log         *slog.Logger

	misses  <-chan dataplane.Event // nil without a data plane
	notices *events.NoticeLog
	calls   chan func(now time.Time)
	stopped chan struct{}
	looked  time.Time // when it was looked last whether garbage is to be collected
	clock   iterationClock
	traffic atomic.Uint64 // iterations for messages and for events of the data plane
	garbage *collector
}

// Settle brings what the Node says at its start to those who carry it out, before run.
func (l *Loop) Settle() { l.iterate(func(time.Time) {}) }

// LastNonce is the last nonce of a Map-Register, for when run has returned.
func (l *Loop) LastNonce() uint64 { return l.node.LastRegisterNonce() }

// BeginCheckpoint has the Node begin a checkpoint, unless too much waits for the loop.
func (l *Loop) BeginCheckpoint() bool { return l.offer(l.node.Checkpoint) }

// BeginList says that a table is listed until the caller calls what it returns.
func (l *Loop) BeginList() (end func()) {
	l.garbage.lists.Add(1)
	return func() { l.garbage.lists.Add(-1) }
}

// Run is the loop; it returns when the context ends, the Node's last words queued.
func (l *Loop) Run(ctx context.Context) {
	defer close(l.stopped)
	defer l.timer.Stop()
	logging, endLogging := context.WithCancel(context.Background())
	var logged sync.WaitGroup
	logged.Go(func() { l.notices.Run(logging) })
	logged.Go(func() { l.garbage.run(logging) })
	defer logged.Wait()
	defer endLogging()
	var usage chan []control.Usage
	var heard chan []control.Heard
	var flows chan []control.BoundFlow
	if l.worker != nil {
		usage, heard, flows = l.worker.Usage, l.worker.Heard, l.worker.Flows
	}
	l.setRunning(true)
	for {
		select {
		case batch := <-l.sockets.Messages():
			for rest := batch; len(rest) > 0; {
				l.iterate(func(now time.Time) { rest = rest[l.receiveSome(now, rest):] })
			}
			l.sockets.Release(batch)
		case e := <-l.misses:
			l.iterate(func(now time.Time) { l.planeEvents(now, e) })
		case u := <-usage:
			l.iterate(func(now time.Time) { l.node.HandleUsage(now, u) })
		case h := <-heard:
			l.iterate(func(now time.Time) { l.node.HandleHeard(now, h) })
		case f := <-flows:
			l.iterate(func(now time.Time) { l.node.HandleFlows(now, f) })
		case f := <-l.calls:
			l.iterate(f)
		case <-l.timer.C:
			l.iterate(l.ring)
		case <-ctx.Done():
			l.setRunning(false)
			l.shutdown(time.Now().Add(shutdownTime))
			return
		}
	}
}

const (
	// shutdownTime bounds the Node's last messages, shutdownPause lets the sender catch up with them.
	shutdownTime  = 5 * time.Second
	shutdownPause = time.Millisecond
)

// shutdown lets the Node send its last messages, iteration by iteration, until that time.
func (l *Loop) shutdown(end time.Time) {
	for more := true; more && time.Now().Before(end); {
		if l.sockets.Backlogged() {
			time.Sleep(shutdownPause)
			continue
		}
		l.iterate(func(now time.Time) { more = l.node.Shutdown(now) })
	}
}

// setRunning lets other goroutines run iterations, or no longer.
func (l *Loop) setRunning(running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = running
	l.setTimer(time.Now())
}

// ring lets the Node handle its deadline, if it is due.
func (l *Loop) ring(now time.Time) {
	if !now.Before(l.deadline(now)) {
		l.node.HandleTimeout(now)
	}
}

// iterate is one event: mutate, then drain.
func (l *Loop) iterate(handle func(time.Time)) {
	l.mu.Lock()
	l.iterateLocked(handle)
	l.mu.Unlock()
	if l.worker != nil {
		l.worker.WakeUp()
	}
	l.betweenIterations()
}

// iterateLocked is iterate for a caller that holds the lock.
func (l *Loop) iterateLocked(handle func(time.Time)) {
	now := time.Now()
	l.node.TellMessages(l.isFollowed())
	handle(now)
	l.drain(now)
	l.sockets.EndIteration()
	l.sockets.SetKeyring(l.node.Keyring())
	l.setTimer(now)
	l.clock.end(now)
}

// isFollowed reports whether a client or the log takes notices of every message. Without one the Node does not make
// them: there are several for each packet that misses.
func (l *Loop) isFollowed() bool {
	return l.events.Followed() || l.log.Enabled(context.Background(), slog.LevelDebug)
}

// lookInterval is how often it is looked whether garbage is to be collected.
const lookInterval = 10 * time.Millisecond

// betweenIterations does what may take longer, when the effects of an iteration are carried out.
func (l *Loop) betweenIterations() {
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
func (l *Loop) drain(now time.Time) {
	for effect, ok := l.node.Poll(); ok; effect, ok = l.node.Poll() {
		l.carryOut(now, effect)
	}
}

// idle is how long the loop sleeps when the Node waits for nothing.
const idle = time.Hour

// timerPause is the shortest time until the timer fires, unless something is due already: deadlines that are
// close together, as those of a thousand resolutions, are one iteration.
const timerPause = time.Millisecond

// setTimer sets the timer to the Node's next deadline.
func (l *Loop) setTimer(now time.Time) { l.timer.Reset(untilRing(now, l.deadline(now))) }

func untilRing(now, deadline time.Time) time.Duration {
	if !deadline.After(now) {
		return 0
	}
	return max(deadline.Sub(now), timerPause)
}

func (l *Loop) deadline(now time.Time) time.Time {
	if deadline, ok := l.node.NextDeadline(); ok {
		return deadline
	}
	return now.Add(idle)
}

// receiveTime is how long one iteration handles messages; the rest of a batch is for the next.
const receiveTime = time.Millisecond

// receiveSome hands messages to the Node, one after the other, and returns how many.
func (l *Loop) receiveSome(now time.Time, batch []transport.Message) (done int) {
	l.traffic.Add(1)
	for done < len(batch) {
		l.receive(now, batch[done])
		l.drain(now)
		if done++; time.Since(now) > receiveTime {
			break
		}
	}
	return done
}

func (l *Loop) receive(now time.Time, i transport.Message) {
	if i.Refusal != nil {
		l.log.Debug("control message refused", "reason", i.Refusal)
		l.node.HandleRefusal(now, i.Refusal)
		return
	}
	l.node.HandleReceived(now, i.Received)
}

// planeEvents hands an event to the Node, and those that came since.
func (l *Loop) planeEvents(now time.Time, first dataplane.Event) {
	l.traffic.Add(1)
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

func (l *Loop) planeEvent(now time.Time, e dataplane.Event) {
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
	case dataplane.Subflow:
		l.node.HandleSubflow(now, control.Subflow{Flow: e.Flow, FromCore: e.FromCore, TCP: e.TCP})
	case dataplane.NonceMismatch:
		l.node.HandleNonceMismatch(now, e.RLOC)
	case dataplane.LocatorUnreachable:
		l.node.HandleUnreachable(now, e.RLOC)
	case dataplane.ControlPacket:
		l.node.HandleControlPacket(now, control.ControlPacket{Local: e.Destination, From: e.Source, Packet: e.Payload})
	case nil: // the plane closed its channel
		l.misses = nil
	}
}

// takeHanded gives a packet to what sends such packets. It may have been handed over while its
// mapping was on its way to the data plane: nothing more comes for it then.
func (l *Loop) takeHanded(now time.Time, e dataplane.Miss) {
	l.handed.Take(now, e)
	if m, ok := l.node.MappingFor(e.Instance, e.Destination); ok {
		m.Prefix = lisp.HostPrefix(e.Instance, e.Destination)
		l.handed.Mapped(now, &m)
	}
}

func (l *Loop) carryOut(now time.Time, effect control.Effect) {
	switch e := effect.(type) {
	case control.SendPacket:
		l.sockets.Queue(e)
	case control.SiblingPath:
		l.siblingPath(e.To)
	case control.SetRTRs:
		l.rtrs(e.RTRs)
	case control.Notice:
		l.notice(e)
	case control.Journal:
		if l.journal != nil {
			l.journal.Queue(e)
		}
	case control.InstallMapping:
		l.change(e)
		l.handed.Mapped(now, &e.Mapping)
	case control.SetLocatorState:
		l.change(e)
		l.handed.SetState(e.Path(), nodeplane.PlaneState(e.State))
	default:
		l.change(effect)
	}
}

// change queues a table change for the data plane.
func (l *Loop) change(effect control.Effect) {
	if l.worker != nil {
		l.worker.Change(effect)
	}
}

func (l *Loop) notice(n control.Notice) {
	told := events.FromNotice(n)
	l.events.Publish(told)
	l.notices.Take(n, &told)
}

// Ask runs f in the loop and returns its result. The caller may be gone before f runs, so f must not change
// anything of the caller's.
func Ask[T any](ctx context.Context, l *Loop, f func(node *control.Node, now time.Time) T) (answer T, err error) {
	answers := make(chan T, 1)
	select {
	case l.calls <- func(now time.Time) { answers <- f(l.node, now) }:
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-l.stopped:
		return answer, ErrStopping
	}
	select {
	case answer = <-answers:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-l.stopped:
		return answer, ErrStopping
	}
}

// offer queues f for the loop unless too much waits there.
func (l *Loop) offer(f func(now time.Time)) bool {
	select {
	case l.calls <- f:
		return true
	default:
		return false
	}
}

// versionsOf are the Map-Versions of a packet for the Node.
func versionsOf(v dataplane.PacketVersions) control.MapVersions {
	return control.MapVersions{
		Instance: v.Instance, Source: v.Source, Destination: v.Destination, From: v.From,
		SourceVersion: v.SourceVersion, DestinationVersion: v.DestinationVersion,
	}
}

// Traffic is how many iterations were for messages and for events of the data plane so far.
func (l *Loop) Traffic() uint64 { return l.traffic.Load() }

// Times are the longest iterations so far.
func (l *Loop) Times() Times { return l.clock.times() }

// Sockets are where messages come from and go to.
type Sockets interface {
	Messages() <-chan []transport.Message
	Release(batch []transport.Message)
	Waiting() bool
	Queue(control.SendPacket)
	EndIteration()
	SetKeyring(*control.Keyring)
	Backlogged() bool
	ReceiveDirectly(take func(a *transport.Activity, batch []transport.Message) (rest []transport.Message))
}
