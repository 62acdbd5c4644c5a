// SPDX-License-Identifier: Apache-2.0

// This file sums up how much mappings were used. What programs count is never reset but for a new mapping.

package store

import "sync/atomic"

// Usage is how much an entry was used, and in which tick last; 0: never.
type Usage struct {
	Packets, Octets uint64
	lastUsed        uint32
}

// UsageOf returns how much an entry was used, summed up over the processors.
func (s *Store) UsageOf(index uint32) Usage {
	sum := Usage{lastUsed: atomic.LoadUint32(&s.Records[index].LastUsed)}
	for at := int(index); at < len(s.Usage); at += len(s.Records) {
		sum.Packets += atomic.LoadUint64(&s.Usage[at].Packets)
		sum.Octets += atomic.LoadUint64(&s.Usage[at].Octets)
	}
	return sum
}

// lastUsedShift is LISP_LAST_USED_SHIFT.
const lastUsedShift = 25

// ticksAhead is by how much a tick may be ahead of the time that it is read at, some six days: what is further ahead was a turn ago.
const ticksAhead = 1 << 24

// Nanoseconds is when an entry was last used, by the time since boot, up to 34 ms early; 0: never. Ticks wrap around after four and a half years:
// now, the time since boot as well, tells which one it was.
func (u Usage) Nanoseconds(now uint64) uint64 {
	if u.lastUsed == 0 {
		return 0
	}
	ticks := now>>lastUsedShift + ticksAhead
	age := uint64(uint32(ticks) - u.lastUsed)
	if age > ticks { // before boot
		return uint64(u.lastUsed) << lastUsedShift
	}
	return (ticks - age) << lastUsedShift
}

// ClearUsage implements lpm.Memory.
func (s *Store) ClearUsage(index uint32) {
	for at := int(index); at < len(s.Usage); at += len(s.Records) {
		atomic.StoreUint64(&s.Usage[at].Packets, 0)
		atomic.StoreUint64(&s.Usage[at].Octets, 0)
	}
}
