// SPDX-License-Identifier: Apache-2.0

package model

// What packets are counted by. The engine holds the lock.

import (
	"loci/dataplane"
	"loci/forward"
)

type counters struct{ dataplane.Counters }

func (c *counters) drop(reason forward.DropReason) { c.Drops[reason.String()]++ }

// encapsulated counts packets that left with outer headers, octets those of the inner packets.
func (c *counters) encapsulated(isRelayed, isProxied bool, packets, octets uint64) {
	if isRelayed {
		c.RelayedPackets += packets
		c.RelayedOctets += octets
	} else {
		c.EncapsulatedPackets += packets
		c.EncapsulatedOctets += octets
	}
	if isProxied {
		c.ProxiedPackets += packets
	}
}

func (c *counters) decapsulated(packets, octets uint64) {
	c.DecapsulatedPackets += packets
	c.DecapsulatedOctets += octets
}
