// SPDX-License-Identifier: Apache-2.0

package control

// The ETR: answers Map-Requests and RLOC-probes for the EID-Prefixes of its
// Database (RFC 9301 s.5.4, s.5.5, s.7.1). Registering them is registrar.go's. It
// never answers for anybody else's EIDs.

import (
	"slices"

	"loci/lisp"
)

type etr struct {
	h         *host
	config    *ETRConfig
	database  *database
	registrar *registrar
	announced []lisp.Mapping // what is registered
}

func newETR(h *host) *etr {
	return &etr{h: h, config: &ETRConfig{}, database: newDatabase(nil), registrar: newRegistrar(h)}
}

// configure takes over another configuration: the data plane's Database first,
// then the registrations. anew says that these must be sent whatever they say.
func (e *etr) configure(c *ETRConfig, anew bool) {
	next := newDatabase(c.Database)
	var withdrawn []lisp.Prefix
	for p := range e.database.index.all() {
		if _, still := next.index.get(p); !still {
			withdrawn = append(withdrawn, p)
			e.h.emit(RemoveDatabase{Prefix: p})
		}
	}
	for p, m := range next.index.all() {
		if old, known := e.database.index.get(p); !known || !old.equal(m) {
			e.h.emit(InstallDatabase{m})
		}
	}
	e.config, e.database = c, next
	mappings := e.mappings()
	changed := anew || !slices.EqualFunc(mappings, e.announced, lisp.Mapping.Equal)
	e.announced = mappings
	e.registrar.configure(c.MapServers, mappings, withdrawn, changed)
}

// stop empties the data plane's Database.
func (e *etr) stop() {
	for p := range e.database.index.all() {
		e.h.emit(RemoveDatabase{Prefix: p})
	}
}

// shutdown withdraws the registrations if it is configured so.
func (e *etr) shutdown() {
	if !e.config.WithdrawOnShutdown || e.database.index.size == 0 {
		return
	}
	var prefixes []lisp.Prefix
	for p := range e.database.index.all() {
		prefixes = append(prefixes, p)
	}
	e.registrar.withdrawAll(prefixes)
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
	mappings := e.h.complete(m, asked, all, func(p lisp.Prefix) bool { return e.database.index.holds(p, best) })
	e.h.reply(m, reply{sent: MapReplySent, notice: NoticeMapReplySent, mappings: mappings})
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
		mapping := e.local(match)
		probed := lisp.RLOCFromAddr(m.local.Addr())
		i := slices.IndexFunc(mapping.Locators, func(l lisp.Locator) bool { return !probed.IsZero() && l.RLOC == probed })
		if i >= 0 {
			mapping.Locators[i].Probed = true
		}
		e.h.reply(m, reply{sent: RLOCProbeReplySent, notice: NoticeMapReplySent, mappings: []lisp.Mapping{mapping}, probe: true})
	}
}
