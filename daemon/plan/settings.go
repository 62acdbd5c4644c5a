// SPDX-License-Identifier: Apache-2.0

package plan

// The data plane's settings, but for its interfaces.

import (
	"loci/config"
	"loci/config/multipath"
	"loci/dataplane"
	"loci/lisp"
)

func encapsulationsOf(rules []config.EncapsulationRule) (list []dataplane.EncapsulationRule) {
	for _, r := range rules {
		list = append(list, dataplane.EncapsulationRule{RLOCs: r.RLOCPrefix, Encapsulation: map[config.Encapsulation]dataplane.Encapsulation{
			config.EncapsulationLISPGPE: dataplane.EncapsulationLISPGPE, config.EncapsulationVXLANGPE: dataplane.EncapsulationVXLANGPE,
		}[r.Encapsulation]})
	}
	return list
}

var roles = map[config.Role]dataplane.Role{config.RoleRTR: dataplane.RoleRTR, config.RolePITR: dataplane.RolePITR, config.RolePETR: dataplane.RolePETR}

// rolesOf are the policies of RTR, PITR and PETR.
func rolesOf(c *config.Config) (list []dataplane.RolePolicy) {
	for _, p := range c.Policies() {
		policy := dataplane.RolePolicy{Role: roles[p.Role], Instance: p.InstanceID, Sources: p.Sources}
		for _, prefix := range p.EIDPrefixes {
			policy.EIDs = append(policy.EIDs, prefix.Netip())
		}
		list = append(list, policy)
	}
	return list
}

// headerOf says what data headers tell.
func headerOf(c *config.Config) dataplane.HeaderSettings {
	h := c.Datapath.DataHeader
	return dataplane.HeaderSettings{
		Glean:          c.ITR != nil && c.ITR.Gleaning,
		PublicInternet: c.PublicInternet, StatusBits: h.StatusBits, MapVersions: h.MapVersions, EchoNonce: h.EchoNonce,
		EchoWait: h.EchoWait, EchoInterval: h.EchoInterval,
		SourceCheck: map[config.SourceCheck]dataplane.SourceCheck{
			config.SourceCheckLoose: dataplane.SourceLoose, config.SourceCheckStrict: dataplane.SourceStrict,
		}[c.Datapath.SourceCheck],
	}
}

var missPolicies = map[config.MissPolicy]dataplane.MissPolicy{
	config.MissQueue: dataplane.MissQueue, config.MissDrop: dataplane.MissDrop, config.MissNativelyForward: dataplane.MissForwardNatively,
	config.MissHandOver: dataplane.MissHandOver,
}

// pathIdentificationOf is what tells the paths of a mapping apart; an RTR's setting holds for all its packets.
func pathIdentificationOf(c *config.Config) dataplane.PathIdentification {
	switch {
	case c.RTR != nil && c.RTR.PathIdentification == multipath.ByNumber:
		return dataplane.PathsByNumber
	case c.RTR != nil && c.RTR.PathIdentification == multipath.BySource:
		return dataplane.PathsBySource
	case c.ITR.PathIdentification == multipath.ByNumber:
		return dataplane.PathsNumbered
	}
	return dataplane.PathsUnidentified
}

func (p *planner) itrSettings(s *dataplane.Settings) {
	itr := p.config.ITR
	s.MissPolicy, s.Subflows = missPolicies[itr.MissPolicy], itr.MPTCP.IsBound()
	s.PathIdentification = pathIdentificationOf(p.config)
	for _, p := range itr.MissPolicies {
		if s.MissPolicies == nil {
			s.MissPolicies = map[lisp.InstanceID]dataplane.MissPolicy{}
		}
		s.MissPolicies[p.InstanceID] = missPolicies[p.MissPolicy]
	}
	s.MissForm = map[config.MissForm]dataplane.MissForm{
		config.MissFormEID: dataplane.MissFormEID, config.MissFormHeader: dataplane.MissFormHeader, config.MissFormPacket: dataplane.MissFormPacket,
	}[itr.MissForm]
	s.Wait = dataplane.WaitBounds{
		PacketsPerDestination: itr.Wait.PacketsPerDestination, PacketsTotal: itr.Wait.Packets,
		OctetsTotal: itr.Wait.Octets, Time: itr.Wait.Time,
	}
}
