// SPDX-License-Identifier: Apache-2.0

// This file is what dataplane.Plane asks of the tables: operations, and reading them
// back. An operation is done whole or not at all. Long dumps are read piece by piece,
// so that a reader does not hold up others.

package kernel

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// dumpPiece is how many entries are copied at a time. A caller that changes the tables waits
// so long, and longer when the copying thread, at a low priority, loses the processor.
const dumpPiece = 128

// executor carries out what dataplane.Plane is asked for.
type executor struct{ *Engine }

// reader reads entries back.
type reader struct{ *Engine }

// Apply implements dataplane.Plane.
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.changing.Lock()
	defer e.changing.Unlock()
	return e.applyAll(operations)
}

// TryApply implements dataplane.PromptPlane.
func (e *Engine) TryApply(operations ...dataplane.Operation) (errs []error, done bool) {
	if !e.changing.TryLock() {
		return nil, false
	}
	defer e.changing.Unlock()
	return e.applyAll(operations), true
}

// applyAll carries out operations. The caller holds changing.
func (e *Engine) applyAll(operations []dataplane.Operation) []error {
	if e.closed {
		return slices.Repeat([]error{dataplane.ErrClosed}, len(operations))
	}
	var errs []error
	var releases []pending.Release
	e.adjustClock()
	for i, operation := range operations {
		released, err := (executor{e}).apply(operation)
		if released.Generation != 0 {
			if releases == nil {
				releases = make([]pending.Release, 0, len(operations)-i)
			}
			releases = append(releases, released)
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(operations))
		}
		errs[i] = err
	}
	e.queue.Installed(releases)
	return errs
}

// clockInterval is how often the time of day is compared with the time since boot: to read that is a system call, which takes longer
// than many an operation. That the time of day was set in between, by whomever, tells a clock that takes none.
const clockInterval = time.Second

// adjustClock is for who holds changing.
func (e *Engine) adjustClock() {
	now := bootclock.Now()
	if now.Running-e.clockAdjusted.Running < clockInterval && !now.Stepped(e.clockAdjusted) {
		return
	}
	e.followClock()
	e.clockAdjusted = now
}

// followClock has times told by the time of day as it is set now. The caller holds changing, or mu of an engine that is not closed.
func (e *Engine) followClock() {
	if err := e.clock.Adjust(); err != nil {
		e.log.Error("the clocks cannot be read", "error", err)
	}
}

// apply carries out one operation. The caller holds changing. A release without a generation is none.
func (e executor) apply(operation dataplane.Operation) (none pending.Release, err error) {
	if o, ok := operation.(dataplane.SetSettings); ok {
		return none, e.setSettings(o.Settings)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch o := operation.(type) {
	case dataplane.PutMapping:
		return e.putMapping(o.Entry)
	case dataplane.DeleteMapping:
		return none, e.deleteMapping(o.Prefix)
	case dataplane.PutDatabase:
		return none, e.putDatabase(o.Entry)
	case dataplane.DeleteDatabase:
		return none, e.deleteEntry(abi.RootDatabase, o.Prefix)
	case dataplane.PutLocatorState:
		return none, e.putLocatorState(o)
	case dataplane.Flush:
		return none, e.flush(o)
	}
	return none, fmt.Errorf("%w: operation %T", dataplane.ErrInvalid, operation)
}

func (e executor) putMapping(m dataplane.MapCacheEntry) (none pending.Release, err error) {
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
		CreatedNs: e.clock.ToBoot(m.CreatedAt), ExpiresNs: e.clock.ToBoot(m.ExpiresAt),
		Ttl: m.Mapping.TTLMinutes, Version: m.Mapping.Version,
	}
	if m.Static {
		record.Flags |= abi.MappingStatic
	}
	if m.Mapping.EchoNonce {
		record.Flags |= abi.MappingEchoNonce
	}
	another := e.hasOtherLocators(record)
	index, held, err := e.tables.Put(record)
	if err != nil {
		return none, fmt.Errorf("prefix %v: %w", m.Mapping.Prefix, err)
	}
	if another {
		e.forgetStatusBits(key, false)
	}
	if m.Mapping.Negative() && m.Mapping.Action == lisp.ActionSendMapRequest {
		return none, nil // still a miss
	}
	return pending.Release{
		Prefix: m.Mapping.Prefix, Held: held, Index: index, Generation: e.tables.Born[index],
	}, nil
}

func (e executor) putDatabase(d dataplane.DatabaseEntry) error {
	key, err := lpm.KeyOf(abi.RootDatabase, d.Prefix)
	if err != nil {
		return err
	}
	locators, err := checkLocators(d.Locators)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", d.Prefix, err)
	}
	if !dataplane.HasLocal(locators, e.settings.LocalRLOCs) {
		return fmt.Errorf("prefix %v: %w", d.Prefix, dataplane.ErrNoLocalLocator)
	}
	_, _, err = e.tables.Put(tables.Entry{Key: key, Locators: locators, Flags: abi.MappingDatabase, Version: d.Version, ExpiresNs: e.statusBitsFrom(key, locators)})
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

// deleteMapping also tells that the mapping had expired.
func (e executor) deleteMapping(prefix lisp.Prefix) error {
	expired := false
	if key, err := lpm.KeyOf(abi.RootMapCache, prefix); err == nil {
		if index, exists := e.tables.Entries.Get(key); exists {
			found := reader(e).readMapping(index)
			entry := reader(e).mapCacheEntry(&found)
			expired = entry.HasExpired(time.Now())
		}
	}
	err := e.deleteEntry(abi.RootMapCache, prefix)
	if err == nil && expired {
		e.misses.Tell(dataplane.Expired{Prefix: prefix})
	}
	return err
}

func (e executor) deleteEntry(kind uint8, prefix lisp.Prefix) error {
	key, err := lpm.KeyOf(kind, prefix)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, dataplane.ErrNotFound)
	}
	existed, err := e.tables.Delete(key)
	if err == nil && !existed {
		err = dataplane.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, err)
	}
	e.forgetStatusBits(key, true)
	return nil
}

func (e executor) putLocatorState(o dataplane.PutLocatorState) error {
	if path := o.Path(); o.RLOC.IsZero() || !path.IsPlain() && path.Valid() != nil || !o.State.IsValid() {
		return fmt.Errorf("locator %v: %w state or locator", path, dataplane.ErrInvalid)
	}
	if err := e.store.SaveState(o.Path(), o.State); err != nil {
		return err
	}
	e.tables.Sets.SetState(o.Path(), o.State)
	return nil
}

func (e executor) flush(o dataplane.Flush) error {
	keys := make([]lpm.Key, 0, e.tables.Entries.Count)
	for key := range e.tables.Entries.All() {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if key.Kind == abi.RootMapCache && !o.MapCache || key.Kind == abi.RootDatabase && !o.Database {
			continue
		}
		if _, err := e.tables.Delete(key); err != nil {
			return err
		}
		e.forgetStatusBits(key, true)
	}
	return nil
}

// Mapping implements dataplane.Plane.
func (e *Engine) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	key, err := lpm.KeyOf(abi.RootMapCache, prefix)
	if err != nil {
		return dataplane.MapCacheEntry{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed { // the records are no longer in memory
		return dataplane.MapCacheEntry{}, false
	}
	index, ok := e.tables.Entries.Get(key)
	if !ok {
		return dataplane.MapCacheEntry{}, false
	}
	e.followClock()
	found := (reader{e}).readMapping(index)
	return (reader{e}).mapCacheEntry(&found), true
}

// Mappings implements dataplane.Plane.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		generation, limit := (reader{e}).dumpLimits()
		piece := make([]readMapping, 0, dumpPiece)
		for start := 0; start < limit; start += dumpPiece {
			piece = (reader{e}).mappingsFrom(piece[:0], start, generation)
			for i := range piece {
				if !yield((reader{e}).mapCacheEntry(&piece[i])) {
					return
				}
			}
		}
	}
}

// dumpLimits says which entries a dump that begins now shows: those added later may
// be ones that it has shown at another place.
func (e reader) dumpLimits() (generation uint64, limit int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, 0
	}
	e.followClock()
	return e.tables.Generation, len(e.tables.Records)
}

// readMapping is a copy of what the tables have of a mapping. It is translated later, while
// other callers can use the tables.
type readMapping struct {
	record   abi.Mapping
	usage    store.Usage
	locators lisp.LocatorSet
	ahead    uint64 // the time of day of the time since boot
}

func (e reader) mappingsFrom(piece []readMapping, start int, generation uint64) []readMapping {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	for index := start; index < min(start+dumpPiece, len(e.tables.Records)); index++ {
		born := e.tables.Born[index]
		if born == 0 || born > generation || e.tables.Records[index].Flags&abi.MappingDatabase != 0 {
			continue
		}
		piece = append(piece, e.readMapping(uint32(index)))
	}
	return piece
}

// readMapping copies a mapping. The caller holds mu.
func (e reader) readMapping(index uint32) readMapping {
	record := &e.tables.Records[index]
	return readMapping{*record, e.store.UsageOf(index), e.tables.Sets.Of(record.LocatorSet), e.clock.Ahead()}
}

func (e reader) mapCacheEntry(m *readMapping) dataplane.MapCacheEntry {
	record, now := &m.record, uint64(time.Now().UnixNano())-m.ahead
	return dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{
			Prefix: e.prefixOf(record), Locators: m.locators, TTLMinutes: record.TtlMinutes,
			Action: tables.ActionOf(record.Cookie), Authoritative: record.Cookie&tables.CookieAuthoritative != 0, Version: record.MapVersion,
			EchoNonce: record.Flags&abi.MappingEchoNonce != 0,
		},
		Static: record.Flags&abi.MappingStatic != 0, Gleaned: record.Cookie&tables.CookieGleaned != 0, Stale: record.Cookie&tables.CookieStale != 0,
		CreatedAt: bootclock.DayOf(record.CreatedNs, m.ahead), ExpiresAt: bootclock.DayOf(record.ExpiresNs, m.ahead),
		Usage: dataplane.Usage{Packets: m.usage.Packets, Octets: m.usage.Octets, LastUsedAt: bootclock.DayOf(m.usage.Nanoseconds(now), m.ahead)},
	}
}

// prefixOf returns the prefix of a record in force; those were checked.
func (e reader) prefixOf(record *abi.Mapping) lisp.Prefix {
	key := tables.KeyOf(record)
	prefix, err := key.Prefix()
	if err != nil {
		e.log.Error("an entry has no prefix", "error", err)
	}
	return prefix
}

// Database implements dataplane.Plane.
func (e *Engine) Database() iter.Seq[dataplane.DatabaseEntry] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed { // the records are no longer in memory
		return slices.Values([]dataplane.DatabaseEntry(nil))
	}
	var entries []dataplane.DatabaseEntry
	for _, index := range e.tables.Entries.All() {
		record := &e.tables.Records[index]
		if record.Flags&abi.MappingDatabase == 0 {
			continue
		}
		entries = append(entries, dataplane.DatabaseEntry{
			Prefix: (reader{e}).prefixOf(record), Locators: e.tables.Sets.Of(record.LocatorSet), Version: record.MapVersion,
		})
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return slices.Values(entries)
}

// LocatorStates implements dataplane.Plane.
func (e *Engine) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.All(maps.Clone(e.tables.Sets.States))
}

// Settings implements dataplane.Plane.
func (e *Engine) Settings() dataplane.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings.Clone()
}

// Counters implements dataplane.Plane.
func (e *Engine) Counters() dataplane.Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return dataplane.Counters{}
	}
	c, err := observe.Counters(e.store)
	if err != nil {
		e.log.Error("counters cannot be read", "error", err)
	}
	c.WaitingPackets, c.WaitingOctets = e.queue.Waiting()
	return c
}
