// SPDX-License-Identifier: Apache-2.0

// The arms: what is compared with what. Each is a row of a table; one that does not exist is not in it.

package bench

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
	armRouting  = "plain routing"
	armVXLAN    = "kernel VXLAN"
	armRedirect = "bare XDP redirect"
	armTC       = "loci tc"
	armXDP      = "loci XDP"
)

// arm is one way from src to dst.
type arm struct {
	name string
	key  string // in names of namespaces
	// build completes a line: routes, devices, programs, daemons.
	build func(ctx context.Context, b *bench, l *line) error
	// frames says that packets arrive as XDP frames, so that the sink is an XDP program; else they arrive as skb.
	frames bool
	// hops by which the inner TTL shrinks at each of the two routers.
	hops int
	// outer octets that it puts between Ethernet and inner header on the core link.
	outer func(p pair) int
}

var (
	routing  = arm{name: armRouting, key: "plain", build: buildRouting, hops: 1, outer: func(pair) int { return 0 }}
	vxlan    = arm{name: armVXLAN, key: "vxlan", build: buildVXLAN, hops: 1, outer: func(p pair) int { return outerOctets(p) + ethernetOctets }}
	redirect = arm{name: armRedirect, key: "xdp", build: buildRedirect, frames: true, outer: func(pair) int { return 0 }}
	lociTC   = arm{name: armTC, key: "loci", build: buildLoci, hops: 1, outer: outerOctets}
	lociXDP  = arm{name: armXDP, key: "lxdp", build: buildLociXDP, frames: true, hops: 1, outer: outerOctets}
)

// outerOctets are IP, UDP and LISP headers, or as many of VXLAN.
func outerOctets(p pair) int {
	if p.outer4() {
		return ipv4Octets + udpOctets + 8
	}
	return ipv6Octets + udpOctets + 8
}

// buildRouting gives both routers routes to the other site.
func buildRouting(_ context.Context, _ *bench, l *line) error {
	var all []error
	for _, p := range pairs {
		all = append(all,
			l.enc.AddRoute(testnet.Route{Destination: p.destinations, Via: p.nativeTo.Addr()}),
			l.dec.AddRoute(testnet.Route{Destination: p.sources, Via: p.nativeEnc.Addr()}))
	}
	return errors.Join(all...)
}

// vxlanID is the VXLAN Network Identifier of the tunnel over IPv4; the next one is that of the tunnel over IPv6.
const vxlanID = 42

// buildVXLAN joins the routers by two tunnels, one over each family, and routes each pair through its own.
func buildVXLAN(_ context.Context, _ *bench, l *line) error {
	for i, over := range [][2]netip.Prefix{{core4Enc, core4Dec}, {core6Enc, core6Dec}} {
		name := fmt.Sprintf("vxlan%d", i)
		ends := [2]testnet.End{
			{Namespace: l.enc, Name: name, Addresses: tunnelAddresses(i, 1)},
			{Namespace: l.dec, Name: name, Addresses: tunnelAddresses(i, 2)},
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
	v6 := netip.PrefixFrom(nth(netip.MustParsePrefix(fmt.Sprintf("2001:db8:d:%d::/64", tunnel)), n), 64)
	return []netip.Prefix{v4, v6}
}

// addVXLAN makes one end. UDP checksums are the kernel's defaults over IPv4; over IPv6 they are zero, as Loci sends them
// (RFC 6935), which is the faster way.
func addVXLAN(end testnet.End, tunnel int, local, remote netip.Addr) error {
	core, err := linkOf(end.Namespace, coreLink)
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
	for _, p := range pairs {
		if p.encCore != over {
			continue
		}
		family := 1
		if p.inner4() {
			family = 0
		}
		all = append(all,
			ends[0].Namespace.AddRoute(testnet.Route{Destination: p.destinations, Via: ends[1].Addresses[family].Addr()}),
			ends[1].Namespace.AddRoute(testnet.Route{Destination: p.sources, Via: ends[0].Addresses[family].Addr()}))
	}
	return errors.Join(all...)
}

// buildRedirect makes both routers XDP programs that know their one next hop.
func buildRedirect(_ context.Context, _ *bench, l *line) error {
	return errors.Join(
		l.attachRedirect(l.enc, siteLink, coreLink, l.dec, coreLink),
		l.attachRedirect(l.dec, coreLink, siteLink, l.dst, hostLink),
	)
}

// buildLoci runs a daemon on each router, with static mappings: no control message is on the way of these benches.
func buildLoci(ctx context.Context, b *bench, l *line) error {
	return buildLociAt(ctx, b, l, "hook: tc")
}

// buildLociXDP is buildLoci with all interfaces at the other hook.
func buildLociXDP(ctx context.Context, b *bench, l *line) error {
	return buildLociAt(ctx, b, l, "hook: xdp")
}

// buildLociAt is buildLoci with these keys for each interface.
func buildLociAt(ctx context.Context, b *bench, l *line, keys string) error {
	interfaces := fmt.Sprintf("interfaces:\n  site: [{interface: %s, %s}]\n  core: [{interface: %s, %s}]\n", siteLink, keys, coreLink, keys)
	encSide := siteConfig(sourcesOf, destinationsOf, func(p pair) (own, remote netip.Prefix) { return p.encCore, p.decCore })
	decSide := siteConfig(destinationsOf, sourcesOf, func(p pair) (own, remote netip.Prefix) { return p.decCore, p.encCore })
	if _, err := b.startDaemon(ctx, l.enc, interfaces+encSide); err != nil {
		return err
	}
	_, err := b.startDaemon(ctx, l.dec, interfaces+decSide)
	return err
}

func siteConfig(own, remote func(pair) netip.Prefix, rlocs func(pair) (own, remote netip.Prefix)) string {
	var mappings, local strings.Builder
	for _, p := range pairs {
		ownRLOC, remoteRLOC := rlocs(p)
		fmt.Fprintf(&mappings, "      - {eid: %q, rlocs: [{address: %q}]}\n", remote(p), remoteRLOC.Addr())
		fmt.Fprintf(&local, "    - {eid: %q, rlocs: [{address: %q}]}\n", own(p), ownRLOC.Addr())
	}
	return "itr:\n  map-cache:\n    mappings:\n" + mappings.String() + "etr:\n  local-eids:\n" + local.String() + "control:\n"
}
