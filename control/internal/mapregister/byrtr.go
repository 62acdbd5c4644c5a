// SPDX-License-Identifier: Apache-2.0

package mapregister

// Map-Registers from behind a NAT: in an ECM, from the data port, by an RTR, which stands among the locators
// (draft-ermagan-lisp-nat-traversal s.5.1.1).

import (
	"net/netip"
	"slices"

	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// ecmOctets is how much longer an ECM makes a Map-Register: its header, and an IPv6 and a UDP header.
const ecmOctets = 4 + 40 + 8

// rtrLocatorOctets is how long the locator of an RTR is.
const rtrLocatorOctets = 8 + 16

// LocatorsByRTR are a mapping's locators as they are registered from behind a NAT: the RTR in place of the own RLOC,
// which only the RTR may use.
func LocatorsByRTR(set lisp.LocatorSet, path settings.RTRPath) lisp.LocatorSet {
	own := slices.IndexFunc(set, func(l lisp.Locator) bool { return l.Behind == "" && l.RLOC.Addr() == path.Local })
	if own < 0 {
		return set
	}
	rtr := lisp.NewLocator(lisp.RLOCFromAddr(path.RTR))
	rtr.Priority, rtr.Weight = set[own].Priority, set[own].Weight
	list := slices.Clone(set)
	list[own].Reachable, list[own].Local = false, true
	if all, err := lisp.NewLocatorSet(append(list, rtr)...); err == nil {
		return all
	}
	return lisp.LocatorSet{rtr} // there was no room for one more
}

// emit gives a Map-Register to its Map-Server, or to the RTR on the way.
func (s *Sender) emit(p *Peer, payload []byte) error {
	path := p.Config.Path
	if !path.RTR.IsValid() {
		s.h.Send(netip.AddrPort{}, p.Config.Address, payload)
		return nil
	}
	ecm := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
		Source:      netip.AddrPortFrom(path.Local, s.h.ControlPort),
		Destination: p.Config.Address, Message: payload,
	}}
	b, err := ecm.AppendTo(s.h.Buffer(len(payload) + ecmOctets))
	if err != nil {
		return err
	}
	from, to := netip.AddrPortFrom(path.Local, wire.DataPort), netip.AddrPortFrom(path.RTR, s.h.ControlPort)
	s.h.SendNAT(from, to, s.h.Used(b))
	return nil
}

// SendAgain sends what is registered with a Map-Server again, soon: that, or the way there, is not what it was.
func (s *Sender) SendAgain(p *Peer) {
	for i, id := range p.Messages {
		m := s.Messages.At(id)
		if m.Withdrawal {
			continue // it has had its tries, and ends
		}
		m.tries = 0
		apart := timing.Instant(min(i, gapMessages)) * timing.Instant(registerGap)
		s.Timers.Set(id, min(s.Timers.Of(id), p.slot(s.h.Now, s.h.Limits.MapRegisters)+apart))
	}
}

// Unacknowledged is how many Map-Registers went since the last Map-Notify.
func (p *Peer) Unacknowledged() int { return p.unacknowledged }

// IsSilent reports whether a Map-Server acknowledges nothing by now.
func (p *Peer) IsSilent() bool { return p.unacknowledged >= silentAfter }
