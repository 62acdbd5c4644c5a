// SPDX-License-Identifier: Apache-2.0

package diagnosis

// What `loci netcheck` checks between each own RLOC and each of a peer.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

const (
	// probesTell is how long the daemon's own RLOC-probes take to show that a path does not work any more (docs/reachability.md).
	probesTell = 16 * time.Second
	// probesPause is how often the daemon is asked for that.
	probesPause = 500 * time.Millisecond
)

func (n *netcheck) checkPeer(ctx context.Context, p peer) {
	pairs := 0
	for _, own := range n.status.LocalRLOCs {
		if own.Addr().Is4() != p.rloc.Is4() {
			continue
		}
		pairs++
		subject := own.Addr().String() + " > " + p.rloc.String()
		n.checkControl(ctx, subject, own.Addr(), p)
		n.checkMTU(ctx, subject, own.Addr(), p)
	}
	if p.etr && pairs == 0 { // a Map-Server may have no RLOC of its own
		n.checkControl(ctx, p.rloc.String(), netip.Addr{}, p)
	}
}

// stateOf is what the daemon knows of a locator.
func (n *netcheck) stateOf(rloc netip.Addr) (api.LocatorState, bool) {
	at := slices.IndexFunc(n.locators, func(l api.LocatorState) bool {
		return !l.Local && (l.NextHop == nil && l.RLOC.Addr() == rloc || l.NextHop != nil && l.NextHop.Addr() == rloc)
	})
	if at < 0 {
		return api.LocatorState{}, false
	}
	return n.locators[at], true
}

// checkControl sends RLOC-probes from a port of its own, and compares with those of the daemon, which come from port 4342.
func (n *netcheck) checkControl(ctx context.Context, subject string, own netip.Addr, p peer) {
	s := Step{Name: CheckControl, Subject: subject, Outcome: OutcomeOK, Detail: "an RLOC-probe is answered"}
	defer func() { n.report.add(s) }()
	began := time.Now()
	err := n.probe(ctx, own, p)
	state, known := n.stateOf(p.rloc)
	switch {
	case err == nil && known && state.State == string(control.LocatorUnconfirmed):
		s.Outcome, s.Reason = OutcomeFailed, "it answers this command, and not the daemon: answers to UDP port 4342 of this router do not pass"
		s.Remedy = "let UDP port 4342 pass from " + p.rloc.String() + " to this router; if it has come back just now, wait for three answers"
	case err == nil:
	case n.daemonHears(ctx, p.rloc, began):
		s.Outcome, s.Reason = OutcomeWarning, "it answers the daemon, from port 4342, and not this command: a filter lets no other source port pass"
		s.Remedy = "none for LISP; `loci lig` and `loci ping` need other source ports"
	default:
		s.Outcome, s.Detail, s.Reason = OutcomeFailed, "", silenceText(err)+" to RLOC-probes"
		s.Remedy = "see whether `loci run` runs there; let UDP port 4342 pass to " + p.rloc.String() + " and back"
	}
}

// daemonHears waits until an RLOC-probe of the daemon is answered, or is known not to be.
func (n *netcheck) daemonHears(ctx context.Context, rloc netip.Addr, since time.Time) bool {
	for ctx.Err() == nil && time.Since(since) < probesTell {
		locators, err := n.client.Locators(ctx)
		if err != nil {
			return false
		}
		n.locators = locators
		state, known := n.stateOf(rloc)
		switch {
		case !known || state.State != string(control.LocatorUp):
			return false
		case state.Probes != nil && state.Probes.LastReplyAt != nil && state.Probes.LastReplyAt.After(since):
			return true
		}
		select {
		case <-time.After(probesPause):
		case <-ctx.Done():
		}
	}
	return false
}

// checkMTU sends echo requests between the RLOCs themselves.
func (n *netcheck) checkMTU(ctx context.Context, subject string, own netip.Addr, p peer) {
	s := Step{Name: CheckMTU, Subject: subject, Outcome: OutcomeNotTried}
	defer func() { n.report.add(s) }()
	socket, err := openEcho(own, p.rloc)
	if err != nil {
		s.Reason, s.Remedy = err.Error(), "run the command as root, in the daemon's network namespace"
		return
	}
	defer socket.close()
	if passes, _, err := socket.try(ctx, []int{socket.usualOctets()}, n.Timeout); err != nil || len(passes) == 0 {
		s.Reason = "its RLOC answers no echo requests"
		return
	}
	const usualMTU = 1500
	most := usualMTU
	if state, known := n.stateOf(p.rloc); known && state.PathMTU != nil {
		most = *state.PathMTU
	}
	passes, tooBig, err := socket.try(ctx, []int{most}, n.Timeout)
	if err != nil {
		s.Reason = err.Error()
		return
	}
	if len(passes) > 0 {
		s.Outcome, s.Detail = OutcomeOK, fmt.Sprintf("packets of %d octets pass", most)
		return
	}
	largest, _ := socket.largest(ctx, most, n.Timeout)
	s.Detail = fmt.Sprintf("packets of up to %d octets pass", largest)
	if tooBig > 0 {
		s.Outcome, s.Detail = OutcomeOK, fmt.Sprintf("%s; larger ones are answered with Packet Too Big (%d)", s.Detail, tooBig)
		return
	}
	s.Outcome, s.Reason = OutcomeFailed, fmt.Sprintf("those of %d octets are lost without a word: a path MTU black hole", most)
	s.Remedy = "let ICMP (IPv6: Packet Too Big; IPv4: type 3 code 4) pass, or lower the MTU of the core interface or of its route"
}

// checkData sends echo requests to an EID of another site whose TTL ends at its router: the answer passes both data planes.
func (n *netcheck) checkData(ctx context.Context, far remote) {
	s := Step{Name: CheckData, Subject: far.prefix.String(), Outcome: OutcomeNotTried}
	add := n.report.addEssential
	if far.prefix.Instance() != 0 { // there is no way to try
		add = n.report.add
	}
	defer func() { add(s) }()
	ping := &pinging{PingOptions: PingOptions{Instance: far.prefix.Instance(), EID: eidWithin(far.prefix), Timeout: n.Timeout}, client: n.client, own: n.own, report: &PingReport{}}
	ping.mapping, ping.found = lisp.Mapping{Prefix: far.prefix}, true
	for _, rloc := range far.rlocs {
		ping.report.Locators = append(ping.report.Locators, LocatorResult{RLOC: rloc.String()})
	}
	source, err := ping.sourceEID()
	if far.prefix.Instance() != 0 || err != nil {
		s.Reason, s.Remedy = "this host has no EID of that family and Instance-ID", "give an interface an EID"
		return
	}
	socket, err := openEcho(source, ping.EID.Addr())
	if err != nil {
		s.Reason, s.Remedy = err.Error(), "run the command as root, in the daemon's network namespace"
		return
	}
	defer socket.close()
	began := time.Now()
	hops := ladder(socket)
	answered := func() bool {
		return ping.farError(hops, errorExceeded) != nil || ping.farError(hops, errorUnreachable) != nil || slices.ContainsFunc(hops, (*echo).answered)
	}
	if err := socket.run(ctx, hops, time.Millisecond, n.Timeout, answered); err != nil {
		s.Reason = err.Error()
		return
	}
	if answered() {
		s.Outcome, s.Detail = OutcomeOK, "passes both ways: the router there answers packets whose TTL ends"
		return
	}
	s.Outcome = OutcomeFailed
	s.Reason = "nothing comes back through the data plane: UDP port 4341 is filtered on the way there or back, or the router there drops the packets, or answers none whose TTL ends"
	s.Remedy = "let UDP port 4341 pass in both directions; `loci netcheck` and `loci show counters` at the other end tell which one it is"
	if n.heardSince(ctx, far.rlocs, began) {
		s.Reason = "packets come from there, so UDP port 4341 passes on the way back; it is filtered on the way there, or the router there drops the packets"
	}
}

// heardSince reports whether data packets came from one of these locators since a time.
func (n *netcheck) heardSince(ctx context.Context, rlocs []netip.Addr, began time.Time) bool {
	locators, err := n.client.Locators(ctx)
	if err != nil {
		return false
	}
	n.locators = locators
	return slices.ContainsFunc(rlocs, func(rloc netip.Addr) bool {
		state, known := n.stateOf(rloc)
		return known && state.LastHeardAt != nil && state.LastHeardAt.After(began)
	})
}

// eidWithin is an EID of an EID-Prefix that may be a host's: the second, or the only one.
func eidWithin(p lisp.Prefix) lisp.EID {
	if p.IsHost() {
		return p.EID()
	}
	return lisp.EIDFromAddr(p.EID().Addr().Next())
}
