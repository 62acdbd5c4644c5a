// SPDX-License-Identifier: Apache-2.0

// Offloads of an interface, by ethtool's netlink family. A test switches them off where each packet must be real, or on
// where a GSO packet or a checksum left to the device (CHECKSUM_PARTIAL) is the point.
// It never changes what the interface cannot change: that is an error.

package testnet

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/internal/genetlink"
)

// Feature names the offloads that go together.
type Feature []string

// The features, as sets of the kernel's names.
var (
	// TxChecksum leaves the checksums of TCP and UDP to the device: a veth then carries packets without one.
	TxChecksum = Feature{"tx-checksum-ip-generic"}
	// TSO hands TCP GSO packets of up to 64 KiB to the device.
	TSO = Feature{"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"}
	// GSO builds GSO packets in the stack whether or not the device takes them.
	GSO = Feature{"tx-generic-segmentation"}
	// UDPSegmentation hands several datagrams of a sender to the device as one packet (UDP_SEGMENT).
	UDPSegmentation = Feature{"tx-udp-segmentation"}
	// GRO joins received packets to GSO packets.
	GRO = Feature{"rx-gro"}
	// UDPGROForwarding lets GRO join UDP datagrams that no socket has asked to be joined.
	UDPGROForwarding = Feature{"rx-udp-gro-forwarding"}
)

// SetOffload switches a feature of an interface on or off.
func (ns *Namespace) SetOffload(link string, feature Feature, on bool) error {
	err := ns.Do(func() error { return setFeatures(link, feature, on) })
	if err != nil {
		return fmt.Errorf("testnet: set %v of %s in %s to %v: %w", []string(feature), link, ns.name, on, err)
	}
	return nil
}

// setFeatures sends ETHTOOL_MSG_FEATURES_SET with a bit set in its verbose form: names, values, no indexes.
func setFeatures(link string, feature Feature, on bool) error {
	family, err := genetlink.Find(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		return err
	}
	header := nl.NewRtAttr(unix.NLA_F_NESTED|unix.ETHTOOL_A_FEATURES_HEADER, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(link))

	wanted := nl.NewRtAttr(unix.NLA_F_NESTED|unix.ETHTOOL_A_FEATURES_WANTED, nil)
	bits := wanted.AddRtAttr(unix.NLA_F_NESTED|unix.ETHTOOL_A_BITSET_BITS, nil)
	for _, name := range feature {
		bit := bits.AddRtAttr(unix.NLA_F_NESTED|unix.ETHTOOL_A_BITSET_BITS_BIT, nil)
		bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(name))
		if on {
			bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		}
	}
	_, err = family.Request(unix.NLM_F_ACK, unix.ETHTOOL_MSG_FEATURES_SET, unix.ETHTOOL_GENL_VERSION, header, wanted)
	return err
}
