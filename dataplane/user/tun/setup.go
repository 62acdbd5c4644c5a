// SPDX-License-Identifier: Apache-2.0

package tun

// What an interface needs beside its files. A process that may not change interfaces (CAP_NET_ADMIN) looks whether it is
// there, and says by which commands it is made.

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// queuePackets is how many packets the kernel keeps until they are read.
const queuePackets = 4096

// UsualMTU is the least that an interface gets.
const UsualMTU = 1500

// dummy is an address that nothing is sent from (RFC 7600 s.4.8): where an interface has no address at all, a loose reverse
// path filter drops what it passes elsewhere.
var dummy = net.IPNet{IP: net.IPv4(192, 0, 0, 8).To4(), Mask: net.CIDRMask(32, 32)}

// Unprepared says what this process may not do, and the administrator has to.
type Unprepared struct{ Commands []string }

func unprepared(commands ...string) error { return &Unprepared{commands} }

func (u *Unprepared) Error() string {
	return "this process may not do what makes it ready (CAP_NET_ADMIN): " + strings.Join(u.Commands, "; ")
}

// setUp gives the interface what it lacks.
func (i *Interface) setUp() error {
	link, err := i.link()
	if err != nil {
		return err
	}
	i.index.Store(int64(link.Attrs().Index))
	handle := i.space.Netlink
	// The host has no business on this link but EIDs: no address of its own making. A kernel without IPv6 refuses.
	const addrGenNone = 1
	_ = handle.LinkSetIP6AddrGenMode(link, addrGenNone)
	_ = handle.LinkSetTxQLen(link, queuePackets) // a short queue loses bursts, no more
	var missing []string
	addresses, err := handle.AddrList(link, netlink.FAMILY_V4)
	if err == nil && len(addresses) == 0 {
		err = handle.AddrReplace(link, &netlink.Addr{IPNet: &dummy, Scope: unix.RT_SCOPE_HOST})
	}
	if isForbidden(err) {
		missing, err = append(missing, fmt.Sprintf("ip address add %s scope host dev %s", &dummy, i.Name)), nil
	}
	if err != nil {
		return fmt.Errorf("giving it the address %s: %w", &dummy, err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		err = handle.LinkSetUp(link)
	}
	if isForbidden(err) {
		missing, err = append(missing, fmt.Sprintf("ip link set dev %s up", i.Name)), nil
	}
	if len(missing) > 0 && err == nil {
		err = unprepared(missing...)
	}
	return err
}

// link is the interface in the network namespace.
func (i *Interface) link() (netlink.Link, error) {
	link, err := i.space.Netlink.LinkByName(i.Name)
	if err != nil {
		return nil, fmt.Errorf("in this network namespace: %w", err)
	}
	tun, is := link.(*netlink.Tuntap)
	switch {
	case !is || tun.Mode != netlink.TUNTAP_MODE_TUN:
		return nil, errors.New("the interface of that name in this network namespace is no TUN")
	case tun.Flags&netlink.TUNTAP_NO_PI == 0: // TUNGETIFF does not tell
		return nil, errors.New("its packets have a struct tun_pi each: want IFF_NO_PI")
	}
	return link, nil
}

// SetMTU sets the MTU where it is another. A foreign interface keeps one that suffices.
func (i *Interface) SetMTU(octets int) error {
	link, err := i.link()
	if err != nil {
		return err
	}
	if has := link.Attrs().MTU; has == octets || i.foreign && has > octets {
		return nil
	}
	err = i.space.Netlink.LinkSetMTU(link, octets)
	if isForbidden(err) {
		err = unprepared(fmt.Sprintf("ip link set dev %s mtu %d", i.Name, octets))
	}
	return err
}

func isForbidden(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
