// SPDX-License-Identifier: Apache-2.0

package model

// The policies of RTR, PITR and PETR as package forward asks for them.

import (
	"net/netip"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

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
