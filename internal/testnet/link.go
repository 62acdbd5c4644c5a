// SPDX-License-Identifier: Apache-2.0

// Links between namespaces: veth pairs, bridges, addresses, routes and sysctls.
// It never waits for duplicate address detection: addresses are set without it (RFC 4862 s.5.4 allows to disable it).

package testnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a link: an interface of a namespace.
type End struct {
	Namespace *Namespace
	Name      string         // at most 15 octets
	Addresses []netip.Prefix // each with its host part, such as 10.0.0.1/24
	MTU       int            // octets; 0 leaves the kernel's 1500
}

// readyWait bounds the wait for a link to be ready. The kernel needs a millisecond, or a second when it is not in haste.
const readyWait = 5 * time.Second

// linkCount numbers the links from firstLinkIndex on. The kernel delays the news of a new carrier by up to a second when
// the interface has the same index as its peer in the other namespace, which small indexes easily do.
var linkCount atomic.Int32

const firstLinkIndex = 1000

// Connect makes a veth pair between two namespaces, sets both ends up with their addresses and MTU, and waits until both
// carry packets.
func Connect(a, b End) error {
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{
			Name: a.Name, Namespace: netlink.NsFd(int(a.Namespace.file.Fd())), Index: firstLinkIndex + int(linkCount.Add(1)),
		},
		PeerName:      b.Name,
		PeerNamespace: netlink.NsFd(int(b.Namespace.file.Fd())),
	}
	if err := a.Namespace.link.LinkAdd(veth); err != nil {
		return fmt.Errorf("testnet: veth %s in %s to %s in %s: %w", a.Name, a.Namespace.name, b.Name, b.Namespace.name, err)
	}
	if err := errors.Join(a.configure(), b.configure()); err != nil {
		return err
	}
	return errors.Join(a.awaitReady(), b.awaitReady())
}

// awaitReady waits for the operational state: before it the kernel drops what is sent, and IPv6 addresses are not in use.
func (e End) awaitReady() error {
	for deadline := time.Now().Add(readyWait); ; time.Sleep(time.Millisecond) {
		link, err := e.Namespace.link.LinkByName(e.Name)
		if err != nil {
			return e.failed("find", err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			break
		}
		if time.Now().After(deadline) {
			return e.failed("wait for the carrier", os.ErrDeadlineExceeded)
		}
	}
	for _, prefix := range e.Addresses {
		if err := e.Namespace.awaitAddress(prefix.Addr()); err != nil {
			return e.failed("wait for "+prefix.String(), err)
		}
	}
	return nil
}

// awaitAddress waits until a namespace receives what is sent to an address. The kernel leaves the local route of an
// IPv6 address, also of one without duplicate address detection, to a worker of its own.
func (ns *Namespace) awaitAddress(a netip.Addr) error {
	const kind = netlink.RT_FILTER_DST | netlink.RT_FILTER_TYPE | netlink.RT_FILTER_TABLE // of any table
	local := &netlink.Route{Dst: hostNet(netip.PrefixFrom(a, a.BitLen())), Type: unix.RTN_LOCAL}
	for deadline := time.Now().Add(readyWait); a.Is6(); time.Sleep(time.Millisecond) {
		routes, err := ns.link.RouteListFiltered(netlink.FAMILY_V6, local, kind)
		if err != nil || len(routes) > 0 {
			return err
		}
		if time.Now().After(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

func (e End) configure() error {
	link, err := e.Namespace.link.LinkByName(e.Name)
	if err != nil {
		return e.failed("find", err)
	}
	if e.MTU != 0 {
		if err := e.Namespace.link.LinkSetMTU(link, e.MTU); err != nil {
			return e.failed(fmt.Sprintf("set MTU %d", e.MTU), err)
		}
	}
	for _, prefix := range e.Addresses {
		if err := e.Namespace.AddAddress(e.Name, prefix); err != nil {
			return err
		}
	}
	if err := e.Namespace.link.LinkSetUp(link); err != nil {
		return e.failed("set up", err)
	}
	return nil
}

func (e End) failed(what string, err error) error {
	return fmt.Errorf("testnet: %s in %s: %s: %w", e.Name, e.Namespace.name, what, err)
}

// AddBridge makes a bridge that is up, and makes the named interfaces its ports.
func (ns *Namespace) AddBridge(name string, ports ...string) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := ns.link.LinkAdd(bridge); err != nil {
		return fmt.Errorf("testnet: bridge %s in %s: %w", name, ns.name, err)
	}
	for _, port := range ports {
		link, err := ns.link.LinkByName(port)
		if err != nil {
			return fmt.Errorf("testnet: port %s of bridge %s in %s: %w", port, name, ns.name, err)
		}
		if err := ns.link.LinkSetMaster(link, bridge); err != nil {
			return fmt.Errorf("testnet: port %s of bridge %s in %s: %w", port, name, ns.name, err)
		}
	}
	return ns.link.LinkSetUp(bridge)
}

// AddAddress gives an interface an address, usable at once also when it is IPv6 if the interface is up.
func (ns *Namespace) AddAddress(link string, prefix netip.Prefix) error {
	failed := func(err error) error {
		return fmt.Errorf("testnet: address %s for %s in %s: %w", prefix, link, ns.name, err)
	}
	found, err := ns.link.LinkByName(link)
	if err != nil {
		return failed(err)
	}
	address := &netlink.Addr{IPNet: hostNet(prefix)}
	if prefix.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	if err := ns.link.AddrAdd(found, address); err != nil {
		return failed(err)
	}
	if of := found.Attrs(); of.Flags&net.FlagUp == 0 || of.OperState == netlink.OperDown {
		return nil
	}
	if err := ns.awaitAddress(prefix.Addr()); err != nil {
		return failed(err)
	}
	return nil
}

// Route leads to a destination by a next hop, by an interface, or by both. The zero Via is none.
type Route struct {
	Destination netip.Prefix // 0.0.0.0/0 and ::/0 are the default routes
	Via         netip.Addr
	Link        string
	Metric      int        // 0 leaves the kernel's: 0 for IPv4, 1024 for IPv6
	Source      netip.Addr // that this node's packets have; the zero value lets the kernel choose
}

// AddRoute adds a route to the main table.
func (ns *Namespace) AddRoute(r Route) error { return ns.setRoute(r, ns.link.RouteAdd) }

// ReplaceRoute adds a route to the main table, in place of one to the same destination.
func (ns *Namespace) ReplaceRoute(r Route) error { return ns.setRoute(r, ns.link.RouteReplace) }

func (ns *Namespace) setRoute(r Route, set func(*netlink.Route) error) error {
	route := &netlink.Route{Dst: hostNet(r.Destination.Masked()), Priority: r.Metric}
	if r.Via.IsValid() {
		route.Gw = net.IP(r.Via.AsSlice())
	}
	if r.Source.IsValid() {
		route.Src = net.IP(r.Source.AsSlice())
	}
	if r.Link != "" {
		link, err := ns.link.LinkByName(r.Link)
		if err != nil {
			return fmt.Errorf("testnet: route to %s in %s: %s: %w", r.Destination, ns.name, r.Link, err)
		}
		route.LinkIndex = link.Attrs().Index
	}
	if err := set(route); err != nil {
		return fmt.Errorf("testnet: route to %s via %s in %s: %w", r.Destination, r.Via, ns.name, err)
	}
	return nil
}

// HasRoute reports whether the namespace has any route to an address, its default route included.
func (ns *Namespace) HasRoute(to netip.Addr) (bool, error) {
	routes, err := ns.link.RouteGet(net.IP(to.AsSlice()))
	unreachable := errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH)
	if err != nil && !unreachable {
		return false, fmt.Errorf("testnet: route to %s in %s: %w", to, ns.name, err)
	}
	return err == nil && len(routes) > 0, nil
}

// SetUp sets an interface up or down.
func (ns *Namespace) SetUp(link string, up bool) error {
	found, err := ns.link.LinkByName(link)
	if err != nil {
		return fmt.Errorf("testnet: %s in %s: %w", link, ns.name, err)
	}
	if up {
		return ns.link.LinkSetUp(found)
	}
	return ns.link.LinkSetDown(found)
}

// SetMTU sets the MTU of an interface, in octets.
func (ns *Namespace) SetMTU(link string, octets int) error {
	found, err := ns.link.LinkByName(link)
	if err != nil {
		return fmt.Errorf("testnet: %s in %s: %w", link, ns.name, err)
	}
	if err := ns.link.LinkSetMTU(found, octets); err != nil {
		return fmt.Errorf("testnet: MTU %d of %s in %s: %w", octets, link, ns.name, err)
	}
	return nil
}

// Sysctl is one kernel setting of a namespace.
type Sysctl struct {
	Name  string // dotted, such as net.ipv4.ip_forward
	Value string
}

// SetSysctl writes a setting below net. The kernel resolves /proc/sys/net for the namespace of the thread that opens it,
// so no mount is needed. In names, a dot of an interface is written as a slash, as in sysctl(8).
func (ns *Namespace) SetSysctl(name, value string) error {
	if !strings.HasPrefix(name, "net.") {
		return fmt.Errorf("testnet: setting %s does not belong to a network namespace", name)
	}
	err := ns.Do(func() error { return os.WriteFile(sysctlPath(name), []byte(value), 0o644) })
	if err != nil {
		return fmt.Errorf("testnet: set %s=%s in %s: %w", name, value, ns.name, err)
	}
	return nil
}

// Sysctl reads a setting below net.
func (ns *Namespace) Sysctl(name string) (string, error) {
	var value []byte
	err := ns.Do(func() (err error) {
		value, err = os.ReadFile(sysctlPath(name))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("testnet: read %s in %s: %w", name, ns.name, err)
	}
	return strings.TrimSpace(string(value)), nil
}

// sysctlPath swaps dots and slashes.
func sysctlPath(name string) string {
	return "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// Forward makes the namespace a router for both families.
func (ns *Namespace) Forward() error {
	return errors.Join(
		ns.SetSysctl("net.ipv4.ip_forward", "1"),
		ns.SetSysctl("net.ipv6.conf.all.forwarding", "1"),
	)
}

// SetReversePathFilter sets rp_filter of all interfaces, present and future: 0 off, 1 strict, 2 loose (RFC 3704).
func (ns *Namespace) SetReversePathFilter(mode int) error {
	value := fmt.Sprint(mode)
	links, err := ns.link.LinkList()
	if err != nil {
		return fmt.Errorf("testnet: links of %s: %w", ns.name, err)
	}
	names := []string{"all", "default"}
	for _, link := range links {
		names = append(names, link.Attrs().Name)
	}
	var all []error
	for _, name := range names {
		all = append(all, ns.SetSysctl("net.ipv4.conf."+strings.ReplaceAll(name, ".", "/")+".rp_filter", value))
	}
	return errors.Join(all...)
}

// hostNet keeps the host part of the address, which an interface address needs.
func hostNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   net.IP(prefix.Addr().AsSlice()),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}
