// SPDX-License-Identifier: Apache-2.0

package control

// Node: the façade over the roles. It takes inputs, gives each to the role that it
// is for, and keeps the effects until they are polled. It decides who is asked,
// never what is answered.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/duplicates"
	"loci/control/internal/etr"
	"loci/control/internal/itr"
	"loci/control/internal/mapresolver"
	"loci/control/internal/mapserver"
	"loci/control/internal/message"
	"loci/control/internal/nat"
	"loci/control/internal/reach"
	"loci/control/internal/relay"
	"loci/control/internal/settings"
	"loci/control/internal/siblings"
	"loci/control/internal/solicit"
	"loci/control/internal/subflow"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// Node is one LISP system: any of ITR, ETR, Map-Server and Map-Resolver. It is not
// safe for concurrent use.
type Node struct {
	host    *system.System
	current *Prepared
	config  Config // of current
	keyring *Keyring

	itr         *itr.ITR // a role that is off is nil
	etr         *etr.ETR
	mapServer   *mapserver.MapServer
	mapResolver *mapresolver.MapResolver
	relay       *relay.Relay       // without policies where the Node is neither RTR nor PITR nor PETR
	siblings    *siblings.Siblings // of no consequence without ITR and ETR
	duplicates  *duplicates.Watch  // the same
	subflows    *subflow.Binder    // off without ITR
	chosen      *subflow.Answerer  // the paths of flows to our EIDs, without any where there is no ETR
	nat         *nat.Node          // NAT traversal: the side of a node, of no consequence without ETR
	rtr         *nat.RTR           // that of an RTR
	simple      simpleNAT          // the same by simple-nat
	natDefaults []lisp.Prefix      // by which everything is sent to our RTRs
	natRTRs     []netip.Addr       // of which control messages in data packets are taken
	retired     []retirement
	retiring    batch.Work // what a role left behind
	timers      []timer    // of the roles that are on
	jobs        batch.Jobs // their long works
	scratch     Scratch    // of the message that is being handled
	lastSMR     solicitedBy
}

// New makes a Node. random fills its argument with unpredictable octets; it is
// called only from within Handle… methods. The effects that set up the data plane
// and register are ready to be polled. It errs like Config.Validate.
func New(cfg Config, now time.Time, random func([]byte)) (*Node, error) {
	return Restarted(cfg, now, random, 0)
}

// Restarted is New after a run whose Map-Registers had nonces up to that: all that follow are
// greater, also when the clock was set back (RFC 9301 s.5.6).
func Restarted(cfg Config, now time.Time, random func([]byte), lastRegisterNonce uint64) (*Node, error) {
	n := &Node{host: system.New(now, random)}
	n.host.RegisterNonce = lastRegisterNonce
	n.siblings, n.relay = siblings.New(n.host), relay.New(n.host)
	n.duplicates, n.subflows = duplicates.New(n.host), subflow.New(n.host)
	n.subflows.Candidates, n.chosen = n.subflowPaths, subflow.NewAnswerer(n.host)
	n.subflows.Asker.Send = n.sendFlowRequest
	n.newNAT()
	n.newSimpleNAT()
	n.duplicates.Ask = func(p lisp.Prefix) (uint64, netip.AddrPort, bool) {
		if n.nat.Registers() || n.simple.node.Registers() { // no Map-Reply passes the NAT
			return 0, netip.AddrPort{}, false
		}
		return n.itr.Requester.AskOwn(p)
	}
	if err := n.Configure(now, cfg); err != nil {
		return nil, err
	}
	return n, nil
}

// Configure applies another configuration. It touches nothing that did not
// change; one that is refused changes nothing. A role that is switched off takes
// its tables with it.
func (n *Node) Configure(now time.Time, cfg Config) error {
	p, err := Prepare(cfg, n.current)
	if err != nil {
		return err
	}
	n.Apply(now, p)
	return nil
}

// LastRegisterNonce is the greatest nonce of a Map-Register so far, for Restarted.
func (n *Node) LastRegisterNonce() uint64 { return n.host.RegisterNonce }

// Current is the configuration that was applied last, for Prepare.
func (n *Node) Current() *Prepared { return n.current }

// Apply is Configure with what was made ready by Prepare, in little time however long
// the configuration is. Many static mappings, and many EID-Prefixes of the ETR, follow in later event-loop
// iterations.
func (n *Node) Apply(now time.Time, p *Prepared) {
	if p.before != n.current {
		p.compare(n.current) // another one came in between
	}
	begins := n.current == nil
	p.before, n.current = nil, p // the one before it is free
	if p.same {
		return
	}
	n.host.Advance(now)
	n.keyring, n.config = p.keyring, p.config
	n.host.Configure(p.config)
	n.host.Relaying = p.relaying
	n.relay.Configure(p.config.Roles)
	n.configureITR(p, begins)
	n.configureETR(p, begins)
	n.configureMapServer(p)
	n.configureMapResolver(p)
	n.configureNAT(p)
	n.configureSimpleNAT(p)
	n.listTimers()
}

func (n *Node) configureITR(p *Prepared, begins bool) {
	c := p.config.ITR
	switch {
	case c == nil && n.itr != nil:
		was := n.itr
		n.itr = nil
		n.retire(retirement{cache: &was.Cache.Cache, locators: &was.Prober.Table})
	case c != nil && n.itr == nil:
		n.itr = itr.New(n.host)
		n.itr.Requester.Own, n.itr.Requester.Returned = n.ownPrefix, n.hastenRegisters
		n.itr.Cache.Told, n.itr.Prober.Table.Changed = n.subflows.MappingChanged, n.subflows.StatesChanged
	}
	n.subflows.Configure(c != nil && c.BindSubflows, c != nil && c.AskForSubflows)
	if c != nil {
		n.itr.Configure(c, itr.StaticChange{Gone: p.gone, Wanted: p.static}, begins)
	}
}

func (n *Node) configureETR(p *Prepared, begins bool) {
	c := p.config.ETR
	switch {
	case c == nil && n.etr != nil:
		was := n.etr
		n.etr, n.chosen = nil, subflow.NewAnswerer(n.host)
		n.retire(retirementOf(was))
	case c != nil && n.etr == nil:
		n.etr = etr.New(n.host)
		n.etr.Solicitor.Peers, n.etr.Solicitor.SiteAt = n.activePeers, n.siteAt
		n.etr.IsSibling = func(a netip.Addr) bool { return n.siblings.Of(a) >= 0 }
		n.etr.Changed = n.duplicates.Changed
		n.etr.Registrar.Sender.SentByRTR = n.nat.HandleRegister
		n.etr.Lowered = func(set lisp.LocatorSet) lisp.LocatorSet { return n.siblings.Lowered(set) }
	}
	if c == nil {
		n.siblings.Configure(nil, p.database)
		n.duplicates.Configure(nil, p.database)
		return
	}
	n.configureDuplicates(p)
	n.configureSiblings(c.Siblings, p.database)
	n.nat.Expect(c)
	n.etr.Configure(n.etrConfig(), p.database, p.anew, begins)
	n.siblings.TellChange()
}

func (n *Node) configureMapServer(p *Prepared) {
	switch {
	case p.config.MapServer == nil:
		n.mapServer = nil
		return
	case n.mapServer == nil:
		n.mapServer = mapserver.New(n.host)
	}
	n.mapServer.Configure(p.config.MapServer, p.keyring.Prefixes, p.sites)
}

func (n *Node) configureMapResolver(p *Prepared) {
	switch {
	case p.config.MapResolver == nil:
		n.mapResolver = nil
		return
	case n.mapResolver == nil:
		n.mapResolver = mapresolver.New(n.host)
	}
	n.mapResolver.Configure(p.routes)
}

// Keyring is the snapshot that Inspect needs. It changes with Configure only.
func (n *Node) Keyring() *Keyring { return n.keyring }

// HandlePacket is Inspect, then HandleReceived or HandleRefusal. local is the
// address and port that the packet came to, zero where unknown. b is not kept.
func (n *Node) HandlePacket(now time.Time, local, from netip.AddrPort, b []byte) {
	n.HandleParsed(now, local, from, b, nil)
}

// HandleParsed is HandlePacket for who has parsed the octets already, by wire.Parse: m is
// what came of it, nil where that erred. m is not changed, and may be handed to others.
func (n *Node) HandleParsed(now time.Time, local, from netip.AddrPort, b []byte, m wire.Message) {
	received, refused := message.InspectWith(n.keyring, local, from, b, message.Reading{Parsed: m, Scratch: &n.scratch})
	if refused != nil {
		n.HandleRefusal(now, refused)
		return
	}
	n.HandleReceived(now, received)
}

// HandleReceived acts on a control message that Inspect let pass.
func (n *Node) HandleReceived(now time.Time, r Received) {
	n.host.Advance(now)
	if r.Keyring != n.keyring { // roles and keys may be others now
		n.host.Count(counter.RefusedStaleKeys)
		return
	}
	switch m := r.Message.(type) {
	case *message.MapRequest:
		n.handleMapRequest(m)
	case *message.MapReply:
		n.handleMapReply(m)
	case *message.FlowReply:
		n.handleFlowReply(m)
	case *message.MapRegister:
		n.mapServer.HandleMapRegister(m)
	case *message.MapNotify:
		if _, acknowledges := n.etr.HandleMapNotify(m); acknowledges {
			n.simple.node.Registered()
		}
		if n.itr != nil {
			n.itr.Requester.Resolvers.HeardFrom(m.From.Addr())
		}
	case *message.MapNotifyAck:
		n.handleMapNotifyAck(m)
	case *message.InfoRequest:
		n.mapServer.Infos.HandleInfoRequest(m)
	case *message.InfoReply:
		n.nat.HandleInfoReply(m)
		n.simple.node.Evaluate()
	case *message.NamedInfoRequest:
		n.simple.server.HandleInfoRequest(m)
	case *message.NamedInfoReply:
		n.simple.node.HandleInfoReply(m)
	case *message.NATRegister:
		n.rtr.HandleMapRegister(m)
	case *message.NATNotify:
		n.rtr.HandleMapNotify(m)
	}
}

// HandleRefusal counts a packet that Inspect refused, and tells of it.
func (n *Node) HandleRefusal(now time.Time, r *Refusal) {
	n.host.Advance(now)
	n.refuse(r)
}

func (n *Node) refuse(r *Refusal) {
	n.host.Count(r.Reason)
	if r.Site != "" && !r.KeyFits && n.mapServer != nil {
		n.mapServer.NoteAuthFailure(r.Site)
	}
	kind := NoticeMessageRefused
	if r.Type == wire.TypeMapRegister {
		kind = NoticeRegistrationRefused
		if n.mapServer != nil {
			n.mapServer.Refusals.NoteRefusal(r)
		}
	}
	n.host.NoticeRefusal(Notice{Kind: kind, Prefix: r.Prefix, Remote: r.From, Site: r.Site, Reason: r.Reason.Reason(), Detail: r.Err.Error()})
}

// handleMapNotifyAck ends a Map-Notify of the Map-Server.
func (n *Node) handleMapNotifyAck(m *message.MapNotifyAck) {
	if m.Unverified != nil {
		site, known := n.mapServer.Notifier.SiteOf(m.Nonce)
		if !known {
			n.host.Count(counter.RefusedNotifyAck)
			return
		}
		if _, _, refused := message.AuthenticateSite(site, m.Unverified, m.KeyID, m.Algorithm); refused != nil {
			refused.From, refused.Type = m.From, wire.TypeMapNotifyAck
			n.refuse(refused)
			return
		}
		m.Site = site.Name
	}
	n.host.Count(counter.MapNotifyAckReceived)
	n.mapServer.Notifier.Acknowledged(m)
}

// handleMapRequest gives each kind of Map-Request to the role that it is for.
func (n *Node) handleMapRequest(m *message.MapRequest) {
	n.host.Count(counter.MapRequestReceived)
	switch {
	case m.SMR:
		n.handleSolicitMapRequest(m)
	case m.Probe:
		n.handleProbe(m)
	case m.DontReply:
		n.host.Count(counter.RefusedDontReply)
	case m.ECM == nil && n.etr == nil:
		n.host.Count(counter.RefusedRole)
	case m.Flow != nil:
		n.handleFlowRequest(m)
	case m.ECM == nil && n.siblings.Gives(m):
		n.siblingsChanged(false)
	case m.ECM == nil:
		n.verifyPiggybacked(m)
		for _, asked := range m.Prefixes {
			n.etr.HandleMapRequest(m, asked)
		}
	default:
		n.host.Count(counter.ECMReceived)
		n.verifyPiggybacked(m)
		for _, asked := range m.Prefixes {
			n.resolve(m, asked)
		}
	}
}

// verifyPiggybacked asks the mapping system for the mapping that a Map-Request for one of
// our EIDs brought along (RFC 9301 s.5.3: a verifying Map-Request). What came along is
// not trusted until then.
func (n *Node) verifyPiggybacked(m *message.MapRequest) {
	switch {
	case m.Piggybacked.IsZero() || n.itr == nil || n.etr == nil || !n.etr.Config.VerifyPiggybacked:
	case !n.isOwn(m.Prefixes[0]) || n.isOwn(m.Piggybacked):
		n.host.Count(counter.RefusedPiggybacked)
	default:
		n.itr.Verify(m.Piggybacked)
	}
}

func (n *Node) handleProbe(m *message.MapRequest) {
	n.host.Count(counter.RLOCProbeReceived)
	if n.siblings.Asks(m) {
		return
	}
	for _, asked := range m.Prefixes {
		switch {
		case n.rtr.HandleProbe(m, asked):
		case n.etr != nil && n.etr.HandleProbe(m, asked):
		case n.relay.Answers(asked):
			n.relay.HandleProbe(m, asked)
		case n.config.NATRelay != nil:
			n.relay.HandleProbe(m, asked)
		case n.etr == nil: // RFC 9301 s.5.3: a Map-Server or Map-Resolver drops it
			n.host.Count(counter.RefusedProbeHere)
		default:
			n.host.Count(counter.RefusedNoMapping)
		}
	}
}

// handleSolicitMapRequest finds out what changed: RFC 9301 systems name it in the record; Cisco's and
// OpenOverlayRouter name an EID-Prefix of ours there, and theirs as the source. Cisco's set P too, and are answered.
func (n *Node) handleSolicitMapRequest(m *message.MapRequest) {
	if m.Probe && !m.DontReply && m.ReplyPort != 0 {
		n.handleProbe(m)
	}
	var changed []lisp.Prefix
	for _, p := range m.Prefixes {
		if !n.isOwn(p) || m.Source.IsZero() {
			changed = append(changed, p)
		}
	}
	if n.isSecondMessage(m) && len(changed) == 0 {
		return
	}
	n.host.Count(counter.SMRReceived)
	if n.itr == nil {
		n.host.Count(counter.RefusedRole)
		return
	}
	if n.siblings.HandleSolicitMapRequest(m) {
		return
	}
	source := lisp.HostPrefix(m.SourceInstance, m.Source)
	if !m.Source.IsZero() && !slices.ContainsFunc(changed, func(p lisp.Prefix) bool { return p.Covers(source) }) {
		changed = append(changed, source)
	}
	n.itr.HandleSolicitMapRequest(changed)
}

// solicitedBy tells one SMR from another.
type solicitedBy struct {
	from   netip.Addr
	nonce  uint64
	source lisp.EID
	at     timing.Instant
}

// isSecondMessage reports whether a message is of the SMR that came last: ours are two, with one nonce.
func (n *Node) isSecondMessage(m *message.MapRequest) bool {
	last := n.lastSMR
	n.lastSMR = solicitedBy{m.From.Addr(), m.Nonce, m.Source, n.host.Now}
	same := last.from == m.From.Addr() && last.nonce == m.Nonce && last.source == m.Source
	return same && m.Nonce != 0 && n.host.Now-last.at < timing.Instant(solicit.SMRInterval)
}

// hastenRegisters lets Map-Registers that are not acknowledged go at once, for a Map-Resolver is back.
func (n *Node) hastenRegisters() {
	if n.etr != nil {
		n.etr.Registrar.Sender.Hasten()
	}
}

// ownPrefix is an EID-Prefix of our own, zero for none.
func (n *Node) ownPrefix() lisp.Prefix {
	if n.etr == nil || len(n.etr.Registrar.Peers) == 0 {
		return lisp.Prefix{}
	}
	return n.etr.Database.First
}

func (n *Node) isOwn(p lisp.Prefix) bool {
	if n.etr == nil {
		return false
	}
	_, own := n.etr.Database.Longest(p)
	return own
}

// resolve answers one EID-Prefix of an Encapsulated Map-Request: as its ETR, unless
// the Map-Server knows something more specific; as its Map-Server; or by passing it
// on as Map-Resolver.
func (n *Node) resolve(m *message.MapRequest, asked lisp.Prefix) {
	if n.etr != nil && n.etrIsNearest(asked) {
		n.etr.HandleMapRequest(m, asked)
		return
	}
	if n.mapServer != nil {
		if owner, ok := n.mapServer.Owners.Prefixes.Lookup(asked); ok {
			n.mapServer.HandleMapRequest(m, asked, owner)
			return
		}
	}
	switch {
	case n.mapResolver != nil:
		n.mapResolver.HandleMapRequest(m, asked, n.isKnown)
	case n.mapServer != nil:
		n.mapServer.DenyUnknown(m, asked)
	default:
		n.host.Count(counter.RefusedNoMapping)
	}
}

func (n *Node) etrIsNearest(asked lisp.Prefix) bool {
	own, _, ok := n.etr.Database.Index.Match(asked)
	if !ok || n.mapServer == nil {
		return ok
	}
	registered, _, ok := n.mapServer.Registrations.Index.Match(asked)
	return !ok || registered.Bits() <= own.Bits()
}

// activePeers are the locators of mappings that were in use lately, those that take no
// traffic too: where our ETR's SMRs go.
func (n *Node) activePeers(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool) {
	if n.itr == nil {
		return 0, false
	}
	return n.itr.Prober.Peers(cursor, yield)
}

// siteAt is an EID-Prefix of the site behind an RLOC, like another one, by the map-cache; zero for none.
func (n *Node) siteAt(r lisp.RLOC, like lisp.Prefix) lisp.Prefix {
	if n.itr == nil {
		return lisp.Prefix{}
	}
	return n.itr.Prober.Table.SiteAt(r, like)
}

// isKnown reports whether the Map-Server or the ETR has EID-Prefixes that overlap
// with p.
func (n *Node) isKnown(p lisp.Prefix) bool {
	return n.mapServer != nil && n.mapServer.Owners.Prefixes.Overlaps(p) || n.etr != nil && n.etr.Database.Index.Overlaps(p)
}

// TellMessages says whether notices of every message are wanted, as they are by default: to write them takes longer
// than to handle many a message. Changes of state and refusals are always told.
func (n *Node) TellMessages(wanted bool) { n.host.Quiet = !wanted }

// timer is the deadlines of a table with what handles them.
type timer struct {
	deadlines *timing.Deadlines
	handle    func(id uint32)
}

// listTimers lists the deadlines of all roles, and their long works, in the order in which those of one
// moment are handled.
func (n *Node) listTimers() {
	n.timers, n.jobs = n.timers[:0], n.jobs[:0]
	if r := n.itr; r != nil {
		n.timers = append(n.timers, timer{&r.Requester.Pending.Timers, r.Requester.HandleTimeout}, timer{&r.Cache.Timers, r.HandleCacheTimeout},
			timer{&r.Requester.Resolvers.Checks, r.Requester.HandleCheck}, timer{&r.Requester.Rounds, r.Requester.HandleRound}, timer{&r.Prober.Table.Timers, r.HandleProbeTimeout},
			timer{&r.Cache.Lost.Timers, r.HandleLostTimeout})
		n.jobs = append(n.jobs, batch.Job{Work: &r.Sweeps.Work, Do: r.Sweeps.Handle}, batch.Job{Work: &r.Requester.Release, Do: r.Requester.HandleRelease}, batch.Job{Work: &r.Prober.Reviews, Do: r.Prober.Review},
			batch.Job{Work: &r.Statics.Work, Do: r.Statics.Handle}, batch.Job{Work: &r.Prober.Table.Paths.Work, Do: r.Prober.Table.Paths.Judge},
			batch.Job{Work: &r.Moves.Work, Do: r.Moves.Handle})
	}
	if n.itr != nil {
		n.jobs = append(n.jobs, batch.Job{Work: &n.itr.Cache.Named.Work, Do: n.itr.Cache.Named.Handle})
	}
	n.jobs = append(n.jobs, batch.Job{Work: &n.retiring, Do: n.handleRetirement}, batch.Job{Work: &n.rtr.Sweep, Do: n.rtr.HandleSweep})
	n.timers = append(n.timers, timer{&n.nat.Timers, n.nat.HandleTimeout}, timer{&n.nat.Keepers, n.nat.HandleKeeper},
		timer{&n.rtr.Waits, n.rtr.HandleWait}, timer{&n.rtr.Expiry, n.rtr.HandleExpiry}, timer{&n.simple.rtr.Expiry, n.simple.rtr.HandleExpiry}, timer{&n.simple.node.Timers, n.simple.node.HandleTimeout})
	if e := n.etr; e != nil {
		n.timers = append(n.timers, timer{&e.Registrar.Sender.Timers, e.Registrar.HandleTimeout}, timer{&e.Solicitor.Timers, e.Solicitor.HandleTimeout},
			timer{&n.duplicates.Timers, n.duplicates.HandleTimeout}, timer{&n.siblings.Timers, n.handleSiblingTimeout}, timer{&n.siblings.Inquiries.Timers, n.siblings.Inquiries.HandleTimeout},
			timer{&n.siblings.Giver.Timers, n.siblings.Giver.HandleTimeout}, timer{&n.siblings.Taker.Timers, n.siblings.Taker.HandleTimeout})
		n.jobs = append(n.jobs, batch.Job{Work: &n.siblings.Giver.Work, Do: n.siblings.Giver.Scan})
		n.jobs = append(n.jobs, batch.Job{Work: &e.Solicitor.Begin, Do: e.Solicitor.HandleBegin}, batch.Job{Work: &e.Announcing, Do: e.HandleAnnouncing},
			batch.Job{Work: &e.Registrar.Sender.Hastening, Do: e.Registrar.Sender.HandleHastening})
	}
	n.timers = append(n.timers, timer{&n.subflows.Timers, n.subflows.HandleTimeout},
		timer{&n.subflows.Asker.Timers, n.subflows.Asker.HandleTimeout},
		timer{&n.chosen.Timers, n.chosen.HandleTimeout})
	n.jobs = append(n.jobs, batch.Job{Work: &n.subflows.Work, Do: n.subflows.HandleWork})
	if s := n.mapServer; s != nil {
		n.timers = append(n.timers, timer{&s.Registrations.Timers, s.HandleTimeout}, timer{&s.Notifier.Timers, s.Notifier.HandleTimeout})
		n.jobs = append(n.jobs, batch.Job{Work: &s.Registrations.Sweep, Do: s.HandleSweep}, batch.Job{Work: &s.Journal.Work, Do: s.HandleCheckpoint})
	}
}

// HandleTimeout does what is due: a bounded number of deadlines, and then one batch of the long work that
// waits longest. No pass over a large table holds up the rest, or another pass. As long as
// NextDeadline is not in the future, call it again.
func (n *Node) HandleTimeout(now time.Time) {
	n.host.Advance(now)
	left := settings.TimeoutBatch
	for _, t := range n.timers {
		for ; left > 0; left-- {
			id, ok := t.deadlines.Due(n.host.Now)
			if !ok {
				break
			}
			t.handle(id)
		}
	}
	if left > 0 {
		n.jobs.RunOldest(n.host.Now)
	}
}

// NextDeadline is when HandleTimeout wants to be called; ok is false for never.
func (n *Node) NextDeadline() (deadline time.Time, ok bool) {
	next := n.jobs.Next()
	for i := range n.timers {
		next = min(next, n.timers[i].deadlines.Next())
	}
	return n.host.Time(next), next != timing.Never
}

// Poll takes the next effect; ok is false when there is none left.
func (n *Node) Poll() (e Effect, ok bool) {
	if e, ok = n.host.Poll(); ok || n.mapServer == nil {
		return e, ok
	}
	return n.mapServer.Journal.Poll()
}

// AdoptMapCache takes over what the data plane kept through a restart, TTLs and
// ages included. Call it right after New, before anything else. What has expired or
// is not wanted any more is removed from the data plane.
func (n *Node) AdoptMapCache(now time.Time, entries []MapCacheEntry) {
	n.host.Advance(now)
	for _, e := range entries {
		if n.itr == nil {
			n.host.Emit(RemoveMapping{Prefix: e.Mapping.Prefix, Reason: RemoveConfigured})
			continue
		}
		n.itr.Adopt(e)
	}
}

// AdoptDatabase takes notice of the own mappings that the data plane kept through a restart: where this run has other
// locators, the routers that it sent packets to are told by SMRs once that is registered (RFC 9301 s.6.1). Call it
// right after New.
func (n *Node) AdoptDatabase(now time.Time, was iter.Seq[DatabaseMapping]) {
	n.host.Advance(now)
	if n.etr != nil {
		n.etr.Adopt(was)
	}
}

// AdoptLocatorStates takes over which RLOCs the data plane holds for down or unconfirmed
// since before a restart. Call it after AdoptMapCache. Without it they stay so there until
// they answer a probe, and for ever when RLOC-probing is off now.
func (n *Node) AdoptLocatorStates(now time.Time, kept []SetLocatorState) {
	n.host.Advance(now)
	if n.itr == nil {
		table := reach.NewTable(n.host)
		table.Adopt(kept)
		return
	}
	n.itr.Prober.Table.Adopt(kept)
}

// Shutdown is the last call; as long as it reports that there is more, call it again. What left the Database is
// withdrawn where a Map-Server may still have it, and what a role left behind that was switched off is removed. Other
// registrations are left to the next run, or withdrawn where ETRConfig.WithdrawOnShutdown says so; the data plane
// keeps what it has.
func (n *Node) Shutdown(now time.Time) (more bool) {
	n.host.Advance(now)
	if n.endRetirements() {
		return true
	}
	return n.etr != nil && n.etr.Shutdown()
}
