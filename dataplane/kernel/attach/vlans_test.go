// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/dataplane/kernel/abi"
)

// TestDevicesOfVLANs takes the device of a VLAN that is a site, and none that has the same number by chance: of a
// service tag, or above an interface of another network namespace.
func TestDevicesOfVLANs(t *testing.T) {
	t.Parallel()
	const parent, device, vlan = 5, 6, 70
	for name, c := range map[string]struct {
		protocol  netlink.VlanProtocol
		namespace int
		is        bool
	}{
		"its own":              {netlink.VLAN_PROTOCOL_8021Q, -1, true},
		"service tag":          {netlink.VLAN_PROTOCOL_8021AD, -1, false},
		"in another namespace": {netlink.VLAN_PROTOCOL_8021Q, 0, false},
	} {
		site := attached{name: "site0 VLAN 70", record: abi.Interface{Vlan: vlan, Parent: parent}}
		wanted := map[uint32]attached{firstVLANIndex: site}
		link := &netlink.Vlan{VlanId: vlan, VlanProtocol: c.protocol}
		link.LinkAttrs = netlink.LinkAttrs{
			Name: "site0.70", Index: device, ParentIndex: parent, NetNsID: c.namespace,
		}
		addVLANDevices(wanted, []netlink.Link{link})
		if _, is := wanted[device]; is != c.is || (wanted[firstVLANIndex].device == device) != c.is {
			t.Errorf("%s: %+v", name, wanted)
		}
	}
}

func TestVLANDevices(t *testing.T) {
	const vlan10, vlan20 = firstVLANIndex, firstVLANIndex + 1
	site := func(iid uint32, vlan uint16) abi.Interface {
		return abi.Interface{Flags: abi.InterfaceSite, Iid: iid, Vlan: vlan, Parent: 5}
	}
	wanted := map[uint32]attached{
		5:      {name: "eth0", record: abi.Interface{Flags: abi.InterfaceTagged}},
		vlan10: {name: "eth0 VLAN 10", record: site(7, 10)},
		vlan20: {name: "eth0 VLAN 20", record: site(8, 20)},
	}
	device := func(index, parent, id int) *netlink.Vlan {
		attributes := netlink.NewLinkAttrs()
		attributes.Index, attributes.ParentIndex, attributes.Name = index, parent, fmt.Sprintf("v%d", index)
		return &netlink.Vlan{LinkAttrs: attributes, VlanId: id, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	}
	addVLANDevices(wanted, []netlink.Link{
		device(9, 5, 10), device(10, 6, 20), device(11, 5, 30), &netlink.Dummy{},
	})
	if got := wanted[9]; got.record.Flags != abi.InterfaceTagged || got.name != "v9" || len(wanted) != 4 {
		t.Errorf("devices: %+v", wanted)
	}
	if siteIfindex(vlan10, wanted[vlan10]) != 9 || siteIfindex(vlan20, wanted[vlan20]) != 5 {
		t.Error("routes lead elsewhere")
	}
	want := map[abi.VLANKey]uint32{
		{Ifindex: 5, Tag: 10}:                 vlan10,
		{Ifindex: 5, Tag: vlanOfInstance | 7}: vlan10,
		{Ifindex: 9, Tag: vlanOfInstance | 7}: vlan10,
		{Ifindex: 5, Tag: 20}:                 vlan20,
		{Ifindex: 5, Tag: vlanOfInstance | 8}: vlan20,
	}
	got := vlanEntries(wanted)
	if len(got) != len(want) {
		t.Errorf("entries %v, want %v", got, want)
	}
	for key, index := range want {
		if got[key] != index {
			t.Errorf("entry %+v is %#x, want %#x", key, got[key], index)
		}
	}
}
