// SPDX-License-Identifier: Apache-2.0

package packets

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

// Counters returns the totals.
func (p *Path) Counters() dataplane.Counters {
	p.expire()
	c := p.counters.Counters
	c.WaitingPackets, c.WaitingOctets = uint64(p.waiting.Packets()), uint64(p.waiting.Octets())
	c.EventsLost = p.Queue.lost
	c.Drops, c.Other = cloneCounts(c.Drops), cloneCounts(c.Other)
	return c
}

// Burden is how many packets wait, and how many events found no room.
func (p *Path) Burden() (packets int, eventsLost uint64) {
	p.expire()
	return p.waiting.Packets(), p.Queue.lost
}

func cloneCounts(counts map[string]uint64) map[string]uint64 {
	clone := make(map[string]uint64, len(counts))
	for name, n := range counts {
		clone[name] = n
	}
	return clone
}
