// SPDX-License-Identifier: Apache-2.0

package settings

// A Map-Server's policy for one site: who is told its mappings, for how long, and how
// much the site may register (RFC 9301 s.8.3). ITR-RLOCs are the requester's own word:
// this keeps mappings from being used, not secret from who lies.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loci/control/internal/timing"
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

	ProxyReplyTTLMinutes uint32      // of Map-Replies for the site; 0 is as registered
	MaxRegistrations     int         // EID-Prefixes; 0 is Limits.RegistrationsPerSite
	MapRegisters         timing.Rate // taken of the site; zero is no limit of its own
}

// Denies reports whether one of the requester's RLOCs may not ask.
func (p *SitePolicy) Denies(itrRLOCs []lisp.RLOC) bool {
	return slices.ContainsFunc(itrRLOCs, func(r lisp.RLOC) bool {
		within := func(n netip.Prefix) bool { return n.Contains(r.Addr()) }
		return slices.ContainsFunc(p.DeniedITRs, within) || len(p.AllowedITRs) > 0 && !slices.ContainsFunc(p.AllowedITRs, within)
	})
}

// Denial is the answer to who may not ask.
func (p *SitePolicy) Denial(hole lisp.Prefix) lisp.Mapping {
	switch {
	case p.TemporaryDenial:
		return lisp.Mapping{Prefix: hole, TTLMinutes: UnregisteredTTLMinutes, Action: lisp.ActionSendMapRequest}
	case p.DenialTTLMinutes == 0:
		return lisp.Mapping{Prefix: hole, TTLMinutes: NegativeTTLMinutes, Action: lisp.ActionDropPolicyDenied}
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
	if p.MapRegisters != (timing.Rate{}) {
		errs = append(errs, p.MapRegisters.Validate())
	}
	return errors.Join(errs...)
}

// ProxyTTL is the TTL of what the Map-Server says for a site.
func (p *SitePolicy) ProxyTTL(m lisp.Mapping) uint32 {
	if p.ProxyReplyTTLMinutes > 0 {
		return p.ProxyReplyTTLMinutes
	}
	return m.TTLMinutes
}
