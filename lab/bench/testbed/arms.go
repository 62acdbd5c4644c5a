// SPDX-License-Identifier: Apache-2.0

// The arms: what is compared with what. Each is a row of a table; one that does not exist is not in it.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"

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
	// frames says that packets arrive as XDP frames, so that the sink is an XDP program; else they arrive as skb.
	frames bool
	// Hops by which the inner TTL shrinks at each of the two routers.
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
	Redirect = Arm{Name: ArmRedirect, Key: "xdp", Build: buildRedirect, frames: true, Outer: func(Pair) int { return 0 }}
	// LociTC is Loci at the tc hooks.
	LociTC = Arm{Name: ArmTC, Key: "loci", Build: buildLoci, Hops: 1, Outer: outerOctets}
	// LociXDP is Loci at the XDP hooks.
	LociXDP = Arm{Name: ArmXDP, Key: "lxdp", Build: buildLociXDP, frames: true, Hops: 1, Outer: outerOctets}
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

// vxlanID is the VXLAN Network Identifier of the tunnel over IPv4; the next one is that of the tunnel over IPv6.
const vxlanID = 42

// buildVXLAN joins the routers by two tunnels, one over each family, and routes each pair through its own.
func buildVXLAN(_ context.Context, _ *Run, l *Line) error {
	for i, over := range [][2]netip.Prefix{{Core4Enc, Core4Dec}, {Core6Enc, Core6Dec}} {
		name := fmt.Sprintf("vxlan%d", i)
		ends := [2]testnet.End{
			{Namespace: l.Enc, Name: name, Addresses: tunnelAddresses(i, 1)},
			{Namespace: l.Dec, Name: name, Addresses: tunnelAddresses(i, 2)},
		}
		err := errors.Join(addVXLAN(ends[0], i, over[0].Addr(), over[1].Addr()), addVXLAN(ends[1], i, over[1].Addr(), over[0].Addr()))
		if err != nil {
			return err
		}
		if err := errors.Join(acquaint(ends[0], ends[1]), acquaint(ends[1], ends[0]), routeThrough(ends, over[0])); err != nil {
			return err
		}
	}
	return nil
}

func tunnelAddresses(tunnel int, n byte) []netip.Prefix {
	v4 := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 17, byte(tunnel), n}), 24)
	v6 := netip.PrefixFrom(Nth(netip.MustParsePrefix(fmt.Sprintf("2001:db8:d:%d::/64", tunnel)), n), 64)
	return []netip.Prefix{v4, v6}
}

// addVXLAN makes one end. UDP checksums are the kernel's defaults over IPv4; over IPv6 they are zero, as Loci sends them
// (RFC 6935), which is faster.
func addVXLAN(end testnet.End, tunnel int, local, remote netip.Addr) error {
	core, err := LinkOf(end.Namespace, CoreLink)
	if err != nil {
		return err
	}
	device := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: end.Name}, VxlanId: vxlanID + tunnel, Port: 4789, VtepDevIndex: core.Index,
		SrcAddr: net.IP(local.AsSlice()), Group: net.IP(remote.AsSlice()), UDP6ZeroCSumTx: true, UDP6ZeroCSumRx: true,
	}
	if err := end.Namespace.Netlink().LinkAdd(device); err != nil {
		return fmt.Errorf("VXLAN device in %s: %w", end.Namespace.Name(), err)
	}
	for _, address := range end.Addresses {
		if err := end.Namespace.AddAddress(end.Name, address); err != nil {
			return err
		}
	}
	return end.Namespace.SetUp(end.Name, true)
}

// routeThrough leads the pairs whose RLOCs the tunnel uses through it.
func routeThrough(ends [2]testnet.End, over netip.Prefix) error {
	var all []error
	for _, p := range Pairs {
		if p.EncCore != over {
			continue
		}
		family := 1
		if p.Inner4() {
			family = 0
		}
		all = append(all,
			ends[0].Namespace.AddRoute(testnet.Route{Destination: p.destinations, Via: ends[1].Addresses[family].Addr()}),
			ends[1].Namespace.AddRoute(testnet.Route{Destination: p.Sources, Via: ends[0].Addresses[family].Addr()}))
	}
	return errors.Join(all...)
}

// buildRedirect makes both routers XDP programs that know their one next hop.
func buildRedirect(_ context.Context, _ *Run, l *Line) error {
	return errors.Join(
		l.attachRedirect(l.Enc, SiteLink, CoreLink, l.Dec, CoreLink),
		l.attachRedirect(l.Dec, CoreLink, SiteLink, l.Dst, HostLink),
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
	interfaces := fmt.Sprintf("interfaces:\n  site: [{interface: %s, %s}]\n  core: [{interface: %s, %s}]\n", SiteLink, keys, CoreLink, keys)
	encSide := SiteConfig(SourcesOf, DestinationsOf, func(p Pair) (own, remote netip.Prefix) { return p.EncCore, p.DecCore })
	decSide := SiteConfig(DestinationsOf, SourcesOf, func(p Pair) (own, remote netip.Prefix) { return p.DecCore, p.EncCore })
	if _, err := b.StartDaemon(ctx, l.Enc, interfaces+encSide); err != nil {
		return err
	}
	_, err := b.StartDaemon(ctx, l.Dec, interfaces+decSide)
	return err
}

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
