// SPDX-License-Identifier: Apache-2.0

package hostnet

// Whether this router's own RLOCs can be used, as far as the host shows it: the address
// is there, its interface has a carrier, a gateway answers (RFC 9300 s.10: what an ETR
// knows of its own locators goes into R bits and Locator-Status-Bits). Which of those that
// can be used are used is control.HoldDown's. It sends nothing.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
)

// RLOCReason says why an own RLOC is in its state.
type RLOCReason string

// The reasons.
const (
	rlocUsable        RLOCReason = "usable"
	rlocAddressGone   RLOCReason = "address-gone"   // no interface has it any more
	rlocLinkDown      RLOCReason = "link-down"      // its interface is down, or without a carrier; or no core interface is there for it
	rlocGatewaySilent RLOCReason = "gateway-silent" // no gateway at its interface answers
	rlocHeldDown      RLOCReason = "held-down"      // it could be used again, and another is used
	// another link of a mobile node has it now, or its link was gone in between
	rlocMoved   RLOCReason = "moved"
	rlocNoRoute RLOCReason = "no-route" // a mobile node's, whose interface has no default route yet
)

// RLOCState is the state of one own RLOC.
type RLOCState struct {
	Up        bool
	Reason    RLOCReason
	ChangedAt time.Time // of up
}

// RLOCStates keeps them, and which gateways did not answer when last asked.
type RLOCStates struct {
	hold    control.HoldDown
	reasons map[netip.Addr]RLOCReason
	silent  map[netip.Addr]bool
	routed  map[bool]bool // by IPv4: a core interface has had a default route
	links   map[netip.Addr]attachment
}

// attachment is one time that a link was there: the same link may lead to another network the next time.
type attachment struct {
	link   string
	losses uint32
}

// steady is how long an RLOC of a mobile node is up until its loss is a move, and no flap.
const steady = 3 * time.Second

func newRLOCStates() RLOCStates {
	return RLOCStates{reasons: map[netip.Addr]RLOCReason{}, silent: map[netip.Addr]bool{}, routed: map[bool]bool{},
		links: map[netip.Addr]attachment{}}
}

// RLOCChange is an RLOC whose state changed.
type RLOCChange struct {
	RLOC netip.Addr
	RLOCState
}

// OwnPaths are the own RLOCs of a configuration, and how they are reached.
type OwnPaths struct {
	RLOCs   []netip.Addr
	Choices [][]lisp.RLOC // those of one family that stand in for each other
	Core    []string      // the core interfaces
	Mobile  bool          // of a mobile node, whose interfaces come and go
}

// Judge brings the states of own RLOCs up to date and forgets all others. again is
// when the next of them may come back, zero for never.
func (s *RLOCStates) Judge(view View, own OwnPaths, now time.Time) (changes []RLOCChange, again time.Time) {
	s.hear(view)
	s.noteRoutes(view, own.Core)
	if s.hold.Steady = 0; own.Mobile {
		s.hold.Steady = steady
	}
	moved := s.moved(view, own)
	clear(s.reasons)
	var paths []control.OwnPath
	for _, rloc := range own.RLOCs {
		s.reasons[rloc] = s.reasonFor(view, own.Core, rloc)
		if own.Mobile && s.reasons[rloc] == rlocUsable && !s.hasRoute(view, own.Core, rloc) {
			s.reasons[rloc] = rlocNoRoute
		}
		if moved[rloc] && s.reasons[rloc] == rlocUsable {
			s.reasons[rloc] = rlocMoved
		}
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(rloc), Usable: s.reasons[rloc] == rlocUsable})
	}
	changed, again := s.hold.Judge(now, paths, own.Choices)
	if len(moved) > 0 {
		again = now
	}
	for _, rloc := range changed {
		state, _ := s.of(rloc.Addr())
		changes = append(changes, RLOCChange{rloc.Addr(), state})
	}
	return changes, again
}

// moved are the RLOCs of a mobile node that another link has now, or the same one after it lost its carrier: that is
// another network, which gives out the same address. They are down until they are judged again, so that what was known
// of the other network is asked anew.
func (s *RLOCStates) moved(view View, own OwnPaths) map[netip.Addr]bool {
	moved, before := map[netip.Addr]bool{}, s.links
	s.links = map[netip.Addr]attachment{}
	for _, rloc := range own.RLOCs {
		link, found := view.Link(view.InterfaceOf(rloc))
		if !found {
			continue
		}
		s.links[rloc] = attachment{link.Name, link.Losses}
		if was, known := before[rloc]; own.Mobile && known && was != s.links[rloc] {
			moved[rloc] = true
		}
	}
	return moved
}

// noteRoutes notes in which families core interfaces have default routes.
func (s *RLOCStates) noteRoutes(view View, core []string) {
	for _, l := range view.Links {
		for _, is4 := range []bool{true, false} {
			if slices.Contains(core, l.Name) && l.Defaults.Of(is4) > 0 {
				s.routed[is4] = true
			}
		}
	}
}

// hasRoute reports whether packets from an RLOC leave its network. An address comes before its default route: what is
// sent in between goes nowhere. Where there never was one, none is needed.
func (s *RLOCStates) hasRoute(view View, core []string, rloc netip.Addr) bool {
	link, ok := view.Link(view.InterfaceOf(rloc))
	return !ok || !slices.Contains(core, link.Name) || !s.routed[rloc.Is4()] || link.Defaults.Of(rloc.Is4()) > 0
}

// of is the state of an own RLOC.
func (s *RLOCStates) of(rloc netip.Addr) (state RLOCState, known bool) {
	state.Reason, known = s.reasons[rloc]
	state.Up, state.ChangedAt = s.hold.IsUp(lisp.RLOCFromAddr(rloc))
	if !state.Up && state.Reason == rlocUsable {
		state.Reason = rlocHeldDown
	}
	return state, known
}

// Down are the own RLOCs that are not used.
func (s *RLOCStates) Down() map[netip.Addr]bool {
	down := map[netip.Addr]bool{}
	for rloc := range s.reasons {
		if state, _ := s.of(rloc); !state.Up {
			down[rloc] = true
		}
	}
	return down
}

// hear notes which gateways answer. One of which nothing is known stays what it was.
func (s *RLOCStates) hear(view View) {
	for _, l := range view.Links {
		for _, gateway := range l.Silent {
			s.silent[gateway] = true
		}
		for _, gateway := range l.Answering {
			delete(s.silent, gateway)
		}
	}
	for gateway := range s.silent {
		if !slices.ContainsFunc(view.Links, func(l Link) bool { return slices.Contains(l.Gateways, gateway) }) {
			delete(s.silent, gateway)
		}
	}
}

// reasonFor is what speaks against an RLOC, or rlocUsable.
func (s *RLOCStates) reasonFor(view View, core []string, rloc netip.Addr) RLOCReason {
	link, ok := view.Link(view.InterfaceOf(rloc))
	switch {
	case !ok:
		return rlocAddressGone
	case !link.Up:
		return rlocLinkDown
	case link.Loopback || len(core) > 0 && !slices.Contains(core, link.Name): // reached by any of the core's interfaces
		usable := func(name string) bool {
			l, ok := view.Link(name)
			return ok && l.Up && !s.gatewaysSilent(l, rloc.Is4())
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
func (s *RLOCStates) gatewaysSilent(l Link, is4 bool) bool {
	found := false
	for _, gateway := range l.Gateways {
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
