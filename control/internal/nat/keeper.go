// SPDX-License-Identifier: Apache-2.0

package nat

// Keepalives: RLOC-probes of an RTR, from the data port. They keep the NAT's binding, and find out that it is another
// one: the RTR answers only to the address and port that it has for this node, or says that it has others (a Map-Reply
// without locators).

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/settings"
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
	// keeperFirst is when an RTR is asked that let no Map-Notify through. keeperSoon is when it is asked again that
	// did not answer.
	keeperFirst = 3 * time.Second
	keeperSoon  = 2 * time.Second
	// silentKeepalives without any answer the RTR is called silent; where none are sent, silentRegisters, the first
	// of which went silentRegistersLast ago.
	silentKeepalives    = 2
	silentRegisters     = 3
	silentRegistersLast = 7 * time.Second
)

// keeper sends them to one RTR, from one own RLOC.
type keeper struct {
	h    *system.System
	node *Node
	id   uint32   // of its timer
	from *inquiry // that said so

	rtr, local  netip.Addr
	ipv4        netip.Addr     // of the RTR, where a NAT64 is on the way
	nonce       uint64         // of the probe that is not answered yet, 0 for none
	begunAt     timing.Instant // when this RTR was taken
	sentAt      timing.Instant // the last keepalive
	confirmedAt timing.Instant // the RTR's last word that it knows this node's address
	unanswered  int            // keepalives since
	trusted     bool           // it said so, of this RLOC or the one before: packets go there
	knows       bool           // that was its last word
	silent      bool           // as it was reported
	lost        uint64         // times that the RTR had another address and port for this node, or none
	changes     timing.Changes // when it had, after it knew this node's address

	registers   int            // Map-Registers that went since a Map-Notify came
	registersAt timing.Instant // the first of them
}

// begin is for a new one.
func (k *keeper) begin() {
	k.begunAt = k.h.Now
	k.node.Keepers.Set(k.id, k.h.After(keeperFirst))
}

// reconfigure takes over another interval. A keepalive on its way is waited for first.
func (k *keeper) reconfigure() {
	if k.nonce == 0 {
		k.next(max(k.begunAt, k.sentAt, k.confirmedAt))
	}
}

// next is when the keepalive after that time is due, if there are any.
func (k *keeper) next(after timing.Instant) {
	if k.node.config.Keepalive <= 0 {
		k.node.Keepers.Set(k.id, k.h.After(silentRegistersLast)) // whether Map-Registers are acknowledged
		return
	}
	k.node.Keepers.Set(k.id, max(after+timing.Instant(k.node.config.Keepalive), k.h.Now))
}

// notified is for a Map-Notify that came by the RTR.
func (k *keeper) notified() {
	k.nonce, k.unanswered, k.registers = 0, 0, 0
	k.next(k.h.Now)
	k.confirm()
}

// noteRegister is for a Map-Register that goes by the RTR.
func (k *keeper) noteRegister() {
	if k.registers == 0 {
		k.registersAt = k.h.Now
	}
	k.registers++
}

// handleTimeout sends the next keepalive, or misses the answer to the last one.
func (k *keeper) handleTimeout() {
	switch {
	case k.nonce != 0:
		k.nonce = 0
		k.unanswered++
		k.h.Count(counter.NATKeepaliveUnanswered)
		k.again()
		if k.unanswered < silentKeepalives {
			k.node.Keepers.Set(k.id, min(k.node.Keepers.Of(k.id), k.h.After(keeperSoon)))
		}
		k.noteSilence()
	case k.node.config.Keepalive <= 0:
		k.next(k.h.Now)
		k.noteSilence()
	default:
		k.send()
	}
}

// again registers by the RTR: the NAT's binding is lost, or it is not known whether it is.
func (k *keeper) again() {
	k.next(k.sentAt)
	k.node.Register(k.rtr, k.local)
}

func (k *keeper) send() {
	about := k.from.prefix
	k.sentAt = k.h.Now
	k.node.Keepers.Set(k.id, k.h.After(keeperWait))
	k.nonce = k.h.Nonce()
	m := &wire.MapRequest{
		Probe: true, Nonce: k.nonce, SourceEID: wire.NoAddress{},
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(k.local))},
		Records:  []wire.RequestRecord{{MaskLen: uint8(about.Bits()), EID: wire.AddressOf(about)}},
	}
	payload, err := m.AppendTo(k.h.Buffer(system.UsualECMOctets))
	if err != nil {
		k.h.Count(counter.RefusedEncoding)
		return
	}
	rtr := netip.AddrPortFrom(k.rtr, k.h.ControlPort)
	k.h.SendNAT(netip.AddrPortFrom(k.local, wire.DataPort), rtr, k.h.Used(payload))
	k.h.Count(counter.NATKeepaliveSent)
}

// handleProbeReply takes the RTR's answer to a keepalive.
func (k *keeper) handleProbeReply(m *wire.MapReply) {
	k.nonce, k.unanswered = 0, 0
	if len(m.Records[0].Locators) == 0 {
		k.lost++
		k.h.Count(counter.NATBindingLost)
		if k.knows {
			k.knows = false
			k.changes.Note(k.h.Now)
			k.notice(effect.NoticeNATBindingLost)
		}
		k.again()
		k.noteSilence()
		return
	}
	k.next(k.sentAt)
	k.confirm()
}

// confirm is for the RTR's word that it knows this node's address: packets go to it from the first one on.
func (k *keeper) confirm() {
	first := !k.trusted
	k.confirmedAt, k.trusted = k.h.Now, true
	if !k.knows {
		k.knows = true
		k.notice(effect.NoticeRTRConfirmed)
	}
	if k.noteSilence(); first {
		k.node.Confirmed()
	}
}

func (k *keeper) isSilent() bool { return k.unanswered >= silentKeepalives || k.leavesRegisters() }

// leavesRegisters reports whether an RTR that gets no keepalives passes no Map-Register on, or no Map-Notify back.
func (k *keeper) leavesRegisters() bool {
	return k.node.config.Keepalive <= 0 && k.registers >= silentRegisters &&
		k.h.Now >= k.registersAt+timing.Instant(silentRegistersLast)
}

func (k *keeper) status() status.NATRTR {
	s := status.NATRTR{
		Protocol: settings.NATErmagan,
		Address:  k.rtr, IPv4: k.ipv4, Local: k.local, Since: k.h.Time(k.begunAt), BindingsLost: k.lost,
		Silent: k.isSilent(),
	}
	if since, often := k.changes.OftenSince(k.h.Now); often {
		s.OftenChangedSince = k.h.Time(since)
	}
	if k.sentAt != 0 {
		s.LastKeepaliveAt = k.h.Time(k.sentAt)
	}
	if k.confirmedAt != 0 {
		s.ConfirmedAt = k.h.Time(k.confirmedAt)
	}
	return s
}
