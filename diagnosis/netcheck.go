// SPDX-License-Identifier: Apache-2.0

package diagnosis

// `loci netcheck`: what lies between this router and those that it works with: UDP ports 4342 and 4341 through
// firewalls, both ways, the MTU of each path, keys, the clock, checksum offload, NATs. RLOC-probes go to peers,
// Map-Requests to the mapping system.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
	"loci/wire"
)

// The checks.
const (
	CheckClock       = "clock"
	CheckChecksums   = "checksum-offload"
	CheckMapResolver = "map-resolver"
	CheckMapServer   = "map-server"
	CheckControl     = "udp-4342"
	CheckData        = "udp-4341"
	CheckMTU         = "path-mtu"
	CheckNAT         = "nat"          // address and port as a Map-Server sees them
	CheckNATMapping  = "nat-mapping"  // whether they depend on the destination
	CheckNATControl  = "nat-udp-4342" // what leaves from that port
	CheckNATData     = "nat-udp-4341"
)

// NetcheckOptions bound a check.
type NetcheckOptions struct {
	Peers   int           // at most so many other routers
	Timeout time.Duration // for each answer
	// NATServers reads the Map-Servers and their keys from the daemon's configuration file: the daemon does not
	// give keys away.
	NATServers func(file string) ([]NATServer, error)
}

// netcheck is one under way.
type netcheck struct {
	NetcheckOptions
	client   *api.Client
	status   api.Status
	own      []api.DatabaseEntry
	locators []api.LocatorState
	peers    []peer
	remote   []remote
	answered map[string]bool // Map-Resolvers that answer
	informed map[string]bool // Map-Servers that answer Info-Requests, by the right key
	nat      api.NAT
	report   *Report
}

// peer is another router, with an EID behind it.
type peer struct {
	rloc   netip.Addr
	prefix lisp.Prefix
	etr    bool // of a registration: what matters is that the Map-Server reaches it
}

// remote is an EID-Prefix of another site, with where packets to it may go.
type remote struct {
	prefix lisp.Prefix
	rlocs  []netip.Addr
}

// Netcheck checks. The error is one of the daemon's socket; what fails on the way is in the report.
func Netcheck(ctx context.Context, client *api.Client, o NetcheckOptions) (*Report, error) {
	n := &netcheck{NetcheckOptions: o, client: client, answered: map[string]bool{}, informed: map[string]bool{}, report: &Report{Verdict: string(OutcomeOK), Steps: []Step{}}}
	if err := n.prepare(ctx); err != nil {
		return nil, err
	}
	addRegistration(n.report.add, n.status.MapServers)
	n.checkClock()
	n.checkChecksums()
	n.checkNAT(ctx)
	for _, r := range n.status.MapResolverStates {
		n.checkMapResolver(ctx, r)
	}
	for _, m := range n.status.MapServers {
		n.checkMapServer(ctx, m)
	}
	for _, p := range n.peers {
		n.checkPeer(ctx, p)
	}
	for _, r := range n.remote {
		n.checkData(ctx, r)
	}
	return n.report, ctx.Err()
}

func (n *netcheck) prepare(ctx context.Context) (err error) {
	if n.status, err = n.client.Status(ctx); err != nil {
		return err
	}
	if n.own, err = n.client.Database(ctx); err != nil {
		return err
	}
	if n.locators, err = n.client.Locators(ctx); err != nil {
		return err
	}
	if n.nat, err = n.client.NAT(ctx); err != nil {
		return err
	}
	return n.findPeers(ctx)
}

// entriesRead of a table are read for each router that may be checked: many EID-Prefixes have the same locators.
const entriesRead = 64

// findPeers takes the locators of the map-cache, and those of registrations at a Map-Server.
func (n *netcheck) findPeers(ctx context.Context) error {
	if n.Peers == 0 {
		return nil
	}
	query := api.ListQuery{Limit: entriesRead * n.Peers}
	for e, err := range n.client.EachMapCache(ctx, query) {
		if err != nil {
			return err
		}
		n.addRemote(e)
		if len(n.peers) == n.Peers && len(n.remote) == n.Peers {
			return nil
		}
	}
	for r, err := range n.client.EachRegistrations(ctx, query) {
		if err != nil {
			return err
		}
		for _, l := range r.Locators {
			if r.InForce && l.Reachable && len(l.Path) == 0 {
				n.addPeer(l.RLOC, r.EIDPrefix, true)
			}
		}
		if len(n.peers) == n.Peers {
			return nil
		}
	}
	return nil
}

// addRemote adds a map-cache entry and its locators.
func (n *netcheck) addRemote(e api.MapCacheEntry) {
	far := remote{prefix: e.EIDPrefix}
	for _, l := range e.Locators {
		if l.Priority == lisp.PriorityUnused || !l.Reachable {
			continue
		}
		to := l.RLOC
		if l.NextHop != nil {
			to = *l.NextHop
		}
		if isRTR := func(r api.NATRTR) bool { return r.Address == to.Addr() }; slices.ContainsFunc(n.nat.RTRs, isRTR) { // its answers come in data packets, to the daemon
			continue
		}
		n.addPeer(to, e.EIDPrefix, false)
		far.rlocs = append(far.rlocs, to.Addr())
	}
	if len(far.rlocs) > 0 && len(n.remote) < n.Peers && e.EIDPrefix.EID().IsIP() {
		n.remote = append(n.remote, far)
	}
}

// addPeer adds a router that is not known yet, as long as there is room.
func (n *netcheck) addPeer(rloc lisp.RLOC, prefix lisp.Prefix, etr bool) {
	known := slices.ContainsFunc(n.peers, func(p peer) bool { return p.rloc == rloc.Addr() })
	if !known && rloc.Addr().IsValid() && len(n.peers) < n.Peers && !slices.Contains(n.status.LocalRLOCs, rloc) && prefix.EID().IsIP() {
		n.peers = append(n.peers, peer{rloc.Addr(), prefix, etr})
	}
}

// earliest is a time that has been: an earlier clock is wrong.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func (n *netcheck) checkClock() {
	var state unix.Timex
	code, err := unix.Adjtimex(&state)
	synchronised := err != nil || code != unix.TIME_ERROR && state.Status&unix.STA_UNSYNC == 0 // a kernel that does not say is not blamed
	n.report.add(clockStep(time.Now(), n.status.StartedAt, synchronised))
}

// clockStep judges the time of day.
func clockStep(now, daemonStartedAt time.Time, synchronised bool) Step {
	s := Step{Name: CheckClock, Outcome: OutcomeOK, Detail: now.Format(time.RFC3339)}
	switch {
	case now.Before(earliest):
		s.Outcome, s.Reason = OutcomeFailed, "it is years behind: Map-Servers refuse Map-Registers as replays of later ones"
	case now.Before(daemonStartedAt):
		s.Outcome, s.Reason = OutcomeFailed, "it was set back since the daemon started: after a restart Map-Servers refuse its Map-Registers as replays"
	case !synchronised:
		s.Outcome, s.Reason = OutcomeWarning, "the kernel does not know it to be synchronised"
	}
	if s.Outcome != OutcomeOK {
		s.Remedy = "synchronise it by NTP; etr.nonce-file keeps nonces growing whatever it says"
	}
	return s
}

// checkChecksums warns of site interfaces behind which senders leave checksums unfinished. The data plane in user
// space finishes them.
func (n *netcheck) checkChecksums() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, i := range n.status.Interfaces {
		info, err := unix.IoctlGetEthtoolDrvinfo(fd, i.Name)
		if i.Side != "site" || err != nil {
			continue
		}
		s := Step{Name: CheckChecksums, Subject: i.Name, Outcome: OutcomeOK, Detail: "driver " + driverName(info.Driver[:])}
		if n.status.Engine != engineUser && slices.Contains([]string{"veth", "tun"}, driverName(info.Driver[:])) {
			s.Outcome, s.Reason = OutcomeWarning, "hosts behind a virtual interface leave checksums to a device that is not there; a peer that decapsulates in user space and is not Loci sees wrong ones"
			s.Remedy = "if TCP to such a peer does not connect: ethtool -K eth0 tx off at the host (docs/interoperability.md)"
		}
		n.report.add(s)
	}
}

// engineUser is how a daemon names its data plane in user space.
const engineUser = "user"

func driverName(octets []byte) string {
	name, _, _ := strings.Cut(string(octets), "\x00")
	return name
}

// anyEID is an EID to ask for: one of this site, or else of a peer.
func (n *netcheck) anyEID() (p lisp.Prefix, isOwn, ok bool) {
	for _, e := range n.own {
		if e.EIDPrefix.EID().IsIP() {
			return e.EIDPrefix, true, true
		}
	}
	for _, peer := range n.peers {
		return peer.prefix, false, true
	}
	return lisp.Prefix{}, false, false
}

func (n *netcheck) ask(ctx context.Context, to string, prefix lisp.Prefix) (control.LigAnswer, error) {
	address, err := netip.ParseAddrPort(to)
	if err != nil {
		return control.LigAnswer{}, err
	}
	return Ask(ctx, control.LigQuery{Instance: prefix.Instance(), EID: prefix.EID(), Resolver: address}, askTries(n.Timeout), n.Timeout, func(int, netip.AddrPort) {})
}

// checkMapResolver asks for an EID of this site. The answer of this router itself shows that the mapping system
// reaches its port 4342.
func (n *netcheck) checkMapResolver(ctx context.Context, r api.MapResolver) {
	s := Step{Name: CheckMapResolver, Subject: r.Address, Outcome: OutcomeNotTried, Reason: "there is no EID to ask for yet"}
	defer func() { n.report.add(s) }()
	prefix, isOwn, ok := n.anyEID()
	if len(n.nat.RTRs) > 0 {
		s.Reason = "this router asks none: all packets go to " + rtrNames(n.nat.RTRs)
		return
	}
	if !ok {
		return
	}
	answer, err := n.ask(ctx, r.Address, prefix)
	s.Reason = ""
	if err != nil {
		s.Outcome, s.Reason = OutcomeFailed, silenceText(err)
		s.Remedy = "find out whether it runs; let UDP port 4342 pass from this router to it, and back to any port of this router"
		if r.State == string(control.MapResolverAnswers) {
			s.Reason += "; it answered the daemon"
			s.Remedy = "let UDP port 4342 pass from the mapping system to this router, where a Map-Server forwards Map-Requests for its EIDs: the question was one for " + prefix.String()
		}
		return
	}
	n.answered[r.Address] = true
	s.Outcome, s.Detail = OutcomeOK, fmt.Sprintf("answers for %s after %s", prefix, answer.RoundTripTime.Round(10*time.Microsecond))
	if own := slices.Contains(n.status.LocalRLOCs, lisp.RLOCFromAddr(answer.From.Addr())); isOwn && own {
		s.Detail += ", and reaches UDP port 4342 of this router"
	}
}

// checkMapServer judges by the registration, which needs port 4342 both ways and the key.
func (n *netcheck) checkMapServer(ctx context.Context, m api.MapServer) {
	s := Step{Name: CheckMapServer, Subject: m.Address, Outcome: OutcomeOK}
	defer func() { n.report.add(s) }()
	switch {
	case m.State == string(control.MapServerRegistered) && len(n.nat.RTRs) > 0:
		s.Detail = fmt.Sprintf("the key is right: %d EID-Prefixes are registered, by %s", m.EIDPrefixes, rtrNames(n.nat.RTRs))
		return
	case m.State == string(control.MapServerRegistered):
		s.Detail = fmt.Sprintf("port 4342 passes both ways, the key is right: %d EID-Prefixes are registered", m.EIDPrefixes)
		return
	case m.State == string(control.MapServerPartial):
		s.Outcome, s.Detail = OutcomeFailed, "port 4342 passes both ways, the key is right"
		s.Reason, s.Remedy = fmt.Sprintf("%d EID-Prefixes are not acknowledged", m.LackingCount), "`loci status` names them: give them to this site at the Map-Server"
		return
	case m.LackingCount == 0:
		s.Outcome, s.Reason = OutcomeNotTried, "the registration is under way, or no Map-Notify is wanted"
		return
	}
	s.Outcome = OutcomeFailed
	if n.informed[m.Address] {
		s.Reason = "it answers Info-Requests, so the key is right, and acknowledges no Map-Register: UDP port 4342 is filtered, or a NAT in the way, or the EID-Prefixes are not this site's there, or this router's clock was set back"
		s.Remedy = "see the steps about NATs; `loci status` and `loci show counters` at the Map-Server show what it refuses"
		return
	}
	prefix, _, _ := n.anyEID()
	_, err := n.ask(ctx, m.Address, prefix)
	if n.isTranslated(m) {
		s.Reason = "no Map-Notify comes; a NAT is likely: all RLOCs of this router are private, and the Map-Server's address is not"
		s.Remedy = "give a core interface an address that other sites reach, or let the Map-Server offer an RTR (map-server.rtrs, docs/nat.md)"
		return
	}
	if err == nil || n.answered[m.Address] {
		s.Reason = "it answers Map-Requests, and acknowledges no Map-Register: key, EID-Prefix or clock: the key, Key ID or algorithm differ, or the EID-Prefixes are not this site's there, or this router's clock was set back"
		s.Remedy = "compare etr.map-servers with the site at the Map-Server; `loci status` and `loci show counters` there tell which it is"
		return
	}
	s.Reason = silenceText(err) + " to Map-Registers and Map-Requests"
	s.Remedy = "find out whether it runs; let UDP port 4342 pass from port 4342 of this router to it and back; compare the keys"
}

// isTranslated reports whether a NAT is likely between this router and a Map-Server of which no Map-Notify comes.
func (n *netcheck) isTranslated(m api.MapServer) bool {
	to, err := netip.ParseAddrPort(m.Address)
	isPublic := func(r lisp.RLOC) bool { return !r.IsPrivate() }
	return err == nil && isPublic(lisp.RLOCFromAddr(to.Addr())) && len(n.status.LocalRLOCs) > 0 && !slices.ContainsFunc(n.status.LocalRLOCs, isPublic)
}

// probe sends RLOC-probes to a peer from an own RLOC.
func (n *netcheck) probe(ctx context.Context, own netip.Addr, p peer) error {
	q := control.LigQuery{
		Instance: p.prefix.Instance(), EID: p.prefix.EID(), Resolver: netip.AddrPortFrom(p.rloc, wire.ControlPort), Local: netip.AddrPortFrom(own, 0),
	}
	_, err := Probe(ctx, q, probeTries, n.Timeout)
	return err
}
