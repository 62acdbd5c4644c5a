// SPDX-License-Identifier: Apache-2.0

package mapserver

// Answers to Map-Requests, by the Map-Server or by an ETR to which they are forwarded (RFC 9301 s.8.3).

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// answerer makes the answers of a Map-Server, and remembers whom Map-Requests were forwarded to. It changes no
// registration.
type answerer struct {
	h             *system.System
	config        *settings.MapServerConfig
	owners        *owners
	registrations *Registrations
	choice        etrChoice
	answer        []lisp.Mapping // of a Map-Reply under way; its memory is used again
	CompleteAt    timing.Instant // one registration interval after the start: who registers here has done so
}

// DenyUnknown answers for an EID that no configured EID-Prefix has: there is no mapping.
func (s *MapServer) DenyUnknown(m *message.MapRequest, asked lisp.Prefix) {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	s.h.ReplyNegative(m, table.LeastSpecificHole(host, 0, s.Owners.Prefixes.Overlaps), settings.NegativeTTLMinutes)
}

// HandleMapRequest answers for one EID-Prefix of owner's, in the order of RFC 9301 s.8.3.
func (s *MapServer) HandleMapRequest(m *message.MapRequest, asked lisp.Prefix, owner message.OwnedPrefix) {
	answer := &s.Answers
	configured, site := owner.Prefix, s.Owners.siteAt(owner)
	if answer.deny(m, asked, configured, site) {
		return
	}
	row, ok := s.Registered(asked, configured, site)
	switch {
	case !ok:
		answer.replyUnregistered(m, answer.unregisteredHole(asked, configured), site)
	case answer.answers(row) && !m.Authoritative: // A: the site itself shall answer
		answer.replyForSite(m, asked, row, owner)
	default:
		answer.forward(m, asked, row)
	}
}

// HandleFlowRequest passes the request for the path of a flow to an ETR of its destination, whatever else is answered
// for that. Nothing answers in its place: the path is the ETR's choice.
func (s *MapServer) HandleFlowRequest(m *message.MapRequest, destination lisp.Prefix, owner message.OwnedPrefix) {
	site := s.Owners.siteAt(owner)
	row, ok := s.Registered(destination, owner.Prefix, site)
	switch {
	case site.Config.Policy.Denies(m.ReplyRLOCs):
		s.h.Count(counter.MapRequestDenied)
	case !ok:
		s.h.Count(counter.RefusedNoRoute)
	default:
		s.Answers.forward(m, destination, row)
	}
}

// Registered finds the registration to use. One that is less specific than the
// configured EID-Prefix counts only if it is of the same site: another site's
// aggregate says nothing about this one.
func (s *MapServer) Registered(asked, configured lisp.Prefix, site *siteState) (*Registration, bool) {
	id, ok := s.Registrations.Lookup(&asked)
	if !ok {
		return nil, false
	}
	row := s.Registrations.Rows.At(id)
	if s.Sweeping() && s.dropDisallowed(id) {
		return s.Registered(asked, configured, site) // what is less specific, if anything
	}
	return row, row.Prefix.Bits() >= configured.Bits() || row.site == site.id
}

// unregisteredHole is the part of a configured EID-Prefix around the asked EID that
// neither is registered nor belongs to a more specific configured one.
func (a *answerer) unregisteredHole(asked, configured lisp.Prefix) lisp.Prefix {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	return table.LeastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool {
		return a.owners.Prefixes.Holds(p, configured) || a.registrations.Index.Holds(p, lisp.Prefix{})
	})
}

// answers reports whether the Map-Server answers for the ETRs of a registration.
func (a *answerer) answers(row *Registration) bool {
	switch a.registrations.SiteOf(row).Config.ProxyReply {
	case settings.ProxyReplyAlways:
		return true
	case settings.ProxyReplyNever:
		return false
	}
	return row.proxyReply
}

// replyForSite answers with what was registered, and with every more specific
// registration; where an ETR answers for one of those itself, the answer is
// narrowed to leave it out (RFC 9301 s.5.5, s.8.3).
func (a *answerer) replyForSite(m *message.MapRequest, asked lisp.Prefix, row *Registration, owner message.OwnedPrefix) {
	best := row.Prefix
	alone := !owner.Wide && best.Bits() >= owner.Prefix.Bits() // nothing more specific is configured
	all := append(a.answer[:0], a.proxyMapping(m, row))
	if row.wide {
		all = a.appendMoreSpecifics(m, all, best)
	}
	if !alone && a.holdsOthers(best, a.registrations.SiteOf(row)) {
		all = append(all, lisp.Mapping{})
	}
	a.answer = all
	taken := func(p lisp.Prefix) bool {
		return a.registrations.Index.Holds(p, best) || a.owners.Prefixes.Holds(p, best)
	}
	a.h.Reply(m, system.Reply{Sent: counter.ProxyMapReplySent, Notice: effect.NoticeMapReplySent, Mappings: a.h.Complete(m, asked, all, taken)})
}

// appendMoreSpecifics appends the more specific registrations within best, and an empty
// mapping for each that is not ours to tell.
func (a *answerer) appendMoreSpecifics(m *message.MapRequest, all []lisp.Mapping, best lisp.Prefix) []lisp.Mapping {
	for p, id := range a.registrations.Index.Subtree(best) {
		if len(all) > a.h.Limits.MoreSpecificsPerReply {
			break // too many in any case
		}
		if p == best {
			continue
		}
		more := a.registrations.Rows.At(id)
		if a.registrations.Sweep.Waits() && !a.owners.Allows(p, a.registrations.SiteOf(more)) {
			continue
		}
		if a.answers(more) {
			all = append(all, a.proxyMapping(m, more))
			continue
		}
		all = append(all, lisp.Mapping{})
	}
	return all
}

// holdsOthers reports whether other sites have EID-Prefixes within best that they have
// not registered: an answer that covers those would draw their packets to this site.
func (a *answerer) holdsOthers(best lisp.Prefix, site *siteState) bool {
	seen := 0
	for p, owner := range a.owners.Prefixes.Subtree(best) {
		if seen++; seen > a.h.Limits.MoreSpecificsPerReply {
			return true // perhaps: the smaller answer is right in any case
		}
		_, _, registered := a.registrations.Get(p)
		if !registered && p != best && a.owners.siteAt(owner) != site {
			return true
		}
	}
	return false
}

// proxyMapping is what the Map-Server says for a site to the sender of a Map-Request.
func (a *answerer) proxyMapping(to *message.MapRequest, row *Registration) lisp.Mapping {
	m := a.registrations.merged(row)
	m.TTLMinutes = a.registrations.SiteOf(row).Config.Policy.ProxyTTL(m)
	m.Locators = partial(m.Locators, to)
	return m
}

// forward passes the Map-Request to one of the ETRs.
func (a *answerer) forward(m *message.MapRequest, asked lisp.Prefix, row *Registration) {
	a.h.Forward(m, netip.AddrPortFrom(a.etrFor(m, asked, row), a.h.ControlPort), row.Prefix)
}

// etrFor is where the ETR is that a Map-Request is forwarded to: where it registered from, which it can be reached at
// for certain.
func (a *answerer) etrFor(m *message.MapRequest, asked lisp.Prefix, row *Registration) netip.Addr {
	t := a.registrations
	newest := t.Registrants.At(row.newest)
	if newest.next == noRow { // nearly always
		return t.Xtrs.At(newest.XTR).From.Addr()
	}
	var few [4]netip.Addr
	all := t.appendETRs(few[:0], row)
	request := forwardedRequest{itr: m.ReplyRLOCs[0], asked: asked}
	if m.Flow != nil { // one ETR chooses the paths of all flows, as long as it answers
		request.flow = *m.Flow
		slices.SortFunc(all, netip.Addr.Compare)
	}
	return all[a.choice.place(request, a.h.Now, newest.LastAt)%len(all)]
}

// deny answers a Map-Request that the site's policy denies; false when it does not.
func (a *answerer) deny(m *message.MapRequest, asked, configured lisp.Prefix, site *siteState) bool {
	if !site.Config.Policy.Denies(m.ReplyRLOCs) {
		return false
	}
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	hole := table.LeastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool { return a.owners.Prefixes.Holds(p, configured) })
	a.h.Count(counter.MapRequestDenied)
	a.h.ReplyWithout(m, site.Config.Policy.Denial(hole))
	return true
}

// replyUnregistered answers for an EID-Prefix that is configured and not registered. It says nothing until all xTRs
// have had the time to register after a start: a negative answer would take mappings from ITRs that work.
func (a *answerer) replyUnregistered(m *message.MapRequest, hole lisp.Prefix, site *siteState) {
	failing := site.authFailedAt != 0 && a.h.Now-site.authFailedAt < timing.Instant(a.config.RegistrationTimeout)
	action := lisp.ActionNativelyForward
	if failing && site.Config.Policy.AnswerAuthFailure {
		action = lisp.ActionDropAuthFailure
	}
	if action == lisp.ActionNativelyForward && a.h.Now < a.CompleteAt {
		a.h.Count(counter.RefusedStarting)
		return
	}
	a.h.ReplyWithout(m, lisp.Mapping{Prefix: hole, TTLMinutes: settings.UnregisteredTTLMinutes, Action: action})
}
