// SPDX-License-Identifier: Apache-2.0

package settings

// Roles beside ITR and ETR: RTR, PITR, PETR (RFC 6832, RFC 8060 s.4.6). A Node resolves destinations for others only as far as a
// policy goes: without one it has none of these roles.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// Role is what a router does for packets that are not its site's.
type Role uint8

// The roles.
const (
	RoleRTR  Role = iota // relays packets to or from EIDs of the policy
	RolePITR             // encapsulates packets of non-LISP hosts to EIDs of the policy
	RolePETR             // decapsulates packets from EIDs of the policy to non-LISP hosts
)

// String names the role as configuration does.
func (r Role) String() string {
	switch r {
	case RoleRTR:
		return "rtr"
	case RolePITR:
		return "pitr"
	case RolePETR:
		return "petr"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// RolePolicy gives a Node a role for the EIDs of an Instance-ID.
type RolePolicy struct {
	Role     Role
	Instance lisp.InstanceID
	EIDs     []netip.Prefix
	Sources  []netip.Prefix // that a PITR encapsulates packets of; none: all addresses
}

// MaxRecursionDepth is how many layers of encapsulation there may be.
const MaxRecursionDepth = 2

// Covers reports whether a policy of a role is for an EID.
func (p *RolePolicy) Covers(role Role, instance lisp.InstanceID, e lisp.EID) bool {
	return p.Role == role && p.Instance == instance && within(p.EIDs, e.Addr())
}

// Admits reports whether a packet from one address to another is relayed, or encapsulated for a non-LISP host, by the policy.
func (p *RolePolicy) Admits(instance lisp.InstanceID, source, destination lisp.EID) bool {
	switch p.Role {
	case RoleRTR:
		return p.Covers(RoleRTR, instance, destination) || p.Covers(RoleRTR, instance, source)
	case RolePITR:
		return p.Covers(RolePITR, instance, destination) && (len(p.Sources) == 0 || source.IsZero() || within(p.Sources, source.Addr()))
	}
	return false
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Relaying says of the Instance-IDs in which a router is an RTR whether it has no EIDs there.
func (c *Config) Relaying() map[lisp.InstanceID]bool {
	if !c.HasRole(RoleRTR) {
		return nil
	}
	alone := map[lisp.InstanceID]bool{}
	for _, p := range c.Roles {
		if p.Role == RoleRTR {
			alone[p.Instance] = true
		}
	}
	if c.ETR != nil {
		for i := range c.ETR.Database {
			if id := c.ETR.Database[i].Prefix.Instance(); alone[id] {
				alone[id] = false
			}
		}
	}
	return alone
}

// HasRole reports whether a role is on in any Instance-ID.
func (c *Config) HasRole(role Role) bool {
	return slices.ContainsFunc(c.Roles, func(p RolePolicy) bool { return p.Role == role })
}

func (c *Config) validRoles() error {
	var errs []error
	for i := range c.Roles {
		p := &c.Roles[i]
		switch {
		case p.Role > RolePETR:
			errs = append(errs, fmt.Errorf("%s: want rtr, pitr or petr", p.Role))
		case p.Instance > lisp.MaxInstanceID:
			errs = append(errs, fmt.Errorf("%s: want an Instance-ID up to %d", p.Role, lisp.MaxInstanceID))
		case len(p.EIDs) == 0:
			errs = append(errs, fmt.Errorf("%s of Instance-ID %d: no EID-Prefix", p.Role, p.Instance))
		case slices.ContainsFunc(c.Roles[:i], func(o RolePolicy) bool { return o.Role == p.Role && o.Instance == p.Instance }):
			errs = append(errs, fmt.Errorf("%s of Instance-ID %d stands there twice", p.Role, p.Instance))
		case p.Role != RolePETR && c.ITR == nil:
			errs = append(errs, fmt.Errorf("%s of Instance-ID %d: it needs the ITR, which resolves its destinations", p.Role, p.Instance))
		}
	}
	if c.RecursionDepth > MaxRecursionDepth {
		errs = append(errs, fmt.Errorf("recursion-depth %d: want 1 to %d", c.RecursionDepth, MaxRecursionDepth))
	}
	return errors.Join(errs...)
}
