// SPDX-License-Identifier: Apache-2.0

package mapsock

// Roles of a relay as attributes of settings: one for each policy, with its prefixes as those of lists stand. Which policies make sense
// together is the engine's to say (dataplane.Settings.CheckRoles).

import (
	"errors"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

// What a policy says of a prefix.
const (
	roleEID    = 0
	roleSource = 1
)

func appendRoles(b []byte, a Attribute, m *Message) []byte {
	for i := range m.Roles {
		p := &m.Roles[i]
		prefixes := [2][]netip.Prefix{roleEID: p.EIDs, roleSource: p.Sources}
		b = appendPrefixes(b, a, uint32(p.Role), p.Instance, prefixes)
	}
	return b
}

func parseRole(m *Message, v []byte) error {
	what := order.Uint32(v)
	continued := what&listContinued != 0
	what &^= listContinued
	if err := atMost(what, 255); err != nil {
		return err
	}
	lists, err := parsePrefixes(v)
	if err != nil {
		return err
	}
	p := dataplane.RolePolicy{
		Role: dataplane.Role(what), Instance: lisp.InstanceID(order.Uint32(v[4:])), EIDs: lists[roleEID], Sources: lists[roleSource],
	}
	if !continued {
		m.Roles = append(m.Roles, p)
		return nil
	}
	if len(m.Roles) == 0 {
		m.roleContinues = true
		m.Roles = append(m.Roles, p)
		return nil
	}
	return continueRole(&m.Roles[len(m.Roles)-1], &p)
}

// continueRole adds to the policy before.
func continueRole(last, p *dataplane.RolePolicy) error {
	if last.Role != p.Role || last.Instance != p.Instance {
		return errors.New("the policy continues one of another role or Instance-ID")
	}
	last.EIDs, last.Sources = append(last.EIDs, p.EIDs...), append(last.Sources, p.Sources...)
	return nil
}

// joinRoles adds what a later part says of the policies.
func joinRoles(m, part *Message) error {
	roles := part.Roles
	if part.roleContinues {
		if len(m.Roles) == 0 {
			return errors.New("a policy continues none that came before")
		}
		if err := continueRole(&m.Roles[len(m.Roles)-1], &roles[0]); err != nil {
			return err
		}
		roles = roles[1:]
	}
	m.Roles = append(m.Roles, roles...)
	return nil
}
