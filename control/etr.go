// SPDX-License-Identifier: Apache-2.0

package control

// The ETR: answers Map-Requests and RLOC-probes for the EID-Prefixes of its
// Database (RFC 9301 s.5.4, s.5.5, s.7.1). Registering them is registrar.go's. It
// never answers for anybody else's EIDs.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

type etr struct {
	h         *host
	config    *ETRConfig
	database  *database
	registrar *registrar
	solicitor *solicitor
	announced []lisp.Mapping // what is registered
	probed    []lisp.Locator // room for the answer to an RLOC-probe
	isSibling func(netip.Addr) bool
}

func newETR(h *host) *etr {
	return &etr{h: h, config: &ETRConfig{}, database: newDatabase(nil), registrar: newRegistrar(h), solicitor: newSolicitor(h)}
}

// configure takes over another configuration: the data plane's Database first,
// then the registrations. anew says that these must be sent whatever they say.
func (e *etr) configure(c *ETRConfig, anew bool) {
	next := newDatabase(c.Database)
	for p := range e.database.index.all() {
		if _, still := next.index.get(p); !still {
			e.h.emit(RemoveDatabase{Prefix: p})
		}
	}
	for p, m := range next.index.all() {
		if old, known := e.database.index.get(p); !known || !old.equal(m) {
			e.h.emit(InstallDatabase{m})
		}
	}
	old := e.database
	e.config, e.database = c, next
	was := e.announced
	mappings := e.mappings()
	changed := changedPrefixes(was, mappings)
	e.checkVersions(changed, old)
	e.announced = mappings
	e.registrar.configure(c.MapServers, c.QuickRegistrationInterval, func(site string) announcement {
		before, now := old.ofSite(was, site), next.ofSite(mappings, site)
		return announcement{mappings: now, withdrawn: missingPrefixes(before, now), changed: changedPrefixes(before, now), anew: anew}
	})
	if len(was) > 0 { // peers know nothing yet of an ETR that begins
		e.solicitor.mappingsChanged(changed, e.registrar.acknowledges(), e.registrar.changeAt)
	}
}

// changedPrefixes lists the EID-Prefixes that are new, gone, or have another mapping
// now. Both lists are in the order of prefixes.
func changedPrefixes(was, is []lisp.Mapping) []lisp.Prefix {
	var changed []lisp.Prefix
	at, known := 0, false
	for i := range is {
		if at, known = follow(was, at, is[i].Prefix); !known || !was[at].Equal(is[i]) {
			changed = append(changed, is[i].Prefix)
		}
	}
	return append(changed, missingPrefixes(was, is)...)
}

// missingPrefixes lists the EID-Prefixes that are gone. Both lists are in order.
func missingPrefixes(was, is []lisp.Mapping) []lisp.Prefix {
	var gone []lisp.Prefix
	at, still := 0, false
	for i := range was {
		if at, still = follow(is, at, was[i].Prefix); !still {
			gone = append(gone, was[i].Prefix)
		}
	}
	return gone
}

// follow goes on in an ordered list to where an EID-Prefix is, or would be.
func follow(list []lisp.Mapping, at int, p lisp.Prefix) (to int, found bool) {
	for ; at < len(list); at++ {
		if list[at].Prefix == p {
			return at, true
		}
		if list[at].Prefix.Compare(p) > 0 {
			break
		}
	}
	return at, false
}

// checkVersions tells the operator of mappings that changed without a newer Map-Version:
// nobody who compares versions will notice the change (RFC 9302 s.6). Raising it is the
// operator's, an ETR must not do it.
func (e *etr) checkVersions(changed []lisp.Prefix, old *database) {
	for _, p := range changed {
		was, before := old.index.get(p)
		is, after := e.database.index.get(p)
		versioned := before && after && was.Version != lisp.NullMapVersion && is.Version != lisp.NullMapVersion
		if versioned && lisp.CompareMapVersions(is.Version, was.Version) <= 0 && !is.equal(was) {
			e.h.count(MapVersionNotRaised)
			e.h.notice(Notice{Kind: NoticeMapVersionNotRaised, Prefix: p, Detail: fmt.Sprintf("from %d to %d", was.Version, is.Version)})
		}
	}
}

// handleMapNotify takes a Map-Notify; when everything is registered, the peers are
// told what changed.
func (e *etr) handleMapNotify(m *mapNotify) {
	e.registrar.handleMapNotify(m)
	if e.registrar.registered() {
		e.solicitor.registered()
	}
}

// shutdown withdraws the registrations if it is configured so.
func (e *etr) shutdown() {
	if !e.config.WithdrawOnShutdown || e.database.index.size == 0 {
		return
	}
	e.registrar.withdrawAll(func(site string) []lisp.Prefix {
		return missingPrefixes(e.database.ofSite(e.announced, site), nil)
	})
}

// mappings lists what the ETR registers, in order.
func (e *etr) mappings() []lisp.Mapping {
	list := make([]lisp.Mapping, 0, e.database.index.size)
	for _, m := range e.database.index.all() {
		list = append(list, e.local(m))
	}
	return list
}

func (e *etr) local(m DatabaseMapping) lisp.Mapping {
	mapping := m.mapping()
	mapping.Locators = withLocalBits(mapping.Locators, e.h.rlocs)
	return mapping
}

// handleMapRequest answers for one EID-Prefix of a Map-Request.
func (e *etr) handleMapRequest(m *mapRequest, asked lisp.Prefix) {
	all, best := e.answer(asked)
	if all == nil {
		e.h.count(RefusedNoMapping)
		return
	}
	e.noteAsker(m, best)
	mappings := e.h.complete(m, asked, all, func(p lisp.Prefix) bool { return e.database.index.holds(p, best) })
	e.h.reply(m, reply{sent: MapReplySent, notice: NoticeMapReplySent, mappings: mappings, echoes: e.config.EchoNonce})
}

// noteAsker remembers who caches our mapping, to be told when it changes.
func (e *etr) noteAsker(m *mapRequest, prefix lisp.Prefix) {
	if m.ecm == nil && e.isSibling != nil && e.isSibling(m.from.Addr()) {
		return // siblings are told at once, not when it is registered
	}
	if rloc, ok := e.h.replyRLOC(m); ok {
		e.solicitor.asked(rloc, m, prefix)
	}
}

// answer is the longest match with all its more-specifics; nil when there is none.
func (e *etr) answer(asked lisp.Prefix) (all []lisp.Mapping, best lisp.Prefix) {
	best, match, ok := e.database.index.match(asked)
	if !ok {
		return nil, best
	}
	all = []lisp.Mapping{e.local(match)}
	for p, m := range e.database.index.subtree(best) {
		if len(all) > e.h.limits.MoreSpecificsPerReply {
			break // too many in any case
		}
		if p != best {
			all = append(all, e.local(m))
		}
	}
	return all, best
}

// handleProbe answers an RLOC-probe with the current mapping; p marks the locator
// that the probe was sent to (RFC 9301 s.7.1).
func (e *etr) handleProbe(m *mapRequest) {
	for _, asked := range m.prefixes {
		_, match, ok := e.database.index.match(asked)
		if !ok {
			e.h.count(RefusedNoMapping)
			continue
		}
		e.noteAsker(m, match.Prefix)
		mapping := match.mapping()
		e.probed = appendWithLocalBits(e.probed[:0], mapping.Locators, e.h.rlocs)
		mapping.Locators = e.probed // for as long as it is being encoded
		probed := lisp.RLOCFromAddr(m.local.Addr())
		i := slices.IndexFunc(mapping.Locators, func(l lisp.Locator) bool { return !probed.IsZero() && l.RLOC == probed })
		if i >= 0 {
			mapping.Locators[i].Probed = true
		}
		e.h.reply(m, reply{sent: RLOCProbeReplySent, notice: NoticeMapReplySent, mappings: []lisp.Mapping{mapping}, probe: true, echoes: e.config.EchoNonce})
	}
}
