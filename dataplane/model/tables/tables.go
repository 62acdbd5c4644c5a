// SPDX-License-Identifier: Apache-2.0

// Package tables has the tables of the engine in memory: map-cache and Database by Instance-ID, own RLOCs, states of
// locators. They answer forward.Tables. Nothing here expires, forwards or locks: the engine holds its lock meanwhile.
package tables

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// Options are what tables are made with.
type Options struct {
	Now      func() time.Time    // the clock
	PathMTU  func(lisp.RLOC) int // octets; 0 is no route
	Mappings int                 // limit of the map-cache
	Database int                 // limit of the Database
}

// Tables are all tables of an engine.
type Tables struct {
	options   Options
	instances map[lisp.InstanceID]*instance
	recent    *instance // the one that was looked into last
	all       []*cached // the map-caches of all instances, each entry at its place
	owned     int
	relayed   int // entries of the map-cache that are Registered
	local     []lisp.RLOC
	depth     uint8                     // Settings.RecursionDepth
	quiet     map[lisp.Prefix]time.Time // Database entries that tell no status bits before
	states    map[lisp.Path]dataplane.LocatorState
	// Flows are those that are bound to a path.
	Flows *Flows
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

// New returns empty tables.
func New(o Options) *Tables {
	return &Tables{
		options: o, instances: map[lisp.InstanceID]*instance{}, quiet: map[lisp.Prefix]time.Time{},
		states: map[lisp.Path]dataplane.LocatorState{},
		Flows:  newFlows(o.Now),
	}
}

func (t *Tables) instance(id lisp.InstanceID) *instance {
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

// PutMapping puts a map-cache entry, or replaces that of the same prefix, whose usage it keeps.
func (t *Tables) PutMapping(entry dataplane.MapCacheEntry) error {
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
		t.countRelayed(old, -1)
		t.all[added.place] = added
	case len(t.all) >= t.options.Mappings:
		return fmt.Errorf("%s: %d mappings: %w", prefix, len(t.all), dataplane.ErrFull)
	default:
		t.all = append(t.all, added)
	}
	added.entry.Mapping.Locators = slices.Clone(entry.Mapping.Locators)
	added.forward = forward.Entry{
		Locators: added.entry.Mapping.Locators, Action: entry.Mapping.Action,
		Prefix: prefix.Netip(), Version: entry.Mapping.Version, EchoNonce: entry.Mapping.EchoNonce, Registered: entry.Registered,
	}
	t.shareOut(added)
	t.countRelayed(added, 1)
	cache.Insert(prefix.Netip(), added)
	return nil
}

func (t *Tables) countRelayed(c *cached, by int) {
	if c.entry.Registered {
		t.relayed += by
	}
}

// Relays reports whether there is an entry that a router behind a NAT has registered.
func (t *Tables) Relays() bool { return t.relayed > 0 }

// shareOut computes an entry's buckets, and which locators bindings may choose. A locator of a family in which this
// system has no RLOC cannot be used, and one that is an EID needs a second layer.
func (t *Tables) shareOut(c *cached) {
	rankOf := func(l *lisp.Locator) (rank int, usable bool) {
		rank, usable = t.states[l.Path()].Rank()
		return rank, usable && !t.SourceFor(l.NextHop()).IsZero() && (t.depth > 1 || !forward.NeedsLookup(l))
	}
	c.forward.Buckets = forward.Buckets(c.forward.Locators, rankOf)
	c.forward.Usable = forward.UsableLocators(c.forward.Locators, rankOf)
}

// DeleteMapping deletes the map-cache entry of just that prefix.
func (t *Tables) DeleteMapping(prefix lisp.Prefix) error {
	i := t.instances[prefix.Instance()]
	if i == nil || !prefix.EID().IsIP() {
		return fmt.Errorf("mapping %s: %w", prefix, dataplane.ErrNotFound)
	}
	gone, ok := i.cache.Get(prefix.Netip())
	if !ok {
		return fmt.Errorf("mapping %s: %w", prefix, dataplane.ErrNotFound)
	}
	i.cache.Delete(prefix.Netip())
	t.countRelayed(gone, -1)
	last := t.all[len(t.all)-1]
	t.all[gone.place], last.place = last, gone.place
	t.all = slices.Delete(t.all, len(t.all)-1, len(t.all))
	return nil
}

// PutDatabase puts a Database entry, or replaces it. One whose RLOCs change tells no status bits for a while.
func (t *Tables) PutDatabase(entry dataplane.DatabaseEntry) error {
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

// DeleteDatabase deletes a Database entry.
func (t *Tables) DeleteDatabase(prefix lisp.Prefix) error {
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

// PutLocatorState sets the state of a locator, and shares out the entries that have it.
func (t *Tables) PutLocatorState(path lisp.Path, state dataplane.LocatorState) error {
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

// Configure sets own RLOCs, and how many layers of encapsulation packets get at most.
func (t *Tables) Configure(local []lisp.RLOC, depth uint8) {
	t.local, t.depth = slices.Clone(local), depth
	t.shareOutAll()
}

// shareOutTo does so for the entries that have the locator.
func (t *Tables) shareOutTo(path lisp.Path) {
	for _, c := range t.all {
		if c.forward.Locators.Has(path) {
			t.shareOut(c)
		}
	}
}

func (t *Tables) shareOutAll() {
	for _, c := range t.all {
		t.shareOut(c)
	}
}

// Flush empties tables.
func (t *Tables) Flush(f dataplane.Flush) {
	for _, i := range t.instances {
		if f.MapCache {
			i.cache = bart.Table[*cached]{}
		}
		if f.Database {
			i.database = bart.Table[dataplane.DatabaseEntry]{}
		}
	}
	if f.MapCache {
		t.all, t.relayed = nil, 0
	}
	if f.Database {
		t.owned = 0
		clear(t.quiet)
	}
	if f.Flows {
		t.Flows.clear()
	}
}

// Mapping returns the map-cache entry of just that prefix.
func (t *Tables) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
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

// InPlace yields the map-cache's entries as they stand, not copies. They must not be changed, nor the tables
// meanwhile.
func (t *Tables) InPlace() iter.Seq[*dataplane.MapCacheEntry] {
	return func(yield func(*dataplane.MapCacheEntry) bool) {
		for _, c := range t.all {
			if !yield(&c.entry) {
				return
			}
		}
	}
}

// Mappings appends the map-cache to the room given.
func (t *Tables) Mappings(room []dataplane.MapCacheEntry) []dataplane.MapCacheEntry {
	entries := slices.Grow(room[:0], len(t.all))
	for _, c := range t.all {
		entries = append(entries, c.entry)
	}
	return entries
}

// DatabaseEntries lists the Database in the order of prefixes.
func (t *Tables) DatabaseEntries() []dataplane.DatabaseEntry {
	entries := make([]dataplane.DatabaseEntry, 0, t.owned)
	for _, i := range t.instances {
		for _, entry := range i.database.All() {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return entries
}

// LocatorState is a locator that is not up.
type LocatorState struct {
	Path  lisp.Path
	State dataplane.LocatorState
}

// LocatorStates lists the locators that are not up, in the order of their paths.
func (t *Tables) LocatorStates() []LocatorState {
	states := make([]LocatorState, 0, len(t.states))
	for path, state := range t.states {
		states = append(states, LocatorState{path, state})
	}
	slices.SortStableFunc(states, func(a, b LocatorState) int { return a.Path.Compare(b.Path) })
	return states
}

// known are the tables of an Instance-ID, nil where nothing was put into them yet. Packets mostly have that of the
// one before.
func (t *Tables) known(id lisp.InstanceID) *instance {
	if t.recent == nil || t.recent.id != id {
		t.recent = t.instances[id]
	}
	return t.recent
}

// lookup returns the entry of the longest prefix.
func (t *Tables) lookup(id lisp.InstanceID, eid netip.Addr) *cached {
	i := t.known(id)
	if i == nil {
		return nil
	}
	c, _ := i.cache.Lookup(eid)
	return c
}

// Longest is the prefix of the map-cache entry that covers an EID.
func (t *Tables) Longest(id lisp.InstanceID, eid netip.Addr) (prefix lisp.Prefix, ok bool) {
	c := t.lookup(id, eid)
	if c == nil {
		return prefix, false
	}
	return c.entry.Mapping.Prefix, true
}

// Use counts packets at the entry for a destination.
func (t *Tables) Use(id lisp.InstanceID, destination netip.Addr, packets, octets uint64) {
	if c := t.lookup(id, destination); c != nil {
		c.entry.Usage.Packets += packets
		c.entry.Usage.Octets += octets
		c.entry.Usage.LastUsedAt = t.options.Now()
	}
}

// UseNegative counts a packet at the negative entry that decided about it, if there is one.
func (t *Tables) UseNegative(o forward.Outcome) {
	if n := o.Negative; !n.EID.IsZero() {
		t.Use(n.Instance, n.EID.Addr(), 1, uint64(o.Header.Length))
	}
}

// InDatabase is forward.Tables.
func (t *Tables) InDatabase(id lisp.InstanceID, eid netip.Addr) bool {
	i := t.known(id)
	if i == nil {
		return false
	}
	return i.database.Contains(eid)
}

// Site is forward.Tables.
func (t *Tables) Site(id lisp.InstanceID, eid netip.Addr) forward.Site {
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
func (t *Tables) MapCache(id lisp.InstanceID, eid netip.Addr) *forward.Entry {
	c := t.lookup(id, eid)
	if c == nil {
		return nil
	}
	return &c.forward
}

// BoundPath is forward.Tables.
func (t *Tables) BoundPath(flow lisp.Flow) (lisp.Path, bool) { return t.Flows.path(flow) }

// IsLocalRLOC is forward.Tables.
func (t *Tables) IsLocalRLOC(a netip.Addr) bool {
	return !a.Is4In6() && slices.Contains(t.local, lisp.RLOCFromAddr(a))
}

// Path is forward.Tables.
func (t *Tables) Path(to lisp.RLOC) (lisp.RLOC, int) {
	return t.SourceFor(to), t.options.PathMTU(to)
}

// SourceFor is the first own RLOC of a locator's family.
func (t *Tables) SourceFor(to lisp.RLOC) lisp.RLOC {
	for _, own := range t.local {
		if own.Is4() == to.Is4() {
			return own
		}
	}
	return lisp.RLOC{}
}
