// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/vishvananda/netlink"

	"loci/dataplane/kernel/abi"
)

// TestDevicesOfVLANs takes the device of a VLAN that is a site, and none that has the same number by chance: of a service tag, or above
// an interface of another network namespace.
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
		wanted := map[uint32]attached{firstVLANIndex: {name: "site0 VLAN 70", record: abi.Interface{Vlan: vlan, Parent: parent}}}
		attrs := netlink.LinkAttrs{Name: "site0.70", Index: device, ParentIndex: parent, NetNsID: c.namespace}
		addVLANDevices(wanted, []netlink.Link{&netlink.Vlan{LinkAttrs: attrs, VlanId: vlan, VlanProtocol: c.protocol}})
		if _, is := wanted[device]; is != c.is || (wanted[firstVLANIndex].device == device) != c.is {
			t.Errorf("%s: %+v", name, wanted)
		}
	}
}
