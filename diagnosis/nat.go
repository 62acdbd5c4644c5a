// SPDX-License-Identifier: Apache-2.0

package diagnosis

// What `loci netcheck` finds out about NATs: Info-Requests (draft-ermagan-lisp-nat-traversal) from a port of its own
// to the Map-Servers that the daemon asks from port 4342, and what the daemon knows from its ports 4342 and 4341.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
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
			n.report.add(controlPortStep(v, n.mapServerAt(v.daemon.MapServer), len(nat.RTRs) == 0, n.status.StartedAt, time.Now()))
			n.informed[v.daemon.MapServer] = v.seen.IsValid()
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
		s.Detail = fmt.Sprintf("seen as %s, its own address and port: no NAT", v.seen)
		return s
	}
	s.Detail = fmt.Sprintf("behind a NAT: port %d is seen as %s", v.local.Port(), v.seen)
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
		s.Remedy = "let UDP port 4341 of this router pass to " + rtr.Address.String() + " port 4342 and back"
	case rtr.Silent:
		s.Reason = "the RTR answers nothing that leaves from UDP port 4341; it may be away, or the port is filtered"
	default:
		s.Reason = "the RTR has not answered yet"
	}
	return s
}

// askNAT sends Info-Requests from one socket to all Map-Servers that the daemon asks from this RLOC.
func (n *netcheck) askNAT(ctx context.Context, local netip.Addr, all []api.NATView, servers []NATServer) (views []natView) {
	var asked []NATServer
	for _, v := range all {
		if v.RLOC.Addr() != local {
			continue
		}
		view := natView{daemon: v, local: netip.AddrPortFrom(local, 0)}
		at := slices.IndexFunc(servers, func(s NATServer) bool { return s.Address.String() == v.MapServer && len(s.Keys) > 0 })
		server := NATServer{}
		if at >= 0 {
			server = servers[at]
			view.why = "no Info-Reply"
		} else {
			view.why = "the configuration file has no key for it any more"
		}
		view.server, _ = netip.ParseAddrPort(v.MapServer)
		views, asked = append(views, view), append(asked, server)
	}
	if err := exchangeInfo(ctx, views, asked, n.Timeout); err != nil {
		for i := range views {
			views[i].why = err.Error()
		}
	}
	return views
}

// exchangeInfo asks until each is answered, probeTries times at most.
func exchangeInfo(ctx context.Context, views []natView, asked []NATServer, timeout time.Duration) error {
	conn, err := controlSocket(views[0].local.Addr(), views[0].server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	waiting := 0
	for i := range views {
		views[i].local = netip.AddrPortFrom(views[i].local.Addr(), port)
		if len(asked[i].Keys) > 0 {
			waiting++
		}
	}
	nonces := map[uint64]int{} // of all tries
	for try := 0; try < probeTries && waiting > 0 && ctx.Err() == nil; try++ {
		for i := range views {
			if len(asked[i].Keys) == 0 || views[i].seen.IsValid() {
				continue
			}
			if err := sendInfo(conn, &asked[i], nonces, i); err != nil {
				views[i].why = err.Error()
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		waiting -= hearInfo(conn, views, asked, nonces, waiting)
	}
	return ctx.Err()
}

// sendInfo sends an Info-Request, as the daemon does.
func sendInfo(conn *net.UDPConn, to *NATServer, nonces map[uint64]int, which int) error {
	var chance [8]byte
	_, _ = rand.Read(chance[:])
	key := to.Keys[0]
	m := &wire.InfoRequest{
		Nonce: binary.BigEndian.Uint64(chance[:]), KeyID: key.ID, AlgorithmID: key.Algorithm,
		Authentication: make([]byte, key.MACOctets()), TTLMinutes: 1, MaskLen: uint8(to.Prefix.Bits()), EID: wire.AddressOf(to.Prefix),
	}
	request, err := wire.AppendSigned(nil, m, key.Secret)
	if err != nil {
		return err
	}
	nonces[m.Nonce] = which
	_, err = conn.WriteToUDPAddrPort(request, to.Address)
	return err
}

// hearInfo takes answers until so many came, or the socket's deadline did. It returns how many.
func hearInfo(conn *net.UDPConn, views []natView, asked []NATServer, nonces map[uint64]int, wanted int) (came int) {
	buffer := make([]byte, maxDatagramOctets)
	for came < wanted {
		length, _, err := conn.ReadFromUDPAddrPort(buffer)
		var icmp syscall.Errno
		switch {
		case errors.As(err, &icmp): // an answer may come all the same
			continue
		case err != nil:
			return came
		}
		if which, seen, ok := seenIn(buffer[:length], nonces, asked); ok && !views[which].seen.IsValid() {
			views[which].seen = seen
			came++
		}
	}
	return came
}

// seenIn is the address and port in an Info-Reply to one of these Info-Requests, and to which.
func seenIn(b []byte, nonces map[uint64]int, servers []NATServer) (which int, seen netip.AddrPort, ok bool) {
	parsed, err := wire.Parse(b)
	m, isReply := parsed.(*wire.InfoReply)
	if err != nil || !isReply {
		return 0, seen, false
	}
	which, known := nonces[m.Nonce]
	if !known || !slices.ContainsFunc(servers[which].Keys, func(k control.Key) bool {
		return k.ID == m.KeyID && k.Algorithm == m.AlgorithmID && wire.Verify(b, k.Secret) == nil
	}) {
		return 0, seen, false
	}
	lcaf, isNAT := m.NAT.(*wire.NATTraversalLCAF)
	if !isNAT {
		return 0, seen, false
	}
	rloc, isRLOC := wire.RLOCOf(lcaf.GlobalETR)
	if a := rloc.Addr(); !isRLOC || rloc.Valid() != nil || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || lcaf.ETRPort == 0 {
		return 0, seen, false
	}
	return which, netip.AddrPortFrom(rloc.Addr(), lcaf.ETRPort), true
}
