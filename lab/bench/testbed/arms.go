// SPDX-License-Identifier: Apache-2.0

// The arms: what is compared with what. Each is a row of a table; one that does not exist is not in it.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"loci/internal/testnet"
)

// Names of the arms, as they stand in reports.
const (
	ArmRouting  = "plain routing"
	ArmVXLAN    = "kernel VXLAN"
	ArmRedirect = "bare XDP redirect"
	ArmTC       = "loci tc"
	ArmXDP      = "loci XDP"
)

// Arm is one kind of path from src to dst.
type Arm struct {
	Name string
	Key  string // in names of namespaces
	// Build completes a line: routes, devices, programs, daemons.
	Build func(ctx context.Context, b *Run, l *Line) error
	// Frames says that packets arrive as XDP frames, so that the sink is an XDP program; else they arrive as skb.
	Frames bool
	// Relayed puts a third router between Enc and Dec: Line.Rel.
	Relayed bool
	// Hops by which the inner TTL shrinks at each of the routers.
	Hops int
	// Outer octets that it puts between Ethernet and inner header on the core link.
	Outer func(p Pair) int
}

var (
	// Routing is the kernel's forwarding.
	Routing = Arm{Name: ArmRouting, Key: "plain", Build: buildRouting, Hops: 1, Outer: func(Pair) int { return 0 }}
	// VXLAN is the kernel's VXLAN device.
	VXLAN = Arm{Name: ArmVXLAN, Key: "vxlan", Build: buildVXLAN, Hops: 1, Outer: func(p Pair) int { return outerOctets(p) + EthernetOctets }}
	// Redirect is an XDP program that does nothing but redirect: the floor.
	Redirect = Arm{Name: ArmRedirect, Key: "xdp", Build: buildRedirect, Frames: true, Outer: func(Pair) int { return 0 }}
	// LociTC is Loci at the tc hooks.
	LociTC = Arm{Name: ArmTC, Key: "loci", Build: buildLoci, Hops: 1, Outer: outerOctets}
	// LociXDP is Loci at the XDP hooks.
	LociXDP = Arm{Name: ArmXDP, Key: "lxdp", Build: buildLociXDP, Frames: true, Hops: 1, Outer: outerOctets}
)

// outerOctets are IP, UDP and LISP headers, or as many of VXLAN.
func outerOctets(p Pair) int {
	if p.Outer4() {
		return IPv4Octets + udpOctets + 8
	}
	return IPv6Octets + udpOctets + 8
}

// buildRouting gives both routers routes to the other site.
func buildRouting(_ context.Context, _ *Run, l *Line) error {
	var all []error
	for _, p := range Pairs {
		all = append(all,
			l.Enc.AddRoute(testnet.Route{Destination: p.destinations, Via: p.nativeTo.Addr()}),
			l.Dec.AddRoute(testnet.Route{Destination: p.Sources, Via: p.nativeEnc.Addr()}))
	}
	return errors.Join(all...)
}

// buildRedirect makes both routers XDP programs that know their one next hop.
func buildRedirect(_ context.Context, _ *Run, l *Line) error {
	return errors.Join(
		l.Redirect(l.Enc, SiteLink, CoreLink, l.Dec, CoreLink),
		l.Redirect(l.Dec, CoreLink, SiteLink, l.Dst, HostLink),
	)
}

// buildLoci runs a daemon on each router, with static mappings: no control message is part of these benches.
func buildLoci(ctx context.Context, b *Run, l *Line) error {
	return buildLociAt(ctx, b, l, "hook: tc")
}

// buildLociXDP is buildLoci with all interfaces at the other hook.
func buildLociXDP(ctx context.Context, b *Run, l *Line) error {
	return buildLociAt(ctx, b, l, "hook: xdp")
}

// buildLociAt is buildLoci with these keys for each interface.
func buildLociAt(ctx context.Context, b *Run, l *Line, keys string) error {
	interfaces := siteInterfaces(keys, SiteLink)
	if _, err := b.StartDaemon(ctx, l.Enc, interfaces+SiteConfig(SourcesOf, DestinationsOf, encRLOCs)); err != nil {
		return err
	}
	_, err := b.StartDaemon(ctx, l.Dec, interfaces+SiteConfig(DestinationsOf, SourcesOf, decRLOCs))
	return err
}

// siteInterfaces are those of a site's router with these keys for each.
func siteInterfaces(keys string, sites ...string) string {
	var list []string
	for _, name := range sites {
		list = append(list, fmt.Sprintf("{interface: %s, %s}", name, keys))
	}
	return fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [{interface: %s, %s}]\n", strings.Join(list, ", "),
		CoreLink, keys)
}

// encRLOCs and decRLOCs are the own and the remote RLOC of a router.
func encRLOCs(p Pair) (own, remote netip.Prefix) { return p.EncCore, p.DecCore }

func decRLOCs(p Pair) (own, remote netip.Prefix) { return p.DecCore, p.EncCore }

// SiteConfig is the part of a router's configuration with its own EID-Prefixes and static mappings for those of the other site.
func SiteConfig(own, remote func(Pair) netip.Prefix, rlocs func(Pair) (own, remote netip.Prefix)) string {
	var mappings, local strings.Builder
	for _, p := range Pairs {
		ownRLOC, remoteRLOC := rlocs(p)
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{address: %q}]}\n", remote(p), remoteRLOC.Addr())
		fmt.Fprintf(&local, "    - {eid: %q, rlocs: [{address: %q}]}\n", own(p), ownRLOC.Addr())
	}
	return "itr:\n  map-cache:\n    mappings:\n" + mappings.String() + "etr:\n  local-eids:\n" + local.String() + "control:\n"
}
