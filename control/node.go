// SPDX-License-Identifier: Apache-2.0

package control

// Node: the façade over the roles. It takes inputs, gives each to the role that it
// is for, and keeps the effects until they are polled. It decides who is asked,
// never what is answered.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

// Node is one LISP system: any of ITR, ETR, Map-Server and Map-Resolver. It is not
// safe for concurrent use.
type Node struct {
	host    *host
	inForce *Prepared
	config  Config // of inForce
	keyring *Keyring

	itr         *itr // a role that is off is nil
	etr         *etr
	mapServer   *mapServer
	mapResolver *mapResolver
	siblings    *siblings // of no consequence without ITR and ETR
	retired     []retirement
	retiring    deadlines // one row: the next batch of what a role left behind
	timers      []timer   // of the roles that are on
	room        Room      // of the message that is being handled
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
	n := &Node{host: newHost(now, random)}
	n.host.registerNonce = lastRegisterNonce
	n.siblings = newSiblings(n.host)
	if err := n.Configure(now, cfg); err != nil {
		return nil, err
	}
	return n, nil
}

// Configure puts another configuration in force. It touches nothing that did not
// change; one that is refused changes nothing. A role that is switched off takes
// its tables with it.
func (n *Node) Configure(now time.Time, cfg Config) error {
	p, err := Prepare(cfg, n.inForce)
	if err != nil {
		return err
	}
	n.PutInForce(now, p)
	return nil
}

// LastRegisterNonce is the greatest nonce of a Map-Register so far, for Restarted.
func (n *Node) LastRegisterNonce() uint64 { return n.host.registerNonce }

// InForce is the configuration in force, for Prepare.
func (n *Node) InForce() *Prepared { return n.inForce }

// PutInForce is Configure with what was made ready by Prepare, in a turn that is short however long
// the configuration is. Many static mappings, and many EID-Prefixes of the ETR, follow in the next turns.
func (n *Node) PutInForce(now time.Time, p *Prepared) {
	if p.before != n.inForce {
		p.compare(n.inForce) // another one came in between
	}
	begins := n.inForce == nil
	p.before, n.inForce = nil, p // what was in force before it is free
	if p.same {
		return
	}
	n.host.turn(now)
	n.keyring, n.config = p.keyring, p.config
	n.host.configure(p.config)
	n.configureITR(p, begins)
	n.configureETR(p, begins)
	n.configureMapServer(p)
	n.configureMapResolver(p)
	n.listTimers()
}

func (n *Node) configureITR(p *Prepared, begins bool) {
	c := p.config.ITR
	switch {
	case c == nil && n.itr != nil:
		was := n.itr
		n.itr = nil
		n.retire(retirement{cache: &was.cache, locators: &was.prober.table})
	case c != nil && n.itr == nil:
		n.itr = newITR(n.host)
		n.itr.own = n.ownPrefix
	}
	if c != nil {
		n.itr.configure(c, staticChange{gone: p.gone, wanted: p.static}, begins)
	}
}

func (n *Node) configureETR(p *Prepared, begins bool) {
	c := p.config.ETR
	switch {
	case c == nil && n.etr != nil:
		was := n.etr
		n.etr = nil
		n.retire(retirementOf(was))
	case c != nil && n.etr == nil:
		n.etr = newETR(n.host)
		n.etr.solicitor.peers, n.etr.solicitor.siteAt = n.activePeers, n.siteAt
		n.etr.isSibling = func(a netip.Addr) bool { return n.siblings.of(a) >= 0 }
		n.etr.lowered = func(set lisp.LocatorSet) lisp.LocatorSet { return n.siblings.lowered(set) }
	}
	if c == nil {
		n.siblings.configure(nil, p.database)
		return
	}
	n.configureSiblings(c.Siblings, p.database)
	n.etr.configure(c, p.database, p.anew, begins)
	n.siblings.tellChange()
}

func (n *Node) configureMapServer(p *Prepared) {
	switch {
	case p.config.MapServer == nil:
		n.mapServer = nil
		return
	case n.mapServer == nil:
		n.mapServer = newMapServer(n.host)
	}
	n.mapServer.configure(p.config.MapServer, p.keyring.prefixes, p.sites)
}

func (n *Node) configureMapResolver(p *Prepared) {
	switch {
	case p.config.MapResolver == nil:
		n.mapResolver = nil
		return
	case n.mapResolver == nil:
		n.mapResolver = newMapResolver(n.host)
	}
	n.mapResolver.configure(p.routes)
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
	received, refused := inspect(n.keyring, local, from, b, reading{parsed: m, room: &n.room})
	if refused != nil {
		n.HandleRefusal(now, refused)
		return
	}
	n.HandleReceived(now, received)
}

// HandleReceived acts on a control message that Inspect let pass.
func (n *Node) HandleReceived(now time.Time, r Received) {
	n.host.turn(now)
	n.bring()
	if r.keyring != n.keyring { // roles and keys may be others now
		n.host.count(RefusedStaleKeys)
		return
	}
	switch m := r.message.(type) {
	case *mapRequest:
		n.handleMapRequest(m)
	case *mapReply:
		n.handleMapReply(m)
	case *mapRegister:
		n.mapServer.handleMapRegister(m)
	case *mapNotify:
		n.etr.handleMapNotify(m)
	case *mapNotifyAck:
		n.handleMapNotifyAck(m)
	}
}

// HandleRefusal counts a packet that Inspect refused, and tells of it.
func (n *Node) HandleRefusal(now time.Time, r *Refusal) {
	n.host.turn(now)
	n.bring()
	n.refuse(r)
}

func (n *Node) refuse(r *Refusal) {
	n.host.count(r.Reason)
	if r.site != "" && n.mapServer != nil {
		n.mapServer.noteAuthFailure(r.site)
	}
	kind := NoticeMessageRefused
	if r.Type == wire.TypeMapRegister {
		kind = NoticeRegistrationRefused
	}
	n.host.noticeRefusal(Notice{Kind: kind, Prefix: r.prefix, Remote: r.From, Site: r.site, Reason: r.Reason.Reason(), Detail: r.Reason.Reason() + ": " + r.Err.Error()})
}

// handleMapNotifyAck ends a Map-Notify of the Map-Server.
func (n *Node) handleMapNotifyAck(m *mapNotifyAck) {
	if m.unverified != nil {
		site, known := n.mapServer.notifier.siteOf(m.nonce)
		if !known {
			n.host.count(RefusedNotifyAck)
			return
		}
		if _, _, refused := authenticateSite(site, m.unverified, m.keyID, m.algorithm); refused != nil {
			refused.From, refused.Type = m.from, wire.TypeMapNotifyAck
			n.refuse(refused)
			return
		}
		m.site = site.Name
	}
	n.host.count(MapNotifyAckReceived)
	n.mapServer.notifier.acknowledged(m)
}

// handleMapRequest gives each kind of Map-Request to the role that it is for.
func (n *Node) handleMapRequest(m *mapRequest) {
	n.host.count(MapRequestReceived)
	switch {
	case m.SMR:
		n.handleSolicitMapRequest(m)
	case m.Probe:
		n.handleProbe(m)
	case m.DontReply:
		n.host.count(RefusedDontReply)
	case m.ecm == nil && n.etr == nil:
		n.host.count(RefusedRole)
	case m.ecm == nil:
		n.verifyPiggybacked(m)
		for _, asked := range m.prefixes {
			n.etr.handleMapRequest(m, asked)
		}
	default:
		n.host.count(ECMReceived)
		n.verifyPiggybacked(m)
		for _, asked := range m.prefixes {
			n.resolve(m, asked)
		}
	}
}

// verifyPiggybacked asks the mapping system for the mapping that a Map-Request for one of
// our EIDs brought along (RFC 9301 s.5.3: a verifying Map-Request). What came along is
// nobody's word until then.
func (n *Node) verifyPiggybacked(m *mapRequest) {
	switch {
	case m.piggybacked.IsZero() || n.itr == nil || n.etr == nil || !n.etr.config.VerifyPiggybacked:
	case !n.isOwn(m.prefixes[0]) || n.isOwn(m.piggybacked):
		n.host.count(RefusedPiggybacked)
	default:
		n.itr.verify(m.piggybacked)
	}
}

func (n *Node) handleProbe(m *mapRequest) {
	n.host.count(RLOCProbeReceived)
	if n.etr == nil { // RFC 9301 s.5.3: a Map-Server or Map-Resolver drops it
		n.host.count(RefusedProbeHere)
		return
	}
	n.etr.handleProbe(m)
}

// handleSolicitMapRequest finds out what changed: RFC 9301 systems name it in the record; Cisco's and OpenOverlayRouter name an
// EID-Prefix of ours there, and theirs as the source. Cisco's set P too, and are answered.
func (n *Node) handleSolicitMapRequest(m *mapRequest) {
	if m.Probe && !m.DontReply && m.replyPort != 0 {
		n.handleProbe(m)
	}
	var changed []lisp.Prefix
	for _, p := range m.prefixes {
		if !n.isOwn(p) || m.source.IsZero() {
			changed = append(changed, p)
		}
	}
	if n.isSecondMessage(m) && len(changed) == 0 {
		return
	}
	n.host.count(SMRReceived)
	if n.itr == nil {
		n.host.count(RefusedRole)
		return
	}
	if i := n.siblings.of(m.from.Addr()); i >= 0 {
		n.siblings.handleSolicitMapRequest(i)
		return
	}
	source := lisp.HostPrefix(m.sourceInstance, m.source)
	if !m.source.IsZero() && !slices.ContainsFunc(changed, func(p lisp.Prefix) bool { return p.Covers(source) }) {
		changed = append(changed, source)
	}
	n.itr.handleSolicitMapRequest(changed)
}

// solicitedBy tells one SMR from another.
type solicitedBy struct {
	from   netip.Addr
	nonce  uint64
	source lisp.EID
	at     instant
}

// isSecondMessage reports whether a message is of the SMR that came last: ours are two, with one nonce.
func (n *Node) isSecondMessage(m *mapRequest) bool {
	last := n.lastSMR
	n.lastSMR = solicitedBy{m.from.Addr(), m.Nonce, m.source, n.host.now}
	same := last.from == m.from.Addr() && last.nonce == m.Nonce && last.source == m.source
	return same && m.Nonce != 0 && n.host.now-last.at < instant(smrInterval)
}

// ownPrefix is an EID-Prefix of our own, zero for none.
func (n *Node) ownPrefix() lisp.Prefix {
	if n.etr == nil || len(n.etr.registrar.peers) == 0 {
		return lisp.Prefix{}
	}
	return n.etr.database.first
}

func (n *Node) isOwn(p lisp.Prefix) bool {
	if n.etr == nil {
		return false
	}
	_, own := n.etr.database.longest(p)
	return own
}

// resolve answers one EID-Prefix of an Encapsulated Map-Request: as its ETR, unless
// the Map-Server knows something more specific; as its Map-Server; or by passing it
// on as Map-Resolver.
func (n *Node) resolve(m *mapRequest, asked lisp.Prefix) {
	if n.etr != nil && n.etrIsNearest(asked) {
		n.etr.handleMapRequest(m, asked)
		return
	}
	if n.mapServer != nil {
		if owner, ok := n.mapServer.prefixes.lookup(asked); ok {
			n.mapServer.handleMapRequest(m, asked, owner)
			return
		}
	}
	switch {
	case n.mapResolver != nil:
		n.mapResolver.handleMapRequest(m, asked, n.isKnown)
	case n.mapServer != nil:
		n.mapServer.denyUnknown(m, asked)
	default:
		n.host.count(RefusedNoMapping)
	}
}

func (n *Node) etrIsNearest(asked lisp.Prefix) bool {
	own, _, ok := n.etr.database.index.match(asked)
	if !ok || n.mapServer == nil {
		return ok
	}
	registered, _, ok := n.mapServer.registrations.index.match(asked)
	return !ok || registered.Bits() <= own.Bits()
}

// activePeers are the locators of mappings that were in use lately, those that take no
// traffic too: where our ETR's SMRs go.
func (n *Node) activePeers(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool) {
	if n.itr == nil {
		return 0, false
	}
	return n.itr.prober.peers(cursor, yield)
}

// siteAt is an EID-Prefix of the site behind an RLOC, like another one, by the map-cache; zero for none.
func (n *Node) siteAt(r lisp.RLOC, like lisp.Prefix) lisp.Prefix {
	if n.itr == nil {
		return lisp.Prefix{}
	}
	return n.itr.prober.table.siteAt(r, like)
}

// isKnown reports whether the Map-Server or the ETR has EID-Prefixes that overlap
// with p.
func (n *Node) isKnown(p lisp.Prefix) bool {
	return n.mapServer != nil && n.mapServer.prefixes.overlaps(p) || n.etr != nil && n.etr.database.index.overlaps(p)
}

// Heed says whether anybody wants to know what happens with every message, as somebody does until it is said. To put it into words takes
// longer than many a message. Changes of state and refusals are told at any rate.
func (n *Node) Heed(heeded bool) { n.host.unheeded = !heeded }

// timer is the deadlines of a table with what handles them.
type timer struct {
	deadlines *deadlines
	handle    func(id uint32)
	batch     bool // it is a piece of work as long as a turn may be: one is done in a turn, and last
}

func oneByOne(d *deadlines, handle func(uint32)) timer { return timer{deadlines: d, handle: handle} }
func inBatches(d *deadlines, handle func(uint32)) timer {
	return timer{deadlines: d, handle: handle, batch: true}
}

// listTimers lists the deadlines of all roles, in the order in which those of one moment
// are handled.
func (n *Node) listTimers() {
	n.timers = n.timers[:0]
	if r := n.itr; r != nil {
		n.timers = append(n.timers, oneByOne(&r.pending.timers, r.handlePendingTimeout), oneByOne(&r.cache.timers, r.handleCacheTimeout),
			oneByOne(&r.resolvers.checks, r.handleCheck),
			oneByOne(&r.prober.table.timers, r.handleProbeTimeout), inBatches(&r.sweeps.timers, r.handleSweepTimeout),
			inBatches(&r.prober.reviews, r.prober.review), inBatches(&r.statics.timers, r.handleStatic))
	}
	n.timers = append(n.timers, inBatches(&n.retiring, n.handleRetirement))
	if e := n.etr; e != nil {
		n.timers = append(n.timers, oneByOne(&e.registrar.timers, e.registrar.handleTimeout), inBatches(&e.solicitor.begin, e.solicitor.handleBegin),
			oneByOne(&e.solicitor.timers, e.solicitor.handleTimeout), oneByOne(&n.siblings.timers, n.handleSiblingTimeout),
			inBatches(&e.announcing, e.handleAnnouncing))
	}
	if s := n.mapServer; s != nil {
		n.timers = append(n.timers, oneByOne(&s.registrations.timers, s.handleTimeout), oneByOne(&s.notifier.timers, s.notifier.handleTimeout),
			inBatches(&s.registrations.sweep, s.handleSweep), inBatches(&s.journal.timers, s.handleCheckpoint))
	}
}

// HandleTimeout does what is due: a bounded number of deadlines, and then one piece of long work, of
// that which waits longest. No pass over a large table holds up the rest, or another pass. As long as
// NextDeadline is not in the future, call it again.
func (n *Node) HandleTimeout(now time.Time) {
	n.host.turn(now)
	left := timeoutBatch
	piece, since := -1, never
	for i, t := range n.timers {
		if at := t.deadlines.next(); t.batch && at < since {
			piece, since = i, at
		}
		for ; left > 0 && !t.batch; left-- {
			id, ok := t.deadlines.due(n.host.now)
			if !ok {
				break
			}
			t.handle(id)
		}
	}
	if piece < 0 || left == 0 {
		return
	}
	if id, ok := n.timers[piece].deadlines.due(n.host.now); ok {
		n.timers[piece].handle(id)
	}
}

// NextDeadline is when HandleTimeout wants to be called; ok is false for never.
func (n *Node) NextDeadline() (deadline time.Time, ok bool) {
	next := never
	for i := range n.timers {
		next = min(next, n.timers[i].deadlines.next())
	}
	return n.host.time(next), next != never
}

// Poll takes the next effect; ok is false when there is none left.
func (n *Node) Poll() (e Effect, ok bool) {
	if e, ok = n.host.poll(); ok || n.mapServer == nil {
		return e, ok
	}
	return n.mapServer.journal.poll()
}

// AdoptMapCache takes over what the data plane kept through a restart, TTLs and
// ages included. Call it right after New, before anything else. What has expired or
// is not wanted any more is removed from the data plane.
func (n *Node) AdoptMapCache(now time.Time, entries []MapCacheEntry) {
	n.host.turn(now)
	for _, e := range entries {
		if n.itr == nil {
			n.host.emit(RemoveMapping{Prefix: e.Mapping.Prefix, Reason: RemoveConfigured})
			continue
		}
		n.itr.adopt(e)
	}
}

// AdoptLocatorStates takes over which RLOCs the data plane holds for down or unconfirmed
// since before a restart. Call it after AdoptMapCache. Without it they stay so there until
// they answer a probe, and for ever when RLOC-probing is off now.
func (n *Node) AdoptLocatorStates(now time.Time, kept []SetLocatorState) {
	n.host.turn(now)
	if n.itr == nil {
		table := newLocatorTable(n.host)
		table.adopt(kept)
		return
	}
	n.itr.prober.table.adopt(kept)
}

// Shutdown is the last call; as long as it reports that there is more, call it again. What left the Database is withdrawn
// where a Map-Server may still have it, and what a role left behind that was switched off is removed. Other registrations are left to the next run, or withdrawn where
// ETRConfig.WithdrawOnShutdown says so; the data plane keeps what it has.
func (n *Node) Shutdown(now time.Time) (more bool) {
	n.host.turn(now)
	if n.endRetirements() {
		return true
	}
	return n.etr != nil && n.etr.shutdown()
}
