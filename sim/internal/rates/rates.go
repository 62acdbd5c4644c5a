// SPDX-License-Identifier: Apache-2.0

// Package rates measures on the simulated wire how often messages are sent: a token bucket for each key, by the
// sender's clock. It knows nothing of who sends.
package rates

import (
	"encoding/binary"
	"net/netip"
	"time"

	"loci/control"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// Rounding is how exactly a deadline by a clock that is wrong is met.
const Rounding = 10 * time.Microsecond

// Watch is a table of token buckets, each the time at which it will be full again, in
// nanoseconds.
type Watch struct{ fullAt map[uint64]*int64 }

// Take reports whether one more is within the rate.
func (t *Watch) Take(at time.Time, key uint64, rate control.Rate) bool {
	if t.fullAt == nil || len(t.fullAt) > 4096 {
		t.fullAt = map[uint64]*int64{} // lenient: what is forgotten is full
	}
	interval, now := int64(float64(time.Second)/rate.PerSecond), at.UnixNano()
	fullAt := t.fullAt[key]
	if fullAt == nil {
		fullAt = new(int64)
		t.fullAt[key] = fullAt
	}
	if *fullAt > now+int64(rate.Burst-1)*interval+int64(Rounding) {
		return false
	}
	*fullAt = max(*fullAt, now) + interval
	return true
}

// ReplyKey is what Map-Replies are limited by: to whom, about which EID-Prefix, and whether
// a probe is answered. It is read where it stands, because there are many.
func ReplyKey(to netip.AddrPort, payload []byte, probe bool) uint64 {
	const head, maskAt, afiAt = 12, 5, 10 // of the message, in its first record
	t := virtual.Trace{Hash: AddrKey(to.Addr())}
	t.Mix(uint64(to.Port()))
	if probe {
		t.Mix(1)
	}
	record := payload[head:]
	t.Mix(uint64(record[maskAt]))
	eid := record[afiAt:]
	for _, b := range eid[:addressOctets(eid)] {
		t.Mix(uint64(b))
	}
	return t.Hash
}

// addressOctets is how many octets an address takes from its AFI on.
func addressOctets(b []byte) int {
	const afiOctets, lcafHead, lcafLengthAt = 2, 8, 6
	switch wire.AFI(binary.BigEndian.Uint16(b)) {
	case wire.AFIIPv4:
		return afiOctets + 4
	case wire.AFIIPv6:
		return afiOctets + 16
	}
	return lcafHead + int(binary.BigEndian.Uint16(b[lcafLengthAt:]))
}

// AddrKey is an address as a number that no other one of a run has.
func AddrKey(a netip.Addr) uint64 {
	b := a.As16()
	var t virtual.Trace
	t.Mix(binary.BigEndian.Uint64(b[:]))
	t.Mix(binary.BigEndian.Uint64(b[8:]))
	return t.Hash
}
