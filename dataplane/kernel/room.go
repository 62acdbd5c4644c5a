// SPDX-License-Identifier: Apache-2.0

// This file is the waiting room: it reads the packets that programs put aside at the
// TAP, lets them wait for a mapping (RFC 9300 s.4), writes them back in order, and
// deals with those that are too big (RFC 9300 s.7.1). The virtio header stays with
// the packet, so that checksum and segmentation are finished by whoever sends it at
// last. It never encapsulates: the programs do, when a packet comes back.

package kernel

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
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
	// fewWaiting is up to how many packets are written back by whoever installed their
	// mapping, when the room is at rest: so few that it does not hold him up.
	fewWaiting = 64
	// framesAtOnce are read one after the other, before their misses are told together.
	framesAtOnce = 64
	// roomRest without a frame means that the next one comes alone, as a rule.
	roomRest = time.Millisecond
	// raiseAgainTime is when an event that found no room is tried again.
	raiseAgainTime = 100 * time.Millisecond
	// errorsPerSecond limits the ICMP errors that are sent (RFC 1812 s.4.3.2.8,
	// RFC 4443 s.2.4 (f)), errorsBurst how many of them at once.
	errorsPerSecond = 100
	errorsBurst     = 100
)

// origin is what is known of the interface a packet came from.
type origin struct {
	instance lisp.InstanceID
	site     bool // not this host's own packet
	stack    bool // the host's IP forwarding has seen it
	policy   dataplane.MissPolicy
	form     dataplane.MissForm
}

// roomTables is what the room asks the engine.
type roomTables interface {
	// originOf returns what is known of an interface, false when it is none of ours.
	originOf(ifindex uint32) (origin, bool)
	// covered reports whether a mapping says what to do with packets to a destination.
	covered(to forward.Destination) bool
	// unhold lets programs forward by mappings if ready says so, at that very moment.
	unhold(holds []release, ready func() bool) bool
	// addressOf returns an address of an interface, of a family.
	addressOf(ifindex uint32, family uint8) (netip.Addr, bool)
	// reopenTAP makes the TAP anew, after a pause when it was tried just before.
	reopenTAP(pause time.Duration) error
	// wayOf returns how a packet would leave, with its header.
	wayOf(to forward.Destination, h *forward.Header) (outerWay, bool)
	// droppedWaiting tells of a frame that was dropped.
	droppedWaiting(f frame, reason forward.DropReason)
}

// A release says that a mapping was installed.
type release struct {
	prefix     lisp.Prefix
	held       bool // the programs hold its packets back
	index      uint32
	generation uint64
}

// room is the waiting room. What mu does not guard belongs to whoever holds working:
// the goroutine of run, except while it waits for a frame.
type room struct {
	working sync.Mutex // taken before mu and the engine's

	tap    *tap
	tables roomTables
	misses *misses
	words  []uint64 // user space's counters
	log    *slog.Logger
	limit  *rate.Limiter // of ICMP errors
	unread unread

	buffer       []byte // for one frame
	queue        *forward.WaitQueue[frame]
	destinations map[forward.Destination]struct{} // that are waited for

	packets, octets atomic.Int64 // that wait

	fragments fragmenter

	untold   []missed                       // of the frames that were just read
	unraised map[forward.Destination]missed // whose event found no room
	raisedAt time.Time                      // when they were tried last

	mu       sync.Mutex
	stopped  bool
	releases []release
	bounds   dataplane.WaitBounds
	wakes    time.Time // when the reader of the TAP is woken; zero: never
}

func newRoom(t *tap, tables roomTables, m *misses, words []uint64, log *slog.Logger) *room {
	return &room{
		tap: t, tables: tables, misses: m, words: words, log: log,
		limit: rate.NewLimiter(errorsPerSecond, errorsBurst), bounds: dataplane.DefaultWaitBounds,
		buffer:       make([]byte, frameOctets),
		queue:        forward.NewWaitQueue[frame](forward.WaitBounds(dataplane.DefaultWaitBounds)),
		destinations: map[forward.Destination]struct{}{}, unraised: map[forward.Destination]missed{},
	}
}

// installed says that mappings were installed. It does not wait. Where the room is at
// rest, which it mostly is, what is to be done is done here: waking its goroutine costs
// more than the mapping did.
func (r *room) installed(releases []release) {
	if len(releases) > 0 {
		releases = r.releaseAtRest(releases)
	}
	r.notify(releases)
}

// releaseAtRest does for new mappings what run would, as far as that can be done at
// once, and returns those that are left to run.
func (r *room) releaseAtRest(releases []release) []release {
	if !r.working.TryLock() {
		return releases
	}
	defer r.working.Unlock()
	if r.queue.Packets() > fewWaiting {
		return releases
	}
	r.release(releases)
	held := slices.DeleteFunc(releases, func(one release) bool { return !one.held })
	for len(held) > 0 {
		piece := held[:min(unholdPiece, len(held))]
		if !r.tables.unhold(piece, r.tap.isEmpty) {
			break
		}
		held = held[len(piece):]
	}
	return held
}

// notify leaves new mappings to run.
func (r *room) notify(releases []release) {
	if len(releases) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releases = append(r.releases, releases...)
	r.wake()
}

// wake makes the reader of the TAP look around. The caller holds mu.
func (r *room) wake() {
	r.wakes = time.Unix(1, 0)
	_ = r.tap.wakeAt(r.wakes) // fails only when the TAP is closed
}

// setBounds changes how much may wait.
func (r *room) setBounds(bounds dataplane.WaitBounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounds = bounds
	r.wake()
}

// stop makes run return. Packets that wait are lost.
func (r *room) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.wake()
}

func (r *room) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// run reads the TAP until stop.
func (r *room) run() {
	r.working.Lock()
	defer r.working.Unlock()
	defer r.fragments.close()
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
		r.recount()
		err := r.takeFrames(now)
		r.tell()
		if err != nil {
			r.repair(err)
		}
	}
}

// takeFrames deals with the frames that are there, with so many at most that new mappings do not
// wait for long, or waits for one.
func (r *room) takeFrames(now time.Time) error {
	asked := time.Now() // what came before may have taken long
	octets, err := r.wait(now)
	if octets > 0 && err == nil && time.Since(asked) > roomRest {
		r.takeRead(octets)
		return nil // it is told before it is looked whether there are more
	}
	for n := 1; octets > 0 && err == nil && n < framesAtOnce; n++ {
		r.takeRead(octets)
		octets, err = r.tap.tryRead(r.buffer)
	}
	r.takeRead(octets)
	return err
}

// tell raises the events of the frames that were just read, at once if the control plane is at
// rest: then it hears of them in this goroutine, and the room is free meanwhile.
func (r *room) tell() {
	if len(r.untold) == 0 {
		return
	}
	now := time.Now()
	untold := slices.DeleteFunc(r.untold, func(packet missed) bool { return !r.misses.due(now, packet.destination) })
	r.untold = nil
	if len(untold) == 0 {
		return
	}
	r.working.Unlock()
	told := r.misses.tellAtOnce(untold)
	r.working.Lock()
	for _, packet := range untold {
		if !told && !r.misses.send(packet) && r.queue.Waits(packet.destination) {
			r.unraised[packet.destination] = packet
		}
	}
	clear(untold)
	r.untold = untold[:0]
}

// repair has the TAP made anew when it cannot be read, as after somebody deleted it,
// until that succeeds or the engine ends. Meanwhile programs drop what would wait.
// It is an error only where the first attempt fails.
func (r *room) repair(reason error) {
	atomic.AddUint64(&r.words[wordTAPErrors], 1)
	for pause := time.Duration(0); !r.isStopped(); pause = retryTime {
		err := r.tables.reopenTAP(pause)
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
		atomic.AddUint64(&r.words[wordTAPErrors], 1)
		if pause == 0 && !r.isStopped() {
			r.log.Error("the LISP interface cannot be read: packets do not wait until it is made anew", "error", reason, "attempt", err)
		}
		r.goOnWithoutTAP(time.Now())
	}
}

// goOnWithoutTAP lets new mappings go, though what waits for them stays: nobody is overtaken by packets that would be dropped.
func (r *room) goOnWithoutTAP(now time.Time) {
	r.unhold(r.takeReleases(), time.Time{})
	r.obeyBounds()
	r.expire(now)
	r.count()
}

// releaseAllCovered writes back what waits for mappings that came while there was no TAP.
func (r *room) releaseAllCovered() {
	for to := range r.destinations {
		r.releaseIfCovered(to)
	}
}

// takeTAP goes on with another TAP.
func (r *room) takeTAP(fresh *tap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.tap, r.wakes = *fresh, time.Time{}
	r.unread.forget()
}

// wait waits for a frame, a release, or the end of a packet's time.
func (r *room) wait(now time.Time) (int, error) {
	until, _ := r.queue.NextExpiry()
	if again := now.Add(raiseAgainTime); len(r.unraised) > 0 && (until.IsZero() || again.Before(until)) {
		until = again
	}
	r.mu.Lock()
	if len(r.releases) > 0 || r.stopped {
		r.mu.Unlock()
		return r.tap.tryRead(r.buffer)
	}
	err := r.wakeBy(now, until)
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.tap.read(r.buffer, &r.working)
}

// wakeBy has the reader woken at a time or before; the zero time is never. To set its
// timer costs more than to look around in vain once in a while. The caller holds mu.
func (r *room) wakeBy(now, until time.Time) error {
	if until.IsZero() && r.wakes.IsZero() || r.wakes.After(now) && (until.IsZero() || !until.Before(r.wakes)) {
		return nil
	}
	r.wakes = until
	return r.tap.wakeAt(until)
}

func (r *room) takeReleases() []release {
	r.mu.Lock()
	defer r.mu.Unlock()
	releases := r.releases
	r.releases = nil
	return releases
}

// unhold lets the programs forward by new mappings again, piece by piece, each in a
// moment when every packet that was put aside is written back: else it would be
// overtaken by younger ones of its flow. After the deadline that no longer counts.
func (r *room) unhold(releases []release, deadline time.Time) {
	for len(releases) > 0 {
		piece := releases[:min(unholdPiece, len(releases))]
		octets := 0
		done := r.tables.unhold(piece, func() bool {
			if time.Now().After(deadline) {
				return true
			}
			var err error
			octets, err = r.tap.tryRead(r.buffer)
			return octets == 0 || err != nil // run meets the error again
		})
		r.takeRead(octets)
		if done {
			releases = releases[len(piece):]
		}
	}
}

// takeRead deals with what was read into the buffer.
func (r *room) takeRead(octets int) {
	if octets >= vnetOctets+ethernetOctets {
		f := frame(r.buffer[:octets])
		r.unread.read(f)
		r.take(f)
	}
}

// recount makes good what was counted and never got into the TAP's queue, as while nobody had it open.
func (r *room) recount() {
	if !r.unread.isZero() && r.tap.isEmpty() {
		r.unread.forget()
	}
}

// raiseAgain raises the events of packets that still wait and found no room, once in a while: they may be as many as packets.
func (r *room) raiseAgain(now time.Time) {
	if len(r.unraised) == 0 || now.Sub(r.raisedAt) < raiseAgainTime {
		return
	}
	r.raisedAt = now
	for to, packet := range r.unraised {
		if !r.queue.Waits(to) || r.misses.raise(now, packet) {
			delete(r.unraised, to)
		}
	}
}

// release writes back the packets that new mappings cover.
func (r *room) release(releases []release) {
	if r.queue.Packets() == 0 || len(releases) == 0 {
		return
	}
	if len(releases) == 1 && releases[0].prefix.IsHost() { // the usual answer to a miss needs no search
		prefix := releases[0].prefix
		r.releaseIfCovered(forward.Destination{Instance: prefix.Instance(), EID: prefix.EID()})
		return
	}
	for to := range r.destinations {
		// Of many mappings, looking up what is waited for says it sooner.
		if len(releases) > fewReleases || slices.ContainsFunc(releases, func(n release) bool { return n.prefix.Contains(to.Instance, to.EID) }) {
			r.releaseIfCovered(to)
		}
	}
}

// releaseIfCovered writes back what waits for a destination, unless a longer prefix
// says that it is still unknown.
func (r *room) releaseIfCovered(to forward.Destination) {
	if r.queue.Waits(to) && r.tables.covered(to) {
		r.releaseDestination(to)
	}
}

func (r *room) releaseDestination(to forward.Destination) {
	r.writeBack(r.queue.Release(lisp.HostPrefix(to.Instance, to.EID)))
}

func (r *room) writeBack(released []forward.Waiting[frame]) {
	for _, waiting := range released {
		delete(r.destinations, waiting.Destination)
		r.writeWaiting(&waiting)
	}
	r.count()
}

// writeWaiting writes a packet back, unless its interface is gone or leads to another site by now: programs would take it for one of that site.
func (r *room) writeWaiting(waiting *forward.Waiting[frame]) {
	if from, ok := r.tables.originOf(waiting.Packet.origin()); !ok || from.instance != waiting.Destination.Instance {
		r.drop(forward.DropTAPOriginUnknown, waiting.Packet)
		return
	}
	r.write(waiting.Packet, abi.TAPReleased)
}

// expire drops what waited in vain.
func (r *room) expire(now time.Time) {
	for _, waiting := range r.queue.Expire(now) {
		r.drop(forward.DropWaitingTimeLimit, waiting.Packet)
		if !r.queue.Waits(waiting.Destination) {
			delete(r.destinations, waiting.Destination)
		}
	}
}

// take deals with a frame that was read; its memory is used again afterwards.
func (r *room) take(f frame) {
	if f.magic() != abi.TAPWaiting {
		return // not for us: the programs drop what is no packet of an EID
	}
	from, ok := r.tables.originOf(f.origin())
	if !ok {
		r.drop(forward.DropTAPOriginUnknown, f)
		return
	}
	header, err := forward.ParseHeader(f.packet())
	if err != nil {
		r.drop(forward.DropInnerMalformed, f)
		return
	}
	switch f.reason() {
	case reasonTooBig:
		r.tooBig(f, &header, from)
		return
	case reasonUnreachable:
		r.answerUnreachable(f, &header, from)
		return
	case reasonHold:
		atomic.AddUint64(&r.words[wordHeldPackets], 1)
	}
	r.admit(f, &header, from)
}

// admit lets a packet wait, or go when its mapping has come meanwhile: then those
// that waited for the same destination go first.
func (r *room) admit(f frame, header *forward.Header, from origin) {
	to := forward.Destination{Instance: from.instance, EID: lisp.EIDFromAddr(header.Destination)}
	if r.tables.covered(to) {
		if r.queue.Waits(to) {
			r.releaseDestination(to)
		}
		r.write(f, abi.TAPReleased)
		return
	}
	if from.policy == dataplane.MissHandOver && f.segmentOctets() == 0 && f.reason() != reasonHold {
		r.handOver(f, header, to)
		return
	}
	now := time.Now()
	kept := append(frame(nil), f...)
	r.obeyBounds()
	if _, reason := r.queue.AddFrom(now, lisp.EIDFromAddr(header.Source), to, len(kept), kept); reason != forward.DropNone {
		r.drop(reason, f)
	} else {
		r.destinations[to] = struct{}{}
		r.count()
	}
	packet := missed{destination: to, source: lisp.EIDFromAddr(header.Source), ifindex: f.origin(), form: from.form}
	packet.octets = toldOf(from.form, header, kept)
	r.untold = append(r.untold, packet)
}

// toldOf is what a miss tells of a packet that was kept.
func toldOf(form dataplane.MissForm, header *forward.Header, kept frame) []byte {
	switch form {
	case dataplane.MissFormHeader:
		return header.Quoted(kept.packet())
	case dataplane.MissFormPacket:
		return kept.packet()
	}
	return nil
}

// handOver gives a packet to the control plane, or drops it when that does not read.
// Super-packets wait instead: nobody but the programs can finish them.
func (r *room) handOver(f frame, header *forward.Header, to forward.Destination) {
	finishChecksum(f, header)
	packet := missed{destination: to, source: lisp.EIDFromAddr(header.Source), ifindex: f.origin(), form: dataplane.MissFormPacket}
	packet.octets = slices.Clone(f.packet())
	if !r.misses.handOver(packet) {
		r.drop(forward.DropHandOverLimit, f)
		return
	}
	atomic.AddUint64(&r.words[wordHandedOver], 1)
}

// tooBig deals with a packet that does not fit its path: smaller segments or
// fragments where that is allowed, else an answer to its source.
func (r *room) tooBig(f frame, header *forward.Header, from origin) {
	fit, segmentOctets := forward.CheckSize(f.packet(), header, f.segmentOctets(), f.largestInner())
	switch fit {
	case forward.FitWhole: // the path has changed meanwhile
		r.write(f, abi.TAPReleased)
	case forward.FitSegments:
		f.setSegmentOctets(segmentOctets)
		r.write(f, abi.TAPReleased)
	case forward.FitFragments:
		r.fragment(f, header)
	default:
		r.doesNotFit(f, header, from)
	}
}

// doesNotFit answers the source of a packet, unless it is one that IPv6 lets it send by
// any path.
func (r *room) doesNotFit(f frame, header *forward.Header, from origin) {
	largest := f.largestInner()
	if header.Family == 6 && largest < smallestMTU {
		largest = smallestMTU
		if fit, _ := forward.CheckSize(f.packet(), header, f.segmentOctets(), largest); fit == forward.FitWhole {
			r.narrow(f, header, from)
			return
		}
	}
	r.drop(forward.DropTooBig, f)
	r.answer(f, header, from, func(dst []byte, source netip.Addr) ([]byte, bool) {
		return forward.PacketTooBig(dst, source, f.packet(), largest)
	})
}

// fragment writes a packet back in parts.
func (r *room) fragment(f frame, header *forward.Header) {
	finishChecksum(f, header)
	parts, reason := forward.Fragment(nil, f.packet(), f.largestInner())
	if reason != forward.DropNone {
		r.drop(reason, f)
		return
	}
	for _, part := range parts {
		whole := make(frame, vnetOctets, vnetOctets+ethernetOctets+len(part))
		whole = append(append(whole, f.ethernet()...), part...)
		r.write(whole, abi.TAPReleased)
	}
}

// finishChecksum does what the sender left to its interface.
func finishChecksum(f frame, header *forward.Header) {
	start, at, ok := f.unfinishedChecksum()
	end := vnetOctets + ethernetOctets + header.Length
	if !ok || end > len(f) || start >= end {
		return
	}
	checksum := forward.Checksum(f[start:end])
	if checksum == 0 {
		checksum = 0xffff // UDP's 0 says that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(f[at:], checksum)
	clear(f[:vnetOctets])
}

// write gives a frame back to the programs.
func (r *room) write(f frame, magic byte) {
	f.setMagic(magic)
	if err := r.tap.write(f); err != nil {
		r.drop(forward.DropNoTAP, f)
		r.log.Debug("a packet could not be written to the TAP", "error", err)
	}
}

// obeyBounds takes over the bounds in force.
func (r *room) obeyBounds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.SetBounds(forward.WaitBounds(r.bounds))
}

func (r *room) drop(reason forward.DropReason, f frame) {
	atomic.AddUint64(&r.words[reason], 1)
	r.tables.droppedWaiting(f, reason)
}

func (r *room) count() {
	r.packets.Store(int64(r.queue.Packets()))
	r.octets.Store(int64(r.queue.Octets()))
}
