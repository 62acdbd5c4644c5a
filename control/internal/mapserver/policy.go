// SPDX-License-Identifier: Apache-2.0

package mapserver

import (
	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// What the Map-Server makes of its sites' policies.

// deny answers a Map-Request that the site's policy denies; false when it does not.
func (s *MapServer) deny(m *message.MapRequest, asked, configured lisp.Prefix, site *siteState) bool {
	if !site.Config.Policy.Denies(m.ReplyRLOCs) {
		return false
	}
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	hole := table.LeastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool { return s.Prefixes.Holds(p, configured) })
	s.h.Count(counter.MapRequestDenied)
	s.h.ReplyWithout(m, site.Config.Policy.Denial(hole))
	return true
}

// replyUnregistered answers for an EID-Prefix that is configured and not registered. It says nothing until all xTRs
// have had the time to register after a start: a negative answer would take mappings from ITRs that work.
func (s *MapServer) replyUnregistered(m *message.MapRequest, hole lisp.Prefix, site *siteState) {
	failing := site.authFailedAt != 0 && s.h.Now-site.authFailedAt < timing.Instant(s.config.RegistrationTimeout)
	action := lisp.ActionNativelyForward
	if failing && site.Config.Policy.AnswerAuthFailure {
		action = lisp.ActionDropAuthFailure
	}
	if action == lisp.ActionNativelyForward && s.h.Now < s.CompleteAt {
		s.h.Count(counter.RefusedStarting)
		return
	}
	s.h.ReplyWithout(m, lisp.Mapping{Prefix: hole, TTLMinutes: settings.UnregisteredTTLMinutes, Action: action})
}

// NoteAuthFailure remembers that a Map-Register of a site did not authenticate.
func (s *MapServer) NoteAuthFailure(site string) {
	if state := s.Registrations.Sites.Named(site); state != nil {
		state.authFailedAt = s.h.Now
	}
}

// maxRegistrations is how many EID-Prefixes a site may register.
func (s *MapServer) maxRegistrations(site *siteState) int {
	if own := site.Config.Policy.MaxRegistrations; own > 0 {
		return min(own, s.h.Limits.RegistrationsPerSite)
	}
	return s.h.Limits.RegistrationsPerSite
}

// checkRate refuses Map-Registers beyond the site's own rate. Its ETR sends it again.
func (s *MapServer) checkRate(site *siteState) *message.Refusal {
	rate := site.Config.Policy.MapRegisters
	if rate == (timing.Rate{}) || site.registers.Take(s.h.Now, rate) {
		return nil
	}
	return message.Refuse(counter.RefusedSiteRate, "more than %v Map-Registers a second, %d at once", rate.PerSecond, rate.Burst)
}
