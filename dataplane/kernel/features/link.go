// SPDX-License-Identifier: Apache-2.0

// This file asks the kernel what an interface can do with XDP frames, and which
// offloads are on, by the netlink families `netdev` (since Linux 6.3) and `ethtool`.
// It changes nothing.

package features

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
	"loci/internal/genetlink"
)

// The family `netdev`, of which our libraries know nothing yet.
const (
	netdevFamily      = "netdev"
	netdevGroup       = "mgmt"
	netdevVersion     = 1
	netdevGet         = 1 // NETDEV_CMD_DEV_GET
	NetdevIfindex     = 1 // NETDEV_A_DEV_IFINDEX
	netdevXDPFeatures = 3 // NETDEV_A_DEV_XDP_FEATURES
	XDPBasic          = 1 << 0
	XDPRedirects      = 1 << 1
	XDPTakesFrames    = 1 << 2 // frames can be redirected to it now
)

// Offloads, by their names in ethtool.
const (
	OffloadLRO     = "rx-lro"
	OffloadGRO     = "rx-gro-hw"
	OffloadRXVLAN  = "rx-vlan-hw-parse"
	OffloadRXVLANS = "rx-vlan-stag-hw-parse"
)

// Link are what an interface can do, as far as the kernel tells.
type Link struct {
	XDP      uint64 // xdpBasic …
	Offloads map[string]bool
}

// ErrNoXDPFeatures says that the kernel cannot tell what interfaces do with frames.
var ErrNoXDPFeatures = errors.New("this kernel does not tell which interfaces take XDP frames (before Linux 6.3)")

// OfLink asks for the features of an interface.
func OfLink(s *netspace.Space, ifindex uint32) (f Link, err error) {
	err = s.Do(func() (err error) {
		if f.XDP, err = xdpFeatures(ifindex); err != nil {
			return err
		}
		f.Offloads, err = activeOffloads(ifindex)
		return err
	})
	return f, err
}

func xdpFeatures(ifindex uint32) (features uint64, err error) {
	family, err := genetlink.Find(netdevFamily)
	if err != nil {
		return 0, ErrNoXDPFeatures
	}
	answers, err := family.Request(0, netdevGet, netdevVersion, nl.NewRtAttr(NetdevIfindex, nl.Uint32Attr(ifindex)))
	if err != nil {
		return 0, fmt.Errorf("XDP features of interface %d: %w", ifindex, err)
	}
	for _, answer := range answers {
		err = errors.Join(err, genetlink.EachAttribute(answer, genetlink.HeaderOctets, func(kind uint16, value []byte) {
			if kind == netdevXDPFeatures && len(value) == 8 {
				features = nl.NativeEndian().Uint64(value)
			}
		}))
	}
	return features, err
}

// activeOffloads asks for the names of the offloads that are on.
func activeOffloads(ifindex uint32) (map[string]bool, error) {
	family, err := genetlink.Find(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		return nil, err
	}
	header := nl.NewRtAttr(unix.NLA_F_NESTED|unix.ETHTOOL_A_FEATURES_HEADER, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_INDEX, nl.Uint32Attr(ifindex))
	answers, err := family.Request(0, unix.ETHTOOL_MSG_FEATURES_GET, unix.ETHTOOL_GENL_VERSION, header)
	if err != nil {
		return nil, fmt.Errorf("offloads of interface %d: %w", ifindex, err)
	}
	active := map[string]bool{}
	for _, answer := range answers {
		err = errors.Join(err, genetlink.EachAttribute(answer, genetlink.HeaderOctets, func(kind uint16, value []byte) {
			if kind == unix.ETHTOOL_A_FEATURES_ACTIVE {
				addBits(active, value)
			}
		}))
	}
	return active, err
}

// addBits reads a bit set in its verbose form, in which each bit has its name.
func addBits(active map[string]bool, set []byte) {
	_ = genetlink.EachAttribute(set, 0, func(kind uint16, bits []byte) {
		if kind != unix.ETHTOOL_A_BITSET_BITS {
			return
		}
		_ = genetlink.EachAttribute(bits, 0, func(_ uint16, bit []byte) {
			_ = genetlink.EachAttribute(bit, 0, func(kind uint16, name []byte) {
				if kind == unix.ETHTOOL_A_BITSET_BIT_NAME {
					active[strings.TrimRight(string(name), "\x00")] = true
				}
			})
		})
	})
}

// On lists which of the offloads are on.
func (f Link) On(names ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(f.Offloads)), func(name string) bool {
		return !slices.Contains(names, name)
	}), ", ")
}

// Subscribe returns a socket on which the kernel tells of interfaces whose
// XDP features change; nil when it never does.
func Subscribe(s *netspace.Space) (socket *nl.NetlinkSocket, err error) {
	err = s.Do(func() error {
		family, err := genetlink.Find(netdevFamily)
		group := family.Groups[netdevGroup]
		if err != nil || group == 0 {
			return nil
		}
		socket, err = nl.Subscribe(unix.NETLINK_GENERIC, uint(group))
		return err
	})
	return socket, err
}
