// SPDX-License-Identifier: Apache-2.0

package mapregister

// Map-Registers from behind a NAT: in an ECM, from the data port, by RTRs, which stand among the locators
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

// LocatorsByRTRs are a mapping's locators as they are registered from behind NATs: the RTRs in place of the own RLOCs
// there, which only RTRs may use. An RTR has the best priority of the RLOCs that are reached by it. An RLOC behind a NAT
// that no RTR reaches is unreachable as well.
func LocatorsByRTRs(set lisp.LocatorSet, paths []settings.RTRPath, behind []netip.Addr) lisp.LocatorSet {
	if len(paths) == 0 {
		return set
	}
	var rtrs lisp.LocatorSet
	list := slices.Clone(set)
	for _, path := range paths {
		if own := indexOf(set, path.Local); own >= 0 && !path.Silent {
			rtrs = withRTR(rtrs, path.Known(), set[own])
		}
	}
	for i := range list {
		l := &list[i]
		isItsOwn := func(p settings.RTRPath) bool { return p.Local == l.RLOC.Addr() }
		if l.Behind != "" || !slices.Contains(behind, l.RLOC.Addr()) && !slices.ContainsFunc(paths, isItsOwn) {
			continue
		}
		l.Reachable, l.Local = false, true
		if !slices.ContainsFunc(paths, func(p settings.RTRPath) bool { return isItsOwn(p) && !p.Silent }) {
			l.Priority = lisp.PriorityUnused // the RTRs use others of its site
		}
	}
	if len(rtrs) == 0 {
		return list
	}
	if all, err := lisp.NewLocatorSet(append(list, rtrs...)...); err == nil {
		return all
	}
	only, _ := lisp.NewLocatorSet(rtrs...) // there was no room for more
	return only
}

// indexOf is where an own RLOC stands, less than 0 for nowhere.
func indexOf(set lisp.LocatorSet, own netip.Addr) int {
	return slices.IndexFunc(set, func(l lisp.Locator) bool { return l.Behind == "" && l.RLOC.Addr() == own })
}

// withRTR adds an RTR by which an RLOC is reached.
func withRTR(rtrs lisp.LocatorSet, a netip.Addr, own lisp.Locator) lisp.LocatorSet {
	rtr := lisp.NewLocator(lisp.RLOCFromAddr(a))
	rtr.Priority, rtr.Weight = own.Priority, own.Weight
	at := slices.IndexFunc(rtrs, func(l lisp.Locator) bool { return l.RLOC == rtr.RLOC })
	switch {
	case at < 0:
		return append(rtrs, rtr)
	case rtr.Priority < rtrs[at].Priority:
		rtrs[at] = rtr
	}
	return rtrs
}

// emit gives a Map-Register to its Map-Server, or to the RTR on the way.
func (s *Sender) emit(p *Peer, path *settings.RTRPath, payload []byte) error {
	if path == nil {
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
	s.SentByRTR(*path)
	return nil
}

// SendAgain sends what is registered by an RTR again, soon: the way there is not what it was.
func (s *Sender) SendAgain(p *Peer, rtr, local netip.Addr) {
	by := p.pathOf(rtr, local)
	if by < 0 {
		return
	}
	for i, id := range p.Messages {
		m := s.Messages.At(id)
		if m.Withdrawal {
			continue // it has had its tries, and ends
		}
		m.sendAgainBy(by)
		apart := timing.Instant(min(i, gapMessages)) * timing.Instant(registerGap)
		s.Timers.Set(id, min(s.Timers.Of(id), p.slot(s.h.Now, s.h.Limits.MapRegisters)+apart))
	}
}

// IsSilent reports whether a Map-Server acknowledges nothing by now.
func (p *Peer) IsSilent() bool { return p.unacknowledged >= silentAfter }
