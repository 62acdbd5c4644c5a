// SPDX-License-Identifier: Apache-2.0

// The EIDs that packets go to, of each family.

package misses

import (
	"net/netip"

	"loci/lab/bench/testbed"
)

// missFamily is one family of EIDs, both over IPv4 RLOCs.
type missFamily struct {
	name   string
	pair   testbed.Pair
	remote netip.Prefix // of the ETR's site; its last 22 bits at least are free
	first  netip.Addr   // destination of the first packet
}

var missFamilies = []missFamily{
	{"ipv4", testbed.Pairs[0], netip.MustParsePrefix("10.64.0.0/10"), netip.MustParseAddr("10.64.0.1")},
	{"ipv6", testbed.Pairs[2], netip.MustParsePrefix("2001:db8:f::/48"), netip.MustParseAddr("2001:db8:f::1")},
}
