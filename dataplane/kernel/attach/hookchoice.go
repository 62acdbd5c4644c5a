// SPDX-License-Identifier: Apache-2.0

// This file chooses between tc and XDP for each interface, and says why. XDP is
// never attached where it would lose packets or take those of a VLAN for others;
// attaching it is always beside tc, which treats what XDP passes on.

package attach

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
)

// A hookChoice is what was decided about an interface.
type hookChoice struct {
	hook    dataplane.Hook // HookTC or HookXDP
	reason  string
	warning string
}

// A candidate is an interface for which a hook is wanted, as far as the kernel tells.
type candidate struct {
	wanted   dataplane.Hook
	link     netlink.Link
	features features.Link
	problem  error // why nothing is known, or XDP can be nowhere
}

// choose decides about one interface.
func choose(c candidate) hookChoice {
	tc := func(reason string) hookChoice { return hookChoice{hook: dataplane.HookTC, reason: reason} }
	if c.wanted == dataplane.HookTC {
		return tc("as configured")
	}
	obstacle, cost := c.obstacle(), ""
	if obstacle == "" {
		cost = c.cost()
	}
	switch {
	case c.wanted == dataplane.HookXDP && obstacle != "":
		return hookChoice{hook: dataplane.HookTC, reason: obstacle, warning: "XDP is wanted and cannot be: " + obstacle}
	case c.wanted == dataplane.HookXDP:
		return hookChoice{hook: dataplane.HookXDP, reason: "as configured", warning: cost}
	case obstacle != "":
		return tc(obstacle)
	case cost != "":
		return tc(cost)
	}
	return hookChoice{hook: dataplane.HookXDP, reason: "the driver has it and no offload is lost by it"}
}

// obstacle says what makes XDP impossible or wrong at the interface; empty when nothing does.
func (c candidate) obstacle() string {
	switch {
	case c.problem != nil:
		return c.problem.Error()
	case len(c.link.Attrs().HardwareAddr) != len(abi.Interface{}.Mac):
		return "it is not Ethernet"
	case c.features.XDP&(features.XDPBasic|features.XDPRedirects) != features.XDPBasic|features.XDPRedirects:
		return "its driver has no native XDP"
	}
	if hidden := c.features.On(features.OffloadRXVLAN, features.OffloadRXVLANS); hidden != "" && !isVirtual(c.link) {
		return fmt.Sprintf("the card hides VLAN tags from XDP; `ethtool -K %s %s off` ends that", c.link.Attrs().Name, hidden)
	}
	return ""
}

// cost says what would be lost by XDP at the interface; empty when nothing is.
func (c candidate) cost() string {
	if isVirtual(c.link) {
		return fmt.Sprintf("%s is a virtual link: with XDP the other end loses segmentation offload, packets whose checksum "+
			"it leaves to the link go by tc, and its VLAN tags are not seen", c.link.Type())
	}
	if bus := c.link.Attrs().ParentDevBus; bus == "virtio" || bus == "vmbus" || bus == "xen" {
		return fmt.Sprintf("it is a virtual machine's (%s): with XDP it loses receive offloads", bus)
	}
	if lost := c.features.On(features.OffloadLRO, features.OffloadGRO); lost != "" {
		return "with XDP it loses " + lost
	}
	return ""
}

// isVirtual reports whether no device stands behind an interface: what arrives was
// then sent by this machine, and may be unfinished.
func isVirtual(link netlink.Link) bool { return link.Attrs().ParentDev == "" }
