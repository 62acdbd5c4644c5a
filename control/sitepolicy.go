// SPDX-License-Identifier: Apache-2.0

package control

// A Map-Server's policy for one site: who is told its mappings, for how long, and how
// much the site may register (RFC 9301 s.8.3). ITR-RLOCs are the requester's own word:
// this keeps mappings from being used, not secret from who lies.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// SitePolicy is what a Map-Server does for a site beyond what RFC 9301 says. The zero
// value is no policy.
type SitePolicy struct {
	// AllowedITRs, when not empty, are the only RLOCs that may ask for the site's
	// mappings; DeniedITRs may not in any case. A request is denied when one of its
	// ITR-RLOCs is.
	AllowedITRs, DeniedITRs []netip.Prefix
	// DenialTTLMinutes is how long a denied ITR drops packets; 0 is 15 minutes.
	DenialTTLMinutes uint32
	// TemporaryDenial makes denied ITRs ask again after a minute instead of dropping
	// packets: Send-Map-Request in place of Drop/Policy-Denied.
	TemporaryDenial bool

	// AnswerAuthFailure says Drop/Auth-Failure, for a minute, for EID-Prefixes that are
	// not registered while Map-Registers of the site fail to authenticate. Off by
	// default: who can send forged Map-Registers could then stop traffic that goes
	// natively.
	AnswerAuthFailure bool

	ProxyReplyTTLMinutes uint32 // of Map-Replies for the site; 0 is as registered
	MaxRegistrations     int    // EID-Prefixes; 0 is Limits.RegistrationsPerSite
	MapRegisters         Rate   // taken of the site; zero is no limit of its own
}

// denies reports whether one of the requester's RLOCs may not ask.
func (p *SitePolicy) denies(itrRLOCs []lisp.RLOC) bool {
	return slices.ContainsFunc(itrRLOCs, func(r lisp.RLOC) bool {
		within := func(n netip.Prefix) bool { return n.Contains(r.Addr()) }
		return slices.ContainsFunc(p.DeniedITRs, within) || len(p.AllowedITRs) > 0 && !slices.ContainsFunc(p.AllowedITRs, within)
	})
}

// denial is the answer to who may not ask.
func (p *SitePolicy) denial(hole lisp.Prefix) lisp.Mapping {
	switch {
	case p.TemporaryDenial:
		return lisp.Mapping{Prefix: hole, TTLMinutes: unregisteredTTLMinutes, Action: lisp.ActionSendMapRequest}
	case p.DenialTTLMinutes == 0:
		return lisp.Mapping{Prefix: hole, TTLMinutes: negativeTTLMinutes, Action: lisp.ActionDropPolicyDenied}
	}
	return lisp.Mapping{Prefix: hole, TTLMinutes: p.DenialTTLMinutes, Action: lisp.ActionDropPolicyDenied}
}

func (p *SitePolicy) validate(site string) error {
	var errs []error
	for _, n := range slices.Concat(p.AllowedITRs, p.DeniedITRs) {
		if !n.IsValid() || n != n.Masked() {
			errs = append(errs, fmt.Errorf("site %s: policy for ITRs %s: want a prefix without bits behind its length", site, n))
		}
	}
	if p.MaxRegistrations < 0 {
		errs = append(errs, fmt.Errorf("site %s: at most %d registrations: want 0 or more", site, p.MaxRegistrations))
	}
	if p.MapRegisters != (Rate{}) {
		errs = append(errs, p.MapRegisters.validate())
	}
	return errors.Join(errs...)
}

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
	return refusal(RefusedSiteRate, "more than %v Map-Registers a second, %d at once", rate.PerSecond, rate.Burst)
}

// proxyTTL is the TTL of what the Map-Server says for a site.
func (p *SitePolicy) proxyTTL(m lisp.Mapping) uint32 {
	if p.ProxyReplyTTLMinutes > 0 {
		return p.ProxyReplyTTLMinutes
	}
	return m.TTLMinutes
}
