// SPDX-License-Identifier: Apache-2.0

package nat

// Keepalives: RLOC-probes of the RTR, from the data port. They keep the NAT's binding, and find out that it is another
// one: the RTR answers only to the address and port that it has for this node, or says that it has others (a Map-Reply
// without locators).

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// keeperWait is how long an answer of the RTR may take.
	keeperWait = 500 * time.Millisecond
	// keeperLead is how long before a keepalive a Map-Register goes that makes it needless.
	keeperLead = 500 * time.Millisecond
	// silentKeepalives without any answer the RTR is called silent; where none are sent, silentRegisters, which
	// take silentRegistersLast.
	silentKeepalives    = 2
	silentRegisters     = 3
	silentRegistersLast = 7 * time.Second
)

// keeper sends them.
type keeper struct {
	h    *system.System
	node *Node

	Timers      timing.Deadlines // one: 0
	nonce       uint64           // of the probe that is not answered yet, 0 for none
	begunAt     timing.Instant   // when this RTR was taken
	sentAt      timing.Instant   // the last keepalive
	confirmedAt timing.Instant   // the RTR's last word that it knows this node's address
	unanswered  int              // keepalives since
	knows       bool             // that was its last word
	silent      bool             // as it was reported
	lost        uint64           // times that the RTR had another address and port for this node, or none
	changes     changes          // when it had, after it knew this node's address

	Confirmed      func()     // for the first time by this RTR
	Unacknowledged func() int // Map-Registers by this RTR, of the Map-Server with the fewest
}

const keeperTimer = 0

// begin is for another RTR, or none.
func (k *keeper) begin() {
	k.nonce, k.confirmedAt, k.unanswered, k.begunAt = 0, 0, 0, k.h.Now
	k.silent, k.knows, k.changes = false, false, changes{}
	k.Timers.Remove(keeperTimer)
	if k.node.Path.RTR.IsValid() {
		k.next(k.h.Now)
	}
}

// reconfigure takes over another interval. A keepalive on its way is waited for first.
func (k *keeper) reconfigure() {
	if k.node.Path.RTR.IsValid() && k.nonce == 0 {
		k.next(max(k.begunAt, k.sentAt, k.confirmedAt))
	}
}

// next is when the keepalive after that time is due, if there are any.
func (k *keeper) next(after timing.Instant) {
	if k.node.config.Keepalive <= 0 {
		k.Timers.Set(keeperTimer, k.h.After(silentRegistersLast)) // whether Map-Registers are acknowledged
		return
	}
	k.Timers.Set(keeperTimer, max(after+timing.Instant(k.node.config.Keepalive), k.h.Now))
}

// Notified is for a Map-Notify that came by the RTR.
func (k *keeper) Notified() {
	k.nonce, k.unanswered = 0, 0
	k.next(k.h.Now)
	k.confirm()
}

// HandleTimeout sends the next keepalive, or misses the answer to the last one.
func (k *keeper) HandleTimeout(uint32) {
	if !k.node.Path.RTR.IsValid() || k.node.from == nil {
		return
	}
	if k.nonce != 0 {
		k.nonce = 0
		k.unanswered++
		k.h.Count(counter.NATKeepaliveUnanswered)
		k.noteSilence()
		k.again()
		return
	}
	if k.node.config.Keepalive <= 0 {
		k.noteSilence()
		k.next(k.h.Now)
		return
	}
	k.send()
}

// again registers by the RTR: the NAT's binding is lost, or it is not known whether it is.
func (k *keeper) again() {
	k.next(k.sentAt)
	k.node.Register()
}

func (k *keeper) send() {
	path, about := k.node.Path, k.node.from.prefix
	k.sentAt = k.h.Now
	k.Timers.Set(keeperTimer, k.h.After(keeperWait))
	k.nonce = k.h.Nonce()
	m := &wire.MapRequest{
		Probe: true, Nonce: k.nonce, SourceEID: wire.NoAddress{},
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(path.Local))},
		Records:  []wire.RequestRecord{{MaskLen: uint8(about.Bits()), EID: wire.AddressOf(about)}},
	}
	payload, err := m.AppendTo(k.h.Buffer(system.UsualECMOctets))
	if err != nil {
		k.h.Count(counter.RefusedEncoding)
		return
	}
	rtr := netip.AddrPortFrom(path.RTR, k.h.ControlPort)
	k.h.SendNAT(netip.AddrPortFrom(path.Local, wire.DataPort), rtr, k.h.Used(payload))
	k.h.Count(counter.NATKeepaliveSent)
}

// HandleProbeReply takes the RTR's answer to a keepalive; false where it answers none.
func (k *keeper) HandleProbeReply(m *wire.MapReply) bool {
	if k.nonce == 0 || m.Nonce != k.nonce || !m.Probe || len(m.Records) == 0 {
		return false
	}
	k.nonce, k.unanswered = 0, 0
	if len(m.Records[0].Locators) == 0 {
		k.lost++
		k.h.Count(counter.NATBindingLost)
		k.noteSilence()
		if k.knows {
			k.knows = false
			k.changes.note(k.h.Now)
			k.notice(effect.NoticeNATBindingLost)
		}
		k.again()
		return true
	}
	k.next(k.sentAt)
	k.confirm()
	return true
}

// confirm is for the RTR's word that it knows this node's address: packets go to it from the first one on.
func (k *keeper) confirm() {
	first := k.confirmedAt == 0
	k.confirmedAt = k.h.Now
	k.confirmed()
	if first {
		k.Confirmed()
	}
}

// confirmed is for the RTR's word that it knows this node's address.
func (k *keeper) confirmed() {
	k.noteSilence()
	if !k.knows {
		k.knows = true
		k.notice(effect.NoticeRTRConfirmed)
	}
}

func (k *keeper) isSilent() bool { return k.unanswered >= silentKeepalives || k.leavesRegisters() }

// leavesRegisters reports whether an RTR that gets no keepalives passes no Map-Register on, or no Map-Notify back.
func (k *keeper) leavesRegisters() bool {
	return k.node.config.Keepalive <= 0 && k.h.Now >= k.begunAt+timing.Instant(silentRegistersLast) &&
		k.Unacknowledged() >= silentRegisters
}

func (k *keeper) status(s *status.NAT) {
	if !k.node.Path.RTR.IsValid() {
		return
	}
	s.Since, s.BindingsLost = k.h.Time(k.begunAt), k.lost
	s.Silent = k.isSilent()
	if since, often := k.changes.oftenSince(k.h.Now); often {
		s.OftenChangedSince = k.h.Time(since)
	}
	if k.sentAt != 0 {
		s.LastKeepaliveAt = k.h.Time(k.sentAt)
	}
	if k.confirmedAt != 0 {
		s.ConfirmedAt = k.h.Time(k.confirmedAt)
	}
}
