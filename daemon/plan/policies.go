// SPDX-License-Identifier: Apache-2.0

package plan

// The policies of the configuration in the words of the control plane: RLOC-probing,
// locator policies and those of a Map-Server's sites.

import (
	"loci/config"
	"loci/config/probing"
	"loci/control"
	"loci/lisp"
)

func probingOf(r probing.RLOCProbing) control.ProbingConfig {
	probing := control.ProbingConfig{Off: !r.Enabled, Interval: r.Interval, Retries: r.Retries, RetriesInterval: r.RetriesInterval, AcceptNonAuthoritative: r.AcceptNonAuthoritative}
	if probing.Retries == 0 {
		probing.Retries = -1 // the file's 0 is "none", the Node's is its default
	}
	return probing
}

func peersOf(r probing.RLOCProbing) (peers []lisp.RLOC) {
	for _, a := range r.Peers {
		peers = append(peers, lisp.RLOCFromAddr(a))
	}
	return peers
}

func locatorPoliciesOf(list []config.LocatorPolicy) []control.LocatorPolicy {
	var policies []control.LocatorPolicy
	for _, p := range list {
		policies = append(policies, control.LocatorPolicy{EIDs: p.Prefix(), RLOCs: p.RLOCPrefix, Priority: p.Priority, Weight: p.Weight})
	}
	return policies
}

func sitePolicyOf(p config.SitePolicy) control.SitePolicy {
	policy := control.SitePolicy{
		AllowedITRs: p.AllowedITRs, DeniedITRs: p.DeniedITRs, DenialTTLMinutes: p.DenialTTLMinutes, TemporaryDenial: p.TemporaryDenial,
		AnswerAuthFailure: p.AnswerAuthFailure, ProxyReplyTTLMinutes: p.ProxyReplyTTLMinutes, MaxRegistrations: p.Registrations,
	}
	if p.MapRegisters != nil {
		policy.MapRegisters = rateOf(*p.MapRegisters)
	}
	return policy
}

func rateOf(r config.Rate) control.Rate {
	return control.Rate{PerSecond: r.Rate.PerSecond(), Burst: r.Burst}
}
