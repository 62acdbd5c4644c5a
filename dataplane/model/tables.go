// SPDX-License-Identifier: Apache-2.0

package model

// The tables: map-cache and Database by Instance-ID, own RLOCs, states of
// locators. They answer forward.Tables. Nothing here expires, forwards or locks:
// the engine holds the lock.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

type tables struct {
	options   Options
	instances map[lisp.InstanceID]*instance
	recent    *instance // the one that was looked into last
	all       []*cached // the map-caches of all instances, each entry at its place
	owned     int
	local     []lisp.RLOC
	depth     uint8                     // Settings.RecursionDepth
	quiet     map[lisp.Prefix]time.Time // Database entries that tell no status bits before
	states    map[lisp.Path]dataplane.LocatorState
}

// instance holds the tables of one Instance-ID, both families in each.
type instance struct {
	id       lisp.InstanceID
	cache    bart.Table[*cached]
	database bart.Table[dataplane.DatabaseEntry]
}

// cached is a map-cache entry: what was put, and what packets see of it.
type cached struct {
	entry   dataplane.MapCacheEntry
	forward forward.Entry
	place   int // in all
}

func newTables(o Options) tables {
	return tables{options: o, instances: map[lisp.InstanceID]*instance{}, quiet: map[lisp.Prefix]time.Time{}, states: map[lisp.Path]dataplane.LocatorState{}}
}

func (t *tables) instance(id lisp.InstanceID) *instance {
	i := t.instances[id]
	if i == nil {
		i = &instance{id: id}
		t.instances[id] = i
	}
	return i
}

// supports refuses prefixes that no packet of this engine can have.
func supports(prefix lisp.Prefix) error {
	if !prefix.EID().IsIP() {
		return fmt.Errorf("%s: %w", prefix, dataplane.ErrUnsupported)
	}
	if prefix.Instance() > lisp.MaxInstanceID {
		return fmt.Errorf("%s: the data header has 24 bits for the Instance-ID: %w", prefix, dataplane.ErrUnsupported)
	}
	return nil
}

func (t *tables) putMapping(entry dataplane.MapCacheEntry) error {
	prefix := entry.Mapping.Prefix
	if err := supports(prefix); err != nil {
		return err
	}
	if n := len(entry.Mapping.Locators); n > lisp.MaxLocators {
		return fmt.Errorf("%s: %d locators: %w", prefix, n, dataplane.ErrInvalid)
	}
	if err := dataplane.CheckPaths(entry.Mapping.Locators); err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	cache := &t.instance(prefix.Instance()).cache
	entry.Usage = dataplane.Usage{}
	added := &cached{entry: entry, place: len(t.all)}
	old, replaces := cache.Get(prefix.Netip())
	switch {
	case replaces:
		added.entry.Usage, added.place = old.entry.Usage, old.place
		t.all[added.place] = added
	case len(t.all) >= t.options.Mappings:
		return fmt.Errorf("%s: %d mappings: %w", prefix, len(t.all), dataplane.ErrFull)
	default:
		t.all = append(t.all, added)
	}
	added.entry.Mapping.Locators = slices.Clone(entry.Mapping.Locators)
	added.forward = forward.Entry{
		Locators: added.entry.Mapping.Locators, Action: entry.Mapping.Action,
		Prefix: prefix.Netip(), Version: entry.Mapping.Version, EchoNonce: entry.Mapping.EchoNonce,
	}
	t.shareOut(added)
	cache.Insert(prefix.Netip(), added)
	return nil
}

// shareOut computes an entry's buckets. A locator of a family in which this system
// has no RLOC cannot be used, and one that is an EID needs a second layer.
func (t *tables) shareOut(c *cached) {
	c.forward.Buckets = forward.Buckets(c.forward.Locators, func(l *lisp.Locator) (rank int, usable bool) {
		rank, usable = t.states[l.Path()].Rank()
		return rank, usable && !t.sourceFor(l.NextHop()).IsZero() && (t.depth > 1 || !forward.NeedsLookup(l))
	})
}

func (t *tables) deleteMapping(prefix lisp.Prefix) error {
	i := t.instances[prefix.Instance()]
	if i == nil || !prefix.EID().IsIP() {
		return fmt.Errorf("mapping %s: %w", prefix, dataplane.ErrNotFound)
	}
	gone, ok := i.cache.Get(prefix.Netip())
	if !ok {
		return fmt.Errorf("mapping %s: %w", prefix, dataplane.ErrNotFound)
	}
	i.cache.Delete(prefix.Netip())
	last := t.all[len(t.all)-1]
	t.all[gone.place], last.place = last, gone.place
	t.all = slices.Delete(t.all, len(t.all)-1, len(t.all))
	return nil
}

func (t *tables) putDatabase(entry dataplane.DatabaseEntry) error {
	if err := supports(entry.Prefix); err != nil {
		return err
	}
	if err := dataplane.CheckPaths(entry.Locators); err != nil {
		return fmt.Errorf("database %s: %w", entry.Prefix, err)
	}
	if !dataplane.HasLocal(entry.Locators, t.local) {
		return fmt.Errorf("database %s: %w", entry.Prefix, dataplane.ErrNoLocalLocator)
	}
	database := &t.instance(entry.Prefix.Instance()).database
	old, replaces := database.Get(entry.Prefix.Netip())
	if replaces && !old.Locators.SameRLOCs(entry.Locators) {
		t.quiet[entry.Prefix] = t.options.Now().Add(dataplane.StatusBitsPause)
	}
	if !replaces {
		if t.owned >= t.options.Database {
			return fmt.Errorf("database %s: %d entries: %w", entry.Prefix, t.owned, dataplane.ErrFull)
		}
		t.owned++
	}
	entry.Locators = slices.Clone(entry.Locators)
	database.Insert(entry.Prefix.Netip(), entry)
	return nil
}

func (t *tables) deleteDatabase(prefix lisp.Prefix) error {
	i := t.instances[prefix.Instance()]
	if i == nil || !prefix.EID().IsIP() {
		return fmt.Errorf("database %s: %w", prefix, dataplane.ErrNotFound)
	}
	if _, ok := i.database.Get(prefix.Netip()); !ok {
		return fmt.Errorf("database %s: %w", prefix, dataplane.ErrNotFound)
	}
	i.database.Delete(prefix.Netip())
	delete(t.quiet, prefix)
	t.owned--
	return nil
}

func (t *tables) putLocatorState(path lisp.Path, state dataplane.LocatorState) error {
	if path.RLOC.IsZero() || !path.IsPlain() && path.Valid() != nil || !state.IsValid() {
		return fmt.Errorf("locator %s, state %d: %w", path, state, dataplane.ErrInvalid)
	}
	was := t.states[path] // up, where no state was set
	if state == was {
		return nil
	}
	if state == dataplane.LocatorUp {
		delete(t.states, path)
	} else {
		t.states[path] = state
	}
	t.shareOutTo(path)
	return nil
}

func (t *tables) setLocalRLOCs(local []lisp.RLOC) {
	t.local = slices.Clone(local)
	t.shareOutAll()
}

// shareOutTo does so for the entries that have the locator.
func (t *tables) shareOutTo(path lisp.Path) {
	for _, c := range t.all {
		if c.forward.Locators.Has(path) {
			t.shareOut(c)
		}
	}
}

func (t *tables) shareOutAll() {
	for _, c := range t.all {
		t.shareOut(c)
	}
}

func (t *tables) flush(f dataplane.Flush) {
	for _, i := range t.instances {
		if f.MapCache {
			i.cache = bart.Table[*cached]{}
		}
		if f.Database {
			i.database = bart.Table[dataplane.DatabaseEntry]{}
		}
	}
	if f.MapCache {
		t.all = nil
	}
	if f.Database {
		t.owned = 0
		clear(t.quiet)
	}
}

func (t *tables) mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	i := t.instances[prefix.Instance()]
	if i == nil || !prefix.EID().IsIP() {
		return dataplane.MapCacheEntry{}, false
	}
	c, ok := i.cache.Get(prefix.Netip())
	if !ok {
		return dataplane.MapCacheEntry{}, false
	}
	return c.entry, true
}

// mappings appends the map-cache to the room given.
func (t *tables) mappings(room []dataplane.MapCacheEntry) []dataplane.MapCacheEntry {
	entries := slices.Grow(room[:0], len(t.all))
	for _, c := range t.all {
		entries = append(entries, c.entry)
	}
	return entries
}

func (t *tables) databaseEntries() []dataplane.DatabaseEntry {
	entries := make([]dataplane.DatabaseEntry, 0, t.owned)
	for _, i := range t.instances {
		for _, entry := range i.database.All() {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return entries
}

type locatorState struct {
	path  lisp.Path
	state dataplane.LocatorState
}

func (t *tables) locatorStates() []locatorState {
	states := make([]locatorState, 0, len(t.states))
	for path, state := range t.states {
		states = append(states, locatorState{path, state})
	}
	slices.SortStableFunc(states, func(a, b locatorState) int { return a.path.Compare(b.path) })
	return states
}

// known are the tables of an Instance-ID, nil where nothing was put into them yet. Packets mostly have that of the one before.
func (t *tables) known(id lisp.InstanceID) *instance {
	if t.recent == nil || t.recent.id != id {
		t.recent = t.instances[id]
	}
	return t.recent
}

// lookup returns the entry of the longest prefix.
func (t *tables) lookup(id lisp.InstanceID, eid netip.Addr) *cached {
	i := t.known(id)
	if i == nil {
		return nil
	}
	c, _ := i.cache.Lookup(eid)
	return c
}

// use counts packets at the entry for a destination.
func (t *tables) use(id lisp.InstanceID, destination netip.Addr, packets, octets uint64) {
	if c := t.lookup(id, destination); c != nil {
		c.entry.Usage.Packets += packets
		c.entry.Usage.Octets += octets
		c.entry.Usage.LastUsedAt = t.options.Now()
	}
}

// useNegative counts a packet at the negative entry that decided about it, if there is one.
func (t *tables) useNegative(o forward.Outcome) {
	if n := o.Negative; !n.EID.IsZero() {
		t.use(n.Instance, n.EID.Addr(), 1, uint64(o.Header.Length))
	}
}

// InDatabase is forward.Tables.
func (t *tables) InDatabase(id lisp.InstanceID, eid netip.Addr) bool {
	i := t.known(id)
	if i == nil {
		return false
	}
	return i.database.Contains(eid)
}

// Site is forward.Tables.
func (t *tables) Site(id lisp.InstanceID, eid netip.Addr) forward.Site {
	i := t.instances[id]
	if i == nil {
		return forward.Site{}
	}
	entry, ok := i.database.Lookup(eid)
	if !ok {
		return forward.Site{}
	}
	quiet := t.options.Now().Before(t.quiet[entry.Prefix])
	return forward.Site{Known: true, Quiet: quiet, Version: entry.Version, StatusBits: forward.StatusBits(entry.Locators)}
}

// MapCache is forward.Tables.
func (t *tables) MapCache(id lisp.InstanceID, eid netip.Addr) *forward.Entry {
	c := t.lookup(id, eid)
	if c == nil {
		return nil
	}
	return &c.forward
}

// IsLocalRLOC is forward.Tables.
func (t *tables) IsLocalRLOC(a netip.Addr) bool {
	return !a.Is4In6() && slices.Contains(t.local, lisp.RLOCFromAddr(a))
}

// Path is forward.Tables.
func (t *tables) Path(to lisp.RLOC) (lisp.RLOC, int) {
	return t.sourceFor(to), t.options.PathMTU(to)
}

// sourceFor is the first own RLOC of a locator's family.
func (t *tables) sourceFor(to lisp.RLOC) lisp.RLOC {
	for _, own := range t.local {
		if own.Is4() == to.Is4() {
			return own
		}
	}
	return lisp.RLOC{}
}
