// SPDX-License-Identifier: Apache-2.0

package diagnosis

// The data plane's legs of `loci ping`: echo requests to the EID, small ones and those of full size. Where no answer comes, echo
// requests whose TTL ends at the other site's router tell whether that one decapsulates: it answers with Time Exceeded (RFC 9300
// s.5.3), through both data planes.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/jsondoc"
	"loci/lisp"
)

const (
	// maxHops is how far away the other site's router is looked for.
	maxHops = 24
)

// overheadOctets are what encapsulation adds, by the family of the RLOC (RFC 9300 s.5).
func overheadOctets(rloc netip.Addr) int {
	if rloc.Is4() {
		return 36
	}
	return 56
}

func (p *pinging) sendEchoes(ctx context.Context) {
	add := p.report.addEssential
	notTried := func(reason, remedy string) {
		add(Step{Name: LegDataPlane, Outcome: OutcomeNotTried, Reason: reason, Remedy: remedy})
		p.report.add(Step{Name: LegPathMTU, Outcome: OutcomeNotTried, Reason: reason})
	}
	if p.Instance != 0 {
		add = p.report.add // there is no way to try
		notTried("this host's own packets are of Instance-ID 0", "ping from a host of that Instance-ID")
		return
	}
	source, err := p.sourceEID()
	if err != nil {
		notTried(err.Error(), "give an interface an EID and name it by --source, or ping from a host of the site")
		return
	}
	p.report.Source = source.String()
	socket, err := openEcho(source, p.EID.Addr())
	if err != nil {
		notTried(err.Error(), "run the command as root, in the daemon's network namespace")
		return
	}
	defer socket.close()
	p.counts.before, p.counts.err = p.client.Counters(ctx)
	list := make([]*echo, p.Count)
	for i := range list {
		list[i] = &echo{octets: socket.usualOctets()}
	}
	if err := socket.run(ctx, list, p.Interval, p.Timeout, nil); err != nil {
		notTried(err.Error(), "")
		return
	}
	p.report.Echo = resultOf(list)
	s := Step{Name: LegDataPlane, Subject: p.EID.String(), Outcome: OutcomeOK, Detail: echoText(p.report.Echo)}
	if p.report.Echo.Received == 0 {
		s.Outcome = OutcomeFailed
		p.explainLoss(ctx, socket, list, &s)
	}
	p.report.add(s)
	p.sendLarge(ctx, socket)
}

func resultOf(list []*echo) (r EchoResult) {
	var total, least, most time.Duration
	for _, e := range list {
		if e.unsent == nil {
			r.Sent++
		}
		if !e.answered() {
			continue
		}
		took := e.answerAt.Sub(e.sentAt)
		if r.Received == 0 {
			least = took
		}
		r.Received++
		total, least, most = total+took, min(least, took), max(most, took)
		r.LargestOctets = max(r.LargestOctets, e.octets)
	}
	if r.Received > 0 {
		r.RoundTripMin, r.RoundTripAverage, r.RoundTripMax = jsondoc.Known(least), jsondoc.Known(total/time.Duration(r.Received)), jsondoc.Known(most)
	}
	return r
}

func echoText(r EchoResult) string {
	text := fmt.Sprintf("%d of %d echo requests answered", r.Received, r.Sent)
	if r.Received > 0 {
		text += fmt.Sprintf(", after %s on average", secondsText(r.RoundTripAverage))
	}
	return text
}

// isFar reports whether an address is one of the other site's routers or hosts.
func (p *pinging) isFar(a netip.Addr) bool {
	host := lisp.HostPrefix(p.Instance, lisp.EIDFromAddr(a))
	if p.found && p.mapping.Prefix.Covers(host) || p.explain.Mapping != nil && p.explain.Mapping.EIDPrefix.Covers(host) {
		return true
	}
	return slices.ContainsFunc(p.report.Locators, func(l LocatorResult) bool { return l.RLOC == a.String() })
}

// explainLoss finds out where echo requests are lost.
func (p *pinging) explainLoss(ctx context.Context, socket *echoSocket, list []*echo, s *Step) {
	if at := slices.IndexFunc(list, func(e *echo) bool { return e.unsent != nil }); at >= 0 {
		s.Reason, s.Remedy = "this host's kernel does not send them: "+list[at].unsent.Error(), "look at its routes: ip route get "+p.EID.String()+" from "+p.report.Source
		return
	}
	hops := ladder(socket)
	// The answer of a router whose host is away comes after some seconds.
	_ = socket.run(ctx, hops, time.Millisecond, max(p.Timeout, hostPatience), func() bool { return p.farError(slices.Concat(list, hops), errorUnreachable) != nil })
	after, err := p.client.Counters(ctx)
	p.counts.after, p.counts.err = after, cmp.Or(p.counts.err, err)
	p.judgeLoss(list, hops, s)
}

// judgeLoss names what is known of the loss by answers, and then by counters.
func (p *pinging) judgeLoss(list, hops []*echo, s *Step) {
	far, unreachable := p.farError(hops, errorExceeded), p.farError(slices.Concat(list, hops), errorUnreachable)
	switch {
	case unreachable != nil:
		s.Reason = fmt.Sprintf("the other site's router says so: %s (%s)", unreachable.what, unreachable.from)
		s.Remedy = "the data planes of both sites work: the host is down, or does not answer ARP or neighbour solicitation"
	case far != nil:
		s.Reason = fmt.Sprintf("the other site's router decapsulates and answers (%s), the host does not", far.from)
		s.Remedy = "the data planes of both sites work: the host is down, or does not answer echo requests"
	case p.ownError(list) != nil:
		e := p.ownError(list)
		s.Reason, s.Remedy = fmt.Sprintf("this router refuses them: %s (%s)", e.what, e.from), "see `loci explain "+p.EID.String()+"`"
	case p.counts.err != nil:
		s.Reason = "the echo requests are lost, and the daemon does not tell its counters: " + p.counts.err.Error()
		s.Remedy = "see `loci status`; without counters nothing tells whether this router sends them, or the other one drops them"
	case p.counts.grown("encapsulated_packets_total") == 0:
		s.Reason = "this router encapsulates nothing: " + string(p.explain.Outcome)
		s.Remedy = "see `loci explain " + p.EID.String() + "`, and `loci capture` while pinging"
	default:
		p.blameOuterPath(s, p.counts.grown("decapsulated_packets_total"))
	}
	if drops := grown(p.counts.before.Drops, p.counts.after.Drops); p.counts.err == nil && len(drops) > 0 {
		s.Detail += "; drops of this router meanwhile: " + countsText(drops)
	}
}

// blameOuterPath is for packets that leave encapsulated, and of which nothing comes back.
func (p *pinging) blameOuterPath(s *Step, decapsulated uint64) {
	s.Reason = "they leave encapsulated, and nothing comes back: UDP port 4341 is filtered on the way there or back, or the other site's router drops them"
	s.Remedy = "let UDP port 4341 pass between the RLOCs in both directions; `loci show counters` and `loci capture` at the other router tell whether they arrive there"
	if decapsulated > 0 {
		s.Detail += fmt.Sprintf("; this router decapsulated %d packets meanwhile", decapsulated)
	}
}

// ladder are echo requests whose TTL ends one hop farther each.
func ladder(socket *echoSocket) (list []*echo) {
	for ttl := 2; ttl <= maxHops; ttl++ {
		list = append(list, &echo{octets: socket.usualOctets(), ttl: ttl})
	}
	return list
}

// farError finds an ICMP error of the other site.
func (p *pinging) farError(list []*echo, kind errorKind) *echoError {
	for _, e := range list {
		if e.error != nil && e.error.kind == kind && p.isFar(e.error.from) {
			return e.error
		}
	}
	return nil
}

// ownError finds an ICMP error of this site.
func (p *pinging) ownError(list []*echo) *echoError {
	for _, e := range list {
		if e.error != nil && !p.isFar(e.error.from) {
			return e.error
		}
	}
	return nil
}

// grown is by how much a counter of the data plane grew.
func (c *counts) grown(name string) uint64 { return grown(c.before.DataPlane, c.after.DataPlane)[name] }

// grown are the counters that grew.
func grown(before, after map[string]uint64) map[string]uint64 {
	more := map[string]uint64{}
	for name, value := range after {
		if value > before[name] {
			more[name] = value - before[name]
		}
	}
	return more
}

func countsText(counts map[string]uint64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}

// sendLarge sends echo requests as large as the path is said to carry.
func (p *pinging) sendLarge(ctx context.Context, socket *echoSocket) {
	s := Step{Name: LegPathMTU, Outcome: OutcomeNotTried, Reason: "no echo request is answered"}
	defer func() { p.report.add(s) }()
	if p.report.Echo.Received == 0 {
		return
	}
	most, what := p.promised(ctx)
	if most == 0 {
		s.Reason = "the MTU of the path is not known"
		return
	}
	s.Subject = what
	if passes, tooBig, err := socket.try(ctx, []int{most}, p.Timeout); err != nil {
		s.Reason = err.Error()
		return
	} else if len(passes) == 0 && tooBig > 0 { // this router has learnt better just now
		most = min(most, tooBig)
	} else if len(passes) > 0 {
		s.Outcome, s.Reason, s.Detail = OutcomeOK, "", fmt.Sprintf("packets of %d octets pass", most)
		p.report.Echo.LargestOctets = max(p.report.Echo.LargestOctets, most)
		return
	}
	largest, err := socket.largest(ctx, most, p.Timeout)
	p.report.Echo.LargestOctets = max(p.report.Echo.LargestOctets, largest)
	switch {
	case err != nil:
		s.Reason = err.Error()
	case largest == most:
		s.Outcome, s.Reason, s.Detail = OutcomeOK, "", fmt.Sprintf("packets of %d octets pass; larger ones are answered with Packet Too Big", most)
	default:
		s.Outcome, s.Detail = OutcomeFailed, fmt.Sprintf("packets of up to %d octets pass, those of %d are lost without a word", largest, most)
		s.Reason = "the path carries less than it is said to, and no ICMP Packet Too Big arrives: a path MTU black hole"
		s.Remedy = "let ICMP (IPv6: Packet Too Big; IPv4: type 3 code 4) pass to the RLOCs, or lower the MTU of the core interface or of its route"
	}
}

// promised is the largest packet to the EID that the path is said to carry.
func (p *pinging) promised(ctx context.Context) (octets int, what string) {
	locators, err := p.client.Locators(ctx)
	if err != nil {
		return 0, ""
	}
	own := leavesWith(p.report.Source, p.EID.Addr())
	for _, l := range locators {
		rloc := l.RLOC
		if l.NextHop != nil {
			rloc = *l.NextHop
		}
		isHere := slices.ContainsFunc(p.report.Locators, func(r LocatorResult) bool { return r.RLOC == rloc.String() })
		if l.Local || !isHere || l.PathMTU == nil {
			continue
		}
		if fits := *l.PathMTU - overheadOctets(rloc.Addr()); octets == 0 || fits < octets {
			octets, what = fits, fmt.Sprintf("%s, %d octets", rloc, *l.PathMTU)
		}
	}
	if own > 0 {
		octets = min(octets, own) // hosts may send larger ones, this one cannot
	}
	return octets, what
}

// leavesWith is the largest packet that this host can send to an EID: the MTU of the interface that its route leads to, 0 where
// that is not known.
func leavesWith(source string, to netip.Addr) int {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: net.ParseIP(source)})
	if err != nil || len(routes) == 0 {
		return 0
	}
	link, err := net.InterfaceByIndex(routes[0].LinkIndex)
	if err != nil {
		return 0
	}
	return link.MTU
}
