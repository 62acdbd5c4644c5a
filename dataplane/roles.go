// SPDX-License-Identifier: Apache-2.0

package dataplane

// Roles beside ITR and ETR: RTR, PITR, PETR (RFC 6832, RFC 8060 s.4.6), each with its policy: an engine relays, or forwards for
// others, only what a policy names. Without policies it has none of these roles.

import (
	"fmt"
	"net/netip"

	"loci/lisp"
)

const (
	// MaxRolePolicies is how many policies Settings may have.
	MaxRolePolicies = 1024
	// MaxRolePrefixes is how many prefixes all of them may have together.
	MaxRolePrefixes = 4096
)

// Role is what an engine does beside ITR and ETR. The numbers are those of the mapping socket.
type Role uint8

// The roles.
const (
	// RoleRTR decapsulates packets from the core, looks their destination up in the map-cache, and encapsulates them
	// again. A packet that no mapping covers raises a Miss and is treated like one of the site. A packet is relayed where
	// its inner source or its inner destination is one of the policy's EIDs.
	RoleRTR Role = iota
	// RolePITR encapsulates packets from hosts that are not LISP's, come in by whatever interface, to EIDs of the policy.
	RolePITR
	// RolePETR decapsulates packets from EIDs of the policy whose destination is in no EID-Prefix, and
	// forwards them natively.
	RolePETR
)

var roleNames = [...]string{"rtr", "pitr", "petr"}

// IsValid reports whether r is one of the roles.
func (r Role) IsValid() bool { return int(r) < len(roleNames) }

// String names the role as configuration does.
func (r Role) String() string {
	if !r.IsValid() {
		return fmt.Sprintf("role %d", uint8(r))
	}
	return roleNames[r]
}

// RolePolicy gives an engine a role for the EIDs of an Instance-ID.
type RolePolicy struct {
	Role     Role
	Instance lisp.InstanceID
	// EIDs that the role is for: RTR: to or from them; PITR: to them; PETR: from them.
	EIDs []netip.Prefix
	// Sources that a PITR encapsulates packets of; none: all addresses.
	Sources []netip.Prefix
}

// PolicyOf is the policy of a role in an Instance-ID, nil where the engine does not have the role.
func (s *Settings) PolicyOf(role Role, instance lisp.InstanceID) *RolePolicy {
	for i := range s.Roles {
		if p := &s.Roles[i]; p.Role == role && p.Instance == instance {
			return p
		}
	}
	return nil
}

// Covers reports whether the policy is for an EID. It looks at every prefix.
func (p *RolePolicy) Covers(eid netip.Addr) bool { return p != nil && covers(p.EIDs, eid) }

// AllowsSource reports whether a PITR encapsulates packets of a source.
func (p *RolePolicy) AllowsSource(a netip.Addr) bool {
	return p != nil && (len(p.Sources) == 0 || covers(p.Sources, a))
}

func covers(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// CheckRoles says what of the policies and of the recursion depth cannot be; ErrInvalid.
func (s *Settings) CheckRoles() error {
	if s.RecursionDepth > MaxRecursionDepth {
		return fmt.Errorf("recursion depth %d, at most %d: %w", s.RecursionDepth, MaxRecursionDepth, ErrInvalid)
	}
	if len(s.Roles) > MaxRolePolicies {
		return fmt.Errorf("%d policies of roles, at most %d: %w", len(s.Roles), MaxRolePolicies, ErrInvalid)
	}
	type subject struct {
		role     Role
		instance lisp.InstanceID
	}
	seen, prefixes := map[subject]bool{}, 0
	for i := range s.Roles {
		p := &s.Roles[i]
		if at := (subject{p.Role, p.Instance}); seen[at] {
			return fmt.Errorf("two policies of %s for Instance-ID %d: %w", p.Role, p.Instance, ErrInvalid)
		} else {
			seen[at] = true
		}
		if err := p.check(); err != nil {
			return err
		}
		prefixes += len(p.EIDs) + len(p.Sources)
	}
	if prefixes > MaxRolePrefixes {
		return fmt.Errorf("policies of roles with %d prefixes, at most %d: %w", prefixes, MaxRolePrefixes, ErrInvalid)
	}
	return nil
}

func (p *RolePolicy) check() error {
	switch {
	case !p.Role.IsValid() || p.Instance > lisp.MaxInstanceID:
		return fmt.Errorf("policy of %s for Instance-ID %d: %w", p.Role, p.Instance, ErrInvalid)
	case len(p.EIDs) == 0:
		return fmt.Errorf("policy of %s for Instance-ID %d names no EID-Prefix: %w", p.Role, p.Instance, ErrInvalid)
	case p.Role != RolePITR && len(p.Sources) > 0:
		return fmt.Errorf("policy of %s for Instance-ID %d limits sources, which a PITR does alone: %w", p.Role, p.Instance, ErrInvalid)
	}
	for _, prefixes := range [][]netip.Prefix{p.EIDs, p.Sources} {
		for _, prefix := range prefixes {
			if !prefix.IsValid() || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
				return fmt.Errorf("prefix %v of the policy of %s for Instance-ID %d: %w", prefix, p.Role, p.Instance, ErrInvalid)
			}
		}
	}
	return nil
}

// MaxRecursionDepth is how many layers of encapsulation there may be.
const MaxRecursionDepth = 2
