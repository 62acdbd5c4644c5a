// SPDX-License-Identifier: Apache-2.0

package datapath

// From what a Node explains of a destination to Facts.

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
	"loci/forward"
	"loci/lisp"
)

// OverheadOctets are what encapsulation adds, by the family of the RLOC (RFC 9300 s.5).
func OverheadOctets(rloc netip.Addr) int {
	if rloc.Is4() {
		return 36
	}
	return 56
}

// candidates is how many EIDs of an EID-Prefix are looked at to find a flow that takes a locator.
const candidates = 64

// Explain tells what a Node knows of an EID of Instance-ID 0.
type Explain func(to netip.Addr) control.Explanation

// FactsOf are the facts about a path: the locator that is asked for, or of the first path that which the flow to its EID takes. To is an
// EID to which packets from here take that locator.
func FactsOf(q Question, explain Explain) (f Facts) {
	e := explain(q.To)
	f = factsOf(q, &e)
	if !f.Known || !f.Up || !q.Source.IsValid() {
		return f
	}
	set := e.Told.Locators
	buckets := forward.Buckets(set, func(l *lisp.Locator) (int, bool) { return 0, slices.Contains(f.Taken, l.Path()) })
	wanted, to, all := q.key.locator, q.To, f.Taken
	for range candidates {
		taken, ok := forward.SelectLocator(set, &buckets, flowHash(q.Source, to))
		if ok && wanted.IsZero() {
			wanted = taken.Path()
		}
		if ok && taken.Path() == wanted && isBy(q.Prefix, to, q.To, explain) {
			return f.of(wanted, to, all, &e)
		}
		if to = to.Next(); !q.Prefix.Netip().Contains(to) {
			break
		}
	}
	return Facts{}
}

// isBy reports whether packets to an EID go by a mapping; they do to the one that was asked about.
func isBy(p lisp.Prefix, to, asked netip.Addr, explain Explain) bool {
	if to == asked {
		return true
	}
	e := explain(to)
	return e.Own == nil && e.Entry != nil && e.Entry.Mapping.Prefix == p
}

// flowHash is by what the data plane chooses the locator of an echo request.
func flowHash(source, to netip.Addr) uint32 {
	h := forward.Header{Source: source, Destination: to, Protocol: unix.IPPROTO_ICMP}
	if to.Is6() {
		h.Protocol = unix.IPPROTO_ICMPV6
	}
	return forward.FlowHash(&h)
}

// of are the facts about one locator of those that packets take.
func (f Facts) of(path lisp.Path, to netip.Addr, all []lisp.Path, e *control.Explanation) Facts {
	f.To, f.Taken, f.Others, f.ProbedAt, f.hasProbed = to, []lisp.Path{path}, nil, time.Time{}, false
	for _, other := range all {
		if other != path {
			f.Others = append(f.Others, other)
		}
	}
	for _, l := range e.Locators {
		if l.Locator.Path() == path {
			f.addProbed(&l)
		}
	}
	f.NextHops = nextHops(e, f.Taken)
	return f
}

// factsOf are the facts about all locators together that packets take.
func factsOf(q Question, e *control.Explanation) (f Facts) {
	if e.Own != nil || e.Entry == nil || e.Entry.Mapping.Prefix != q.Prefix || e.Entry.Mapping.Negative() || len(e.Entry.Mapping.Locators) == 0 {
		return f
	}
	f.Known, f.To = true, q.To
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
	f.NextHops = nextHops(e, f.Taken)
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

// nextHops are where packets go that take the locators.
func nextHops(e *control.Explanation, taken []lisp.Path) (hops []lisp.RLOC) {
	for _, l := range e.Locators {
		if slices.Contains(taken, l.Locator.Path()) {
			hops = append(hops, l.Locator.NextHop())
		}
	}
	return hops
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
