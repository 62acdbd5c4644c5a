// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/features"
)

// TestChoose goes through what an interface can be and what may be wanted of it.
func TestChoose(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	card := func(bus string) netlink.Link {
		return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", HardwareAddr: mac, ParentDev: "0000:01:00.0", ParentDevBus: bus}}
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0", HardwareAddr: mac}}
	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}}
	const can = features.XDPBasic | features.XDPRedirects
	with := func(offloads ...string) features.Link {
		f := features.Link{XDP: can, Offloads: map[string]bool{"rx-gro": true}}
		for _, o := range offloads {
			f.Offloads[o] = true
		}
		return f
	}
	const auto, tc, xdp = dataplane.HookAuto, dataplane.HookTC, dataplane.HookXDP
	cases := []struct {
		name            string
		c               candidate
		want            dataplane.Hook
		reason, warning string
	}{
		{"a card, auto", candidate{auto, card("pci"), with(), nil}, xdp, "no offload is lost", ""},
		{"a card, tc", candidate{tc, card("pci"), with(), nil}, tc, "as configured", ""},
		{"a card, xdp", candidate{xdp, card("pci"), with(), nil}, xdp, "as configured", ""},
		{"LRO, auto", candidate{auto, card("pci"), with(features.OffloadLRO, features.OffloadGRO), nil}, tc, "loses rx-gro-hw, rx-lro", ""},
		{"LRO, xdp", candidate{xdp, card("pci"), with(features.OffloadLRO), nil}, xdp, "as configured", "loses rx-lro"},
		{"hidden tags, auto", candidate{auto, card("pci"), with(features.OffloadRXVLAN), nil}, tc, "ethtool -K eth0 rx-vlan-hw-parse off", ""},
		{"hidden tags, xdp", candidate{xdp, card("pci"), with(features.OffloadRXVLAN), nil}, tc, "hides VLAN tags", "XDP is wanted and cannot be"},
		{"virtio, auto", candidate{auto, card("virtio"), with(), nil}, tc, "virtual machine's (virtio)", ""},
		{"virtio, xdp", candidate{xdp, card("virtio"), with(), nil}, xdp, "as configured", "virtual machine's"},
		{"no driver, auto", candidate{auto, card("pci"), features.Link{}, nil}, tc, "no native XDP", ""},
		{"no driver, xdp", candidate{xdp, card("pci"), features.Link{XDP: features.XDPBasic}, nil}, tc, "no native XDP", "XDP is wanted and cannot be"},
		{"veth, auto", candidate{auto, veth, with(features.OffloadRXVLAN), nil}, tc, "veth is a virtual link", ""},
		{"veth, xdp", candidate{xdp, veth, with(features.OffloadRXVLAN), nil}, xdp, "as configured", "veth is a virtual link"},
		{"TUN, auto", candidate{auto, tun, features.Link{}, nil}, tc, "not Ethernet", ""},
		{"TUN, xdp", candidate{xdp, tun, with(), nil}, tc, "not Ethernet", "XDP is wanted and cannot be"},
		{"an old kernel, auto", candidate{auto, card("pci"), features.Link{}, features.ErrNoXDPFeatures}, tc, "before Linux 6.3", ""},
		{"no program, xdp", candidate{xdp, card("pci"), with(), errors.New("refused")}, tc, "refused", "XDP is wanted and cannot be"},
		{"an old kernel, tc", candidate{tc, card("pci"), features.Link{}, features.ErrNoXDPFeatures}, tc, "as configured", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := choose(c.c)
			if got.hook != c.want || !strings.Contains(got.reason, c.reason) {
				t.Errorf("%v (%s), want %v (%s)", got.hook, got.reason, c.want, c.reason)
			}
			if !strings.Contains(got.warning, c.warning) || (c.warning == "") != (got.warning == "") {
				t.Errorf("warning %q, want %q", got.warning, c.warning)
			}
		})
	}
}
