// SPDX-License-Identifier: Apache-2.0

package diagnosis

// What `loci netcheck` finds out about NATs: Info-Requests from a port of its own to the Map-Servers that the daemon
// asks from port 4342, and what the daemon knows from its ports 4342 and 4341. They are asked in the form that the
// daemon was answered in (natquestions.go).

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
	"loci/wire"
)

const (
	// infoAnswerLasts is how long ago the daemon may have been answered: it asks again after ten minutes.
	infoAnswerLasts = 11 * time.Minute
	// daemonAsks is how long a daemon that just started may take to be answered.
	daemonAsks = 5 * time.Second
	// registersLeft are Map-Registers without a Map-Notify, after which an earlier answer proves nothing.
	registersLeft = 3
)

var errNATOff = errors.New("the daemon sends no Info-Requests: `etr.nat-traversal` is off, or no Map-Server is of a family of its RLOCs")

// NATServer is a Map-Server as the configuration has it: what is asked there is about an EID-Prefix of this site.
type NATServer struct {
	Address netip.AddrPort
	Prefix  lisp.Prefix
	Keys    []control.Key // the first signs
}

// natView is how one Map-Server sees a socket of this command.
type natView struct {
	daemon api.NATView
	local  netip.AddrPort
	server netip.AddrPort
	seen   netip.AddrPort // invalid without an answer
	by     string         // the protocol of the answer
	why    string         // there is none
}

func (v *natView) subject() string { return v.local.Addr().String() + " > " + v.daemon.MapServer }

func (v *natView) isBehind() bool { return v.seen.IsValid() && v.seen != v.local }

// checkNAT asks those Map-Servers that the daemon asks: another may not survive the question.
func (n *netcheck) checkNAT(ctx context.Context) {
	if len(n.status.MapServers) == 0 {
		return
	}
	var servers []NATServer
	err := errNATOff
	if len(n.nat.Views) > 0 {
		servers, err = n.NATServers(n.status.ConfigFile)
	}
	if err != nil {
		n.report.add(Step{Name: CheckNAT, Outcome: OutcomeNotTried, Reason: err.Error()})
		return
	}
	n.checkViews(ctx, &n.nat, servers)
}

// checkViews asks from each RLOC.
func (n *netcheck) checkViews(ctx context.Context, nat *api.NAT, servers []NATServer) {
	var rlocs []lisp.RLOC
	for _, v := range nat.Views {
		if !slices.Contains(rlocs, v.RLOC) {
			rlocs = append(rlocs, v.RLOC)
		}
	}
	answered := map[netip.Addr]bool{}
	for _, rloc := range rlocs {
		views := n.askNAT(ctx, rloc.Addr(), nat.Views, servers)
		for i := range views {
			v := &views[i]
			n.report.add(natStep(v, nat, n.isRegistered(v.seen.Addr())))
			n.report.add(controlPortStep(v, n.mapServerAt(v.daemon.MapServer), registersDirectly(nat),
				n.status.StartedAt, time.Now()))
			n.informed[v.daemon.MapServer] = v.by == api.NATProtocolErmagan
			answered[v.server.Addr()] = answered[v.server.Addr()] || v.seen.IsValid()
		}
		if slices.ContainsFunc(views, func(v natView) bool { return v.isBehind() }) {
			n.report.add(natMappingStep(rloc.Addr(), views))
			for _, s := range dataPortSteps(rloc.Addr(), nat.RTRs, answered) {
				n.report.add(s)
			}
		}
	}
}

// registersDirectly reports whether Map-Registers go to the Map-Servers, which they do by simple-nat with RTRs too.
func registersDirectly(nat *api.NAT) bool {
	return !slices.ContainsFunc(nat.RTRs, func(r api.NATRTR) bool { return r.Protocol != api.NATProtocolSimple })
}

// isRegistered reports whether other sites are given this address.
func (n *netcheck) isRegistered(a netip.Addr) bool {
	return slices.ContainsFunc(n.own, func(e api.DatabaseEntry) bool {
		return slices.ContainsFunc(e.Locators, func(l api.Locator) bool { return l.RLOC.Addr() == a && l.Reachable })
	})
}

func (n *netcheck) mapServerAt(address string) api.MapServer {
	at := slices.IndexFunc(n.status.MapServers, func(m api.MapServer) bool { return m.Address == address })
	if at < 0 {
		return api.MapServer{}
	}
	return n.status.MapServers[at]
}

// natStep judges what one Map-Server sees.
func natStep(v *natView, nat *api.NAT, isRegistered bool) Step {
	s := Step{Name: CheckNAT, Subject: v.subject(), Outcome: OutcomeOK}
	switch {
	case !v.seen.IsValid():
		s.Outcome, s.Reason = OutcomeUnknown, v.why
		if v.daemon.AnsweredAt != nil {
			s.Detail = "the daemon was last seen as " + v.daemon.SeenAs
		}
		return s
	case !v.isBehind():
		s.Detail = fmt.Sprintf("seen as %s, its own address and port, by %s: no NAT", v.seen,
			api.NATProtocolName(v.by))
		return s
	}
	s.Detail = fmt.Sprintf("behind a NAT: port %d is seen as %s, by %s", v.local.Port(), v.seen,
		api.NATProtocolName(v.by))
	if v.daemon.BehindNAT {
		s.Detail += ", port 4342 of the daemon as " + v.daemon.SeenAs
	}
	switch {
	case len(nat.RTRs) > 0:
		s.Detail += "; registered by " + rtrNames(nat.RTRs)
	case isRegistered:
		s.Detail += "; its outside address is registered: UDP ports 4341 and 4342 must be forwarded to this router"
	default:
		s.Outcome, s.Reason = OutcomeFailed, "this router registers by no RTR: packets of other sites end at the NAT"
		s.Remedy = "let the Map-Server offer an RTR of the RLOC's family (map-server.rtrs, docs/nat.md)"
	}
	return s
}

// natMappingStep says whether address and port depend on the destination (RFC 4787 s.4.1).
func natMappingStep(local netip.Addr, views []natView) Step {
	s := Step{Name: CheckNATMapping, Subject: local.String(), Outcome: OutcomeOK}
	views = slices.DeleteFunc(slices.Clone(views), func(v natView) bool { return !v.seen.IsValid() })
	if len(views) < 2 {
		s.Outcome = OutcomeUnknown
		s.Reason = "only one Map-Server answered: whether address and port depend on the destination takes two"
		return s
	}
	first := views[0]
	for _, v := range views[1:] {
		if v.seen != first.seen {
			s.Detail = fmt.Sprintf("symmetric NAT: %s sees %s, %s sees %s: this router is reached by an RTR only, at the "+
				"address and port that the RTR sees", first.server.Addr(), first.seen, v.server.Addr(), v.seen)
			return s
		}
	}
	s.Detail = fmt.Sprintf("%d Map-Servers see the same address and port: they do not depend on the destination", len(views))
	return s
}

// controlPortStep compares the answers to the command's port with those to the daemon's port 4342. direct is false
// where Map-Registers leave from port 4341, by an RTR.
func controlPortStep(v *natView, m api.MapServer, direct bool, daemonStartedAt, now time.Time) Step {
	s := Step{Name: CheckNATControl, Subject: v.subject(), Outcome: OutcomeUnknown}
	at := v.daemon.AnsweredAt
	if direct && m.LastNotifyAt != nil && (at == nil || m.LastNotifyAt.After(*at)) {
		at = m.LastNotifyAt
	}
	recent := at != nil && now.Sub(*at) < infoAnswerLasts
	unacknowledged := direct && m.Unacknowledged >= registersLeft
	answered := v.seen.IsValid()
	switch {
	case recent && !unacknowledged:
		s.Outcome = OutcomeOK
		s.Detail = fmt.Sprintf("port 4342 of the daemon was answered %s ago", max(now.Sub(*at), 0).Round(time.Second))
	case !answered:
		s.Reason = "neither the daemon's port 4342 nor the port of this command is answered: the Map-Server may be away"
	case recent:
		s.Reason = fmt.Sprintf("port 4342 of the daemon was answered %s ago, and its last %d Map-Registers were not: "+
			"filtered since then, or refused", now.Sub(*at).Round(time.Second), m.Unacknowledged)
	case now.Sub(daemonStartedAt) < daemonAsks || v.daemon.AnsweredAt == nil && !unacknowledged:
		s.Reason = "the daemon was not answered yet"
	default:
		s.Outcome = OutcomeFailed
		s.Reason = fmt.Sprintf("port %d of this command is answered, port 4342 of the daemon is not: "+
			"what leaves from UDP port 4342, or the answers to it, is filtered", v.local.Port())
		s.Remedy = "let UDP port 4342 of this router pass to " + v.server.Addr().String() + " and back"
	}
	return s
}

// rtrNames are the RTRs in a sentence, each once.
func rtrNames(rtrs []api.NATRTR) string {
	var names []string
	for _, r := range rtrs {
		if name := r.Address.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "RTR " + names[0]
	}
	return "RTRs " + strings.Join(names, ", ")
}

// dataPortSteps are about the port from which a router behind a NAT sends all that goes to its RTRs.
func dataPortSteps(local netip.Addr, rtrs []api.NATRTR, answered map[netip.Addr]bool) (steps []Step) {
	for i := range rtrs {
		if rtrs[i].RLOC == local {
			steps = append(steps, dataPortStep(local, &rtrs[i], answered))
		}
	}
	if len(steps) == 0 {
		s := Step{Name: CheckNATData, Subject: local.String(), Outcome: OutcomeUnknown}
		s.Reason = "this router has no RTR of that family, which would answer what leaves from UDP port 4341"
		steps = append(steps, s)
	}
	return steps
}

func dataPortStep(local netip.Addr, rtr *api.NATRTR, answered map[netip.Addr]bool) Step {
	s := Step{Name: CheckNATData, Subject: local.String() + " > " + rtr.Address.String(), Outcome: OutcomeUnknown}
	switch {
	case !rtr.Silent && rtr.ConfirmedAt != nil:
		s.Outcome, s.Detail = OutcomeOK, "the RTR answers what leaves from UDP port 4341"
	case rtr.Silent && answered[rtr.Address]:
		s.Outcome = OutcomeFailed
		s.Reason = "the RTR's address answers this command, and not what leaves from UDP port 4341: " +
			"that, or the answers to it, is filtered, or it is no RTR for this router"
		s.Remedy = fmt.Sprintf("let UDP port 4341 of this router pass to %s port %d and back", rtr.Address,
			portOf(rtr))
	case rtr.Silent:
		s.Reason = "the RTR answers nothing that leaves from UDP port 4341; it may be away, or the port is filtered"
	case rtr.Protocol == api.NATProtocolSimple:
		s.Reason = "the RTR has not answered, which by simple-nat it need not: that of lispers.net does not"
	default:
		s.Reason = "the RTR has not answered yet"
	}
	return s
}

// portOf is where an RTR takes what keeps the NAT's binding.
func portOf(rtr *api.NATRTR) uint16 {
	if rtr.Protocol == api.NATProtocolSimple {
		return wire.DataPort
	}
	return wire.ControlPort
}
