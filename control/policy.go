// SPDX-License-Identifier: Apache-2.0

package control

import "loci/lisp"

// What the Map-Server makes of its sites' policies.

// deny answers a Map-Request that the site's policy denies; false when it does not.
func (s *mapServer) deny(m *mapRequest, asked, configured lisp.Prefix, site *siteState) bool {
	if !site.config.Policy.denies(m.itrRLOCs) {
		return false
	}
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	hole := leastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool { return s.prefixes.holds(p, configured) })
	s.h.count(MapRequestDenied)
	s.h.replyWithout(m, site.config.Policy.denial(hole))
	return true
}

// replyUnregistered answers for an EID-Prefix that is configured and not registered. It says nothing until all xTRs
// have had the time to register after a start: a negative answer would take mappings from ITRs that work.
func (s *mapServer) replyUnregistered(m *mapRequest, hole lisp.Prefix, site *siteState) {
	failing := site.authFailedAt != 0 && s.h.now-site.authFailedAt < instant(s.config.RegistrationTimeout)
	action := lisp.ActionNativelyForward
	if failing && site.config.Policy.AnswerAuthFailure {
		action = lisp.ActionDropAuthFailure
	}
	if action == lisp.ActionNativelyForward && s.h.now < s.completeAt {
		s.h.count(RefusedStarting)
		return
	}
	s.h.replyWithout(m, lisp.Mapping{Prefix: hole, TTLMinutes: unregisteredTTLMinutes, Action: action})
}

// noteAuthFailure remembers that a Map-Register of a site did not authenticate.
func (s *mapServer) noteAuthFailure(site string) {
	if state := s.registrations.sites.named(site); state != nil {
		state.authFailedAt = s.h.now
	}
}

// maxRegistrations is how many EID-Prefixes a site may register.
func (s *mapServer) maxRegistrations(site *siteState) int {
	if own := site.config.Policy.MaxRegistrations; own > 0 {
		return min(own, s.h.limits.RegistrationsPerSite)
	}
	return s.h.limits.RegistrationsPerSite
}

// checkRate refuses Map-Registers beyond the site's own rate. Its ETR sends it again.
func (s *mapServer) checkRate(site *siteState) *Refusal {
	rate := site.config.Policy.MapRegisters
	if rate == (Rate{}) || site.registers.take(s.h.now, rate) {
		return nil
	}
	return refuse(RefusedSiteRate, "more than %v Map-Registers a second, %d at once", rate.PerSecond, rate.Burst)
}
