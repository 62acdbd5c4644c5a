// SPDX-License-Identifier: Apache-2.0

package control

// The ITR's map-cache: mappings by EID-Prefix with their deadlines (RFC 9300 s.3,
// RFC 9301 s.5.5). A table: it decides nothing but who is evicted.

import (
	"net/netip"

	"loci/lisp"
)

// cacheEntry is one mapping of the map-cache.
type cacheEntry struct {
	mapping     lisp.Mapping
	from        netip.AddrPort
	createdAt   instant // first installed
	refreshedAt instant // last installed
	expiresAt   instant // never when static
	lastUsedAt  instant // 0 when no use was reported
	static      bool
	gleaned     bool // from a data packet, not verified
	referenced  bool // used since the eviction hand passed
	refreshing  bool // asked for again
}

// mapCache is the table. It never expires or evicts anything by itself.
type mapCache struct {
	entries slab[cacheEntry]
	index   prefixTable[uint32]
	timers  deadlines
	hand    uint32 // where the search for a victim goes on
}

// evictionSteps bounds the search for a victim.
const evictionSteps = 64

// size is the number of entries.
func (c *mapCache) size() int { return c.index.size }

// get returns the entry of exactly that prefix.
func (c *mapCache) get(p lisp.Prefix) (uint32, *cacheEntry, bool) {
	id, ok := c.index.get(p)
	if !ok {
		return 0, nil, false
	}
	return id, c.entries.at(id), true
}

// longest returns the most specific entry that covers p.
func (c *mapCache) longest(p lisp.Prefix) (uint32, *cacheEntry, bool) {
	_, id, ok := c.index.longest(p)
	if !ok {
		return 0, nil, false
	}
	return id, c.entries.at(id), true
}

// put adds an entry or replaces the one of its prefix, whose age and use it keeps.
func (c *mapCache) put(e cacheEntry) (uint32, *cacheEntry) {
	e.referenced = true // a new entry gets one round of the hand
	if id, old, ok := c.get(e.mapping.Prefix); ok {
		e.createdAt, e.lastUsedAt = old.createdAt, old.lastUsedAt
		*old = e
		return id, old
	}
	id := c.entries.add(e)
	c.index.insert(e.mapping.Prefix, id)
	return id, c.entries.at(id)
}

// remove takes an entry out.
func (c *mapCache) remove(id uint32) {
	c.index.remove(c.entries.at(id).mapping.Prefix)
	c.timers.remove(id)
	c.entries.release(id)
}

// victim chooses who makes room: a hand goes round the table and takes the first
// entry that is negative or was not used since it last came by, of an Instance-ID that
// has more than its share of the limit: one that is flooded with EIDs lives at its own
// expense. Static entries stay. After evictionSteps it takes the best that it met, the last of
// those that are equal.
func (c *mapCache) victim(limit int) (id uint32, ok bool) {
	share := limit / max(len(c.index.instances), 1)
	rows := uint32(c.entries.len())
	best := 0
	for step := uint32(0); step < rows && (step < evictionSteps || !ok); step++ {
		at := c.hand % rows
		c.hand = at + 1
		e := c.entries.at(at)
		if e.static || e.mapping.Prefix.IsZero() {
			continue
		}
		worth := 1 // as a victim
		if e.mapping.Negative() || !e.referenced {
			worth += 1
		}
		if c.index.instances[e.mapping.Prefix.Instance()].size >= share {
			worth += 2
		}
		e.referenced = false
		if worth >= best {
			id, ok, best = at, true, worth
		}
		if best == 4 {
			return id, true
		}
	}
	return id, ok
}

// lastUse is when the entry was last of use: an entry that is new counts as used.
func (e *cacheEntry) lastUse() instant { return max(e.lastUsedAt, e.createdAt) }
