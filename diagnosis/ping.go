// SPDX-License-Identifier: Apache-2.0

package diagnosis

// `loci ping`: the legs of a packet's path to an EID, one after another: the mapping system, the locators, the data plane, and packets
// of full size. The first leg that fails is named.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/wire"
)

// The legs. Of the registration nothing is said where it is in order, or there is none.
const (
	LegRegistration  = "registration"
	LegMappingSystem = "mapping-system"
	LegLocator       = "locator"
	LegDataPlane     = "data-plane"
	LegPathMTU       = "path-mtu"
)

// PingOptions say what to ping.
type PingOptions struct {
	Instance lisp.InstanceID
	EID      lisp.EID
	Source   netip.Addr // zero: an EID of this host
	Count    int
	Interval time.Duration
	Timeout  time.Duration // for each answer
}

const (
	// probeTries is how often a locator is asked.
	probeTries = 2
	// askFor is for how long a Map-Resolver is asked at least: an ETR that has just answered stays silent for three seconds (RFC 9301 s.5.4).
	askFor = 4500 * time.Millisecond
	// maxProbed bounds the locators that are probed.
	maxProbed = 16
	// hostPatience is how long a router takes to find out that a host does not answer ARP or neighbour solicitation.
	hostPatience = 4 * time.Second
)

// ErrNotITR says that the daemon has no Map-Resolver to ask.
var ErrNotITR = errors.New("this daemon is no ITR: it has no Map-Resolver to ask")

// pinging is a ping under way.
type pinging struct {
	PingOptions
	client  *api.Client
	status  api.Status
	own     []api.DatabaseEntry
	explain api.Explanation
	mapping lisp.Mapping
	found   bool
	counts  counts
	report  *PingReport
}

// counts are the daemon's counters before and after the echo requests, or why there are none.
type counts struct {
	before, after api.Counters
	err           error
}

// Ping tries the legs. The error is one of the daemon's socket or of the options; what fails on the way is in the report.
func Ping(ctx context.Context, client *api.Client, o PingOptions) (*PingReport, error) {
	p := &pinging{PingOptions: o, client: client, report: &PingReport{EID: o.EID, InstanceID: o.Instance, Report: Report{Verdict: string(OutcomeOK)}, Locators: []LocatorResult{}}}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	if p.explain.Outcome != api.OutcomeOwn {
		addRegistration(p.report.add, p.status.MapServers)
	}
	if p.explain.Outcome == api.OutcomeOwn {
		reason := "it is an EID of this site: packets to it are not encapsulated"
		p.report.add(Step{Name: LegMappingSystem, Outcome: OutcomeNotTried, Reason: reason})
		p.report.add(Step{Name: LegLocator, Outcome: OutcomeNotTried, Reason: reason})
	} else {
		p.askMappingSystem(ctx)
		p.probeLocators(ctx)
	}
	p.sendEchoes(ctx)
	for _, s := range p.report.Steps {
		if s.Outcome == OutcomeFailed {
			p.report.FailedLeg = s.Name
			break
		}
	}
	return p.report, ctx.Err()
}

func (p *pinging) prepare(ctx context.Context) (err error) {
	if p.status, err = p.client.Status(ctx); err != nil {
		return err
	}
	if len(p.status.MapResolverStates) == 0 {
		return ErrNotITR
	}
	if p.own, err = p.client.Database(ctx); err != nil {
		return err
	}
	p.explain, err = p.client.Explain(ctx, api.ExplainQuery{InstanceID: p.Instance, EID: p.EID})
	return err
}

// ask asks a Map-Resolver for an EID.
func (p *pinging) ask(ctx context.Context, resolver netip.AddrPort, prefix lisp.Prefix) (control.LigAnswer, error) {
	q := control.LigQuery{Instance: prefix.Instance(), EID: prefix.EID(), Resolver: resolver}
	return Ask(ctx, q, askTries(p.Timeout), p.Timeout, func(int, netip.AddrPort) {})
}

// askTries is how often a Map-Resolver is asked.
func askTries(timeout time.Duration) int {
	return min(max(int((askFor+timeout-1)/timeout), 2), control.LigMaxCount)
}

func (p *pinging) askMappingSystem(ctx context.Context) {
	s := Step{Name: LegMappingSystem, Outcome: OutcomeFailed}
	defer func() { p.report.add(s) }()
	var silent []string
	for _, r := range p.status.MapResolverStates {
		resolver, err := netip.ParseAddrPort(r.Address)
		if err != nil {
			continue
		}
		answer, err := p.ask(ctx, resolver, lisp.HostPrefix(p.Instance, p.EID))
		if err != nil {
			silent = append(silent, r.Address)
			s.Subject, s.Detail = r.Address, err.Error()
			continue
		}
		s.Subject, p.report.MapResolver = r.Address, r.Address
		p.takeAnswer(&s, answer)
		if len(silent) > 0 {
			s.Detail += "; no answer from " + strings.Join(silent, ", ")
		}
		return
	}
	p.explainSilence(ctx, &s, silent)
}

// takeAnswer takes the mapping of a Map-Reply.
func (p *pinging) takeAnswer(s *Step, answer control.LigAnswer) {
	host := lisp.HostPrefix(p.Instance, p.EID)
	for _, m := range answer.Mappings {
		if m.Prefix.Covers(host) && (!p.found || m.Prefix.Bits() > p.mapping.Prefix.Bits()) {
			p.mapping, p.found = m, true
		}
	}
	switch {
	case !p.found:
		s.Detail, s.Reason = "a Map-Reply from "+answer.From.String(), "it says nothing about this EID"
		s.Remedy = "look at the Map-Server's configuration"
	case p.mapping.Negative():
		s.Detail = fmt.Sprintf("%s: %s, by %s", p.mapping.Prefix, p.mapping.Action, answer.From.Addr())
		s.Reason, s.Remedy = "the EID is not registered", "see `loci status` at its site's xTR, and `loci show registrations` at the Map-Server"
		if p.mapping.Action != lisp.ActionNativelyForward && p.mapping.Action != lisp.ActionNoAction {
			s.Reason, s.Remedy = "the mapping system says "+p.mapping.Action.String(), "look at the Map-Server's policy for the site"
		}
		p.found = false
	default:
		s.Outcome, p.report.EIDPrefix = OutcomeOK, p.mapping.Prefix.String()
		s.Detail = fmt.Sprintf("%s by %s, after %s", p.mapping.Prefix, locatorNames(p.mapping.Locators), answer.RoundTripTime.Round(10*time.Microsecond))
	}
}

func locatorNames(set lisp.LocatorSet) string {
	var names []string
	for i := range set {
		names = append(names, set[i].Path().String())
	}
	return strings.Join(names, ", ")
}

// explainSilence finds out whether the Map-Resolver or the ETR is silent: it asks the same Map-Resolver for an EID of this site.
func (p *pinging) explainSilence(ctx context.Context, s *Step, silent []string) {
	s.Reason = "no Map-Resolver answers: " + strings.Join(silent, ", ")
	s.Remedy = "find out whether it runs, and whether UDP port 4342 passes from this router to it, and back: `loci netcheck`"
	at := slices.IndexFunc(p.own, func(e api.DatabaseEntry) bool { return e.EIDPrefix.EID().IsIP() })
	resolver, err := netip.ParseAddrPort(s.Subject)
	if at < 0 || err != nil {
		return
	}
	if _, err := p.ask(ctx, resolver, lisp.HostPrefix(p.own[at].EIDPrefix.Instance(), p.own[at].EIDPrefix.EID())); err != nil {
		return
	}
	s.Reason = "the ETR of the EID does not answer; the Map-Resolver answers for an EID of this site"
	s.Remedy = "see whether `loci run` runs at that site, and whether UDP port 4342 passes from the Map-Server to it, and from it to this router"
}

// cached takes the mapping of the map-cache, where the mapping system gave none.
func (p *pinging) cached() []api.Locator {
	var list []api.Locator
	for _, l := range p.explain.Locators {
		list = append(list, l.Locator)
	}
	return list
}

func (p *pinging) probeLocators(ctx context.Context) {
	s := Step{Name: LegLocator, Outcome: OutcomeNotTried, Reason: "there is no mapping"}
	defer func() { p.report.add(s) }()
	list := p.cached()
	if p.found {
		list = api.LocatorsOf(p.mapping.Locators)
	}
	list = slices.DeleteFunc(list, func(l api.Locator) bool { return !l.Reachable || l.Priority == lisp.PriorityUnused })
	if len(list) == 0 {
		if p.found || len(p.explain.Locators) > 0 {
			s.Outcome, s.Reason, s.Remedy = OutcomeFailed, "its site says that no locator is reachable (R bit 0, or priority 255)", "see `loci status` at its xTR: its RLOCs are down"
		}
		return
	}
	results := make([]LocatorResult, min(len(list), maxProbed))
	var probes sync.WaitGroup
	for i := range results {
		probes.Go(func() { results[i] = p.probe(ctx, list[i]) })
	}
	probes.Wait()
	p.report.Locators = results
	p.judgeLocators(&s, results)
}

func (p *pinging) probe(ctx context.Context, l api.Locator) LocatorResult {
	to := l.RLOC
	if l.NextHop != nil {
		to = *l.NextHop
	}
	r := LocatorResult{RLOC: to.String()}
	for _, known := range p.explain.Locators {
		if known.Name() == l.Name() {
			r.State = known.State
		}
	}
	q := control.LigQuery{Instance: p.Instance, EID: p.EID, Resolver: netip.AddrPortFrom(to.Addr(), wire.ControlPort)}
	answer, err := Probe(ctx, q, probeTries, p.Timeout)
	if err != nil {
		r.Reason = silenceText(err)
		return r
	}
	r.Answered, r.RoundTrip = true, jsondoc.Known(answer.RoundTripTime)
	return r
}

// silenceText says why nothing answered, as far as ICMP tells.
func silenceText(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at UDP port 4342 there: its control plane is dead"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "it cannot be reached: " + unwrapped(err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return "a filter forbids it: " + unwrapped(err)
	}
	return "no answer"
}

// unwrapped is the system's own word.
func unwrapped(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

func (p *pinging) judgeLocators(s *Step, results []LocatorResult) {
	var good, bad []string
	for _, r := range results {
		if r.Answered {
			good = append(good, fmt.Sprintf("%s answers after %s", r.RLOC, secondsText(r.RoundTrip)))
			if r.State == string(control.LocatorUnconfirmed) {
				bad = append(bad, r.RLOC+" answers this command, and not the daemon: its answers to UDP port 4342 of this router are filtered, or it has just come back")
			}
			continue
		}
		text := r.RLOC + ": " + r.Reason
		if r.State == string(control.LocatorUp) {
			text += " (the daemon calls it up: it may have died just now, or a filter lets no other source port than 4342 pass)"
		}
		bad = append(bad, text)
	}
	s.Subject, s.Reason, s.Detail = results[0].RLOC, "", strings.Join(slices.Concat(good, bad), "; ")
	if len(good) > 0 {
		s.Outcome = OutcomeOK
		return
	}
	s.Outcome, s.Reason = OutcomeFailed, "no locator answers an RLOC-probe: "+strings.Join(bad, "; ")
	s.Remedy = "see whether `loci run` runs there, and whether UDP port 4342 passes to it and back: `loci netcheck` at both ends"
}

func secondsText(s *jsondoc.Seconds) time.Duration {
	return s.Duration().Round(10 * time.Microsecond)
}

// sourceEID chooses an EID of this host for the echo requests.
func (p *pinging) sourceEID() (netip.Addr, error) {
	covers := func(a netip.Addr) bool {
		host := lisp.HostPrefix(p.Instance, lisp.EIDFromAddr(a))
		return slices.ContainsFunc(p.own, func(e api.DatabaseEntry) bool { return e.EIDPrefix.Covers(host) })
	}
	if p.Source.IsValid() {
		if !covers(p.Source) {
			return netip.Addr{}, fmt.Errorf("%s is no EID of this site", p.Source)
		}
		return p.Source, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() == p.EID.Addr().Is4() && covers(prefix.Addr()) {
			return prefix.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("this host has no EID of that family and Instance-ID")
}
