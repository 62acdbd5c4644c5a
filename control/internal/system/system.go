// SPDX-License-Identifier: Apache-2.0

package system

// System: what the roles of a Node share. The time of this event-loop iteration, the random source,
// the effects, the counters and who we are. It knows no role and no message.

import (
	"encoding/binary"
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// clockStep is by how much the time of day must have moved against the monotonic clock to count as set.
const clockStep = 100 * time.Millisecond

// System is what all roles of a Node share.
type System struct {
	start  time.Time      // of instants, by the time of day as it is set now
	Set    time.Duration  // by how much that was set since the Node was made
	Wall   time.Time      // of this event-loop iteration
	Now    timing.Instant // the same; never goes back
	random func([]byte)

	XTRID       [16]byte
	SiteID      uint64
	RLOCs       []lisp.RLOC
	Depth       uint8                    // layers of encapsulation
	Relaying    map[lisp.InstanceID]bool // where we are an RTR, and whether we have no EIDs there
	CutOff      bool                     // the host can use none of the locators of our Database that are ours
	Core        CoreProof                // that the core answers us
	ControlPort uint16
	Limits      settings.Limits

	Effects  []effect.Effect
	drained  int // effects already polled
	Counters counter.Totals
	NATSent  HourOctets
	// Resolutions took from the first Map-Request to its Map-Reply, Registrations from the first Map-Register
	// to the Map-Notify that has all of its EID-Prefixes.
	Resolutions, Registrations counter.Durations

	free    []byte  // memory for payloads
	Scratch []byte  // for what stands in a message only until that is encoded
	chance  [8]byte // what is being drawn

	Quiet bool // notices of every message are not wanted

	RegisterNonce uint64
	noticeLimit   timing.Bucket
	changeLimit   timing.Bucket
	refusalLimit  timing.Bucket
	probeNotices  timing.Bucket
	ReplyLimit    timing.Buckets[replyKey]
	ProbeLimit    timing.Buckets[replyKey]
	replyTotal    timing.Bucket
	negativeTotal timing.Bucket
	flowTotal     timing.Bucket // of answers with the path of a flow
	Notifies      timing.Buckets[netip.Addr]
	infoReplies   timing.Buckets[netip.Addr]
	infoTotal     timing.Bucket
}

// replyKey is what Map-Replies are limited by.
type replyKey struct {
	rloc   lisp.RLOC
	prefix lisp.Prefix
	ports  uint32 // of a flow whose path was asked for, 0 for none
}

// New makes the context of a Node that begins now.
func New(now time.Time, random func([]byte)) *System {
	// The epoch lies before the first event-loop iteration, so that instant 0 can mean "never yet".
	return &System{start: now.Add(-time.Second), Wall: now, random: random, Counters: make(counter.Totals, counter.Count())}
}

// Configure takes over who we are.
func (h *System) Configure(c settings.Config) {
	h.XTRID, h.SiteID, h.RLOCs = c.XTRID, c.SiteID, c.LocalRLOCs
	h.ControlPort, h.Limits, h.Depth = c.ControlPort, c.Limits, c.RecursionDepth
}

// Advance begins an event-loop iteration at that time. Time does not go back, whatever the caller's
// clock does.
func (h *System) Advance(now time.Time) { h.Follow(now, h.Instant(now)) }

// Follow begins an event-loop iteration at that time of day and that time by the monotonic clock. Where the time of day
// was set, times that are exchanged with the data plane by the time of day go by the new one.
func (h *System) Follow(now time.Time, running timing.Instant) {
	h.Wall = now
	h.Now = max(h.Now, running)
	if moved := now.Round(0).Sub(h.start.Round(0)) - time.Duration(running); moved.Abs() > clockStep {
		h.start = now.Add(-time.Duration(running))
		h.Set += moved
	}
}

// Instant is a time as the Node keeps it; 0 for the zero time.
func (h *System) Instant(t time.Time) timing.Instant {
	if t.IsZero() {
		return 0
	}
	return timing.Instant(t.Sub(h.start))
}

// Time is an instant as a time of day.
func (h *System) Time(i timing.Instant) time.Time { return h.start.Add(time.Duration(i)) }

// After is d from now.
func (h *System) After(d time.Duration) timing.Instant { return h.Now + timing.Instant(d) }

// Emit adds an effect.
func (h *System) Emit(e effect.Effect) { h.Effects = append(h.Effects, e) }

// Poll takes the next effect; ok is false when there is none left.
func (h *System) Poll() (effect.Effect, bool) {
	if h.drained == len(h.Effects) {
		return nil, false
	}
	e := h.Effects[h.drained]
	h.Effects[h.drained] = nil
	h.drained++
	if h.drained == len(h.Effects) {
		h.Effects, h.drained = h.Effects[:0], 0
	}
	return e, true
}

// Count adds one to a counter.
func (h *System) Count(c counter.Counter) { h.Counters[c]++ }

// Notice emits a notice if its rate allows. Changes of state have a rate of their own: what
// happens with every message does not drown them.
func (h *System) Notice(n effect.Notice) {
	switch {
	case !n.Kind.IsChange():
		if h.MayNotice() {
			h.Say(n)
		}
	case h.changeLimit.Take(h.Now, settings.ChangeNotices()):
		h.Say(n)
	default:
		h.Count(counter.NoticeLost)
	}
}

// Say emits a notice that MayNotice let pass.
func (h *System) Say(n effect.Notice) {
	n.At = h.Wall
	h.Emit(n)
}

// MayNotice takes from the rate of notices. Who calls it makes the words of what happens with
// every packet only when they are read.
func (h *System) MayNotice() bool { return !h.Quiet && h.HasNoticeLeft() }

// HasNoticeLeft is MayNotice for what an operator has to know in any case.
func (h *System) HasNoticeLeft() bool {
	if h.noticeLimit.Take(h.Now, h.Limits.Notices) {
		return true
	}
	h.Count(counter.NoticeLost)
	return false
}

// NoticeRefusal is notice for what others cause: with a rate of its own, so that
// a flood does not drown the rest, nor the rest these.
func (h *System) NoticeRefusal(n effect.Notice) {
	if !h.refusalLimit.Take(h.Now, settings.RefusalNotices()) {
		h.Count(counter.NoticeLost)
		return
	}
	h.Say(n)
}

// NoticeProbe is notice for RLOC-probes, with a rate of its own: there may be thousands a
// second.
func (h *System) NoticeProbe(words func() effect.Notice) {
	if !h.probeNotices.Take(h.Now, settings.ProbeNotices()) {
		h.Count(counter.NoticeLost)
		return
	}
	if h.MayNotice() {
		h.Say(words())
	}
}

// freeOctets is how much memory for payloads is made at once.
const freeOctets = 16 << 10

// Buffer is an empty slice for a payload of about so many octets; used says that it was used.
func (h *System) Buffer(octets int) []byte {
	if cap(h.free) < octets {
		h.free = make([]byte, 0, max(freeOctets, octets))
	}
	return h.free[:0:octets]
}

// Used is the payload, which is not overwritten: what comes after it is used next.
func (h *System) Used(payload []byte) []byte {
	if len(payload) <= cap(h.free) {
		h.free = h.free[len(payload):cap(h.free)][:0]
	}
	return payload[:len(payload):len(payload)]
}

// Send emits a packet.
func (h *System) Send(local, remote netip.AddrPort, payload []byte) {
	h.Emit(effect.SendPacket{Local: local, Remote: remote, Payload: payload})
}

// FromControlPort is a Local that leaves the address to the sender.
func (h *System) FromControlPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, h.ControlPort)
}

// AnswerFrom is the Local of an answer: the address that the question came to.
func (h *System) AnswerFrom(local netip.AddrPort) netip.AddrPort {
	if !local.Addr().IsValid() || local.Addr().IsUnspecified() {
		return h.FromControlPort()
	}
	return netip.AddrPortFrom(local.Addr(), h.ControlPort)
}

// MayNotify takes from the bucket of a peer's Map-Notifies and their
// acknowledgements.
func (h *System) MayNotify(to netip.Addr) bool {
	if h.Notifies.Take(h.Now, to, h.Limits.MapNotifies, h.Limits.RateTable) {
		return true
	}
	h.Count(counter.RefusedNotifyLimit)
	return false
}

// Nonce is an unpredictable nonce (RFC 9301 s.5.2), never 0: RFC 6830 systems mark
// SMRs with that.
func (h *System) Nonce() uint64 {
	for {
		h.random(h.chance[:])
		if n := binary.BigEndian.Uint64(h.chance[:]); n != 0 {
			return n
		}
	}
}

// Below is a random duration up to d.
func (h *System) Below(d time.Duration) time.Duration {
	b := h.chance[:4]
	h.random(b)
	return time.Duration(float64(d) * float64(binary.BigEndian.Uint32(b)) / (1 << 32))
}

// NextRegisterNonce only grows, also over restarts: it is the wall clock in nanoseconds, or
// the next number when the clock did not move or was set back. Where nothing is stored
// (Restarted) and the clock is set back between two runs, Map-Servers refuse Map-Registers as
// replays until it has caught up (RFC 9301 s.5.6).
func (h *System) NextRegisterNonce() uint64 {
	h.RegisterNonce = max(h.RegisterNonce+1, uint64(max(h.Wall.UnixNano(), 0)))
	return h.RegisterNonce
}

// RLOCOf returns the first own RLOC of a family.
func (h *System) RLOCOf(v4 bool) (lisp.RLOC, bool) {
	for _, r := range h.RLOCs {
		if r.Is4() == v4 {
			return r, true
		}
	}
	return lisp.RLOC{}, false
}

// ControlOctets is how long a UDP payload to that address may be while the MTU of
// the path is unknown (RFC 9301 s.5).
func ControlOctets(remote netip.Addr) int {
	if remote.Is4() {
		return settings.ControlPacketOctetsIPv4 - 20 - 8
	}
	return settings.ControlPacketOctetsIPv6 - 40 - 8
}
