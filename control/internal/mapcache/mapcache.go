// SPDX-License-Identifier: Apache-2.0

package mapcache

// The ITR's map-cache: mappings by EID-Prefix with their deadlines (RFC 9300 s.3,
// RFC 9301 s.5.5). A table: it decides nothing but who is evicted.

import (
	"net/netip"

	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// Entry is one mapping of the map-cache.
type Entry struct {
	Mapping     lisp.Mapping
	From        netip.AddrPort
	CreatedAt   timing.Instant // first installed
	RefreshedAt timing.Instant // last installed
	ExpiresAt   timing.Instant // never when static
	LastUsedAt  timing.Instant // 0 when no use was reported
	Static      bool
	ByNAT       bool // static, and made by NAT traversal
	Registered  bool // by NAT: a router behind a NAT registered it by this RTR
	Gleaned     bool // from a data packet, not verified
	Referenced  bool // used since the eviction hand passed
	Refreshing  bool // asked for again
	// AdoptedUntil is how long a stale entry of an earlier run needs no sign of life of a locator.
	AdoptedUntil timing.Instant
	// KeptAt is when an entry that is not used was last kept because a less specific one is.
	KeptAt timing.Instant
	Stale  bool // used past its TTL, because the mapping system is silent
	Denied bool // a Map-Reply about it came since it was installed, and did not bring it anew
	Aside  bool // no packet asked for it: an answer about another EID says that it is not registered
}

// Cache is the table. It never expires or evicts anything by itself.
type Cache struct {
	Entries table.Slab[Entry]
	Index   table.Prefixes[uint32]
	Timers  timing.Deadlines
	Stales  timing.Deadlines // the stale entries, by the end of their TTLs
	// Unreachable are the entries of which their sites call no locator reachable, by when that began.
	Unreachable timing.Deadlines
	hand        uint32 // where the search for a victim goes on
}

// evictionSteps bounds the search for a victim.
const evictionSteps = 64

// Size is the number of entries.
func (c *Cache) Size() int { return c.Index.Size }

// Get returns the entry of exactly that prefix.
func (c *Cache) Get(p lisp.Prefix) (uint32, *Entry, bool) {
	id, ok := c.Index.Get(p)
	if !ok {
		return 0, nil, false
	}
	return id, c.Entries.At(id), true
}

// Longest returns the most specific entry that covers p.
func (c *Cache) Longest(p lisp.Prefix) (uint32, *Entry, bool) {
	_, id, ok := c.Index.Longest(p)
	if !ok {
		return 0, nil, false
	}
	return id, c.Entries.At(id), true
}

// Put adds an entry or replaces the one of its prefix, whose age and use it keeps.
func (c *Cache) Put(e Entry) (uint32, *Entry) {
	e.Referenced = true // a new entry gets one round of the hand
	if id, old, ok := c.Get(e.Mapping.Prefix); ok {
		e.CreatedAt, e.LastUsedAt = old.CreatedAt, old.LastUsedAt
		*old = e
		c.noteStale(id)
		c.noteUnreachable(id)
		return id, old
	}
	id := c.Entries.Add(e)
	c.Index.Insert(e.Mapping.Prefix, id)
	c.noteStale(id)
	c.noteUnreachable(id)
	return id, c.Entries.At(id)
}

// SetStale marks an entry: it is used past its TTL.
func (c *Cache) SetStale(id uint32) {
	c.Entries.At(id).Stale = true
	c.noteStale(id)
}

func (c *Cache) noteStale(id uint32) {
	if e := c.Entries.At(id); e.Stale {
		c.Stales.Set(id, e.ExpiresAt)
		return
	}
	c.Stales.Remove(id)
}

// noteUnreachable keeps since when packets of an entry may take no locator, because all R bits are 0 (RFC 9301
// s.5.4). What the site wants no packets for, by priority 255, does not count.
func (c *Cache) noteUnreachable(id uint32) {
	e := c.Entries.At(id)
	wanted := false
	for i := range e.Mapping.Locators {
		if l := &e.Mapping.Locators[i]; l.Usable() {
			c.Unreachable.Remove(id)
			return
		} else if l.Priority != lisp.PriorityUnused {
			wanted = true
		}
	}
	switch {
	case !wanted, e.Static: // nor what the operator says
		c.Unreachable.Remove(id)
	case !c.Unreachable.Has(id):
		c.Unreachable.Set(id, e.RefreshedAt)
	}
}

// Remove takes an entry out.
func (c *Cache) Remove(id uint32) {
	c.Index.Remove(c.Entries.At(id).Mapping.Prefix)
	c.Timers.Remove(id)
	c.Stales.Remove(id)
	c.Unreachable.Remove(id)
	c.Entries.Release(id)
}

// Victim chooses which entry is evicted: the stale one whose TTL ended first. Without one, a hand goes round the
// table and takes the first entry that is negative or was not used since it last came by, of an Instance-ID that
// has more than its share of the limit: one that is flooded with EIDs lives at its own
// expense. Static entries stay. After evictionSteps it takes the best that it met, the last of
// those that are equal.
func (c *Cache) Victim(limit int) (id uint32, ok bool) {
	if id, ok = c.Stales.First(); ok {
		return id, true
	}
	share := limit / max(len(c.Index.Instances), 1)
	rows := uint32(c.Entries.Len())
	best := 0
	for step := uint32(0); step < rows && (step < evictionSteps || !ok); step++ {
		at := c.hand % rows
		c.hand = at + 1
		e := c.Entries.At(at)
		if e.Static || e.Mapping.Prefix.IsZero() {
			continue
		}
		worth := 1 // as a victim
		if e.Mapping.Negative() || !e.Referenced {
			worth += 1
		}
		if c.Index.Instances[e.Mapping.Prefix.Instance()].Size >= share {
			worth += 2
		}
		e.Referenced = false
		if worth >= best {
			id, ok, best = at, true, worth
		}
		if best == 4 {
			return id, true
		}
	}
	return id, ok
}

// LastUse is when the entry was last of use: an entry that is new counts as used.
func (e *Entry) LastUse() timing.Instant { return max(e.LastUsedAt, e.CreatedAt, e.KeptAt) }
