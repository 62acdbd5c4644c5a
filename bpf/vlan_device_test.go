// SPDX-License-Identifier: Apache-2.0

// A VLAN for which the kernel has a device: frames leave by the interface with their tag, but now and then one by the device, which
// makes the kernel confirm the neighbour. A veth stands for the device, because not every kernel has devices for VLANs.

package bpf_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

func TestNeighbourOfAVLANIsConfirmedByItsDevice(t *testing.T) {
	n := newNetwork(t, kernelHasDecapFlags(t))
	a, b := n.routers[0], n.routers[1]
	a.mapOther(0, rloc4)
	must(t, testnet.Connect(testnet.End{Namespace: b.ns, Name: "device"}, testnet.End{Namespace: n.hosts[1], Name: "far"}))
	parent, device := b.link(t, "site0"), b.link(t, "device")
	must(t, b.ns.Netlink().NeighSet(&netlink.Neigh{
		LinkIndex: device.Attrs().Index, State: netlink.NUD_PERMANENT, IP: siteAddress4(1, 10).AsSlice(), HardwareAddr: hostMAC,
	}))
	must(t, b.ns.AddRoute(testnet.Route{Destination: netip.PrefixFrom(siteAddress4(1, 10), 32), Link: "device"}))
	for _, name := range []string{"site0", "device"} {
		b.declare(t, name, "LISP_INTERFACE_TAGGED")
		b.update("vlans", b.encode("lisp_vlan_key", fields{"ifindex": uint32(b.link(t, name).Attrs().Index), "tag": uint32(0x80000000)}), uint32(taggedIndex))
	}
	b.update("interfaces", uint32(taggedIndex), b.encode("lisp_interface", fields{
		"flags": b.constant("LISP_INTERFACE_SITE"), "l2_length": etherLength, "roots": b.rootsOf(0),
		"mac": []byte(parent.Attrs().HardwareAddr), "vlan": goldenVLAN, "parent": uint32(parent.Attrs().Index),
	}))
	sent := func(name string) uint64 { return b.link(t, name).Attrs().Statistics.TxBytes }
	const octets = 1000
	var byParent, byDevice uint64
	parentBefore, deviceBefore := sent("site0"), sent("device")
	for deadline := time.Now().Add(10 * time.Second); byDevice < octets && time.Now().Before(deadline); {
		_, err := testnet.Ping{
			Namespace: n.hosts[0], Source: siteAddress4(0, 10), Destination: siteAddress4(1, 10), Count: 1, Octets: octets, Timeout: time.Millisecond,
		}.Run(t.Context())
		must(t, err)
		byParent, byDevice = sent("site0")-parentBefore, sent("device")-deviceBefore
	}
	if byParent < octets || byDevice < octets {
		t.Errorf("%d octets left by the interface, %d by the device; %s", byParent, byDevice, b.allDrops())
	}
}
