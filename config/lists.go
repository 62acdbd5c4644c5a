// SPDX-License-Identifier: Apache-2.0

package config

// Deny and allow lists of the data plane: which packets are encapsulated and
// decapsulated at all, by their inner and outer addresses.

import (
	"fmt"
	"net/netip"

	"loci/lisp"
)

// maxListPrefixes is how many prefixes all lists may have together.
const maxListPrefixes = 4096

// AccessList denies addresses of packets, or allows some and no others; the longest
// prefix decides.
type AccessList struct {
	Packets    ListPackets     `key:"packets" required:"true" oneof:"encapsulated,decapsulated"`
	Address    ListAddress     `key:"address" required:"true" oneof:"inner-source,inner-destination,outer-source,outer-destination"`
	InstanceID lisp.InstanceID `key:"instance-id"`
	Allow      []netip.Prefix  `key:"allow" max:"4096"`
	Deny       []netip.Prefix  `key:"deny" max:"4096"`
}

// ListPackets says which packets a list is about.
type ListPackets string

// The packets.
const (
	ListEncapsulated ListPackets = "encapsulated" // towards the core
	ListDecapsulated ListPackets = "decapsulated" // from the core
)

// ListAddress says which of their addresses a list is about.
type ListAddress string

// The addresses.
const (
	ListInnerSource      ListAddress = "inner-source"
	ListInnerDestination ListAddress = "inner-destination"
	ListOuterSource      ListAddress = "outer-source"
	ListOuterDestination ListAddress = "outer-destination"
)

// String names the list by what it is about.
func (l AccessList) String() string {
	return fmt.Sprintf("%s %s %s", l.Packets, l.Address, l.InstanceID)
}

// validateLists compares the lists with each other.
func validateLists(c *Config) {
	seen, prefixes := map[string]bool{}, 0
	for i, l := range c.Datapath.AccessLists {
		path := fmt.Sprintf("datapath.access-lists[%d]", i)
		if seen[l.String()] {
			c.fail(path, fmt.Sprintf("there is a list for the %s of %s packets already", l.Address, l.Packets), "put all prefixes into one list")
		}
		seen[l.String()] = true
		prefixes += len(l.Allow) + len(l.Deny)
		validateList(c, l, path)
	}
	if prefixes > maxListPrefixes {
		c.fail("datapath.access-lists", fmt.Sprintf("access-lists: %d prefixes", prefixes), fmt.Sprintf("want at most %d in all lists together", maxListPrefixes))
	}
}

func validateList(c *Config, l AccessList, path string) {
	if outer := l.Address == ListOuterSource || l.Address == ListOuterDestination; outer && l.InstanceID != 0 {
		c.fail(path+".instance-id", "instance-id: RLOCs are in no Instance-ID", "leave it out, or list inner addresses")
	}
	if len(l.Allow)+len(l.Deny) == 0 {
		c.fail(path, "the list is empty", "want allow or deny, with prefixes")
	}
	warnOfForgottenFamilies(c, l, path)
	seen := map[netip.Prefix]bool{}
	for key, prefixes := range map[string][]netip.Prefix{"allow": l.Allow, "deny": l.Deny} {
		for i, p := range prefixes {
			if seen[p] {
				c.fail(fmt.Sprintf("%s.%s[%d]", path, key, i), fmt.Sprintf("%s stands twice in the list", p), "want each prefix once, allowed or denied")
			}
			seen[p] = true
		}
	}
}
