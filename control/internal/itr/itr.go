// SPDX-License-Identifier: Apache-2.0

package itr

// The ITR: resolves what the data plane misses and keeps the map-cache (RFC 9300
// s.5 to s.9, RFC 9301 s.5.2, s.5.3, s.5.5, s.6.1, s.8.1). Locators are chosen per
// flow by the data plane. It never answers a Map-Request, and never takes a
// Map-Reply that it did not ask for.

import (
	"net/netip"
	"reflect"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/mapcache"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/report"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// ITR is the role with its tables.
type ITR struct {
	h         *system.System
	config    *settings.ITRConfig
	Cache     mapcache.Cache
	Pending   *pendingRequests
	Resolvers resolvers
	requests  timing.Bucket
	Smrs      timing.Buckets[lisp.Prefix]
	gleans    timing.Bucket
	renewals  timing.Bucket
	last      lisp.Prefix // asked for
	Prober    *reach.Prober
	Sweeps    sweeps
	Statics   statics
	Own       func() lisp.Prefix // an EID-Prefix of our own, zero for none
}

// Refreshing begins a quarter of the TTL before its end, refreshLead at most, for
// entries that forwarded something in that time and a reporting delay.
const (
	refreshLead       = time.Minute
	requestBackoffMax = 3 // doublings of MapRequestInterval
	// reinstallAfter is how old an entry must be before a miss that it covers means
	// that the data plane lost it, and not that miss and Map-Reply crossed.
	reinstallAfter = 2 * time.Second
)

// New makes an ITR with an empty map-cache.
func New(h *system.System) *ITR {
	r := &ITR{h: h, config: &settings.ITRConfig{}, Pending: newPendingRequests(), Prober: reach.New(h), Resolvers: resolvers{H: h}}
	r.Prober.Find, r.Prober.Renew = r.locatorsOf, r.renew
	return r
}

// Configure takes over another configuration and brings the static mappings into
// line with it.
func (r *ITR) Configure(c *settings.ITRConfig, static StaticChange, begins bool) {
	changed := Sweep{
		Reinstall:  !reflect.DeepEqual(r.config.LocatorPolicies, c.LocatorPolicies) || !r.config.ProxyETRs.Equal(c.ProxyETRs),
		reschedule: r.config.IdleTimeout != c.IdleTimeout,
	}
	r.config = c
	r.Resolvers.configure(c.MapResolvers)
	if r.Cache.Size() > 0 && (changed.Reinstall || changed.reschedule) {
		r.StartSweep(changed)
	}
	r.Prober.Configure(c.RLOCProbing)
	r.configureStatic(static, begins)
}

// HandleMiss resolves a destination, unless it is known or being resolved.
func (r *ITR) HandleMiss(m report.Miss) {
	asked := lisp.HostPrefix(m.Instance, m.Destination)
	if id, e, ok := r.Cache.Longest(asked); ok && e.Mapping.Action != lisp.ActionSendMapRequest {
		if r.h.Now-e.RefreshedAt > timing.Instant(reinstallAfter) {
			e.RefreshedAt = r.h.Now
			r.emitInstall(id)
		}
		return
	}
	r.Ask(PendingRequest{Prefix: asked, Source: m.Source})
}

// Ask begins a resolution. One that is under way goes on; one that was answered
// less than a second ago waits for that second to end (RFC 9301 s.5.3).
func (r *ITR) Ask(q PendingRequest) bool {
	if len(r.config.MapResolvers) == 0 || len(r.h.RLOCs) == 0 {
		r.h.Count(counter.RefusedNoMapResolver)
		return false
	}
	if id, known, ok := r.Pending.Get(q.Prefix); ok {
		known.SMRInvoked = known.SMRInvoked || q.SMRInvoked
		if known.state == status.PendingSettled && !known.again {
			known.again = true
			r.Pending.Timers.Set(id, max(r.h.Now, known.lastSentAt+timing.Instant(settings.MapRequestInterval)))
		}
		return true
	}
	if r.Pending.Size() >= r.h.Limits.PendingRequests {
		r.h.Count(counter.RefusedPendingTable)
		return false
	}
	q.startedAt, q.state = r.h.Now, status.PendingWaiting
	r.try(r.Pending.add(q))
	return true
}

// AskAgain asks for what was asked for last, to learn whether a Map-Resolver answers again: during a detour no packet makes
// us ask.
func (r *ITR) AskAgain() {
	if !r.last.IsZero() {
		r.Ask(PendingRequest{Prefix: r.last})
	}
}

// try sends the next Map-Request of a resolution and sets its deadline. Beyond the rate
// limit Map-Requests take turns, in the order in which they were wanted, as long as their
// turn comes within the interval of repetition.
func (r *ITR) try(id uint32) {
	q := r.Pending.Requests.At(id)
	if !q.admitted {
		turn, ok := r.requests.Reserve(r.h.Now, r.h.Limits.MapRequestsTotal, r.h.After(settings.MapRequestInterval))
		if !ok {
			r.h.Count(counter.RefusedRequestLimit)
			r.Pending.Timers.Set(id, r.h.After(settings.MapRequestInterval))
			return
		}
		if turn > r.h.Now {
			q.admitted = true
			r.Pending.Timers.Set(id, turn)
			return
		}
	}
	q.admitted, r.last = false, q.Prefix
	if q.tries > 0 {
		r.noteUnanswered(q.resolvers[q.tries-1])
	}
	resolver := r.Resolvers.Next(q)
	nonce := r.h.Nonce()
	r.sendMapRequest(q, nonce, resolver)
	rounds := q.tries / len(r.config.MapResolvers)
	r.Pending.sent(id, nonce, resolver, r.h.Now)
	r.Resolvers.Sent(resolver)
	r.Pending.Timers.Set(id, r.h.After(settings.MapRequestInterval<<min(rounds, requestBackoffMax)))
}

// noteUnanswered notes that a Map-Resolver did not answer. Before it is called silent it is asked for an EID of our own, if there is
// any: others may be unanswered because their ETR is dead.
func (r *ITR) noteUnanswered(resolver netip.AddrPort) {
	i, doubtful := r.Resolvers.unanswered(resolver)
	if !doubtful {
		return
	}
	if r.Own().IsZero() {
		r.Resolvers.wentSilent(i)
		return
	}
	r.Resolvers.doubt(i)
}

// HandleCheck asks a Map-Resolver for an EID of our own, or notes that it did not answer that.
func (r *ITR) HandleCheck(i uint32) {
	row, own := &r.Resolvers.rows[i], r.Own()
	if !row.checkDue || own.IsZero() || len(r.h.RLOCs) == 0 || r.h.Now < r.Resolvers.pause {
		row.checkDue = false
		r.Resolvers.wentSilent(int(i))
		return
	}
	nonce := r.h.Nonce()
	r.sendMapRequest(&PendingRequest{Prefix: lisp.HostPrefix(own.Instance(), own.EID()), ownEID: true}, nonce, row.address)
	r.Resolvers.checked(int(i), nonce)
}

// sendMapRequest sends one Map-Request inside an ECM (RFC 9301 s.5.2, s.5.8).
func (r *ITR) sendMapRequest(q *PendingRequest, nonce uint64, resolver netip.AddrPort) {
	m := wire.MapRequest{SMRInvoked: q.SMRInvoked, LocalXTR: true, Nonce: nonce}
	m.Ask(q.Source, r.h.RLOCs[:min(len(r.h.RLOCs), wire.MaxITRRLOCs)], q.Prefix)
	message, err := m.AppendTo(r.h.Scratch[:0])
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	r.h.Scratch = message
	payload, err := r.encapsulated(message, q.Prefix.EID(), resolver.Addr())
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	r.h.Send(netip.AddrPort{}, resolver, r.h.Used(payload))
	r.h.Count(counter.MapRequestSent)
	if q.SMRInvoked {
		r.h.Count(counter.SMRInvokedMapRequestSent)
	}
	if r.h.MayNotice() {
		r.h.Say(effect.Notice{Kind: effect.NoticeMapRequestSent, Prefix: q.Prefix, Remote: resolver, Detail: tryDetail(q)})
	}
}

// encapsulated is a Map-Request about an EID in an ECM to a Map-Resolver.
func (r *ITR) encapsulated(message []byte, e lisp.EID, resolver netip.Addr) ([]byte, error) {
	source, destination := r.innerAddresses(e, resolver)
	return wire.AppendECM(r.h.Buffer(system.UsualECMOctets), source, destination, message)
}

// innerAddresses are those of the packet inside an ECM: from our RLOC to the EID
// (RFC 9301 s.5.8). Where these are of different families, or the EID is no IP
// address, the Map-Resolver's address stands for the EID: nobody routes by it.
func (r *ITR) innerAddresses(e lisp.EID, resolver netip.Addr) (source, destination netip.AddrPort) {
	port := r.h.ControlPort
	for _, to := range []netip.Addr{e.Addr(), resolver} {
		if !to.IsValid() {
			continue
		}
		if rloc, ok := r.h.RLOCOf(to.Is4()); ok {
			return netip.AddrPortFrom(rloc.Addr(), port), netip.AddrPortFrom(to, port)
		}
	}
	own := netip.AddrPortFrom(r.h.RLOCs[0].Addr(), port)
	return own, own
}

func tryDetail(q *PendingRequest) string {
	switch {
	case q.tries > 0:
		return "again"
	case q.ownEID:
		return "for our own EID, to learn whether it is silent"
	case q.SMRInvoked:
		return "because of an SMR"
	case q.Source.IsZero():
		return "to refresh"
	}
	return "from " + q.Source.String()
}

// HandlePendingTimeout goes on with a resolution that was not answered.
func (r *ITR) HandlePendingTimeout(id uint32) {
	q := r.Pending.Requests.At(id)
	switch {
	case q.state == status.PendingHoldDown, len(r.config.MapResolvers) == 0, len(r.h.RLOCs) == 0:
		r.Pending.remove(id)
	case q.state == status.PendingSettled && (!q.again || r.superfluous(q)):
		r.Pending.remove(id)
	case q.state == status.PendingSettled:
		q.again, q.state, q.startedAt = false, status.PendingWaiting, r.h.Now
		r.try(id)
	case r.superfluous(q):
		r.settle(id)
	case q.tries == settings.MapRequestTries:
		r.noteUnanswered(q.resolvers[q.tries-1])
		q.state = status.PendingHoldDown
		r.Pending.Timers.Set(id, r.h.After(settings.MapRequestHoldDown))
		r.h.Count(counter.MapRequestUnanswered)
		r.h.Notice(effect.Notice{Kind: effect.NoticeMapRequestUnanswered, Prefix: q.Prefix, Detail: "pausing " + settings.MapRequestHoldDown.String()})
	default:
		r.try(id)
	}
}

// superfluous reports whether the answer to another request covered this one.
func (r *ITR) superfluous(q *PendingRequest) bool {
	if q.Source.IsZero() || q.SMRInvoked {
		return false
	}
	_, e, ok := r.Cache.Longest(q.Prefix)
	return ok && !e.Gleaned && e.Mapping.Action != lisp.ActionSendMapRequest
}

// settle ends a resolution; its EID-Prefix stays for the rate limit's second, and a little longer: those of many resolutions go together.
func (r *ITR) settle(id uint32) {
	q := r.Pending.Requests.At(id)
	until := q.lastSentAt + timing.Instant(settings.MapRequestInterval)
	r.Pending.settle(id)
	if until <= r.h.Now {
		r.Pending.remove(id)
		return
	}
	r.Pending.Timers.Set(id, (until/settings.SettledGrid+1)*settings.SettledGrid)
}

// HandleMapReply takes what answers one of our Map-Requests (RFC 9301 s.5.3).
func (r *ITR) HandleMapReply(m *message.MapReply) {
	if m.Probe {
		r.handleProbeReply(m)
		return
	}
	id, resolver, sentAt, ok := r.Pending.answered(m.Nonce)
	if !ok && r.Resolvers.takes(m) {
		return
	}
	if !ok {
		r.h.Count(counter.RefusedNonce)
		return
	}
	asked, solicited := r.Pending.Requests.At(id).Prefix, r.Pending.Requests.At(id).SMRInvoked
	if !related(asked, m.Mappings) {
		r.h.Count(counter.RefusedUnrelatedPrefix)
		return
	}
	r.Resolvers.Answered(resolver, r.h.Now-sentAt)
	r.settle(id)
	r.h.Notice(effect.Notice{Kind: effect.NoticeMapReplyReceived, Prefix: asked, Remote: m.From})
	if !r.keeps(asked, solicited, m) {
		r.Take(asked, m)
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

// Take brings the map-cache into line with a Map-Reply: more specific records
// first, so that no packet meets a covering one alone. What it means for very many
// entries follows in later turns.
func (r *ITR) Take(asked lisp.Prefix, m *message.MapReply) {
	mappings := slices.Clone(m.Mappings)
	slices.SortStableFunc(mappings, func(a, b lisp.Mapping) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	whole := mappings[len(mappings)-1].Prefix
	if asked.Covers(whole) {
		whole = asked
	}
	outdated, all := r.outdated(asked, whole, mappings)
	for _, mapping := range mappings {
		r.TakeRecord(mapping, m.From, outdated)
	}
	r.removeIncomplete(mappings)
	for _, p := range outdated {
		if id, e, ok := r.Cache.Get(p); ok && !e.Static {
			r.Remove(id, effect.RemoveReplaced)
		}
	}
	if all {
		return
	}
	s := Sweep{asked: asked, whole: whole}
	for _, mapping := range mappings {
		s.records = append(s.records, sweptRecord{prefix: mapping.Prefix, expiresAt: timing.Never})
	}
	r.StartSweep(s)
}

// outdated lists the cached prefixes that a Map-Reply contradicts (RFC 9301 s.5.5).
// A reply has the longest match with all its more-specifics: a cached one that
// covers the asked EID-Prefix and that it does not name is gone, and so is a negative
// one within what has a mapping now. all reports that none is left to look at.
func (r *ITR) outdated(asked, whole lisp.Prefix, mappings []lisp.Mapping) (prefixes []lisp.Prefix, all bool) {
	seen := 0
	for p, id := range r.Cache.Index.Subtree(whole) {
		if seen++; seen > CoveredInTurn {
			return prefixes, false
		}
		named := slices.ContainsFunc(mappings, func(m lisp.Mapping) bool { return m.Prefix == p })
		if !named && contradicts(asked, r.Cache.Entries.At(id)) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, true
}

// TakeRecord takes over one record of a Map-Reply.
func (r *ITR) TakeRecord(m lisp.Mapping, from netip.AddrPort, outdated []lisp.Prefix) {
	id, known, ok := r.Cache.Get(m.Prefix)
	switch {
	case ok && known.Static:
		return // the operator's word
	case ok && lisp.CompareMapVersions(m.Version, known.Mapping.Version) < 0:
		r.h.Count(counter.RefusedVersion) // who answered is behind (RFC 9302 s.7)
		known.Refreshing = false
		return
	case m.TTLMinutes == 0 && ok: // RFC 9301 s.5.4: remove at once
		r.Remove(id, effect.RemoveWithdrawn)
		return
	case m.TTLMinutes == 0:
		return
	case !ok && r.Cache.Size() >= r.h.Limits.MapCacheEntries && !r.Evict():
		return
	}
	refreshed := ok && known.Refreshing && known.Mapping.Equal(m)
	if ok && known.Refreshing {
		r.h.Count(counter.MappingRefreshed)
	}
	expiresAt := min(r.h.After(lisp.Lifetime(m.TTLMinutes, r.config.UnlimitedTTL)), r.coveredExpiry(m.Prefix, outdated))
	r.Put(mapcache.Entry{Mapping: m, From: from, ExpiresAt: expiresAt})
	if ok {
		r.Prober.Heed(m)
	}
	if refreshed {
		r.h.Notice(effect.Notice{Kind: effect.NoticeMappingRefreshed, Prefix: m.Prefix, Remote: from})
	}
}

// coveredExpiry is when the first of the more specific entries expires that stay: a
// less specific one is not to outlive them (RFC 9301 s.5.5).
func (r *ITR) coveredExpiry(p lisp.Prefix, outdated []lisp.Prefix) timing.Instant {
	earliest := timing.Never
	seen := 0
	for prefix, id := range r.Cache.Index.Subtree(p) {
		if seen++; seen > CoveredInTurn {
			return earliest
		}
		e := r.Cache.Entries.At(id)
		if _, gone := slices.BinarySearchFunc(outdated, prefix, lisp.Prefix.Compare); !gone && prefix != p && !e.Static {
			earliest = min(earliest, e.ExpiresAt)
		}
	}
	return earliest
}

// Evict makes room for one entry.
func (r *ITR) Evict() bool {
	id, ok := r.Cache.Victim(r.h.Limits.MapCacheEntries)
	if ok {
		r.h.Count(counter.MappingEvicted)
		r.removeCovering(r.Cache.Entries.At(id).Mapping.Prefix, effect.RemoveEvicted)
		r.Remove(id, effect.RemoveEvicted)
	}
	return ok
}

// Put installs an entry.
func (r *ITR) Put(e mapcache.Entry) {
	e.Mapping.Locators = locatorset.WithoutProbeBits(e.Mapping.Locators)
	_, old, known := r.Cache.Get(e.Mapping.Prefix)
	changed := !known || !old.Mapping.Equal(e.Mapping) || old.Static != e.Static || old.Gleaned
	e.CreatedAt, e.RefreshedAt = r.h.Now, r.h.Now
	if changed && !e.Gleaned { // who may be a stranger is sent no RLOC-probes
		r.Prober.Installed(e.Mapping) // before the old one leaves: what both have stays
	}
	if changed && known && !old.Gleaned {
		r.Prober.Replaced(old.Mapping, r.Entry(old).Mapping.Locators.Equal(r.Entry(&e).Mapping.Locators))
	}
	id, _ := r.Cache.Put(e)
	r.capCovering(e.Mapping.Prefix, e.ExpiresAt)
	r.h.Count(counter.MappingInstalled)
	r.emitInstall(id)
	r.schedule(id)
	if changed {
		if r.h.MayNotice() {
			r.h.Say(effect.Notice{Kind: effect.NoticeMappingInstalled, Prefix: e.Mapping.Prefix, Remote: e.From, Detail: e.Mapping.String()})
		}
	}
}

func (r *ITR) emitInstall(id uint32) {
	r.h.Emit(effect.InstallMapping{MapCacheEntry: r.Entry(r.Cache.Entries.At(id))})
}

// Entry is a map-cache entry as the data plane gets it.
func (r *ITR) Entry(e *mapcache.Entry) effect.MapCacheEntry {
	mapping := settings.WithProxyETRs(settings.WithPolicies(e.Mapping, r.config.LocatorPolicies), e.Static, r.config.ProxyETRs)
	m := effect.MapCacheEntry{Mapping: mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: r.h.Time(e.CreatedAt)}
	if !e.Static {
		m.ExpiresAt = r.h.Time(e.ExpiresAt)
	}
	return m
}

// Remove takes an entry out, here and in the data plane.
func (r *ITR) Remove(id uint32, reason effect.RemoveReason) {
	mapping, gleaned := r.Cache.Entries.At(id).Mapping, r.Cache.Entries.At(id).Gleaned
	prefix := mapping.Prefix
	r.Cache.Remove(id)
	r.h.Emit(effect.RemoveMapping{Prefix: prefix, Reason: reason})
	if !gleaned {
		r.Prober.Removed(mapping)
	}
	r.h.Notice(effect.Notice{Kind: effect.NoticeMappingRemoved, Prefix: prefix, Detail: string(reason)})
}
