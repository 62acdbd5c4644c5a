// SPDX-License-Identifier: Apache-2.0

package lispers

// The tables of an Engine, as the control plane gave them, and what of an entry the
// data plane is told. Nothing here locks, sends or expires.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"loci/dataplane"
	"loci/lisp"
)

type engineTables struct {
	limit          int
	mappings       map[lisp.Prefix]dataplane.MapCacheEntry
	database       map[lisp.Prefix]dataplane.DatabaseEntry
	databaseOctets int // of the message that tells the Database
	states         map[lisp.Path]dataplane.LocatorState
	settings       dataplane.Settings
	parameters     Parameters
	keys           keyring
}

func newEngineTables(limit int) engineTables {
	return engineTables{
		limit: limit, mappings: map[lisp.Prefix]dataplane.MapCacheEntry{}, database: map[lisp.Prefix]dataplane.DatabaseEntry{},
		states: map[lisp.Path]dataplane.LocatorState{}, settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds},
	}
}

// supports refuses prefixes that the interface or a data packet cannot express.
func supports(prefix lisp.Prefix) error {
	switch {
	case !prefix.EID().IsIP():
		return fmt.Errorf("%s: %w", prefix, dataplane.ErrUnsupported)
	case prefix.Instance() > lisp.MaxInstanceID:
		return fmt.Errorf("%s: the data header has 24 bits for the Instance-ID: %w", prefix, dataplane.ErrUnsupported)
	case isGroup(prefix.Netip()):
		return fmt.Errorf("%s: multicast: %w", prefix, dataplane.ErrUnsupported)
	}
	return nil
}

func (t *engineTables) putMapping(entry dataplane.MapCacheEntry) error {
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
	if err := dataplane.RefuseSourcePorts(entry.Mapping.Locators); err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	old, replaces := t.mappings[prefix]
	if !replaces && len(t.mappings) >= t.limit {
		return fmt.Errorf("%s: %d mappings: %w", prefix, len(t.mappings), dataplane.ErrFull)
	}
	entry.Usage = old.Usage
	entry.Mapping.Locators = slices.Clone(entry.Mapping.Locators)
	t.mappings[prefix] = entry
	return nil
}

func (t *engineTables) deleteMapping(prefix lisp.Prefix) error {
	if _, ok := t.mappings[prefix]; !ok {
		return fmt.Errorf("mapping %s: %w", prefix, dataplane.ErrNotFound)
	}
	delete(t.mappings, prefix)
	return nil
}

// databaseFrame is the length of the Database's message around its entries.
const databaseFrame = len(`{"type":"database-mappings","database-mappings":[]}`)

func databaseLength(prefix lisp.Prefix) int {
	return len(encode(databaseJSON{Instance: decimalOf(prefix.Instance()), Prefix: ipText(prefix)})) + 1
}

// putDatabase refuses what does not fit one message, because the interface tells the
// Database whole.
func (t *engineTables) putDatabase(entry dataplane.DatabaseEntry) error {
	if err := supports(entry.Prefix); err != nil {
		return err
	}
	if err := dataplane.CheckPaths(entry.Locators); err != nil {
		return fmt.Errorf("database %s: %w", entry.Prefix, err)
	}
	if !dataplane.HasLocal(entry.Locators, t.settings.LocalRLOCs) {
		return fmt.Errorf("database %s: %w", entry.Prefix, dataplane.ErrNoLocalLocator)
	}
	if _, replaces := t.database[entry.Prefix]; !replaces {
		octets := databaseLength(entry.Prefix)
		if databaseFrame+t.databaseOctets+octets > MaxDatagram {
			return fmt.Errorf("database %s: %d entries fill a message of the interface: %w", entry.Prefix, len(t.database), dataplane.ErrFull)
		}
		t.databaseOctets += octets
	}
	entry.Locators = slices.Clone(entry.Locators)
	t.database[entry.Prefix] = entry
	return nil
}

func (t *engineTables) deleteDatabase(prefix lisp.Prefix) error {
	if _, ok := t.database[prefix]; !ok {
		return fmt.Errorf("database %s: %w", prefix, dataplane.ErrNotFound)
	}
	delete(t.database, prefix)
	t.databaseOctets -= databaseLength(prefix)
	return nil
}

func (t *engineTables) clearDatabase() {
	clear(t.database)
	t.databaseOctets = 0
}

func (t *engineTables) databaseEntries() []dataplane.DatabaseEntry {
	entries := make([]dataplane.DatabaseEntry, 0, len(t.database))
	for _, entry := range t.database {
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b dataplane.DatabaseEntry) int { return a.Prefix.Compare(b.Prefix) })
	return entries
}

// putLocatorState reports whether packets are treated differently from now on.
func (t *engineTables) putLocatorState(path lisp.Path, state dataplane.LocatorState) (changed bool, err error) {
	if path.RLOC.IsZero() || !path.IsPlain() && path.Valid() != nil || !state.IsValid() {
		return false, fmt.Errorf("locator %s, state %d: %w", path, state, dataplane.ErrInvalid)
	}
	old, known := t.states[path]
	if !known && len(t.states) >= maxLocatorStates {
		return false, fmt.Errorf("locator %s: %d states: %w", path, len(t.states), dataplane.ErrFull)
	}
	t.states[path] = state
	return old != state, nil
}

func checkSettings(s dataplane.Settings) error {
	if err := errors.Join(s.CheckMisses(), s.CheckRoles(), s.CheckRTRs(), s.CheckPathIdentification()); err != nil {
		return err
	}
	if len(s.Interfaces) > 2*maxInterfaces {
		return fmt.Errorf("%d interfaces, at most %d: %w", len(s.Interfaces), 2*maxInterfaces, dataplane.ErrInvalid)
	}
	for _, i := range s.Interfaces {
		if i.Name == "" || len(i.Name) > maxInterfaceName || i.Instance > lisp.MaxInstanceID {
			return fmt.Errorf("interface %q of Instance-ID %d: %w", i.Name, i.Instance, dataplane.ErrInvalid)
		}
	}
	return nil
}

// message is what the data plane is told of a prefix. One that is not in the table, or
// whose packets should raise a miss (send-map-request), is not to be there.
func (t *engineTables) message(prefix lisp.Prefix) mapCacheMessage {
	entry, ok := t.mappings[prefix]
	if !ok || entry.Mapping.Negative() && entry.Mapping.Action == lisp.ActionSendMapRequest {
		return mapCacheMessage{prefix: prefix}
	}
	m := mapCacheMessage{add: true, prefix: prefix}
	best := t.bestRank(entry.Mapping.Locators)
	for _, l := range entry.Mapping.Locators {
		if rank, usable := t.states[l.Path()].Rank(); !l.Reachable || !usable || rank > best {
			continue
		}
		to := l.NextHop()
		keys := t.keys.encryption[to.WithPort(0)]
		m.addRLOC(rlocEntry{rloc: to.WithPort(0), priority: l.Priority, weight: l.Weight, port: portOf(to), keyed: len(keys) > 0, keys: keys})
	}
	return m
}

// addRLOC adds where packets may go. Of paths whose next hop is the same the data plane is told that hop once.
func (m *mapCacheMessage) addRLOC(r rlocEntry) {
	at := slices.IndexFunc(m.rlocs, func(o rlocEntry) bool { return o.rloc == r.rloc && o.port == r.port })
	switch {
	case at < 0:
		m.rlocs = append(m.rlocs, r)
	case r.priority < m.rlocs[at].priority:
		m.rlocs[at] = r
	case r.priority == m.rlocs[at].priority:
		m.rlocs[at].weight = uint8(min(int(m.rlocs[at].weight)+int(r.weight), math.MaxUint8))
	}
}

// portOf is where packets to an RLOC go.
func portOf(r lisp.RLOC) uint16 { return cmp.Or(r.Port(), DataPort) }

// bestRank is that of the locators which packets are sent to now: the interface has no word
// for those that are only used without them.
func (t *engineTables) bestRank(set lisp.LocatorSet) int {
	best := math.MaxInt
	for _, l := range set {
		if rank, usable := t.states[l.Path()].Rank(); usable && l.Usable() {
			best = min(best, rank)
		}
	}
	return best
}

// databaseMessage is the Database as the data plane is told it.
func (t *engineTables) databaseMessage() databaseMessage {
	var m databaseMessage
	for _, entry := range t.databaseEntries() {
		m.prefixes = append(m.prefixes, entry.Prefix)
	}
	return m
}

// interfacesMessage names the interfaces that lead to EIDs.
func (t *engineTables) interfacesMessage() interfacesMessage {
	var m interfacesMessage
	for _, i := range t.settings.Interfaces {
		if i.Side == dataplane.SideSite {
			m.list = append(m.list, interfaceEntry{name: i.Name, instance: i.Instance})
		}
	}
	return m
}
