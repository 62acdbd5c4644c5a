// SPDX-License-Identifier: Apache-2.0

// This file is the pending-packet queue: it reads the packets that programs put aside at the
// TAP, lets them wait for a mapping (RFC 9300 s.4), writes them back in order, and
// deals with those that are too big (RFC 9300 s.7.1). The virtio header stays with
// the packet, so that the interface that sends it at last finishes checksum and
// segmentation. It never encapsulates: the programs do, when a packet comes back.

package pending

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/dataplane/kernel/underlay"
	"loci/forward"
	"loci/lisp"
)

const (
	// maxHoldTime is how long packets of a new mapping are held back at most. Until
	// then the reader has written back what waited, unless it cannot keep up.
	maxHoldTime = 250 * time.Millisecond
	// unholdPiece is how many mappings are let go at a time: so many that no packet
	// comes in between.
	unholdPiece = 64
	// fewReleases is up to how many new mappings destinations that are waited for are
	// compared with; of more, each destination is looked up.
	fewReleases = 16
	// fewWaiting is up to how many packets the caller that installed their mapping writes
	// back itself, when the queue is at rest: so few that it is not held up.
	fewWaiting = 64
	// framesAtOnce are read one after the other, before their misses are reported together.
	framesAtOnce = 64
	// roomRest without a frame means that the next one comes by itself, as a rule.
	roomRest = time.Millisecond
	// repairPause is between two attempts to make the TAP anew.
	repairPause = time.Second
	// underWayRest is for packets to come that programs have counted.
	underWayRest = 50 * time.Microsecond
	// raiseAgainTime is when an event that found no room is tried again.
	raiseAgainTime = 100 * time.Millisecond
)

// Parts are what a queue is made of.
type Parts struct {
	TAP        *tap.TAP
	ReopenTAP  func(pause time.Duration) error // makes the TAP anew, after a pause; see TakeTAP
	Entries    *entries.Entries
	Interfaces entries.Interfaces
	Misses     *Misses
	Words      []uint64 // user space's counters
	Backlog    Backlog
	Space      *netspace.Space
	Log        *slog.Logger
}

// Queue is the pending-packet queue. What mu does not guard belongs to the goroutine that
// holds working: that of Run, except while it waits for a frame.
type Queue struct {
	working sync.Mutex // taken before mu and the engine's

	tap        *tap.TAP // changes with mu held as well
	reopenTAP  func(pause time.Duration) error
	entries    *entries.Entries
	interfaces entries.Interfaces
	misses     *Misses
	words      []uint64 // user space's counters
	log        *slog.Logger
	backlog    Backlog
	overdue    overdue
	answers    answers
	oversize   oversize

	buffer       []byte // for one frame
	waiting      *forward.WaitQueue[tap.Frame]
	destinations map[forward.Destination]struct{} // that are waited for

	packets, octets atomic.Int64 // that wait

	untold   []missedPacket                       // of the frames that were just read
	unraised map[forward.Destination]missedPacket // whose event found no room
	raisedAt time.Time                            // when they were tried last

	mu       sync.Mutex
	stopped  bool
	releases []entries.Release
	bounds   dataplane.WaitBounds
	wakes    time.Time // when the reader of the TAP is woken; zero: never
}

// NewQueue makes an empty queue, which Run sets to work.
func NewQueue(p Parts) *Queue {
	r := &Queue{
		tap: p.TAP, reopenTAP: p.ReopenTAP, entries: p.Entries, interfaces: p.Interfaces,
		misses: p.Misses, words: p.Words, log: p.Log, backlog: p.Backlog,
		bounds:       dataplane.DefaultWaitBounds,
		buffer:       make([]byte, tap.FrameOctets),
		waiting:      forward.NewWaitQueue[tap.Frame](forward.WaitBounds(dataplane.DefaultWaitBounds)),
		destinations: map[forward.Destination]struct{}{},
		unraised:     map[forward.Destination]missedPacket{},
	}
	fragments := &underlay.Fragmenter{Space: p.Space}
	r.answers = answers{
		limit: rate.NewLimiter(errorsPerSecond, errorsBurst),
		addressOf: func(ifindex uint32, family uint8) (netip.Addr, bool) {
			return r.entries.AddressOf(r.interfaces, ifindex, family)
		},
		mac:   func() [6]byte { return r.tap.Mac },
		write: r.write, fragments: fragments, log: p.Log,
	}
	r.oversize = oversize{
		log: p.Log, entries: p.Entries, answers: &r.answers, fragments: fragments, words: p.Words,
		write: r.write, drop: r.Drop, part: make([]byte, tap.VnetOctets),
	}
	if p.Backlog.numbers != nil {
		r.backlog.begin(tap.QueuePackets)
	}
	return r
}

// WithoutReading runs f while no frame is read.
func (r *Queue) WithoutReading(f func()) {
	r.working.Lock()
	defer r.working.Unlock()
	f()
}

// Waiting is how much waits.
func (r *Queue) Waiting() (packets, octets uint64) {
	return uint64(r.packets.Load()), uint64(r.octets.Load())
}

// Installed says that mappings were installed. It does not wait. Where the queue is at
// rest, which it mostly is, what is to be done is done here: waking its goroutine costs
// more than the mapping did.
func (r *Queue) Installed(releases []entries.Release) {
	if len(releases) > 0 {
		releases = r.releaseAtRest(releases)
	}
	r.notify(releases)
}

// releaseAtRest does for new mappings what run would, as far as that can be done at
// once, and returns those that are left to run.
func (r *Queue) releaseAtRest(releases []entries.Release) []entries.Release {
	if !r.working.TryLock() {
		return releases
	}
	defer r.working.Unlock()
	if r.waiting.Packets() > fewWaiting {
		return releases
	}
	r.release(releases)
	held := slices.DeleteFunc(releases, func(one entries.Release) bool { return !one.Held })
	for len(held) > 0 {
		piece := held[:min(unholdPiece, len(held))]
		if !r.entries.Unhold(piece, r.isDrained) {
			break
		}
		held = held[len(piece):]
	}
	return held
}

// notify leaves new mappings to run.
func (r *Queue) notify(releases []entries.Release) {
	if len(releases) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releases = append(r.releases, releases...)
	r.wake()
}

// wake makes the reader of the TAP look around. The caller holds mu.
func (r *Queue) wake() {
	r.wakes = time.Unix(1, 0)
	_ = r.tap.WakeAt(r.wakes) // fails only when the TAP is closed
}

// SetBounds changes how much may wait.
func (r *Queue) SetBounds(bounds dataplane.WaitBounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounds = bounds
	r.wake()
}

// Stop makes run return. Packets that wait are lost.
func (r *Queue) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.wake()
}

func (r *Queue) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// Run reads the TAP until stop.
func (r *Queue) Run() {
	r.working.Lock()
	defer r.working.Unlock()
	defer r.oversize.fragments.Close()
	for !r.isStopped() {
		if releases := r.takeReleases(); len(releases) > 0 {
			r.release(releases)
			r.unhold(releases, time.Now().Add(maxHoldTime))
			r.tell()
		}
		now := time.Now()
		r.obeyBounds()
		r.expire(now)
		r.raiseAgain(now)
		r.count()
		r.recount(now)
		err := r.takeFrames(now)
		r.tell()
		if err != nil {
			r.repair(err)
		}
	}
}

// takeFrames deals with the frames that are there, with so many at most that new mappings do not
// wait for long, or waits for one.
func (r *Queue) takeFrames(now time.Time) error {
	asked := time.Now() // what came before may have taken long
	octets, err := r.wait(now)
	if octets > 0 && err == nil && time.Since(asked) > roomRest {
		r.takeRead(octets)
		return nil // its miss is reported before the next read
	}
	for n := 1; octets > 0 && err == nil && n < framesAtOnce; n++ {
		r.takeRead(octets)
		octets, err = r.tap.TryRead(r.buffer)
	}
	r.takeRead(octets)
	return err
}

// tell raises the events of the frames that were just read, at once if the control plane is at
// rest: then it takes them in this goroutine, and the queue is free meanwhile.
func (r *Queue) tell() {
	if len(r.untold) == 0 {
		return
	}
	now := time.Now()
	untold := slices.DeleteFunc(r.untold, func(packet missedPacket) bool { return !r.misses.due(now, packet.destination) })
	r.untold = nil
	if len(untold) == 0 {
		return
	}
	r.working.Unlock()
	told := r.misses.tellAtOnce(untold)
	r.working.Lock()
	for _, packet := range untold {
		if !told && !r.misses.send(packet) && r.waiting.Waits(packet.destination) {
			r.unraised[packet.destination] = packet
		}
	}
	clear(untold)
	r.untold = untold[:0]
}

// repair has the TAP made anew when it cannot be read, as after it was deleted,
// until that succeeds or the engine ends. Meanwhile programs drop what would wait.
// It is an error only where the first attempt fails.
func (r *Queue) repair(reason error) {
	atomic.AddUint64(&r.words[store.WordTAPErrors], 1)
	for pause := time.Duration(0); !r.isStopped(); pause = repairPause {
		err := r.reopenTAP(pause)
		switch {
		case err == nil && pause == 0:
			r.log.Warn("the LISP interface was deleted or moved: made it anew at once")
		case err == nil:
			r.log.Info("the LISP interface was made anew")
		}
		if err == nil {
			r.releaseAllCovered()
			return
		}
		atomic.AddUint64(&r.words[store.WordTAPErrors], 1)
		if pause == 0 && !r.isStopped() {
			r.log.Error("the LISP interface cannot be read: packets do not wait until it is made anew", "error", reason, "attempt", err)
		}
		r.goOnWithoutTAP(time.Now())
	}
}

// goOnWithoutTAP releases new mappings, though packets that wait for them stay: packets that overtake them would be
// dropped.
func (r *Queue) goOnWithoutTAP(now time.Time) {
	r.unhold(r.takeReleases(), time.Time{})
	r.obeyBounds()
	r.expire(now)
	r.count()
}

// releaseAllCovered writes back what waits for mappings that came while there was no TAP.
func (r *Queue) releaseAllCovered() {
	for to := range r.destinations {
		r.releaseIfCovered(to)
	}
}

// TakeTAP goes on with another TAP.
func (r *Queue) TakeTAP(fresh *tap.TAP) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tap, r.wakes = fresh, time.Time{}
	r.backlog.forget()
}

// wait waits for a frame, a release, or the end of a packet's time.
func (r *Queue) wait(now time.Time) (int, error) {
	until, _ := r.waiting.NextExpiry()
	by := func(again time.Time) {
		if until.IsZero() || again.Before(until) {
			until = again
		}
	}
	if len(r.unraised) > 0 {
		by(now.Add(raiseAgainTime))
	}
	if r.overdue.looks > 0 {
		by(now.Add(lostAfter / lostLooks))
	}
	r.mu.Lock()
	if len(r.releases) > 0 || r.stopped {
		r.mu.Unlock()
		return r.tap.TryRead(r.buffer)
	}
	err := r.wakeBy(now, until)
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.read()
}

// read waits for a frame, while others may work.
func (r *Queue) read() (octets int, err error) {
	r.working.Unlock()
	locked := false
	waitErr := r.tap.Await(func(fd uintptr) bool {
		r.working.Lock()
		octets, err = tap.ReadNow(fd, r.buffer)
		if locked = !errors.Is(err, unix.EAGAIN); !locked {
			r.working.Unlock()
		}
		return locked
	})
	if !locked {
		r.working.Lock()
	}
	return tap.ReadResult(octets, errors.Join(waitErr, err))
}

// wakeBy has the reader woken at a time or before; the zero time is never. To set its
// timer costs more than to look around in vain once in a while. The caller holds mu.
func (r *Queue) wakeBy(now, until time.Time) error {
	if until.IsZero() && r.wakes.IsZero() || r.wakes.After(now) && (until.IsZero() || !until.Before(r.wakes)) {
		return nil
	}
	r.wakes = until
	return r.tap.WakeAt(until)
}

func (r *Queue) takeReleases() []entries.Release {
	r.mu.Lock()
	defer r.mu.Unlock()
	releases := r.releases
	r.releases = nil
	return releases
}

// unhold lets the programs forward by new mappings again, piece by piece, each in a
// moment when every packet that was put aside is written back, also those on their way
// to the TAP: else it would be overtaken by younger ones of its flow. After the deadline
// that no longer counts.
func (r *Queue) unhold(releases []entries.Release, deadline time.Time) {
	for len(releases) > 0 {
		piece := releases[:min(unholdPiece, len(releases))]
		octets := 0
		done := r.entries.Unhold(piece, func() bool {
			if time.Now().After(deadline) {
				return true
			}
			var err error
			octets, err = r.tap.TryRead(r.buffer)
			return err != nil || octets == 0 && r.backlog.IsZero() // run meets the error again
		})
		r.takeRead(octets)
		switch {
		case done:
			releases = releases[len(piece):]
		case octets == 0:
			r.recount(time.Now())
			time.Sleep(underWayRest)
		}
	}
}

// takeRead deals with what was read into the buffer.
func (r *Queue) takeRead(octets int) {
	if octets >= tap.VnetOctets+tap.EthernetOctets {
		f := tap.Frame(r.buffer[:octets])
		entry := r.backlog.entryOf(f)
		r.take(f)
		r.backlog.remove(entry) // now: programs let no packet with two layers overtake it before
	}
}

// isDrained reports whether all that programs sent to the TAP was read. What they have counted and the TAP does not
// have yet is on its way: a GSO packet is cut into segments there, and the kernel may put packets into a queue before
// it.
func (r *Queue) isDrained() bool { return r.tap.IsEmpty() && r.backlog.IsZero() }

// recount forgets what was counted and never comes, as what was sent while no process had the TAP open.
func (r *Queue) recount(now time.Time) {
	if r.overdue.isLost(now, !r.backlog.IsZero() && r.tap.IsEmpty()) {
		r.backlog.forget()
	}
}

// raiseAgain raises the events of packets that still wait and found no room, once in a while: they may be as many as
// packets.
func (r *Queue) raiseAgain(now time.Time) {
	if len(r.unraised) == 0 || now.Sub(r.raisedAt) < raiseAgainTime {
		return
	}
	r.raisedAt = now
	for to, packet := range r.unraised {
		if !r.waiting.Waits(to) || r.misses.raise(now, packet) {
			delete(r.unraised, to)
		}
	}
}

// release writes back the packets that new mappings cover.
func (r *Queue) release(releases []entries.Release) {
	if r.waiting.Packets() == 0 || len(releases) == 0 {
		return
	}
	if len(releases) == 1 && releases[0].Prefix.IsHost() { // the usual answer to a miss needs no search
		prefix := releases[0].Prefix
		r.releaseIfCovered(forward.Destination{Instance: prefix.Instance(), EID: prefix.EID()})
		return
	}
	for to := range r.destinations {
		covers := func(n entries.Release) bool { return n.Prefix.Contains(to.Instance, to.EID) }
		// Where there are many mappings, looking up what is waited for is faster.
		if len(releases) > fewReleases || slices.ContainsFunc(releases, covers) {
			r.releaseIfCovered(to)
		}
	}
}

// releaseIfCovered writes back what waits for a destination, unless a longer prefix
// says that it is still unknown.
func (r *Queue) releaseIfCovered(to forward.Destination) {
	if r.waiting.Waits(to) && r.entries.Covered(to) {
		r.releaseDestination(to)
	}
}

func (r *Queue) releaseDestination(to forward.Destination) {
	r.writeBack(r.waiting.Release(lisp.HostPrefix(to.Instance, to.EID)))
}

func (r *Queue) writeBack(released []forward.Waiting[tap.Frame]) {
	for _, waiting := range released {
		delete(r.destinations, waiting.Destination)
		r.writeWaiting(&waiting)
	}
	r.count()
}

// writeWaiting writes a packet back, unless its interface is gone or leads to another site by now: programs would
// take it for one of that site.
func (r *Queue) writeWaiting(waiting *forward.Waiting[tap.Frame]) {
	from, ok := r.entries.OriginOf(r.interfaces, waiting.Packet)
	if !ok || uint32(from.Instance) != waiting.Packet.Instance() {
		r.Drop(forward.DropTAPOriginUnknown, waiting.Packet)
		return
	}
	r.write(waiting.Packet, abi.TAPReleased)
}

// expire drops what waited in vain.
func (r *Queue) expire(now time.Time) {
	for _, waiting := range r.waiting.Expire(now) {
		r.Drop(forward.DropWaitingTimeLimit, waiting.Packet)
		if !r.waiting.Waits(waiting.Destination) {
			delete(r.destinations, waiting.Destination)
		}
	}
}

// take deals with a frame that was read; its memory is used again afterwards.
func (r *Queue) take(f tap.Frame) {
	if f.Magic() != abi.TAPWaiting {
		return // not for us: the programs drop what is no packet of an EID
	}
	from, ok := r.entries.OriginOf(r.interfaces, f)
	if !ok || uint32(from.Instance) != f.Instance() { // gone, or it leads to another site by now
		r.Drop(forward.DropTAPOriginUnknown, f)
		return
	}
	header, err := forward.ParseHeader(f.Packet())
	if err != nil {
		r.Drop(forward.DropInnerMalformed, f)
		return
	}
	switch f.Reason() {
	case tap.ReasonTooBig:
		r.oversize.tooBig(f, &header, from)
		return
	case tap.ReasonUnreachable:
		if r.answers.unreachable(f, &header, from) {
			atomic.AddUint64(&r.words[store.WordUnreachablesSent], 1)
		}
		return
	case tap.ReasonSegment:
		r.oversize.cut(f, &header)
		return
	case tap.ReasonChecksum:
		r.oversize.sum(f, &header, from)
		return
	case tap.ReasonHold:
		atomic.AddUint64(&r.words[store.WordHeldPackets], 1)
	}
	r.admit(f, &header, from)
}

// admit lets a packet wait, or go when its mapping has come meanwhile: then those
// that waited for the same destination go first.
func (r *Queue) admit(f tap.Frame, header *forward.Header, from entries.Origin) {
	packet := missedBy(r.entries, f, header, from)
	to := packet.destination
	if r.entries.Covered(to) {
		if r.waiting.Waits(to) {
			r.releaseDestination(to)
		}
		r.write(f, abi.TAPReleased)
		return
	}
	if from.Policy == dataplane.MissHandOver && f.SegmentOctets() == 0 && f.Reason() == tap.ReasonMiss {
		r.handOver(f, header, to)
		return
	}
	now := time.Now()
	kept := append(tap.Frame(nil), f...)
	r.obeyBounds()
	if _, reason := r.waiting.AddFrom(now, lisp.EIDFromAddr(header.Source), to, len(kept), kept); reason != forward.DropNone {
		r.Drop(reason, f)
	} else {
		r.destinations[to] = struct{}{}
		r.count()
	}
	packet.octets = toldOf(packet.form, header, kept)
	r.untold = append(r.untold, packet)
}

// missedBy says what a packet waits for, and what is reported of it: with two layers it may be the mapping of its
// RLOC.
func missedBy(known *entries.Entries, f tap.Frame, header *forward.Header, from entries.Origin) missedPacket {
	to := forward.Destination{Instance: from.Instance, EID: lisp.EIDFromAddr(header.Destination)}
	if f.Reason() == tap.ReasonRLOC {
		if source, rloc, ok := known.SecondLayer(to, header); ok {
			to, by := lisp.EIDFromAddr(rloc.Addr()), lisp.EIDFromAddr(source.Addr())
			return missedPacket{destination: forward.Destination{EID: to}, source: by, ifindex: f.Origin()}
		}
	}
	return missedPacket{destination: to, source: lisp.EIDFromAddr(header.Source), ifindex: f.Origin(), form: from.Form}
}

// toldOf is what a miss has of a packet that was kept.
func toldOf(form dataplane.MissForm, header *forward.Header, kept tap.Frame) []byte {
	switch form {
	case dataplane.MissFormHeader:
		return header.Quoted(kept.Packet())
	case dataplane.MissFormPacket:
		return kept.Packet()
	}
	return nil
}

// handOver gives a packet to the control plane, or drops it when that does not read.
// GSO packets wait instead: only the programs can finish them.
func (r *Queue) handOver(f tap.Frame, header *forward.Header, to forward.Destination) {
	finishChecksum(f, header)
	packet := missedPacket{destination: to, source: lisp.EIDFromAddr(header.Source), ifindex: f.Origin(), form: dataplane.MissFormPacket}
	packet.octets = slices.Clone(f.Packet())
	if !r.misses.handOver(packet) {
		r.Drop(forward.DropHandOverLimit, f)
		return
	}
	atomic.AddUint64(&r.words[store.WordHandedOver], 1)
}

// write gives a frame back to the programs.
func (r *Queue) write(f tap.Frame, magic byte) {
	f.SetMagic(magic)
	if err := r.tap.Write(f); err != nil {
		r.Drop(forward.DropNoTAP, f)
		r.log.Debug("a packet could not be written to the TAP", "error", err)
	}
}

// obeyBounds takes over the bounds in force.
func (r *Queue) obeyBounds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.SetBounds(forward.WaitBounds(r.bounds))
}

// Drop counts a frame that is lost.
func (r *Queue) Drop(reason forward.DropReason, f tap.Frame) {
	atomic.AddUint64(&r.words[reason], 1)
	r.entries.Dropped(f, reason)
}

func (r *Queue) count() {
	r.packets.Store(int64(r.waiting.Packets()))
	r.octets.Store(int64(r.waiting.Octets()))
}
