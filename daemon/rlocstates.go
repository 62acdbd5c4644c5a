// SPDX-License-Identifier: Apache-2.0

package daemon

// Whether this router's own RLOCs can be used, as far as the host shows it: the address
// is there, its interface has a carrier, a gateway answers (RFC 9300 s.10: what an ETR
// knows of its own locators goes into R bits and Locator-Status-Bits). Which of those that
// can be used are used is control.HoldDown's. Asks nobody.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
)

// rlocReason says why an own RLOC is in its state.
type rlocReason string

// The reasons.
const (
	rlocUsable        rlocReason = "usable"
	rlocAddressGone   rlocReason = "address-gone"   // no interface has it any more
	rlocLinkDown      rlocReason = "link-down"      // its interface is down, or without a carrier; or no core interface is there for it
	rlocGatewaySilent rlocReason = "gateway-silent" // no gateway at its interface answers
	rlocHeldDown      rlocReason = "held-down"      // it could be used again, and another is used
)

// rlocState is what is known of one own RLOC.
type rlocState struct {
	up        bool
	reason    rlocReason
	changedAt time.Time // of up
}

// rlocStates keeps them, and which gateways did not answer when last asked.
type rlocStates struct {
	hold    control.HoldDown
	reasons map[netip.Addr]rlocReason
	silent  map[netip.Addr]bool
}

func newRLOCStates() rlocStates {
	return rlocStates{reasons: map[netip.Addr]rlocReason{}, silent: map[netip.Addr]bool{}}
}

// rlocChange is an RLOC whose state changed.
type rlocChange struct {
	rloc netip.Addr
	rlocState
}

// judge brings the states of a plan's own RLOCs up to date and forgets all others. again is
// when the next of them may come back, zero for never.
func (s *rlocStates) judge(view hostView, p plan, now time.Time) (changes []rlocChange, again time.Time) {
	s.hear(view)
	clear(s.reasons)
	var paths []control.OwnPath
	for _, rloc := range p.rlocs {
		s.reasons[rloc] = s.reasonFor(view, coreNames(p), rloc)
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(rloc), Usable: s.reasons[rloc] == rlocUsable})
	}
	changed, again := s.hold.Judge(now, paths, p.choices)
	for _, rloc := range changed {
		state, _ := s.of(rloc.Addr())
		changes = append(changes, rlocChange{rloc.Addr(), state})
	}
	return changes, again
}

// of is the state of an own RLOC.
func (s *rlocStates) of(rloc netip.Addr) (state rlocState, known bool) {
	state.reason, known = s.reasons[rloc]
	state.up, state.changedAt = s.hold.IsUp(lisp.RLOCFromAddr(rloc))
	if !state.up && state.reason == rlocUsable {
		state.reason = rlocHeldDown
	}
	return state, known
}

// down are the own RLOCs that are not used.
func (s *rlocStates) down() map[netip.Addr]bool {
	down := map[netip.Addr]bool{}
	for rloc := range s.reasons {
		if state, _ := s.of(rloc); !state.up {
			down[rloc] = true
		}
	}
	return down
}

// hear notes which gateways answer. One of which nothing is known stays what it was.
func (s *rlocStates) hear(view hostView) {
	for _, l := range view.links {
		for _, gateway := range l.silent {
			s.silent[gateway] = true
		}
		for _, gateway := range l.answering {
			delete(s.silent, gateway)
		}
	}
	for gateway := range s.silent {
		if !slices.ContainsFunc(view.links, func(l hostLink) bool { return slices.Contains(l.gateways, gateway) }) {
			delete(s.silent, gateway)
		}
	}
}

// reasonFor is what speaks against an RLOC, or rlocUsable.
func (s *rlocStates) reasonFor(view hostView, core []string, rloc netip.Addr) rlocReason {
	link, ok := view.link(view.interfaceOf(rloc))
	switch {
	case !ok:
		return rlocAddressGone
	case !link.up:
		return rlocLinkDown
	case link.loopback || len(core) > 0 && !slices.Contains(core, link.name): // reached by any of the core's interfaces
		usable := func(name string) bool {
			l, ok := view.link(name)
			return ok && l.up && !s.gatewaysSilent(l, rloc.Is4())
		}
		if len(core) > 0 && !slices.ContainsFunc(core, usable) {
			return rlocLinkDown
		}
		return rlocUsable
	case s.gatewaysSilent(link, rloc.Is4()):
		return rlocGatewaySilent
	}
	return rlocUsable
}

// gatewaysSilent reports that an interface has gateways of a family, and that none of
// them answers.
func (s *rlocStates) gatewaysSilent(l hostLink, is4 bool) bool {
	found := false
	for _, gateway := range l.gateways {
		if gateway.Is4() != is4 {
			continue
		}
		if !s.silent[gateway] {
			return false
		}
		found = true
	}
	return found
}
