// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"net/netip"
	"testing"
)

func TestPoliciesOfRoles(t *testing.T) {
	p := netip.MustParsePrefix
	eids := []netip.Prefix{p("10.1.0.0/16"), p("2001:db8:1::/48")}
	s := Settings{Roles: []RolePolicy{
		{Role: RoleRTR, EIDs: eids}, {Role: RolePITR, EIDs: eids, Sources: []netip.Prefix{p("198.51.100.0/24")}}, {Role: RolePETR, Instance: 7, EIDs: eids},
	}}
	if err := s.CheckRoles(); err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr
	if !s.PolicyOf(RoleRTR, 0).Covers(a("10.1.2.3")) || s.PolicyOf(RoleRTR, 0).Covers(a("10.2.2.3")) || s.PolicyOf(RoleRTR, 7).Covers(a("10.1.2.3")) {
		t.Error("RTR of other EIDs")
	}
	if pitr := s.PolicyOf(RolePITR, 0); !pitr.AllowsSource(a("198.51.100.9")) || pitr.AllowsSource(a("203.0.113.9")) {
		t.Error("PITR of other sources")
	}
	if petr := s.PolicyOf(RolePETR, 7); !petr.Covers(a("2001:db8:1::1")) || petr.Covers(a("2001:db8:2::1")) {
		t.Error("PETR of other EIDs")
	}
	if c := s.Clone(); &c.Roles[0] == &s.Roles[0] || &c.Roles[0].EIDs[0] == &s.Roles[0].EIDs[0] {
		t.Error("a clone shares memory")
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	p := netip.MustParsePrefix
	eids := []netip.Prefix{p("10.1.0.0/16")}
	for name, roles := range map[string][]RolePolicy{
		"unknown role":            {{Role: RolePETR + 1, EIDs: eids}},
		"Instance-ID":             {{Instance: 1 << 24, EIDs: eids}},
		"no EIDs":                 {{Role: RoleRTR}},
		"twice":                   {{Role: RoleRTR, EIDs: eids}, {Role: RoleRTR, EIDs: eids}},
		"host bits":               {{EIDs: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.1.2.3"), 8)}}},
		"sources of an RTR":       {{EIDs: eids, Sources: eids}},
		"too many prefixes":       {{EIDs: make([]netip.Prefix, MaxRolePrefixes+1)}},
		"IPv4-mapped":             {{EIDs: []netip.Prefix{p("::ffff:10.0.0.0/104")}}},
		"too many for one engine": make([]RolePolicy, MaxRolePolicies+1),
	} {
		if err := (&Settings{RecursionDepth: MaxRecursionDepth + 1}).CheckRoles(); !errors.Is(err, ErrInvalid) {
			t.Errorf("three layers: %v", err)
		}
		if err := (&Settings{Roles: roles}).CheckRoles(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
