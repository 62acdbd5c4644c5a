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

// skipsAtOnce is how many mappings are passed over in one look to find an EID that none of them covers; the next look
// goes on.
const skipsAtOnce = 16

// Explain tells what a Node knows of an EID of Instance-ID 0.
type Explain func(to netip.Addr) control.Explanation

// FactsOf are the facts about a path: the locator that is asked for, or of the first path that which the flow to its
// EID takes. To is an EID to which packets from here take that locator; without facts, one to begin with the next
// time, or zero.
func FactsOf(q Question, explain Explain) (f Facts) {
	e, found := q.begin(explain)
	if !found {
		return Facts{To: q.To}
	}
	f = factsOf(q, &e)
	if !f.Known || !f.Up || !q.Source.IsValid() {
		return f
	}
	set := e.Told.Locators
	isTaken := func(l *lisp.Locator) (int, bool) { return 0, slices.Contains(f.Taken, l.Path()) }
	buckets := forward.Buckets(set, isTaken)
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

// begin moves To on to an EID that goes by the mapping itself, if it does not: past what more specific mappings and
// own EID-Prefixes cover, and past what no host can have. There may be none; To is then zero unless the search may go
// on from there.
func (q *Question) begin(explain Explain) (e control.Explanation, found bool) {
	for range skipsAtOnce {
		e = explain(q.To)
		var past netip.Prefix
		switch entry := e.Entry; {
		case noHosts(q.To).IsValid():
			past = noHosts(q.To)
		case e.Own != nil:
			past = e.Own.Prefix.Netip()
		case entry == nil, !q.Prefix.Covers(entry.Mapping.Prefix):
			q.To = netip.Addr{}
			return e, false
		case entry.Mapping.Prefix == q.Prefix:
			return e, true
		default:
			past = entry.Mapping.Prefix.Netip()
		}
		if q.To = lastOf(past).Next(); !q.Prefix.Netip().Contains(q.To) {
			q.To = netip.Addr{}
			return e, false
		}
	}
	return e, false
}

// withoutHosts are addresses that no packet is sent to (RFC 6890).
var withoutHosts = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// noHosts is the one of these that an address is in; invalid for none.
func noHosts(a netip.Addr) netip.Prefix {
	if at := slices.IndexFunc(withoutHosts, func(p netip.Prefix) bool { return p.Contains(a) }); at >= 0 {
		return withoutHosts[at]
	}
	return netip.Prefix{}
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	octets := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(octets); bit++ {
		octets[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(octets)
	return last
}

// documentation are addresses for examples (RFC 5737, RFC 3849): what is sent there harms no host.
var documentation = []netip.Addr{netip.MustParseAddr("203.0.113.129"), netip.MustParseAddr("2001:db8:ffff:ffff::1")}

// eidWithin is an EID of an EID-Prefix that may be a host's: the second, or the only one.
func eidWithin(p lisp.Prefix) netip.Addr {
	if p.IsHost() {
		return p.EID().Addr()
	}
	second := p.EID().Addr().Next()
	for _, a := range documentation {
		if noHosts(second).IsValid() && p.Netip().Contains(a) {
			return a
		}
	}
	return second
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
	if e.Own != nil || e.Entry == nil || e.Entry.Mapping.Prefix != q.Prefix || e.Entry.Mapping.Negative() ||
		len(e.Entry.Mapping.Locators) == 0 {
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

// rank says before which other locators one is used, the lowest first: those that are up by their priority, then the
// others.
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
