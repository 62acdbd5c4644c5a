// SPDX-License-Identifier: Apache-2.0

package packets

// The settings as package forward asks for them.

import (
	"cmp"
	"net/netip"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

var missPolicies = [...]forward.MissPolicy{
	dataplane.MissQueue: forward.MissWait, dataplane.MissHandOver: forward.MissWait, dataplane.MissDrop: forward.MissDrop, dataplane.MissForwardNatively: forward.MissNative,
}

// Configure has packets treated by settings that were checked. They are the Path's own from then on.
func (p *Path) Configure(s dataplane.Settings) {
	p.settings = s
	p.router.Trusted = trustedOf(s.Header)
	p.router.VXLANGPE = s.TakesVXLANGPE()
	p.router.Encapsulation = func(r lisp.RLOC) forward.Encapsulation { return forward.Encapsulation(p.settings.EncapsulationTo(r)) }
	p.router.Denies = deniesOf(&p.settings)
	p.router.IsRTR = p.settings.IsRTR
	p.router.Subflows = s.Subflows
	p.router.PathIdentification = forward.PathIdentification(s.PathIdentification)
	p.waiting.SetBounds(forward.WaitBounds(s.Wait))
	p.router.Roles, p.router.RecursionDepth = rolesOf(&p.settings), int(s.RecursionDepth)
}

// Settings returns what was last set.
func (p *Path) Settings() dataplane.Settings { return p.settings.Clone() }

// deniesOf asks the lists of a kind.
func deniesOf(s *dataplane.Settings) func(kind forward.ListKind, instance lisp.InstanceID, a netip.Addr) bool {
	return func(kind forward.ListKind, instance lisp.InstanceID, a netip.Addr) bool {
		packets, address := dataplane.ListEncapsulated, dataplane.ListAddress(kind&^forward.ListDecapsulated)
		if kind&forward.ListDecapsulated != 0 {
			packets = dataplane.ListDecapsulated
		}
		for i := range s.Lists {
			if l := &s.Lists[i]; l.Packets == packets && l.Address == address && l.Instance == instance {
				return l.Denies(a)
			}
		}
		return false
	}
}

func trustedOf(h dataplane.HeaderSettings) forward.Trusted {
	return forward.Trusted{
		PublicInternet: h.PublicInternet, StatusBits: h.StatusBits, MapVersions: h.MapVersions, EchoNonce: h.EchoNonce, Glean: h.Glean,
		Source: forward.SourceCheck(h.SourceCheck), HintInterval: dataplane.HintInterval,
		Echo: forward.EchoTimes{Wait: cmp.Or(h.EchoWait, dataplane.DefaultEchoWait), Interval: cmp.Or(h.EchoInterval, dataplane.DefaultEchoInterval)},
	}
}

// rolesOf are the roles that settings give the engine; nil for none.
func rolesOf(s *dataplane.Settings) func(lisp.InstanceID) forward.Roles {
	if len(s.Roles) == 0 {
		return nil
	}
	instances := map[lisp.InstanceID]forward.Roles{}
	for i := range s.Roles {
		policy := &s.Roles[i]
		roles := instances[policy.Instance]
		switch policy.Role {
		case dataplane.RoleRTR:
			roles.RTR = policy.Covers
		case dataplane.RolePETR:
			roles.PETR = policy.Covers
		case dataplane.RolePITR:
			roles.PITR = func(source, destination netip.Addr) bool {
				return policy.AllowsSource(source) && policy.Covers(destination)
			}
		}
		instances[policy.Instance] = roles
	}
	return func(instance lisp.InstanceID) forward.Roles { return instances[instance] }
}

// missesOf is what package forward does with packets of an Instance-ID that no mapping covers.
func missesOf(s *dataplane.Settings) func(lisp.InstanceID) forward.MissPolicy {
	return func(instance lisp.InstanceID) forward.MissPolicy { return missPolicies[s.MissPolicyOf(instance)] }
}
