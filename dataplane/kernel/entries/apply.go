// SPDX-License-Identifier: Apache-2.0

// This file is what dataplane.Plane asks of the tables: operations, and reading them
// back. An operation is done whole or not at all. Long dumps are read piece by piece,
// so that a reader does not hold up others.

package entries

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// dumpPiece is how many entries are copied at a time. A caller that changes the tables waits
// so long at most.
const dumpPiece = 128

// A Release says that a mapping was installed.
type Release struct {
	Prefix     lisp.Prefix
	Held       bool // the programs hold its packets back
	Index      uint32
	Generation uint64
}

// Apply carries out one operation, which is not SetSettings. A release without a generation is none.
func (e *Entries) Apply(operation dataplane.Operation) (none Release, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch o := operation.(type) {
	case dataplane.PutMapping:
		return e.guarded.putMapping(o.Entry)
	case dataplane.DeleteMapping:
		return none, e.guarded.deleteMapping(o.Prefix)
	case dataplane.PutDatabase:
		return none, e.guarded.putDatabase(o.Entry)
	case dataplane.DeleteDatabase:
		return none, e.guarded.deleteEntry(abi.RootDatabase, o.Prefix)
	case dataplane.PutLocatorState:
		return none, e.guarded.putLocatorState(o)
	case dataplane.PutFlow:
		return none, e.guarded.putFlow(o)
	case dataplane.DeleteFlow:
		return none, e.guarded.deleteFlow(o)
	case dataplane.Flush:
		return none, e.guarded.flush(o)
	}
	return none, fmt.Errorf("%w: operation %T", dataplane.ErrInvalid, operation)
}

func (c *contents) putMapping(m dataplane.MapCacheEntry) (none Release, err error) {
	key, err := lpm.KeyOf(abi.RootMapCache, m.Mapping.Prefix)
	if err != nil {
		return none, err
	}
	locators, err := checkLocators(m.Mapping.Locators)
	if err != nil {
		return none, fmt.Errorf("prefix %v: %w", m.Mapping.Prefix, err)
	}
	record := tables.Entry{
		Key: key, Locators: locators, Action: m.Mapping.Action, Cookie: tables.CookieOf(&m),
		CreatedNs: c.clock.ToBoot(m.CreatedAt), ExpiresNs: c.clock.ToBoot(m.ExpiresAt),
		Ttl: m.Mapping.TTLMinutes, Version: m.Mapping.Version,
	}
	if m.Static {
		record.Flags |= abi.MappingStatic
	}
	if m.Mapping.EchoNonce {
		record.Flags |= abi.MappingEchoNonce
	}
	if m.Registered {
		record.Flags |= abi.MappingRegistered
	}
	another := c.hasOtherLocators(record)
	index, held, err := c.tables.Put(record)
	if err != nil {
		return none, fmt.Errorf("prefix %v: %w", m.Mapping.Prefix, err)
	}
	if another {
		c.forgetStatusBits(key, false)
	}
	if m.Mapping.Negative() && m.Mapping.Action == lisp.ActionSendMapRequest {
		return none, nil // still a miss
	}
	return Release{
		Prefix: m.Mapping.Prefix, Held: held, Index: index, Generation: c.tables.Born[index],
	}, nil
}

func (c *contents) putDatabase(d dataplane.DatabaseEntry) error {
	key, err := lpm.KeyOf(abi.RootDatabase, d.Prefix)
	if err != nil {
		return err
	}
	locators, err := checkLocators(d.Locators)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", d.Prefix, err)
	}
	if !dataplane.HasLocal(locators, c.settings.LocalRLOCs) {
		return fmt.Errorf("prefix %v: %w", d.Prefix, dataplane.ErrNoLocalLocator)
	}
	_, _, err = c.tables.Put(tables.Entry{
		Key: key, Locators: locators, Flags: abi.MappingDatabase, Version: d.Version,
		ExpiresNs: c.statusBitsFrom(key, locators),
	})
	if err != nil {
		return fmt.Errorf("prefix %v: %w", d.Prefix, err)
	}
	return nil
}

// checkLocators returns the set in its order, or why no packet can obey it.
func checkLocators(set lisp.LocatorSet) (lisp.LocatorSet, error) {
	for i := range set {
		l := &set[i]
		if err := l.RLOC.Valid(); err != nil {
			return nil, fmt.Errorf("locator %v: %w: %w", *l, dataplane.ErrInvalid, err)
		}
		if err := dataplane.CheckPath(l); err != nil {
			return nil, err
		}
	}
	checked, err := lisp.NewLocatorSet(set...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dataplane.ErrInvalid, err)
	}
	return checked, nil
}

// deleteMapping also reports that the mapping had expired.
func (c *contents) deleteMapping(prefix lisp.Prefix) error {
	expired := false
	if key, err := lpm.KeyOf(abi.RootMapCache, prefix); err == nil {
		if index, exists := c.tables.Entries.Get(key); exists {
			found := c.readMapping(index)
			entry := found.entry(c.log)
			expired = entry.HasExpired(time.Now())
		}
	}
	err := c.deleteEntry(abi.RootMapCache, prefix)
	if err == nil && expired {
		c.expired(dataplane.Expired{Prefix: prefix})
	}
	return err
}

func (c *contents) deleteEntry(kind uint8, prefix lisp.Prefix) error {
	key, err := lpm.KeyOf(kind, prefix)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, dataplane.ErrNotFound)
	}
	existed, err := c.tables.Delete(key)
	if err == nil && !existed {
		err = dataplane.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, err)
	}
	c.forgetStatusBits(key, true)
	return nil
}

func (c *contents) putLocatorState(o dataplane.PutLocatorState) error {
	if path := o.Path(); o.RLOC.IsZero() || !path.IsPlain() && path.Valid() != nil || !o.State.IsValid() {
		return fmt.Errorf("locator %v: %w state or locator", path, dataplane.ErrInvalid)
	}
	if err := c.store.SaveState(o.Path(), o.State); err != nil {
		return err
	}
	c.tables.Sets.SetState(o.Path(), o.State)
	return nil
}

func (c *contents) flush(o dataplane.Flush) error {
	keys := make([]lpm.Key, 0, c.tables.Entries.Count)
	for key := range c.tables.Entries.All() {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if key.Kind == abi.RootMapCache && !o.MapCache || key.Kind == abi.RootDatabase && !o.Database {
			continue
		}
		if _, err := c.tables.Delete(key); err != nil {
			return err
		}
		c.forgetStatusBits(key, true)
	}
	if o.Flows {
		return c.flushFlows()
	}
	return nil
}

// Mapping answers what dataplane.Plane asks.
func (e *Entries) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	key, err := lpm.KeyOf(abi.RootMapCache, prefix)
	if err != nil {
		return dataplane.MapCacheEntry{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed { // the records are no longer in memory
		return dataplane.MapCacheEntry{}, false
	}
	index, ok := e.guarded.tables.Entries.Get(key)
	if !ok {
		return dataplane.MapCacheEntry{}, false
	}
	e.guarded.followClock()
	found := e.guarded.readMapping(index)
	return found.entry(e.log), true
}

// Mappings answers what dataplane.Plane asks.
func (e *Entries) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		generation, limit := e.dumpLimits()
		piece := make([]readMapping, 0, dumpPiece)
		for start := 0; start < limit; start += dumpPiece {
			piece = e.mappingsFrom(piece[:0], start, generation)
			for i := range piece {
				if !yield(piece[i].entry(e.log)) {
					return
				}
			}
		}
	}
}

// dumpLimits says which entries a dump that begins now shows: those added later may
// be ones that it has shown at another place.
func (e *Entries) dumpLimits() (generation uint64, limit int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return 0, 0
	}
	e.guarded.followClock()
	return e.guarded.tables.Generation, len(e.guarded.tables.Records)
}

// readMapping is a copy of what the tables have of a mapping. It is translated later, while
// other callers can use the tables.
type readMapping struct {
	record   abi.Mapping
	usage    store.Usage
	locators lisp.LocatorSet
	ahead    uint64 // the time of day of the time since boot
}

func (e *Entries) mappingsFrom(piece []readMapping, start int, generation uint64) []readMapping {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return nil
	}
	for index := start; index < min(start+dumpPiece, len(e.guarded.tables.Records)); index++ {
		born := e.guarded.tables.Born[index]
		if born == 0 || born > generation || e.guarded.tables.Records[index].Flags&abi.MappingDatabase != 0 {
			continue
		}
		piece = append(piece, e.guarded.readMapping(uint32(index)))
	}
	return piece
}

// readMapping copies a mapping.
func (c *contents) readMapping(index uint32) readMapping {
	record := &c.tables.Records[index]
	return readMapping{*record, c.store.UsageOf(index), c.tables.Sets.Of(record.LocatorSet), c.clock.Ahead()}
}

// entry translates it.
func (m *readMapping) entry(log *slog.Logger) dataplane.MapCacheEntry {
	record, now := &m.record, uint64(time.Now().UnixNano())-m.ahead
	return dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{
			Prefix: prefixOf(log, record), Locators: m.locators, TTLMinutes: record.TtlMinutes,
			Action:        tables.ActionOf(record.Cookie),
			Authoritative: record.Cookie&tables.CookieAuthoritative != 0,
			Version:       record.MapVersion,
			EchoNonce:     record.Flags&abi.MappingEchoNonce != 0,
		},
		Static:     record.Flags&abi.MappingStatic != 0,
		Gleaned:    record.Cookie&tables.CookieGleaned != 0,
		Stale:      record.Cookie&tables.CookieStale != 0,
		ByNAT:      record.Cookie&tables.CookieByNAT != 0,
		Registered: record.Flags&abi.MappingRegistered != 0,
		CreatedAt:  bootclock.DayOf(record.CreatedNs, m.ahead),
		ExpiresAt:  bootclock.DayOf(record.ExpiresNs, m.ahead),
		Usage: dataplane.Usage{
			Packets: m.usage.Packets, Octets: m.usage.Octets,
			LastUsedAt: bootclock.DayOf(m.usage.Nanoseconds(now), m.ahead),
		},
	}
}

// prefixOf returns the prefix of a record in force; those were checked.
func prefixOf(log *slog.Logger, record *abi.Mapping) lisp.Prefix {
	key := tables.KeyOf(record)
	prefix, err := key.Prefix()
	if err != nil {
		log.Error("an entry has no prefix", "error", err)
	}
	return prefix
}

// Database answers what dataplane.Plane asks.
func (e *Entries) Database() iter.Seq[dataplane.DatabaseEntry] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed { // the records are no longer in memory
		return slices.Values([]dataplane.DatabaseEntry(nil))
	}
	var entries []dataplane.DatabaseEntry
	for _, index := range e.guarded.tables.Entries.All() {
		record := &e.guarded.tables.Records[index]
		if record.Flags&abi.MappingDatabase == 0 {
			continue
		}
		entries = append(entries, dataplane.DatabaseEntry{
			Prefix: prefixOf(e.log, record), Version: record.MapVersion,
			Locators: e.guarded.tables.Sets.Of(record.LocatorSet),
		})
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return slices.Values(entries)
}

// LocatorStates answers what dataplane.Plane asks.
func (e *Entries) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.All(maps.Clone(e.guarded.tables.Sets.States))
}

// Counters sums up what programs and user space count, but for what waits; false when the entries are closed.
func (e *Entries) Counters() (c dataplane.Counters, open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return dataplane.Counters{}, false
	}
	c, err := observe.Counters(e.store)
	if err != nil {
		e.log.Error("counters cannot be read", "error", err)
	}
	return c, true
}
