// SPDX-License-Identifier: Apache-2.0

package control

// The ETR: answers Map-Requests and RLOC-probes for the EID-Prefixes of its
// Database (RFC 9301 s.5.4, s.5.5, s.7.1). Registering them is registrar.go's. It
// never answers for anybody else's EIDs.

import (
	"net/netip"
	"slices"

	"loci/lisp"
)

// etr is the role with its tables.
type etr struct {
	h         *host
	config    *ETRConfig
	database  *database
	registrar *registrar
	solicitor *solicitor
	probed    []lisp.Locator // room for the answer to an RLOC-probe

	wanted     *database // to be announced next, nil for none
	anew       bool      // all of it is to be registered
	announced  chunked[DatabaseMapping]
	pass       announcing
	announcing deadlines // one row: the next batch of the pass
	last       withdrawing

	isSibling func(netip.Addr) bool
	lowered   func(lisp.LocatorSet) lisp.LocatorSet // without the R bits that must not be set now
}

// newETR makes an ETR with an empty Database.
func newETR(h *host) *etr {
	return &etr{h: h, config: &ETRConfig{}, database: newDatabase(nil), registrar: newRegistrar(h), solicitor: newSolicitor(h)}
}

// configure takes over another configuration and its Database. anew says that the registrations
// must be sent whatever they say; begins that no turn is waiting.
func (e *etr) configure(c *ETRConfig, d *database, anew, begins bool) {
	e.config = c
	for e.announce(d, anew); begins && e.announces(); {
		e.handleAnnouncing(0)
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

// local is a mapping of the Database as it is announced.
func (e *etr) local(m DatabaseMapping) lisp.Mapping {
	mapping := m.mapping()
	mapping.Locators = withLocalBits(e.lowered(mapping.Locators), e.h.rlocs)
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

// probedWithoutEID is what an RLOC-probe without an EID is about: the EID that it has as its source if that is ours (lispers.net's first
// probe of a locator), else the first mapping with the RLOC that it came to.
func (e *etr) probedWithoutEID(m *mapRequest) (DatabaseMapping, bool) {
	if p := lisp.HostPrefix(m.sourceInstance, m.source); !m.source.IsZero() {
		if _, match, ok := e.database.index.longest(p); ok {
			return match, true
		}
	}
	for _, l := range e.database.rlocs {
		if l.rloc.Addr() == m.local.Addr() {
			match, ok := e.database.index.get(l.prefix)
			return match, ok
		}
	}
	return DatabaseMapping{}, false
}

// handleProbe answers an RLOC-probe with the current mapping; p marks the locator
// that the probe was sent to (RFC 9301 s.7.1).
func (e *etr) handleProbe(m *mapRequest) {
	for _, asked := range m.prefixes {
		_, match, ok := e.database.index.match(asked)
		if asked.Kind() == lisp.EIDNone {
			match, ok = e.probedWithoutEID(m)
		}
		if !ok {
			e.h.count(RefusedNoMapping)
			continue
		}
		e.noteAsker(m, match.Prefix)
		mapping := match.mapping()
		e.probed = appendWithLocalBits(e.probed[:0], e.lowered(mapping.Locators), e.h.rlocs)
		mapping.Locators = e.probed // for as long as it is being encoded
		probed := lisp.RLOCFromAddr(m.local.Addr())
		i := slices.IndexFunc(mapping.Locators, func(l lisp.Locator) bool { return !probed.IsZero() && l.RLOC == probed })
		if i >= 0 {
			mapping.Locators[i].Probed = true
		}
		e.h.reply(m, reply{sent: RLOCProbeReplySent, notice: NoticeMapReplySent, mappings: []lisp.Mapping{mapping}, probe: true, echoes: e.config.EchoNonce})
	}
}
