// SPDX-License-Identifier: Apache-2.0

package etr

// The ETR: answers Map-Requests and RLOC-probes for the EID-Prefixes of its
// Database (RFC 9301 s.5.4, s.5.5, s.7.1). Registering them is package registrar's. It
// never answers for EIDs of others.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/mapregister"
	"loci/control/internal/message"
	"loci/control/internal/registrar"
	"loci/control/internal/settings"
	"loci/control/internal/solicit"
	"loci/control/internal/system"
	"loci/lisp"
)

// ETR is the role with its tables.
type ETR struct {
	Announcer
	last withdrawal // of all that Map-Servers may have

	IsSibling func(netip.Addr) bool
}

// New makes an ETR with an empty Database.
func New(h *system.System) *ETR {
	return &ETR{Announcer: Announcer{
		h: h, Config: &settings.ETRConfig{}, Database: database.New(nil), Registrar: registrar.New(h), Solicitor: solicit.New(h),
	}}
}

// Configure takes over another configuration and its Database. anew says that the registrations
// must be sent whatever they say; begins that all is to be done at once.
func (e *ETR) Configure(c *settings.ETRConfig, d *database.Database, anew, begins bool) {
	e.Config = c
	for e.Announce(d, anew); begins && e.Announces(); {
		e.HandleAnnouncing()
	}
}

// HandleMapNotify takes a Map-Notify, and returns whether it acknowledges a Map-Register, and the RTR by which that
// went; when everything is registered, the peers are told what changed.
func (e *ETR) HandleMapNotify(m *message.MapNotify) (by *settings.RTRPath, acknowledges bool) {
	by, acknowledges = e.Registrar.HandleMapNotify(m)
	if e.Registrar.Registered() {
		e.Solicitor.Registered()
	}
	return by, acknowledges
}

// local is a mapping of the Database as it is announced.
func (e *ETR) local(m settings.DatabaseMapping) lisp.Mapping {
	mapping := m.Mapping()
	mapping.Locators = locatorset.WithLocalBits(e.Lowered(mapping.Locators), e.h.RLOCs)
	return mapping
}

// HandleMapRequest answers for one EID-Prefix of a Map-Request.
func (e *ETR) HandleMapRequest(m *message.MapRequest, asked lisp.Prefix) {
	all, best := e.answer(asked)
	if all == nil {
		e.h.Count(counter.RefusedNoMapping)
		return
	}
	e.noteAsker(m, best)
	mappings := e.h.Complete(m, asked, all, func(p lisp.Prefix) bool { return e.Database.Index.Holds(p, best) })
	e.h.Reply(m, system.Reply{Sent: counter.MapReplySent, Notice: effect.NoticeMapReplySent, Mappings: mappings, Echoes: e.Config.EchoNonce})
}

// MappingOf is our mapping that covers an EID, as it is announced.
func (e *ETR) MappingOf(host lisp.Prefix) (lisp.Mapping, bool) {
	_, match, ok := e.Database.Index.Longest(host)
	if !ok {
		return lisp.Mapping{}, false
	}
	return e.local(match), true
}

// HandleFlowRequest answers a Map-Request for the path of a flow with one of the locators of our mapping.
func (e *ETR) HandleFlowRequest(m *message.MapRequest, chosen lisp.Locator, ttlMinutes uint32) {
	answer := lisp.Mapping{Prefix: m.Prefixes[0], TTLMinutes: ttlMinutes, Locators: lisp.LocatorSet{chosen}}
	if mapping, ok := e.MappingOf(answer.Prefix); ok {
		e.noteAsker(m, mapping.Prefix)
	}
	e.h.Reply(m, system.Reply{
		Sent: counter.MapReplySent, Notice: effect.NoticeMapReplySent, Mappings: []lisp.Mapping{answer},
		Echoes: e.Config.EchoNonce, Flow: &m.Records[0],
	})
}

// noteAsker remembers who caches our mapping, to be told when it changes.
func (e *ETR) noteAsker(m *message.MapRequest, prefix lisp.Prefix) {
	if m.ECM == nil && e.IsSibling != nil && e.IsSibling(m.From.Addr()) {
		return // siblings are told at once, not when it is registered
	}
	if rloc, ok := e.h.ReplyRLOC(m); ok && !slices.Contains(e.h.RLOCs, rloc) { // we ask for our own EID-Prefixes too
		e.Solicitor.Asked(rloc, m, prefix)
	}
}

// answer is the longest match with all its more-specifics; nil when there is none.
func (e *ETR) answer(asked lisp.Prefix) (all []lisp.Mapping, best lisp.Prefix) {
	best, match, ok := e.Database.Index.Match(asked)
	if !ok {
		return nil, best
	}
	all = []lisp.Mapping{e.local(match)}
	for p, m := range e.Database.Index.Subtree(best) {
		if len(all) > e.h.Limits.MoreSpecificsPerReply {
			break // too many in any case
		}
		if p != best {
			all = append(all, e.local(m))
		}
	}
	return all, best
}

// probedWithoutEID is what an RLOC-probe without an EID is about: the EID that it has as its source if that is ours
// (lispers.net's first probe of a locator), else the first mapping with the RLOC that it came to.
func (e *ETR) probedWithoutEID(m *message.MapRequest) (settings.DatabaseMapping, bool) {
	if p := lisp.HostPrefix(m.SourceInstance, m.Source); !m.Source.IsZero() {
		if _, match, ok := e.Database.Index.Longest(p); ok {
			return match, true
		}
	}
	for _, l := range e.Database.RLOCs {
		if l.RLOC.Addr() == m.Local.Addr() {
			match, ok := e.Database.Index.Get(l.Prefix)
			return match, ok
		}
	}
	return settings.DatabaseMapping{}, false
}

// HandleProbe answers an RLOC-probe about an EID-Prefix with the current mapping; p marks the locator
// that the probe was sent to (RFC 9301 s.7.1), a path by its last hop. It reports whether the EID-Prefix is ours.
func (e *ETR) HandleProbe(m *message.MapRequest, asked lisp.Prefix) bool {
	_, match, ok := e.Database.Index.Match(asked)
	if asked.Kind() == lisp.EIDNone {
		match, ok = e.probedWithoutEID(m)
	}
	if !ok {
		return false
	}
	e.noteAsker(m, match.Prefix)
	mapping := match.Mapping()
	e.probed = locatorset.AppendWithLocalBits(e.probed[:0], e.Lowered(mapping.Locators), e.h.RLOCs)
	mapping.Locators = e.probed // for as long as it is being encoded
	probed := lisp.RLOCFromAddr(m.Local.Addr())
	i := slices.IndexFunc(mapping.Locators, func(l lisp.Locator) bool { return !probed.IsZero() && l.Path().Last() == probed })
	if i >= 0 {
		mapping.Locators[i].Probed = true
	}
	e.h.Reply(m, system.Reply{Sent: counter.RLOCProbeReplySent, Notice: effect.NoticeRLOCProbeReplySent, Mappings: []lisp.Mapping{mapping}, Probe: true, Echoes: e.Config.EchoNonce})
	return true
}

// Shutdown withdraws a batch of what must not stay registered, and reports whether there is more.
func (e *ETR) Shutdown() (more bool) {
	return e.last.withdraw(&e.Announcer, func(p *mapregister.Peer, gone lisp.Prefix) bool {
		return !e.Config.WithdrawOnShutdown && e.Wants(gone, p)
	})
}

// Withdraw withdraws a batch of what does not stay. It returns how many Map-Registers that took, and whether there is
// more.
func (e *ETR) Withdraw(stays func(*mapregister.Peer, lisp.Prefix) bool) (sent int, more bool) {
	before := e.last.sent
	more = e.last.withdraw(&e.Announcer, stays)
	return e.last.sent - before, more
}

// WithdrawAgain lets Withdraw begin anew, and returns how many Map-Registers it took since it began.
func (e *ETR) WithdrawAgain() (sent int) {
	sent = e.last.sent
	e.last = withdrawal{}
	return sent
}
