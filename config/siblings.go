// SPDX-License-Identifier: Apache-2.0

package config

// The other xTRs of the site, which take over its traffic when this one loses its
// paths to the core.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Sibling is another xTR of this site, reached by a link inside the site.
type Sibling struct {
	// Addresses are the sibling's on that link, at most one of each family. Control
	// messages go to the first; packets that the sibling forwards for us go to that of their family.
	Addresses []netip.Addr `key:"addresses" required:"true" max:"2"`
	// Interval is the distance of the questions whether its locators are reachable.
	Interval time.Duration `key:"interval" unit:"seconds" range:"1s..1h"`
}

func (s *Sibling) setDefaults() { s.Interval = 2 * time.Second }

// String is the sibling's first address.
func (s Sibling) String() string {
	if len(s.Addresses) == 0 {
		return ""
	}
	return s.Addresses[0].String()
}

// validateSiblings checks the other xTRs of the site.
func validateSiblings(c *Config) {
	seen := map[netip.Addr]bool{}
	for i, s := range c.ETR.Siblings {
		for j, a := range s.Addresses {
			validateSiblingAddress(c, s, j, fmt.Sprintf("etr.siblings[%d].addresses[%d]", i, j))
			if seen[a] {
				c.fail(fmt.Sprintf("etr.siblings[%d].addresses[%d]", i, j), fmt.Sprintf("addresses: %s stands here twice", a), "remove one of the two")
			}
			seen[a] = true
		}
	}
	if len(c.ETR.Siblings) > 0 && c.ITR == nil {
		c.fail("etr.siblings", "siblings: the answers of a sibling are Map-Replies, which an ITR takes", "add itr")
	}
}

func validateSiblingAddress(c *Config, s Sibling, index int, path string) {
	a := s.Addresses[index]
	switch {
	case a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Zone() != "":
		c.fail(path, fmt.Sprintf("addresses: %s is not an address of a router of the site", a), "want the sibling's own address on a link of the site")
	case slices.ContainsFunc(s.Addresses[:index], func(b netip.Addr) bool { return b.Is4() == a.Is4() }):
		c.fail(path, fmt.Sprintf("addresses: %s is the second of its family", a), "want at most one IPv4 and one IPv6 address of a sibling")
	}
}
