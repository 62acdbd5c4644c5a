// SPDX-License-Identifier: Apache-2.0

package control

// host: what the roles of a Node share. The time of this turn, the random source,
// the effects, the counters and who we are. It knows no role and no message.

import (
	"encoding/binary"
	"net/netip"
	"time"

	"loci/lisp"
)

// clockStep is by how much the time of day must have moved against the monotonic clock to count as set.
const clockStep = 100 * time.Millisecond

// host is what all roles of a Node share.
type host struct {
	start  time.Time     // of instants, by the time of day as it is set now
	set    time.Duration // by how much that was set since the Node was made
	wall   time.Time     // of this turn
	now    instant       // the same; never goes back
	random func([]byte)

	xtrID       [16]byte
	siteID      uint64
	rlocs       []lisp.RLOC
	cutOff      bool // the host can use none of the locators of our Database that are ours
	controlPort uint16
	limits      Limits

	effects  []Effect
	drained  int // effects already polled
	counters counters

	free    []byte  // room for payloads
	scratch []byte  // for what stands in a message only until that is encoded
	chance  [8]byte // what is being drawn

	unheeded bool // nobody wants to know what happens with every message

	registerNonce uint64
	noticeLimit   bucket
	changeLimit   bucket
	refusalLimit  bucket
	probeNotices  bucket
	replyLimit    buckets[replyKey]
	probeLimit    buckets[replyKey]
	replyTotal    bucket
	negativeTotal bucket
	notifies      buckets[netip.Addr]
}

// replyKey is what Map-Replies are limited by.
type replyKey struct {
	rloc   lisp.RLOC
	prefix lisp.Prefix
}

// newHost makes the context of a Node that begins now.
func newHost(now time.Time, random func([]byte)) *host {
	// The epoch lies before the first turn, so that instant 0 can mean "never yet".
	return &host{start: now.Add(-time.Second), wall: now, random: random, counters: make(counters, counterCount())}
}

// configure takes over who we are.
func (h *host) configure(c Config) {
	h.xtrID, h.siteID, h.rlocs = c.XTRID, c.SiteID, c.LocalRLOCs
	h.controlPort, h.limits = c.ControlPort, c.Limits
}

// turn begins a turn at that time. Time does not go back, whatever the caller's
// clock does.
func (h *host) turn(now time.Time) { h.follow(now, h.instant(now)) }

// follow begins a turn at that time of day and that time by the monotonic clock. Where the time of day was set, what is told by it
// alone, by the data plane and to it, is so by the new one.
func (h *host) follow(now time.Time, running instant) {
	h.wall = now
	h.now = max(h.now, running)
	if moved := now.Round(0).Sub(h.start.Round(0)) - time.Duration(running); moved.Abs() > clockStep {
		h.start = now.Add(-time.Duration(running))
		h.set += moved
	}
}

// instant is a time as the Node keeps it; 0 for the zero time.
func (h *host) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.Sub(h.start))
}

// time is an instant as a time of day.
func (h *host) time(i instant) time.Time { return h.start.Add(time.Duration(i)) }

// after is d from now.
func (h *host) after(d time.Duration) instant { return h.now + instant(d) }

// emit adds an effect.
func (h *host) emit(e Effect) { h.effects = append(h.effects, e) }

// poll takes the next effect; ok is false when there is none left.
func (h *host) poll() (Effect, bool) {
	if h.drained == len(h.effects) {
		return nil, false
	}
	e := h.effects[h.drained]
	h.effects[h.drained] = nil
	h.drained++
	if h.drained == len(h.effects) {
		h.effects, h.drained = h.effects[:0], 0
	}
	return e, true
}

// count adds one to a counter.
func (h *host) count(c Counter) { h.counters[c]++ }

// notice emits a notice if its rate allows. Changes of state have a rate of their own: what
// happens with every message does not drown them.
func (h *host) notice(n Notice) {
	switch {
	case !n.Kind.isChange():
		if h.mayNotice() {
			h.say(n)
		}
	case h.changeLimit.take(h.now, changeNotices()):
		h.say(n)
	default:
		h.count(NoticeLost)
	}
}

// say emits a notice that mayNotice let pass.
func (h *host) say(n Notice) {
	n.At = h.wall
	h.emit(n)
}

// mayNotice takes from the rate of notices. Who calls it makes the words of what happens with
// every packet only when somebody will read them.
func (h *host) mayNotice() bool { return !h.unheeded && h.hasNoticeLeft() }

// hasNoticeLeft is mayNotice for what an operator has to know, whoever follows.
func (h *host) hasNoticeLeft() bool {
	if h.noticeLimit.take(h.now, h.limits.Notices) {
		return true
	}
	h.count(NoticeLost)
	return false
}

// noticeRefusal is notice for what strangers cause: with a rate of its own, so that
// a flood does not drown the rest, nor the rest these.
func (h *host) noticeRefusal(n Notice) {
	if !h.refusalLimit.take(h.now, refusalNotices()) {
		h.count(NoticeLost)
		return
	}
	h.say(n)
}

// noticeProbe is notice for RLOC-probes, with a rate of its own: there may be thousands a
// second.
func (h *host) noticeProbe(words func() Notice) {
	if !h.probeNotices.take(h.now, probeNotices()) {
		h.count(NoticeLost)
		return
	}
	if h.mayNotice() {
		h.say(words())
	}
}

// freeOctets is how much room for payloads is made at once.
const freeOctets = 16 << 10

// room is an empty slice for a payload of about so many octets; used says that it was used.
func (h *host) room(octets int) []byte {
	if cap(h.free) < octets {
		h.free = make([]byte, 0, max(freeOctets, octets))
	}
	return h.free[:0:octets]
}

// used is the payload, which nobody overwrites: what comes after it is used next.
func (h *host) used(payload []byte) []byte {
	if len(payload) <= cap(h.free) {
		h.free = h.free[len(payload):cap(h.free)][:0]
	}
	return payload[:len(payload):len(payload)]
}

// send emits a packet.
func (h *host) send(local, remote netip.AddrPort, payload []byte) {
	h.emit(SendPacket{Local: local, Remote: remote, Payload: payload})
}

// fromControlPort is a Local that leaves the address to the sender.
func (h *host) fromControlPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, h.controlPort)
}

// answerFrom is the Local of an answer: the address that the question came to.
func (h *host) answerFrom(local netip.AddrPort) netip.AddrPort {
	if !local.Addr().IsValid() || local.Addr().IsUnspecified() {
		return h.fromControlPort()
	}
	return netip.AddrPortFrom(local.Addr(), h.controlPort)
}

// mayNotify takes from the bucket of a peer's Map-Notifies and their
// acknowledgements.
func (h *host) mayNotify(to netip.Addr) bool {
	if h.notifies.take(h.now, to, h.limits.MapNotifies, h.limits.RateTable) {
		return true
	}
	h.count(RefusedNotifyLimit)
	return false
}

// nonce is an unpredictable nonce (RFC 9301 s.5.2), never 0: RFC 6830 systems mark
// SMRs with that.
func (h *host) nonce() uint64 {
	for {
		h.random(h.chance[:])
		if n := binary.BigEndian.Uint64(h.chance[:]); n != 0 {
			return n
		}
	}
}

// below is a random duration up to d.
func (h *host) below(d time.Duration) time.Duration {
	b := h.chance[:4]
	h.random(b)
	return time.Duration(float64(d) * float64(binary.BigEndian.Uint32(b)) / (1 << 32))
}

// nextRegisterNonce only grows, also over restarts: it is the wall clock in nanoseconds, or
// the next number when the clock did not move or was set back. Where nothing is stored
// (Restarted) and the clock is set back between two runs, Map-Servers refuse Map-Registers as
// replays until it has caught up (RFC 9301 s.5.6).
func (h *host) nextRegisterNonce() uint64 {
	h.registerNonce = max(h.registerNonce+1, uint64(max(h.wall.UnixNano(), 0)))
	return h.registerNonce
}

// rlocOf returns the first own RLOC of a family.
func (h *host) rlocOf(v4 bool) (lisp.RLOC, bool) {
	for _, r := range h.rlocs {
		if r.Is4() == v4 {
			return r, true
		}
	}
	return lisp.RLOC{}, false
}

// controlOctets is how long a UDP payload to that address may be while the MTU of
// the path is unknown (RFC 9301 s.5).
func controlOctets(remote netip.Addr) int {
	if remote.Is4() {
		return controlPacketOctetsIPv4 - 20 - 8
	}
	return controlPacketOctetsIPv6 - 40 - 8
}
