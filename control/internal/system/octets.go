// SPDX-License-Identifier: Apache-2.0

package system

// What NAT traversal sends, in octets of the last hour.

import (
	"net/netip"
	"time"

	"loci/control/internal/timing"
)

// hourMinutes are the parts of HourOctets.
const hourMinutes = 60

// HourOctets are the octets of the last hour, to a minute.
type HourOctets struct {
	minutes [hourMinutes]uint64 // by minute, modulo hourMinutes
	newest  int64               // minute
}

// advance empties the minutes since the newest one.
func (o *HourOctets) advance(now timing.Instant) {
	minute := int64(now) / int64(time.Minute)
	for range min(minute-o.newest, hourMinutes) {
		o.newest++
		o.minutes[o.newest%hourMinutes] = 0
	}
	o.newest = minute
}

func (o *HourOctets) add(now timing.Instant, octets int) {
	o.advance(now)
	o.minutes[o.newest%hourMinutes] += uint64(octets)
}

// Sum is how many there are.
func (o *HourOctets) Sum(now timing.Instant) (sum uint64) {
	o.advance(now)
	for _, octets := range o.minutes {
		sum += octets
	}
	return sum
}

// SendNAT is Send for a message that NAT traversal takes: it counts in NATSent, with its IP and UDP headers.
func (h *System) SendNAT(local, remote netip.AddrPort, payload []byte) {
	headers := 40 + 8
	if remote.Addr().Unmap().Is4() {
		headers = 20 + 8
	}
	h.NATSent.add(h.Now, headers+len(payload))
	h.Send(local, remote, payload)
}
