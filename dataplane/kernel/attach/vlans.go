// SPDX-License-Identifier: Apache-2.0

// This file makes VLANs of an interface sites of their own (RFC 9300 s.5.5): records as
// if they were interfaces, and what programs find them by, on the way in and on the way
// back. It never makes a VLAN device; where the kernel has one, routes by it lead to the
// same site.

package attach

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
)

const (
	// vlanIndex and vlanOfInstance are LISP_VLAN_INDEX and LISP_VLAN_OF_INSTANCE.
	vlanIndex      = 0x80000000
	vlanOfInstance = 0x80000000
	// firstVLANIndex keeps them out of the way of small ifindexes in interface_slots.
	firstVLANIndex = vlanIndex | 0x80

	maxVLAN = 4094
)

// isVLAN reports whether an index stands for a VLAN and not for an interface.
func isVLAN(index uint32) bool { return index&vlanIndex != 0 }

// indexOfVLAN is the one that the VLAN has already, so that packets which wait find their
// way, else a free one.
func (l *Interfaces) indexOfVLAN(wanted map[uint32]attached, parent uint32, vlan uint16) (uint32, error) {
	var index uint32
	err := l.Store.Map(abi.MapVLANs).Lookup(abi.VLANKey{Ifindex: parent, Tag: uint32(vlan)}, &index)
	if err == nil && isVLAN(index) {
		return index, nil
	}
	taken := map[uint32]bool{}
	var key abi.VLANKey
	iterator := l.Store.Map(abi.MapVLANs).Iterate()
	for iterator.Next(&key, &index) {
		taken[index] = true
	}
	for index = firstVLANIndex; taken[index] || wanted[index].name != ""; index++ {
	}
	return index, iterator.Err()
}

// addVLAN adds a VLAN of an interface, and the interface where its frames come and go.
func (l *Interfaces) addVLAN(wanted map[uint32]attached, i dataplane.Interface, link *netlink.LinkAttrs) error {
	parent := uint32(link.Index)
	index, err := l.indexOfVLAN(wanted, parent, i.VLAN)
	if err != nil {
		return fmt.Errorf("interface %s, VLAN %d: %w", i.Name, i.VLAN, err)
	}
	a := wanted[parent]
	a.name = i.Name
	a.record.Flags |= abi.InterfaceTagged
	if len(link.HardwareAddr) != len(a.record.Mac) {
		return fmt.Errorf("interface %s: %w: a VLAN needs an Ethernet interface", i.Name, dataplane.ErrInvalid)
	}
	a.record.L2Length = tap.EthernetOctets
	copy(a.record.Mac[:], link.HardwareAddr)
	wanted[parent] = a
	wanted[index] = attached{name: fmt.Sprintf("%s VLAN %d", i.Name, i.VLAN), record: abi.Interface{
		Flags: abi.InterfaceSite, Iid: uint32(i.Instance), L2Length: tap.EthernetOctets, Mac: a.record.Mac, Vlan: i.VLAN, Parent: parent,
	}}
	return nil
}

// finishVLANs adds what is known only when all interfaces are: devices, and what the
// interface where a VLAN's frames come can do.
func (l *Interfaces) finishVLANs(wanted map[uint32]attached) error {
	if !hasVLANs(l.wanted) {
		return nil
	}
	links, err := l.Space.Netlink.LinkList()
	if err != nil {
		return fmt.Errorf("interfaces: %w", err)
	}
	addVLANDevices(wanted, links)
	for index, a := range wanted {
		if isVLAN(index) {
			a.record.Flags |= wanted[a.record.Parent].record.Flags & abi.InterfaceChecksumPartial
			wanted[index] = a
		}
	}
	return nil
}

// addVLANDevices finds the kernel's own devices of VLANs that are sites: routes lead to
// them. A service tag is another one, and the number of an interface in another network
// namespace says nothing.
func addVLANDevices(wanted map[uint32]attached, links []netlink.Link) {
	for _, link := range links {
		device, ok := link.(*netlink.Vlan)
		if !ok || device.VlanProtocol != netlink.VLAN_PROTOCOL_8021Q || device.NetNsID >= 0 {
			continue
		}
		for index, a := range wanted {
			if !isVLAN(index) || int(a.record.Vlan) != device.VlanId || int(a.record.Parent) != device.ParentIndex {
				continue
			}
			a.device = uint32(device.Index)
			wanted[index] = a
			d := wanted[a.device]
			d.name = device.Name
			d.record.Flags |= abi.InterfaceTagged
			d.record.L2Length = tap.EthernetOctets
			copy(d.record.Mac[:], device.HardwareAddr)
			wanted[a.device] = d
		}
	}
}

// hasVLANs reports whether any VLAN is a site.
func hasVLANs(interfaces []dataplane.Interface) bool {
	for _, i := range interfaces {
		if i.VLAN != 0 {
			return true
		}
	}
	return false
}

// vlanEntries are what programs find VLANs by.
func vlanEntries(wanted map[uint32]attached) map[abi.VLANKey]uint32 {
	entries := map[abi.VLANKey]uint32{}
	for index, a := range wanted {
		if !isVLAN(index) {
			continue
		}
		back := vlanOfInstance | a.record.Iid
		entries[abi.VLANKey{Ifindex: a.record.Parent, Tag: uint32(a.record.Vlan)}] = index
		entries[abi.VLANKey{Ifindex: a.record.Parent, Tag: back}] = index
		if a.device != 0 {
			entries[abi.VLANKey{Ifindex: a.device, Tag: back}] = index
		}
	}
	return entries
}

// putVLANs tells the programs of VLANs whose records are there already.
func (l *Interfaces) putVLANs(wanted map[uint32]attached) error {
	entries := vlanEntries(wanted)
	m := l.Store.Map(abi.MapVLANs)
	var errs []error
	for key, index := range entries {
		errs = append(errs, m.Put(key, index))
	}
	return errors.Join(append(errs, store.Prune[abi.VLANKey, uint32](m, store.In(entries)))...)
}

// siteIfindex is where routes to a site lead: to a VLAN's device, else to the interface
// where its frames leave.
func siteIfindex(index uint32, a attached) uint32 {
	switch {
	case !isVLAN(index):
		return index
	case a.device != 0:
		return a.device
	}
	return a.record.Parent
}

// CheckVLAN says what of an interface's VLAN cannot be.
func CheckVLAN(i dataplane.Interface) error {
	if i.VLAN > maxVLAN || i.VLAN != 0 && (i.Side != dataplane.SideSite || i.Forwarding != dataplane.ForwardingFast) {
		return fmt.Errorf("interface %s: %w VLAN %d: want 1 to %d, at the site, forwarding fast", i.Name, dataplane.ErrInvalid, i.VLAN, maxVLAN)
	}
	return nil
}

// putSites tells the programs which Instance-ID has which site interface.
func (l *Interfaces) putSites(interfaces map[uint32]attached) error {
	sites := map[uint32]uint32{}
	for index, a := range interfaces {
		if a.record.Flags&abi.InterfaceSite == 0 {
			continue
		}
		ifindex := siteIfindex(index, a)
		if _, several := sites[a.record.Iid]; several {
			ifindex = 0
		}
		sites[a.record.Iid] = ifindex
	}
	m := l.Store.Map(abi.MapSites)
	errs := []error{store.Prune[uint32, uint32](m, store.In(sites))}
	for instance, ifindex := range sites {
		errs = append(errs, m.Put(instance, ifindex))
	}
	return errors.Join(errs...)
}
