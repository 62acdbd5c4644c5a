// SPDX-License-Identifier: Apache-2.0

// This file is what dataplane.Plane asks of the tables: operations, and reading them
// back. An operation is done whole or not at all. Nobody who reads holds anybody up:
// long dumps are read piece by piece.

package kernel

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/forward"
	"loci/lisp"
)

// dumpPiece is how many entries are copied at a time. Whoever changes the tables waits
// so long, and longer when the copying thread, at a low priority, loses the processor.
const dumpPiece = 128

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
	var releases []release
	e.adjustClock()
	for i, operation := range operations {
		released, err := e.apply(operation)
		if released.generation != 0 {
			if releases == nil {
				releases = make([]release, 0, len(operations)-i)
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
	e.room.installed(releases)
	return errs
}

// clockInterval is how often the time of day is compared with the time since boot: to read that is a system call, which takes longer
// than many an operation. That the time of day was set in between, by whomever, tells a clock that takes none.
const clockInterval = time.Second

// adjustClock is for who holds changing.
func (e *Engine) adjustClock() {
	now := momentNow()
	if now.running-e.clockAdjusted.running < clockInterval && !now.stepped(e.clockAdjusted) {
		return
	}
	e.followClock()
	e.clockAdjusted = now
}

// followClock has times told by the time of day as it is set now. The caller holds changing, or mu of an engine that is not closed.
func (e *Engine) followClock() {
	if err := e.clock.adjust(); err != nil {
		e.log.Error("the clocks cannot be read", "error", err)
	}
}

// apply carries out one operation. The caller holds changing. A release without a generation is none.
func (e *Engine) apply(operation dataplane.Operation) (none release, err error) {
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

func (e *Engine) putMapping(m dataplane.MapCacheEntry) (none release, err error) {
	key, err := lpm.KeyOf(abi.RootMapCache, m.Mapping.Prefix)
	if err != nil {
		return none, err
	}
	locators, err := checkLocators(m.Mapping.Locators)
	if err != nil {
		return none, fmt.Errorf("prefix %v: %w", m.Mapping.Prefix, err)
	}
	record := entry{
		key: key, locators: locators, action: m.Mapping.Action, cookie: cookieOf(&m),
		createdNs: e.clock.toBoot(m.CreatedAt), expiresNs: e.clock.toBoot(m.ExpiresAt),
		ttl: m.Mapping.TTLMinutes, version: m.Mapping.Version,
	}
	if m.Static {
		record.flags |= abi.MappingStatic
	}
	if m.Mapping.EchoNonce {
		record.flags |= abi.MappingEchoNonce
	}
	another := e.hasOtherLocators(record)
	index, held, err := e.tables.put(record)
	if err != nil {
		return none, fmt.Errorf("prefix %v: %w", m.Mapping.Prefix, err)
	}
	if another {
		e.forgetStatusBits(key, false)
	}
	if m.Mapping.Negative() && m.Mapping.Action == lisp.ActionSendMapRequest {
		return none, nil // still a miss
	}
	return release{
		prefix: m.Mapping.Prefix, held: held, index: index, generation: e.tables.born[index],
	}, nil
}

func (e *Engine) putDatabase(d dataplane.DatabaseEntry) error {
	key, err := lpm.KeyOf(abi.RootDatabase, d.Prefix)
	if err != nil {
		return err
	}
	locators, err := checkLocators(d.Locators)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", d.Prefix, err)
	}
	own := slices.ContainsFunc(locators, func(l lisp.Locator) bool { return slices.Contains(e.settings.LocalRLOCs, l.RLOC) })
	if !own {
		return fmt.Errorf("prefix %v: %w", d.Prefix, dataplane.ErrNoLocalLocator)
	}
	_, _, err = e.tables.put(entry{key: key, locators: locators, flags: abi.MappingDatabase, version: d.Version, expiresNs: e.statusBitsFrom(key, locators)})
	if err != nil {
		return fmt.Errorf("prefix %v: %w", d.Prefix, err)
	}
	return nil
}

// checkLocators returns the set in its order, or why no packet can obey it.
func checkLocators(set lisp.LocatorSet) (lisp.LocatorSet, error) {
	for _, l := range set {
		if err := l.RLOC.Valid(); err != nil {
			return nil, fmt.Errorf("locator %v: %w: %w", l, dataplane.ErrInvalid, err)
		}
	}
	checked, err := lisp.NewLocatorSet(set...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dataplane.ErrInvalid, err)
	}
	return checked, nil
}

// deleteMapping also tells that the mapping had expired.
func (e *Engine) deleteMapping(prefix lisp.Prefix) error {
	expired := false
	if key, err := lpm.KeyOf(abi.RootMapCache, prefix); err == nil {
		if index, exists := e.tables.entries.Get(key); exists {
			found := e.readMapping(index)
			entry := e.mapCacheEntry(&found)
			expired = entry.HasExpired(time.Now())
		}
	}
	err := e.deleteEntry(abi.RootMapCache, prefix)
	if err == nil && expired {
		e.misses.tell(dataplane.Expired{Prefix: prefix})
	}
	return err
}

func (e *Engine) deleteEntry(kind uint8, prefix lisp.Prefix) error {
	key, err := lpm.KeyOf(kind, prefix)
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, dataplane.ErrNotFound)
	}
	existed, err := e.tables.delete(key)
	if err == nil && !existed {
		err = dataplane.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("prefix %v: %w", prefix, err)
	}
	e.forgetStatusBits(key, true)
	return nil
}

func (e *Engine) putLocatorState(o dataplane.PutLocatorState) error {
	if o.RLOC.IsZero() || !o.State.IsValid() {
		return fmt.Errorf("RLOC %v: %w state or RLOC", o.RLOC, dataplane.ErrInvalid)
	}
	if err := e.store.saveState(o.RLOC, o.State); err != nil {
		return err
	}
	e.tables.sets.setState(o.RLOC, o.State)
	return nil
}

func (e *Engine) flush(o dataplane.Flush) error {
	keys := make([]lpm.Key, 0, e.tables.entries.count)
	for key := range e.tables.entries.All() {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if key.Kind == abi.RootMapCache && !o.MapCache || key.Kind == abi.RootDatabase && !o.Database {
			continue
		}
		if _, err := e.tables.delete(key); err != nil {
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
	index, ok := e.tables.entries.Get(key)
	if !ok {
		return dataplane.MapCacheEntry{}, false
	}
	e.followClock()
	found := e.readMapping(index)
	return e.mapCacheEntry(&found), true
}

// Mappings implements dataplane.Plane.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		generation, limit := e.dumpLimits()
		piece := make([]readMapping, 0, dumpPiece)
		for start := 0; start < limit; start += dumpPiece {
			piece = e.mappingsFrom(piece[:0], start, generation)
			for i := range piece {
				if !yield(e.mapCacheEntry(&piece[i])) {
					return
				}
			}
		}
	}
}

// dumpLimits says which entries a dump that begins now shows: those added later may
// be ones that it has shown at another place.
func (e *Engine) dumpLimits() (generation uint64, limit int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, 0
	}
	e.followClock()
	return e.tables.generation, len(e.tables.records)
}

// readMapping is what stands in the tables of a mapping, copied, so that it can be put
// into words when nobody waits for the tables.
type readMapping struct {
	record   abi.Mapping
	usage    usage
	locators lisp.LocatorSet
	ahead    uint64 // the time of day of the time since boot
}

func (e *Engine) mappingsFrom(piece []readMapping, start int, generation uint64) []readMapping {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	for index := start; index < min(start+dumpPiece, len(e.tables.records)); index++ {
		born := e.tables.born[index]
		if born == 0 || born > generation || e.tables.records[index].Flags&abi.MappingDatabase != 0 {
			continue
		}
		piece = append(piece, e.readMapping(uint32(index)))
	}
	return piece
}

// readMapping copies a mapping. The caller holds mu.
func (e *Engine) readMapping(index uint32) readMapping {
	record := &e.tables.records[index]
	return readMapping{*record, e.store.usageOf(index), e.tables.sets.of(record.LocatorSet), e.clock.ahead()}
}

func (e *Engine) mapCacheEntry(m *readMapping) dataplane.MapCacheEntry {
	record, now := &m.record, uint64(time.Now().UnixNano())-m.ahead
	return dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{
			Prefix: e.prefixOf(record), Locators: m.locators, TTLMinutes: record.TtlMinutes,
			Action: actionOf(record.Cookie), Authoritative: record.Cookie&cookieAuthoritative != 0, Version: record.MapVersion,
			EchoNonce: record.Flags&abi.MappingEchoNonce != 0,
		},
		Static: record.Flags&abi.MappingStatic != 0, Gleaned: record.Cookie&cookieGleaned != 0,
		CreatedAt: dayOf(record.CreatedNs, m.ahead), ExpiresAt: dayOf(record.ExpiresNs, m.ahead),
		Usage: dataplane.Usage{Packets: m.usage.packets, Octets: m.usage.octets, LastUsedAt: dayOf(m.usage.nanoseconds(now), m.ahead)},
	}
}

// prefixOf returns the prefix of a record in force; those were checked.
func (e *Engine) prefixOf(record *abi.Mapping) lisp.Prefix {
	key := keyOfRecord(record)
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
	for _, index := range e.tables.entries.All() {
		record := &e.tables.records[index]
		if record.Flags&abi.MappingDatabase == 0 {
			continue
		}
		entries = append(entries, dataplane.DatabaseEntry{
			Prefix: e.prefixOf(record), Locators: e.tables.sets.of(record.LocatorSet), Version: record.MapVersion,
		})
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return slices.Values(entries)
}

// LocatorStates implements dataplane.Plane.
func (e *Engine) LocatorStates() iter.Seq2[lisp.RLOC, dataplane.LocatorState] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.All(maps.Clone(e.tables.sets.states))
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
	c, err := e.store.counters()
	if err != nil {
		e.log.Error("counters cannot be read", "error", err)
	}
	c.WaitingPackets, c.WaitingOctets = uint64(e.room.packets.Load()), uint64(e.room.octets.Load())
	return c
}

// originOf implements roomTables.
func (e *Engine) originOf(ifindex uint32) (origin, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.interfaces[ifindex]
	instance := lisp.InstanceID(a.record.Iid)
	return origin{
		instance: instance,
		site:     a.record.Flags&abi.InterfaceSite != 0,
		stack:    a.record.Flags&abi.InterfaceStack != 0,
		policy:   e.settings.MissPolicyOf(instance),
		form:     e.settings.MissForm,
	}, ok
}

// roomTells reports whether the waiting room tells of misses of an Instance-ID, with
// the packet, so that the programs' own events of them are not needed.
func (e *Engine) roomTells(instance lisp.InstanceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	policy := e.settings.MissPolicyOf(instance)
	return e.tap.index != 0 && (policy == dataplane.MissHandOver || policy == dataplane.MissQueue && e.settings.MissForm != dataplane.MissFormEID)
}

// covered implements roomTables.
func (e *Engine) covered(to forward.Destination) bool {
	address := to.EID.Addr()
	e.mu.Lock()
	defer e.mu.Unlock()
	record, ok := e.tables.lookup(abi.RootMapCache, abi.Family(address), uint32(to.Instance), address.AsSlice())
	return ok && (record.LocatorSet != abi.NoLocatorSet || record.Action != uint8(lisp.ActionSendMapRequest))
}

// unhold implements roomTables.
func (e *Engine) unhold(holds []release, ready func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !ready() {
		return false
	}
	for _, hold := range holds {
		if hold.held {
			e.tables.unhold(hold.index, hold.generation)
		}
	}
	return true
}

// addressOf implements roomTables.
func (e *Engine) addressOf(ifindex uint32, family uint8) (netip.Addr, bool) {
	kinds := map[uint8]int{4: netlink.FAMILY_V4, 6: netlink.FAMILY_V6}
	e.mu.Lock()
	ifindex = siteIfindex(ifindex, e.interfaces[ifindex])
	e.mu.Unlock()
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(ifindex)}}
	addresses, err := e.space.netlink.AddrList(link, kinds[family])
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range addresses {
		if address, ok := netip.AddrFromSlice(a.IP); ok && forward.RoutableUnicast(address.Unmap()) {
			return address.Unmap(), true
		}
	}
	return netip.Addr{}, false
}
