// SPDX-License-Identifier: Apache-2.0

package daemon

// Whether this router's own RLOCs can be used, as far as the host shows it: the address
// is there, its interface has a carrier, a gateway answers (RFC 9300 s.10: what an ETR
// knows of its own locators goes into R bits and Locator-Status-Bits). Down is believed
// at once, up only after a while that grows when it flaps. Asks nobody.

import (
	"net/netip"
	"slices"
	"time"
)

// rlocReason says why an own RLOC is in its state.
type rlocReason string

// The reasons.
const (
	rlocUsable        rlocReason = "usable"
	rlocAddressGone   rlocReason = "address-gone"   // no interface has it any more
	rlocLinkDown      rlocReason = "link-down"      // its interface is down, or without a carrier; or no core interface is there for it
	rlocGatewaySilent rlocReason = "gateway-silent" // no gateway at its interface answers
)

// How long an RLOC that fell must be usable again before it is used: the first time in
// rlocFlapMemory rlocHold, each further time double, rlocHoldMax at most. One that was
// never up, as when its interface comes with the start, is used at once.
const (
	rlocHold       = time.Second
	rlocHoldMax    = time.Minute
	rlocFlapMemory = 10 * time.Minute
)

// rlocState is what is known of one own RLOC.
type rlocState struct {
	up        bool
	reason    rlocReason
	changedAt time.Time // of up
	falls     int       // within rlocFlapMemory of each other
	fellAt    time.Time
	usableAt  time.Time // since when nothing speaks against it; zero while something does
}

// rlocStates keeps them, and which gateways did not answer when last asked.
type rlocStates struct {
	byRLOC map[netip.Addr]*rlocState
	silent map[netip.Addr]bool
}

func newRLOCStates() rlocStates {
	return rlocStates{byRLOC: map[netip.Addr]*rlocState{}, silent: map[netip.Addr]bool{}}
}

// rlocChange is an RLOC whose state changed.
type rlocChange struct {
	rloc netip.Addr
	rlocState
}

// judge brings the states of these RLOCs up to date and forgets all others. again is
// when the next of them may come back, zero for never.
func (s *rlocStates) judge(view hostView, core []string, rlocs []netip.Addr, now time.Time) (changes []rlocChange, again time.Time) {
	s.hear(view)
	for rloc := range s.byRLOC {
		if !slices.Contains(rlocs, rloc) {
			delete(s.byRLOC, rloc)
		}
	}
	for _, rloc := range rlocs {
		reason := s.reasonFor(view, core, rloc)
		state, known := s.byRLOC[rloc]
		if !known {
			state = &rlocState{up: reason == rlocUsable, reason: reason, changedAt: now}
			s.byRLOC[rloc] = state
			if !state.up {
				changes = append(changes, rlocChange{rloc, *state})
			}
			continue
		}
		if state.update(reason, now) {
			changes = append(changes, rlocChange{rloc, *state})
		}
		if back := state.backAt(); !back.IsZero() && (again.IsZero() || back.Before(again)) {
			again = back
		}
	}
	return changes, again
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

// update reports whether up changed.
func (r *rlocState) update(reason rlocReason, now time.Time) bool {
	if reason != rlocUsable {
		r.reason, r.usableAt = reason, time.Time{}
		if !r.up {
			return false
		}
		r.fall(now)
		return true
	}
	if r.usableAt.IsZero() {
		r.usableAt = now
	}
	if r.up || now.Before(r.backAt()) {
		return false
	}
	r.up, r.reason, r.changedAt = true, rlocUsable, now
	return true
}

func (r *rlocState) fall(now time.Time) {
	if r.fellAt.IsZero() || now.Sub(r.fellAt) > rlocFlapMemory {
		r.falls = 0
	}
	r.up, r.changedAt, r.fellAt = false, now, now
	r.falls++
}

// backAt is when an RLOC that is down may be used again, zero when that is not in sight.
func (r *rlocState) backAt() time.Time {
	switch {
	case r.up || r.usableAt.IsZero():
		return time.Time{}
	case r.falls == 0:
		return r.usableAt
	}
	return r.usableAt.Add(min(rlocHold<<min(r.falls-1, 16), rlocHoldMax))
}
