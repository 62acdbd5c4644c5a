// SPDX-License-Identifier: Apache-2.0

package nexthop

import (
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
	"loci/internal/testnet"
)

// A kernel that was booted with ipv6.disable=1 refuses to list rules of IPv6, as this one does for X.25.
func TestRulesOfAFamilyThatTheKernelLacks(t *testing.T) {
	testnet.RequireRoot(t)
	s, err := netspace.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if rules, err := rulesIn(s, unix.AF_X25); err != nil || len(rules) != 0 {
		t.Errorf("X.25: %v, %v, want no rules", rules, err)
	}
	if rules, err := rulesIn(s, unix.AF_INET); err != nil || len(rules) < 3 {
		t.Errorf("IPv4: %v, %v, want the kernel's three at least", rules, err)
	}
}
