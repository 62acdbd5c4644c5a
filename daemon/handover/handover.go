// SPDX-License-Identifier: Apache-2.0

package handover

// Packets that the data plane hands to the control plane (itr.hand-over): kept until
// their mapping comes and then encapsulated here (RFC 9300 s.5), or sent at once to a
// Proxy-ETR or RTR (RFC 6832), or to the EID itself as a Data-Probe (RFC 6830 s.3). They
// leave by the control sockets, so that it takes no privilege: DSCP and ECN of the
// outer header are 0 (RFC 6040 s.4.1, compatibility mode). Nothing here asks for a
// mapping: the Node does, by the same miss. It belongs to the loop's goroutine.

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"time"

	"loci/config"
	"loci/control"
	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// Handover keeps and sends packets.
type Handover struct {
	to    config.HandedTo
	proxy netip.Addr
	local []lisp.RLOC
	send  func(control.SendPacket)

	queue  *forward.WaitQueue[handed]
	states map[lisp.Path]dataplane.LocatorState

	taken, sent, dropped atomic.Uint64
}

// handed is a packet that waits, and its header.
type handed struct {
	packet   []byte
	header   forward.Header
	instance lisp.InstanceID
}

// New returns a Handover that sends by send and keeps packets for their mapping until Configure says otherwise.
func New(send func(control.SendPacket)) *Handover {
	return &Handover{
		to: config.HandedToMapping, send: send, states: map[lisp.Path]dataplane.LocatorState{},
		queue: forward.NewWaitQueue[handed](forward.WaitBounds(dataplane.DefaultWaitBounds)),
	}
}

// Settings are what a configuration says.
type Settings struct {
	To    config.HandedTo // to wait for the mapping where it is empty
	Proxy netip.Addr
	Local []lisp.RLOC // own RLOCs
	Wait  dataplane.WaitBounds
}

// Configure puts settings in force. What waits goes on waiting.
func (h *Handover) Configure(s Settings) {
	h.local = s.Local
	h.queue.SetBounds(forward.WaitBounds(s.Wait))
	if s.To != "" {
		h.to, h.proxy = s.To, s.Proxy
	}
}

// Stats are how many packets came, were sent, and were dropped.
type Stats struct{ Taken, Sent, Dropped uint64 }

// Stats returns the counters.
func (h *Handover) Stats() Stats {
	return Stats{h.taken.Load(), h.sent.Load(), h.dropped.Load()}
}

// Take sends a packet, or keeps it for its mapping.
func (h *Handover) Take(now time.Time, miss dataplane.Miss) {
	h.taken.Add(1)
	h.expire(now)
	header, err := forward.ParseHeader(miss.Packet)
	if err != nil {
		h.dropped.Add(1)
		return
	}
	p := handed{packet: miss.Packet[:header.Length], header: header, instance: miss.Instance}
	switch h.to {
	case config.HandedToProxy:
		h.encapsulate(p, lisp.RLOCFromAddr(h.proxy))
	case config.HandedToDataProbe:
		h.encapsulate(p, lisp.RLOCFromAddr(header.Destination))
	default:
		to := forward.Destination{Instance: miss.Instance, EID: miss.Destination}
		if _, reason := h.queue.Add(now, to, len(p.packet), p); reason != forward.DropNone {
			h.dropped.Add(1)
		}
	}
}

// Mapped sends what waited for a mapping; what that is negative for is dropped.
func (h *Handover) Mapped(now time.Time, m *lisp.Mapping) {
	h.expire(now)
	if h.queue.Packets() == 0 || m.Negative() && m.Action == lisp.ActionSendMapRequest {
		return
	}
	var buckets forward.BucketVector
	shared := false
	for _, waiting := range h.queue.Release(m.Prefix) {
		if !shared {
			buckets, shared = forward.Buckets(m.Locators, h.rank), true
		}
		p := waiting.Packet
		locator, ok := forward.SelectLocator(m.Locators, &buckets, forward.FlowHash(&p.header))
		if !ok {
			h.dropped.Add(1)
			continue
		}
		h.encapsulate(p, locator.NextHop())
	}
}

// rank is forward.Rank, as the data plane has it.
func (h *Handover) rank(l *lisp.Locator) (rank int, usable bool) {
	rank, usable = h.states[l.Path()].Rank()
	return rank, usable && h.sourceFor(l.NextHop().Addr()).IsValid()
}

// SetState notes the state of a locator.
func (h *Handover) SetState(p lisp.Path, s dataplane.LocatorState) {
	if s == dataplane.LocatorUp {
		delete(h.states, p)
		return
	}
	h.states[p] = s
}

func (h *Handover) sourceFor(to netip.Addr) netip.Addr {
	for _, own := range h.local {
		if own.Is4() == to.Is4() {
			return own.Addr()
		}
	}
	return netip.Addr{}
}

// encapsulate sends a packet to an RLOC, forwarded: with a TTL one less.
func (h *Handover) encapsulate(p handed, to lisp.RLOC) {
	source := h.sourceFor(to.Addr())
	payload, err := forward.DataHeader(p.instance, 0).AppendTo(nil)
	if err != nil || !source.IsValid() || p.header.TTL <= 1 {
		h.dropped.Add(1)
		return
	}
	forward.DecrementTTL(p.packet, &p.header)
	h.send(control.SendPacket{
		Local: netip.AddrPortFrom(source, 0), Remote: netip.AddrPortFrom(to.Addr(), cmp.Or(to.Port(), forward.DataPort)), Payload: append(payload, p.packet...),
	})
	h.sent.Add(1)
}

// expire drops what waited in vain.
func (h *Handover) expire(now time.Time) {
	h.dropped.Add(uint64(len(h.queue.Expire(now))))
}
