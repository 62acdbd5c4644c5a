// SPDX-License-Identifier: Apache-2.0

package control

// The ITR: resolves what the data plane misses and keeps the map-cache (RFC 9300
// s.5 to s.9, RFC 9301 s.5.2, s.5.3, s.5.5, s.6.1, s.8.1). Locators are chosen per
// flow by the data plane. It never answers a Map-Request, and never takes a
// Map-Reply that it did not ask for.

import (
	"net/netip"
	"reflect"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

// itr is the role with its tables.
type itr struct {
	h         *host
	config    *ITRConfig
	cache     mapCache
	pending   *pendingRequests
	resolvers resolvers
	requests  bucket
	smrs      buckets[lisp.Prefix]
	gleans    bucket
	renewals  bucket
	last      lisp.Prefix // asked for
	prober    *prober
	sweeps    sweeps
	statics   statics
	own       func() lisp.Prefix // an EID-Prefix of our own, zero for none
}

// Refreshing begins a quarter of the TTL before its end, refreshLead at most, for
// entries that forwarded something in that time and a reporting delay.
const (
	refreshLead       = time.Minute
	requestBackoffMax = 3 // doublings of mapRequestInterval
	// reinstallAfter is how old an entry must be before a miss that it covers means
	// that the data plane lost it, and not that miss and Map-Reply crossed.
	reinstallAfter = 2 * time.Second
)

// newITR makes an ITR with an empty map-cache.
func newITR(h *host) *itr {
	r := &itr{h: h, config: &ITRConfig{}, pending: newPendingRequests(), prober: newProber(h), resolvers: resolvers{h: h}}
	r.prober.find, r.prober.renew = r.locatorsOf, r.renew
	return r
}

// configure takes over another configuration and brings the static mappings into
// line with it.
func (r *itr) configure(c *ITRConfig, static staticChange, begins bool) {
	changed := sweep{
		reinstall:  !reflect.DeepEqual(r.config.LocatorPolicies, c.LocatorPolicies) || !r.config.ProxyETRs.Equal(c.ProxyETRs),
		reschedule: r.config.IdleTimeout != c.IdleTimeout,
	}
	r.config = c
	r.resolvers.configure(c.MapResolvers)
	if r.cache.size() > 0 && (changed.reinstall || changed.reschedule) {
		r.startSweep(changed)
	}
	r.prober.configure(c.RLOCProbing)
	r.configureStatic(static, begins)
}

// handleMiss resolves a destination, unless it is known or being resolved.
func (r *itr) handleMiss(m Miss) {
	asked := lisp.HostPrefix(m.Instance, m.Destination)
	if id, e, ok := r.cache.longest(asked); ok && e.mapping.Action != lisp.ActionSendMapRequest {
		if r.h.now-e.refreshedAt > instant(reinstallAfter) {
			e.refreshedAt = r.h.now
			r.emitInstall(id)
		}
		return
	}
	r.ask(pendingRequest{prefix: asked, source: m.Source})
}

// ask begins a resolution. One that is under way goes on; one that was answered
// less than a second ago waits for that second to end (RFC 9301 s.5.3).
func (r *itr) ask(q pendingRequest) bool {
	if len(r.config.MapResolvers) == 0 || len(r.h.rlocs) == 0 {
		r.h.count(RefusedNoMapResolver)
		return false
	}
	if id, known, ok := r.pending.get(q.prefix); ok {
		known.smrInvoked = known.smrInvoked || q.smrInvoked
		if known.state == PendingSettled && !known.again {
			known.again = true
			r.pending.timers.set(id, max(r.h.now, known.lastSentAt+instant(mapRequestInterval)))
		}
		return true
	}
	if r.pending.size() >= r.h.limits.PendingRequests {
		r.h.count(RefusedPendingTable)
		return false
	}
	q.startedAt, q.state = r.h.now, PendingWaiting
	r.try(r.pending.add(q))
	return true
}

// askAgain asks for what was asked for last, to learn whether a Map-Resolver answers again: during a detour no packet makes
// us ask.
func (r *itr) askAgain() {
	if !r.last.IsZero() {
		r.ask(pendingRequest{prefix: r.last})
	}
}

// try sends the next Map-Request of a resolution and sets its deadline. Beyond the rate
// limit Map-Requests take turns, in the order in which they were wanted, as long as their
// turn comes within the interval of repetition.
func (r *itr) try(id uint32) {
	q := r.pending.requests.at(id)
	if !q.admitted {
		turn, ok := r.requests.reserve(r.h.now, r.h.limits.MapRequestsTotal, r.h.after(mapRequestInterval))
		if !ok {
			r.h.count(RefusedRequestLimit)
			r.pending.timers.set(id, r.h.after(mapRequestInterval))
			return
		}
		if turn > r.h.now {
			q.admitted = true
			r.pending.timers.set(id, turn)
			return
		}
	}
	q.admitted, r.last = false, q.prefix
	if q.tries > 0 {
		r.noteUnanswered(q.resolvers[q.tries-1])
	}
	resolver := r.resolvers.next(q)
	nonce := r.h.nonce()
	r.sendMapRequest(q, nonce, resolver)
	rounds := q.tries / len(r.config.MapResolvers)
	r.pending.sent(id, nonce, resolver, r.h.now)
	r.resolvers.sent(resolver)
	r.pending.timers.set(id, r.h.after(mapRequestInterval<<min(rounds, requestBackoffMax)))
}

// noteUnanswered notes that a Map-Resolver did not answer. Before it is called silent it is asked for an EID of our own, if there is
// any: others may be unanswered because their ETR is dead.
func (r *itr) noteUnanswered(resolver netip.AddrPort) {
	i, doubtful := r.resolvers.unanswered(resolver)
	if !doubtful {
		return
	}
	if r.own().IsZero() {
		r.resolvers.wentSilent(i)
		return
	}
	r.resolvers.doubt(i)
}

// handleCheck asks a Map-Resolver for an EID of our own, or notes that it did not answer that.
func (r *itr) handleCheck(i uint32) {
	row, own := &r.resolvers.rows[i], r.own()
	if !row.checkDue || own.IsZero() || len(r.h.rlocs) == 0 || r.h.now < r.resolvers.pause {
		row.checkDue = false
		r.resolvers.wentSilent(int(i))
		return
	}
	nonce := r.h.nonce()
	r.sendMapRequest(&pendingRequest{prefix: lisp.HostPrefix(own.Instance(), own.EID()), ownEID: true}, nonce, row.address)
	r.resolvers.checked(int(i), nonce)
}

// sendMapRequest sends one Map-Request inside an ECM (RFC 9301 s.5.2, s.5.8).
func (r *itr) sendMapRequest(q *pendingRequest, nonce uint64, resolver netip.AddrPort) {
	m := wire.MapRequest{SMRInvoked: q.smrInvoked, LocalXTR: true, Nonce: nonce}
	m.Ask(q.source, r.h.rlocs[:min(len(r.h.rlocs), wire.MaxITRRLOCs)], q.prefix)
	message, err := m.AppendTo(r.h.scratch[:0])
	if err != nil {
		r.h.count(RefusedEncoding)
		return
	}
	r.h.scratch = message
	payload, err := r.encapsulated(message, q.prefix.EID(), resolver.Addr())
	if err != nil {
		r.h.count(RefusedEncoding)
		return
	}
	r.h.send(netip.AddrPort{}, resolver, r.h.used(payload))
	r.h.count(MapRequestSent)
	if q.smrInvoked {
		r.h.count(SMRInvokedMapRequestSent)
	}
	if r.h.mayNotice() {
		r.h.say(Notice{Kind: NoticeMapRequestSent, Prefix: q.prefix, Remote: resolver, Detail: tryDetail(q)})
	}
}

// encapsulated is a Map-Request about an EID in an ECM to a Map-Resolver.
func (r *itr) encapsulated(message []byte, e lisp.EID, resolver netip.Addr) ([]byte, error) {
	source, destination := r.innerAddresses(e, resolver)
	return wire.AppendECM(r.h.room(usualECMOctets), source, destination, message)
}

// innerAddresses are those of the packet inside an ECM: from our RLOC to the EID
// (RFC 9301 s.5.8). Where these are of different families, or the EID is no IP
// address, the Map-Resolver's address stands for the EID: nobody routes by it.
func (r *itr) innerAddresses(e lisp.EID, resolver netip.Addr) (source, destination netip.AddrPort) {
	port := r.h.controlPort
	for _, to := range []netip.Addr{e.Addr(), resolver} {
		if !to.IsValid() {
			continue
		}
		if rloc, ok := r.h.rlocOf(to.Is4()); ok {
			return netip.AddrPortFrom(rloc.Addr(), port), netip.AddrPortFrom(to, port)
		}
	}
	own := netip.AddrPortFrom(r.h.rlocs[0].Addr(), port)
	return own, own
}

func tryDetail(q *pendingRequest) string {
	switch {
	case q.tries > 0:
		return "again"
	case q.ownEID:
		return "for our own EID, to learn whether it is silent"
	case q.smrInvoked:
		return "because of an SMR"
	case q.source.IsZero():
		return "to refresh"
	}
	return "from " + q.source.String()
}

// handlePendingTimeout goes on with a resolution that was not answered.
func (r *itr) handlePendingTimeout(id uint32) {
	q := r.pending.requests.at(id)
	switch {
	case q.state == PendingHoldDown, len(r.config.MapResolvers) == 0, len(r.h.rlocs) == 0:
		r.pending.remove(id)
	case q.state == PendingSettled && (!q.again || r.superfluous(q)):
		r.pending.remove(id)
	case q.state == PendingSettled:
		q.again, q.state, q.startedAt = false, PendingWaiting, r.h.now
		r.try(id)
	case r.superfluous(q):
		r.settle(id)
	case q.tries == mapRequestTries:
		r.noteUnanswered(q.resolvers[q.tries-1])
		q.state = PendingHoldDown
		r.pending.timers.set(id, r.h.after(mapRequestHoldDown))
		r.h.count(MapRequestUnanswered)
		r.h.notice(Notice{Kind: NoticeMapRequestUnanswered, Prefix: q.prefix, Detail: "pausing " + mapRequestHoldDown.String()})
	default:
		r.try(id)
	}
}

// superfluous reports whether the answer to another request covered this one.
func (r *itr) superfluous(q *pendingRequest) bool {
	if q.source.IsZero() || q.smrInvoked {
		return false
	}
	_, e, ok := r.cache.longest(q.prefix)
	return ok && !e.gleaned && e.mapping.Action != lisp.ActionSendMapRequest
}

// settle ends a resolution; its EID-Prefix stays for the rate limit's second, and a little longer: those of many resolutions go together.
func (r *itr) settle(id uint32) {
	q := r.pending.requests.at(id)
	until := q.lastSentAt + instant(mapRequestInterval)
	r.pending.settle(id)
	if until <= r.h.now {
		r.pending.remove(id)
		return
	}
	r.pending.timers.set(id, (until/settledGrid+1)*settledGrid)
}

// handleMapReply takes what answers one of our Map-Requests (RFC 9301 s.5.3).
func (r *itr) handleMapReply(m *mapReply) {
	if m.probe {
		r.handleProbeReply(m)
		return
	}
	id, resolver, sentAt, ok := r.pending.answered(m.nonce)
	if !ok && r.resolvers.takes(m) {
		return
	}
	if !ok {
		r.h.count(RefusedNonce)
		return
	}
	asked, solicited := r.pending.requests.at(id).prefix, r.pending.requests.at(id).smrInvoked
	if !related(asked, m.mappings) {
		r.h.count(RefusedUnrelatedPrefix)
		return
	}
	r.resolvers.answered(resolver, r.h.now-sentAt)
	r.settle(id)
	r.h.notice(Notice{Kind: NoticeMapReplyReceived, Prefix: asked, Remote: m.from})
	if !r.keeps(asked, solicited, m) {
		r.take(asked, m)
	}
}

// related reports whether the records speak about what was asked: one covers it
// and the others lie within that one; or all lie within what was asked, when a
// cached EID-Prefix fell apart. Anything else could poison the map-cache.
func related(asked lisp.Prefix, mappings []lisp.Mapping) bool {
	whole := asked
	for _, m := range mappings {
		if m.Prefix.Covers(whole) {
			whole = m.Prefix
		}
	}
	for _, m := range mappings {
		if !whole.Covers(m.Prefix) {
			return false
		}
	}
	return whole != asked || !asked.IsHost() || slices.ContainsFunc(mappings, func(m lisp.Mapping) bool { return m.Prefix == asked })
}

// take brings the map-cache into line with a Map-Reply: more specific records
// first, so that no packet meets a covering one alone. What it means for very many
// entries follows in later turns.
func (r *itr) take(asked lisp.Prefix, m *mapReply) {
	mappings := slices.Clone(m.mappings)
	slices.SortStableFunc(mappings, func(a, b lisp.Mapping) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	whole := mappings[len(mappings)-1].Prefix
	if asked.Covers(whole) {
		whole = asked
	}
	outdated, all := r.outdated(asked, whole, mappings)
	for _, mapping := range mappings {
		r.takeRecord(mapping, m.from, outdated)
	}
	r.removeIncomplete(mappings)
	for _, p := range outdated {
		if id, e, ok := r.cache.get(p); ok && !e.static {
			r.remove(id, RemoveReplaced)
		}
	}
	if all {
		return
	}
	s := sweep{asked: asked, whole: whole}
	for _, mapping := range mappings {
		s.records = append(s.records, sweptRecord{prefix: mapping.Prefix, expiresAt: never})
	}
	r.startSweep(s)
}

// outdated lists the cached prefixes that a Map-Reply contradicts (RFC 9301 s.5.5).
// A reply has the longest match with all its more-specifics: a cached one that
// covers the asked EID-Prefix and that it does not name is gone, and so is a negative
// one within what has a mapping now. all reports that none is left to look at.
func (r *itr) outdated(asked, whole lisp.Prefix, mappings []lisp.Mapping) (prefixes []lisp.Prefix, all bool) {
	seen := 0
	for p, id := range r.cache.index.subtree(whole) {
		if seen++; seen > coveredInTurn {
			return prefixes, false
		}
		named := slices.ContainsFunc(mappings, func(m lisp.Mapping) bool { return m.Prefix == p })
		if !named && contradicts(asked, r.cache.entries.at(id)) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, true
}

// takeRecord takes over one record of a Map-Reply.
func (r *itr) takeRecord(m lisp.Mapping, from netip.AddrPort, outdated []lisp.Prefix) {
	id, known, ok := r.cache.get(m.Prefix)
	switch {
	case ok && known.static:
		return // the operator's word
	case ok && lisp.CompareMapVersions(m.Version, known.mapping.Version) < 0:
		r.h.count(RefusedVersion) // who answered is behind (RFC 9302 s.7)
		known.refreshing = false
		return
	case m.TTLMinutes == 0 && ok: // RFC 9301 s.5.4: remove at once
		r.remove(id, RemoveWithdrawn)
		return
	case m.TTLMinutes == 0:
		return
	case !ok && r.cache.size() >= r.h.limits.MapCacheEntries && !r.evict():
		return
	}
	refreshed := ok && known.refreshing && known.mapping.Equal(m)
	if ok && known.refreshing {
		r.h.count(MappingRefreshed)
	}
	expiresAt := min(r.h.after(lisp.Lifetime(m.TTLMinutes, r.config.UnlimitedTTL)), r.coveredExpiry(m.Prefix, outdated))
	r.put(cacheEntry{mapping: m, from: from, expiresAt: expiresAt})
	if ok {
		r.prober.heed(m)
	}
	if refreshed {
		r.h.notice(Notice{Kind: NoticeMappingRefreshed, Prefix: m.Prefix, Remote: from})
	}
}

// coveredExpiry is when the first of the more specific entries expires that stay: a
// less specific one is not to outlive them (RFC 9301 s.5.5).
func (r *itr) coveredExpiry(p lisp.Prefix, outdated []lisp.Prefix) instant {
	earliest := never
	seen := 0
	for prefix, id := range r.cache.index.subtree(p) {
		if seen++; seen > coveredInTurn {
			return earliest
		}
		e := r.cache.entries.at(id)
		if _, gone := slices.BinarySearchFunc(outdated, prefix, lisp.Prefix.Compare); !gone && prefix != p && !e.static {
			earliest = min(earliest, e.expiresAt)
		}
	}
	return earliest
}

// evict makes room for one entry.
func (r *itr) evict() bool {
	id, ok := r.cache.victim(r.h.limits.MapCacheEntries)
	if ok {
		r.h.count(MappingEvicted)
		r.removeCovering(r.cache.entries.at(id).mapping.Prefix, RemoveEvicted)
		r.remove(id, RemoveEvicted)
	}
	return ok
}

// put installs an entry.
func (r *itr) put(e cacheEntry) {
	e.mapping.Locators = withoutProbeBits(e.mapping.Locators)
	_, old, known := r.cache.get(e.mapping.Prefix)
	changed := !known || !old.mapping.Equal(e.mapping) || old.static != e.static || old.gleaned
	e.createdAt, e.refreshedAt = r.h.now, r.h.now
	if changed && !e.gleaned { // who may be a stranger is sent no RLOC-probes
		r.prober.installed(e.mapping) // before the old one leaves: what both have stays
	}
	if changed && known && !old.gleaned {
		r.prober.replaced(old.mapping, r.entry(old).Mapping.Locators.Equal(r.entry(&e).Mapping.Locators))
	}
	id, _ := r.cache.put(e)
	r.capCovering(e.mapping.Prefix, e.expiresAt)
	r.h.count(MappingInstalled)
	r.emitInstall(id)
	r.schedule(id)
	if changed {
		if r.h.mayNotice() {
			r.h.say(Notice{Kind: NoticeMappingInstalled, Prefix: e.mapping.Prefix, Remote: e.from, Detail: e.mapping.String()})
		}
	}
}

func (r *itr) emitInstall(id uint32) { r.h.emit(InstallMapping{r.entry(r.cache.entries.at(id))}) }

// entry is a map-cache entry as the data plane gets it.
func (r *itr) entry(e *cacheEntry) MapCacheEntry {
	mapping := withProxyETRs(withPolicies(e.mapping, r.config.LocatorPolicies), e.static, r.config.ProxyETRs)
	m := MapCacheEntry{Mapping: mapping, Static: e.static, Gleaned: e.gleaned, CreatedAt: r.h.time(e.createdAt)}
	if !e.static {
		m.ExpiresAt = r.h.time(e.expiresAt)
	}
	return m
}

// remove takes an entry out, here and in the data plane.
func (r *itr) remove(id uint32, reason RemoveReason) {
	mapping, gleaned := r.cache.entries.at(id).mapping, r.cache.entries.at(id).gleaned
	prefix := mapping.Prefix
	r.cache.remove(id)
	r.h.emit(RemoveMapping{Prefix: prefix, Reason: reason})
	if !gleaned {
		r.prober.removed(mapping)
	}
	r.h.notice(Notice{Kind: NoticeMappingRemoved, Prefix: prefix, Detail: string(reason)})
}
