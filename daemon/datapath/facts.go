// SPDX-License-Identifier: Apache-2.0

package datapath

// From what a Node explains of a destination to Facts.

import (
	"math"
	"net/netip"
	"strings"
	"time"

	"loci/control"
)

// OverheadOctets are what encapsulation adds, by the family of the RLOC (RFC 9300 s.5).
func OverheadOctets(rloc netip.Addr) int {
	if rloc.Is4() {
		return 36
	}
	return 56
}

// FactsOf are the facts about a path.
func FactsOf(q Question, e *control.Explanation) (f Facts) {
	if e.Own != nil || e.Entry == nil || e.Entry.Mapping.Prefix != q.Prefix || e.Entry.Mapping.Negative() || len(e.Entry.Mapping.Locators) == 0 {
		return f
	}
	f.Known = true
	best := math.MaxInt
	for _, l := range e.Locators {
		f.see(&l)
		if r := rank(&l); r < best {
			best, f.Taken = r, nil
		}
		if best != math.MaxInt && rank(&l) == best {
			f.Taken = append(f.Taken, l.Locator.Path())
		}
	}
	f.Up = best <= math.MaxUint8
	for _, l := range e.Locators {
		if f.Up && rank(&l) == best {
			f.addProbed(&l)
		}
	}
	return f
}

// rank says before which other locators one is used, the lowest first: those that are up by their priority, then the others.
func rank(l *control.ExplainedLocator) int {
	switch {
	case l.NotUsable != "" || !l.Locator.Usable() || l.State == nil || l.State.State == control.LocatorDown:
		return math.MaxInt
	case l.State.State == control.LocatorUnconfirmed:
		return math.MaxUint8 + 1 + int(l.Locator.Priority)
	}
	return int(l.Locator.Priority)
}

// see notes the addresses of a locator, and when data packets last came from them.
func (f *Facts) see(l *control.ExplainedLocator) {
	for _, hop := range l.Locator.Path().Hops() {
		f.Addresses = append(f.Addresses, hop.Addr())
	}
	if l.State != nil && l.State.LastHeardAt.After(f.HeardAt) {
		f.HeardAt = l.State.LastHeardAt
	}
	for _, hop := range l.Hops {
		if hop.LastHeardAt.After(f.HeardAt) {
			f.HeardAt = hop.LastHeardAt
		}
	}
}

// addProbed notes when a locator that packets take answered an RLOC-probe: of a path, when each hop did that is probed.
func (f *Facts) addProbed(l *control.ExplainedLocator) {
	var oldest time.Time
	if l.State != nil && l.Locator.Path().IsPlain() {
		oldest = l.State.LastReplyAt
	}
	for _, hop := range l.Hops {
		if hop.ProbesSent > 0 && (oldest.IsZero() || hop.LastReplyAt.Before(oldest)) {
			oldest = hop.LastReplyAt
		}
	}
	if !f.hasProbed || oldest.Before(f.ProbedAt) {
		f.ProbedAt, f.hasProbed = oldest, true
	}
}

// Peer names the locators that packets take.
func (s *State) Peer() string {
	names := make([]string, len(s.Locators))
	for i, path := range s.Locators {
		names[i] = path.String()
	}
	return strings.Join(names, ", ")
}
