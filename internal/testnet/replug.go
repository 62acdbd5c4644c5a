// SPDX-License-Identifier: Apache-2.0

// A node that is plugged into another network: the far end of its veth pair goes to another namespace.

package testnet

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Replug takes the far end of a veth pair from one namespace to another. The near end keeps its index: it goes down,
// loses its addresses, comes up, and gets those of near. Both ends carry packets when it returns.
func Replug(near, from, to End) error {
	if err := near.Namespace.Disconnect(near.Name); err != nil {
		return err
	}
	if err := from.moveTo(to); err != nil {
		return err
	}
	without := near
	without.Addresses = nil
	if err := errors.Join(without.configure(), to.configure()); err != nil {
		return err
	}
	// With an address, the kernel sends by a link whose other end may not answer yet, and takes a second to ask
	// again.
	if err := errors.Join(without.awaitReady(), to.awaitReady()); err != nil {
		return err
	}
	for _, prefix := range near.Addresses {
		if err := near.Namespace.AddAddress(near.Name, prefix); err != nil {
			return err
		}
	}
	return near.awaitReady()
}

// Disconnect sets an interface down and removes all of its addresses, and so its routes.
func (ns *Namespace) Disconnect(link string) error {
	failed := func(err error) error { return fmt.Errorf("testnet: disconnect %s in %s: %w", link, ns.name, err) }
	if err := ns.SetUp(link, false); err != nil {
		return err
	}
	found, err := ns.link.LinkByName(link)
	if err != nil {
		return failed(err)
	}
	addresses, err := ns.link.AddrList(found, netlink.FAMILY_ALL)
	if err != nil {
		return failed(err)
	}
	for _, a := range addresses {
		// The kernel itself removes IPv6 addresses of a link that is down.
		if err := ns.link.AddrDel(found, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return failed(err)
		}
	}
	return nil
}

// moveTo takes an interface to the namespace of another end, under its name, and leaves it down and without addresses.
// On the way it has a name that neither namespace knows.
func (e End) moveTo(to End) error {
	failed := func(err error) error {
		return fmt.Errorf("testnet: move %s in %s to %s in %s: %w", e.Name, e.Namespace.name, to.Name,
			to.Namespace.name, err)
	}
	if err := e.Namespace.Disconnect(e.Name); err != nil {
		return err
	}
	link, err := e.Namespace.link.LinkByName(e.Name)
	if err != nil {
		return failed(err)
	}
	onTheWay := fmt.Sprintf("replug%d", linkCount.Add(1))
	err = e.Namespace.link.LinkSetName(link, onTheWay)
	if err == nil {
		err = e.Namespace.link.LinkSetNsFd(link, int(to.Namespace.file.Fd()))
	}
	if err != nil {
		return failed(err)
	}
	moved, err := to.Namespace.link.LinkByName(onTheWay)
	if err != nil {
		return failed(err)
	}
	if err := to.Namespace.link.LinkSetName(moved, to.Name); err != nil {
		return failed(err)
	}
	return nil
}
