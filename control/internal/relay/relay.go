// SPDX-License-Identifier: Apache-2.0

package relay

// Policies of relays, and their answers to RLOC-probes. A relay is no ETR of the EIDs that its packets go to: it answers for none of
// them, but says that it is there.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/report"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/lisp"
)

// ProbeReplyTTL is the TTL in minutes of the record that answers an RLOC-probe: who takes it for a mapping all the same sends to the
// relay for that long, and is relayed.
const ProbeReplyTTL = 1

// Relay is the policies of a Node.
type Relay struct {
	h        *system.System
	policies []settings.RolePolicy
}

// New makes one without policies.
func New(h *system.System) *Relay { return &Relay{h: h} }

// Configure takes over other policies.
func (r *Relay) Configure(policies []settings.RolePolicy) { r.policies = policies }

// Admits says whether a destination is resolved for a packet whose source is not our own EID, and whether as PITR: no RTR's policy
// admits it.
func (r *Relay) Admits(m report.Miss) (admitted, asPITR bool) {
	for i := range r.policies {
		if p := &r.policies[i]; p.Admits(m.Instance, m.Source, m.Destination) {
			if p.Role == settings.RoleRTR {
				return true, false
			}
			admitted, asPITR = true, true
		}
	}
	return admitted, asPITR
}

// Serves reports whether an EID is one that a role is for.
func (r *Relay) Serves(role settings.Role, p lisp.Prefix) bool {
	return slices.ContainsFunc(r.policies, func(policy settings.RolePolicy) bool { return policy.Covers(role, p.Instance(), p.EID()) })
}

// Answers reports whether RLOC-probes about an EID-Prefix are answered: there is an RTR of its Instance-ID. A probe
// without an EID has no Instance-ID.
func (r *Relay) Answers(asked lisp.Prefix) bool {
	return slices.ContainsFunc(r.policies, func(p settings.RolePolicy) bool {
		return asked.Kind() == lisp.EIDNone || p.Role != settings.RolePITR && p.Instance == asked.Instance()
	})
}

// HandleProbe answers an RLOC-probe: with the EID-Prefix that was asked about, and as its one locator the RLOC that was
// probed, with the p bit. The A bit is set, which every answer to an RLOC-probe needs (RFC 9301 s.5.4).
func (r *Relay) HandleProbe(m *message.MapRequest, asked lisp.Prefix) {
	probed := lisp.RLOCFromAddr(m.Local.Addr())
	if !slices.Contains(r.h.RLOCs, probed) {
		own, ok := r.h.RLOCOf(m.From.Addr().Is4())
		if !ok {
			r.h.Count(counter.RefusedFamily)
			return
		}
		probed = own
	}
	l := lisp.NewLocator(probed)
	l.Local, l.Probed = true, true
	mapping := lisp.Mapping{
		Prefix: asked, TTLMinutes: ProbeReplyTTL, Authoritative: true,
		Locators: lisp.LocatorSet{l},
	}
	r.h.Reply(m, system.Reply{
		Sent:     counter.RLOCProbeReplySent,
		Notice:   effect.NoticeRLOCProbeReplySent,
		Mappings: []lisp.Mapping{mapping},
		Probe:    true,
	})
}
