// SPDX-License-Identifier: Apache-2.0

// Tunnels of the kernel's VXLAN device, the peer that Loci is compared with.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

// firstVXLAN is the VXLAN Network Identifier of the first tunnel of a line.
const firstVXLAN = 42

// Tunnel is a pair of VXLAN devices.
type Tunnel struct {
	Number int // no other of the line has it
	Ends   [2]TunnelEnd
}

// TunnelEnd is one device and what is under it.
type TunnelEnd struct {
	Namespace *testnet.Namespace
	Underlay  string // the interface
	Address   netip.Addr
}

// Build makes the devices, which know each other.
func (t Tunnel) Build() error {
	ends := [2]testnet.End{t.end(0), t.end(1)}
	return errors.Join(t.add(0), t.add(1), acquaint(ends[0], ends[1]), acquaint(ends[1], ends[0]))
}

func (t Tunnel) end(i int) testnet.End {
	return testnet.End{
		Namespace: t.Ends[i].Namespace, Name: fmt.Sprintf("vxlan%d", t.Number),
		Addresses: []netip.Prefix{netip.PrefixFrom(t.Inside(i, true), 24), netip.PrefixFrom(t.Inside(i, false), 64)},
	}
}

// Inside is the address that the other end routes to, of IPv4 or IPv6.
func (t Tunnel) Inside(end int, ipv4 bool) netip.Addr {
	prefix := netip.MustParsePrefix(fmt.Sprintf("2001:db8:d:%d::/64", t.Number))
	if ipv4 {
		prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 17, byte(t.Number), 0}), 24)
	}
	return Nth(prefix, byte(end)+1)
}

// add makes one end. UDP checksums are the kernel's defaults over IPv4; over IPv6 they are zero, as Loci sends them
// (RFC 6935), which is faster.
func (t Tunnel) add(i int) error {
	end, local, remote := t.end(i), t.Ends[i], t.Ends[1-i]
	under, err := LinkOf(local.Namespace, local.Underlay)
	if err != nil {
		return err
	}
	device := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: end.Name}, VxlanId: firstVXLAN + t.Number, Port: 4789, VtepDevIndex: under.Index,
		SrcAddr: net.IP(local.Address.AsSlice()), Group: net.IP(remote.Address.AsSlice()), UDP6ZeroCSumTx: true, UDP6ZeroCSumRx: true,
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

// Lead routes a pair's packets through the tunnel, in both directions.
func (t Tunnel) Lead(p Pair) error {
	return errors.Join(
		t.Ends[0].Namespace.AddRoute(testnet.Route{Destination: p.destinations, Via: t.Inside(1, p.Inner4())}),
		t.Ends[1].Namespace.AddRoute(testnet.Route{Destination: p.Sources, Via: t.Inside(0, p.Inner4())}))
}

// buildVXLAN joins the routers by two tunnels, one over each family, and routes each pair through its own.
func buildVXLAN(_ context.Context, _ *Run, l *Line) error {
	for i, over := range [][2]netip.Prefix{{Core4Enc, Core4Dec}, {Core6Enc, Core6Dec}} {
		t := Tunnel{Number: i, Ends: [2]TunnelEnd{{l.Enc, CoreLink, over[0].Addr()}, {l.Dec, CoreLink, over[1].Addr()}}}
		if err := t.Build(); err != nil {
			return err
		}
		for _, p := range Pairs {
			if p.EncCore != over[0] {
				continue
			}
			if err := t.Lead(p); err != nil {
				return err
			}
		}
	}
	return nil
}
