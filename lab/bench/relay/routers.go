// SPDX-License-Identifier: Apache-2.0

package relay

// Loci's routers. Mappings are static: no control message is part of this bench.

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"loci/lab/bench/testbed"
)

// buildLoci runs an xTR on Enc and on Dec, which send everything to the RTR between them.
func buildLoci(ctx context.Context, b *testbed.Run, l *testbed.Line, hook string) error {
	if err := l.RouteCore(); err != nil {
		return err
	}
	if _, err := b.StartDaemon(ctx, l.Enc, xtrConfig(hook, testbed.SourcesOf, testbed.DestinationsOf, encRLOC)); err != nil {
		return err
	}
	if _, err := b.StartDaemon(ctx, l.Dec, xtrConfig(hook, testbed.DestinationsOf, testbed.SourcesOf, decRLOC)); err != nil {
		return err
	}
	_, err := b.StartDaemon(ctx, l.Rel, rtrConfig(hook, ""))
	return err
}

// buildAlone runs the RTR alone. The sink at Dec answers no RLOC-probes, so that the hop would be skipped.
func buildAlone(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	_, err := b.StartDaemon(ctx, l.Rel, rtrConfig("xdp", "  rloc-probing: {enabled: false}\n"))
	return err
}

// RLOCs of the routers, in the family of the RLOCs of a pair.
func encRLOC(p testbed.Pair) netip.Addr { return p.CoreHops(true)[0].Near.Addr() }
func relRLOC(p testbed.Pair) netip.Addr { return p.CoreHops(true)[0].Far.Addr() }
func decRLOC(p testbed.Pair) netip.Addr { return p.CoreHops(true)[1].Far.Addr() }

// viaPath is the EID-Prefix of a pair that the RTR sends to by a path of four hops. It has no site.
func viaPath(p testbed.Pair) netip.Prefix {
	octets := testbed.DestinationsOf(p).Addr().AsSlice()
	octets[len(octets)/4] ^= 0x80 // 10.2.x.0 becomes 10.130.x.0
	address, _ := netip.AddrFromSlice(octets)
	return netip.PrefixFrom(address, testbed.DestinationsOf(p).Bits())
}

// pathBehind are the third and the fourth hop of a path, which no packet of the bench gets to.
func pathBehind(p testbed.Pair) [2]string {
	if p.Outer4() {
		return [2]string{"192.0.2.3", "192.0.2.4"}
	}
	return [2]string{"2001:db8:ff::3", "2001:db8:ff::4"}
}

func xtrConfig(hook string, own, other func(testbed.Pair) netip.Prefix, rloc func(testbed.Pair) netip.Addr) string {
	var mappings, local strings.Builder
	for _, p := range testbed.Pairs {
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{address: %q}]}\n", other(p), relRLOC(p))
		fmt.Fprintf(&local, "    - {eid: %q, rlocs: [{address: %q}]}\n", own(p), rloc(p))
	}
	return fmt.Sprintf("interfaces:\n  site: [{interface: %s, hook: %s}]\n  core: [{interface: %s, hook: %s}]\n", testbed.SiteLink, hook, testbed.CoreLink, hook) +
		"itr:\n  map-cache:\n    mappings:\n" + mappings.String() + "etr:\n  local-eids:\n" + local.String() + "control:\n"
}

// rtrConfig relays between both sites, and to the EIDs behind paths; itr is further keys of that section.
func rtrConfig(hook, itr string) string {
	var mappings strings.Builder
	var prefixes []string
	for _, p := range testbed.Pairs {
		behind := pathBehind(p)
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{address: %q}]}\n", testbed.DestinationsOf(p), decRLOC(p))
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{address: %q}]}\n", p.Sources, encRLOC(p))
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{explicit-locator-path: [%q, %q, %q, %q]}]}\n", viaPath(p), relRLOC(p), decRLOC(p), behind[0], behind[1])
		prefixes = append(prefixes, fmt.Sprintf("%q, %q, %q", p.Sources, testbed.DestinationsOf(p), viaPath(p)))
	}
	return fmt.Sprintf("interfaces:\n  core: [{interface: %s, hook: %s}, {interface: %s, hook: %s}]\n", testbed.CoreLink, hook, testbed.OnwardLink, hook) +
		fmt.Sprintf("itr:\n%s  itr-rlocs: [{address: %q}, {address: %q}]\n  map-cache:\n    mappings:\n", itr, testbed.Core4Rel.Addr(), testbed.Core6Rel.Addr()) + mappings.String() +
		"rtr:\n  relay: [{eid-prefixes: [" + strings.Join(prefixes, ", ") + "]}]\ncontrol:\n"
}
