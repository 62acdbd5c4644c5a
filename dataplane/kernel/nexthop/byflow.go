// SPDX-License-Identifier: Apache-2.0

// This file finds out whether this host's routes look at more of a packet than
// addresses and TOS: then next hops that programs keep must tell flows apart
// (bpf/action.h). It changes nothing.

package nexthop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
)

// multipathPolicies choose among the next hops of a route: by addresses when 0.
var multipathPolicies = []string{"/proc/sys/net/ipv4/fib_multipath_hash_policy", "/proc/sys/net/ipv6/fib_multipath_hash_policy"}

// RoutesByFlow reports whether ports or protocols decide which way a packet takes.
func RoutesByFlow(s *netspace.Space) (byFlow bool, err error) {
	err = s.Do(func() error {
		for _, path := range multipathPolicies {
			policy, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the kernel has no such routes
			}
			if err != nil {
				return fmt.Errorf("choice among next hops: %w", err)
			}
			byFlow = byFlow || strings.TrimSpace(string(policy)) != "0"
		}
		return nil
	})
	if err != nil || byFlow {
		return byFlow, err
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := rulesIn(s, family)
		if err != nil {
			return false, err
		}
		for _, rule := range rules {
			byFlow = byFlow || looksAtFlows(rule)
		}
	}
	return byFlow, nil
}

// rulesIn lists the rules of a family: there are none where the kernel lacks the family, as with ipv6.disable=1.
func rulesIn(s *netspace.Space, family int) ([]netlink.Rule, error) {
	rules, err := s.Netlink.RuleList(family)
	switch {
	case errors.Is(err, unix.EAFNOSUPPORT):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("rules: %w", err)
	}
	return rules, nil
}

func looksAtFlows(r netlink.Rule) bool {
	return r.Sport != nil || r.Dport != nil || r.IPProto > 0
}
