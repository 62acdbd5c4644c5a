// SPDX-License-Identifier: Apache-2.0

// The tables of an older layout are taken over while packets flow, none of which is
// lost. testdata/abi4.o.gz is the object of version 4, as it was committed; the test
// puts it in force with what this version has in its tables. The tests need root.

package kernel

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

// oldestObject is of the first version that had tables worth keeping.
const (
	oldestObject  = "testdata/abi4.o.gz"
	oldestVersion = 4
	// Nodes of version 4 had a slot for each value of an octet.
	oldNodeSlots = 256
)

func oldestSpec(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	file, err := os.Open(oldestObject)
	must(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	must(t, err)
	object, err := io.ReadAll(unpacked)
	must(t, err)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	must(t, err)
	return spec
}

// A downgrade is an engine's tables in the layout of version 4.
type downgrade struct {
	t     *testing.T
	store *mapStore
	coll  *ebpf.Collection
	back  func(name string) translator
}

// putOldInForce closes the engine and leaves its tables in the older layout, with the
// older programs attached.
func (r *router) putOldInForce(t *testing.T) {
	t.Helper()
	spec := oldestSpec(t)
	limit := uint32(len(r.store.records))
	for _, name := range []string{lisptcMapMappings, lisptcMapMappingCounters, lisptcMapLocatorSets} {
		spec.Maps[name].MaxEntries = r.store.maps[name].MaxEntries()
	}
	must(t, spec.Variables[lisptcVarLispMappingLimit].Set(limit))
	if haveDecapFlags() {
		must(t, spec.Variables[lisptcVarLispDecapL3Flags].Set(uint32(1)))
	}
	coll, err := ebpf.NewCollection(spec)
	must(t, err)
	defer coll.Close()
	d := &downgrade{t: t, store: r.store, coll: coll, back: func(name string) translator {
		reverse, err := newTranslator(r.store.spec.Types, spec.Types, name)
		must(t, err)
		return reverse
	}}
	d.copyTables()
	d.copySettings()
	d.compile()
	directory := filepath.Join(DefaultPinDirectory, r.instance)
	d.pin(directory)
	must(t, r.Close())
	links, err := os.ReadDir(filepath.Join(directory, "links"))
	must(t, err)
	for _, entry := range links {
		l, err := link.LoadPinnedLink(filepath.Join(directory, "links", entry.Name()), nil)
		must(t, err)
		_, program, _ := strings.Cut(entry.Name(), "-")
		must(t, l.Update(coll.Programs[program]))
		must(t, l.Close())
	}
	must(t, os.RemoveAll(filepath.Join(directory, "maps")))
	must(t, os.Rename(filepath.Join(directory, "older"), filepath.Join(directory, "maps")))
}

func (d *downgrade) put(name string, key uint32, structure string, value []byte) {
	d.t.Helper()
	t := d.back(structure)
	old := make([]byte, t.toSize)
	t.translate(old, value)
	must(d.t, d.coll.Maps[name].Put(key, old))
}

// putCounters puts the time of last use where it stood, beside the counters.
func (d *downgrade) putCounters(at uint32, record *lisptcLispMapping, counters *lisptcLispMappingCounters) {
	d.t.Helper()
	t := d.back("lisp_mapping_counters")
	old := make([]byte, t.toSize)
	t.translate(old, octetsAt(counters))
	binary.NativeEndian.PutUint64(old[t.to["last_used_ns"].offset:], uint64(record.LastUsed)<<lastUsedShift)
	must(d.t, d.coll.Maps[lisptcMapMappingCounters].Put(at, old))
}

// copyTables copies mappings, counters, and locator-sets with their locators inside.
func (d *downgrade) copyTables() {
	set, locator := d.back("lisp_locator_set"), d.back("lisp_locator")
	inside := set.to["locators"]
	for i := range d.store.records {
		record := &d.store.records[i]
		if !inForce(record) {
			continue
		}
		d.put(lisptcMapMappings, uint32(i), "lisp_mapping", octetsAt(record))
		for at := i; at < len(d.store.usage); at += len(d.store.records) {
			d.putCounters(uint32(at), record, &d.store.usage[at])
		}
		if record.LocatorSet == noLocatorSet {
			continue
		}
		current := &d.store.sets[record.LocatorSet]
		old := make([]byte, set.toSize)
		set.translate(old, octetsAt(current))
		for n := range current.Count {
			locator.translate(old[inside.offset+n*locator.toSize:], octetsAt(&d.store.locators[current.First+n]))
		}
		must(d.t, d.coll.Maps[lisptcMapLocatorSets].Put(record.LocatorSet, old))
	}
}

func (d *downgrade) copySettings() {
	var settings lisptcLispSettings
	must(d.t, d.store.maps[lisptcMapSettings].Lookup(uint32(0), &settings))
	settings.AbiVersion = oldestVersion
	d.put(lisptcMapSettings, 0, "lisp_settings", octetsAt(&settings))
	var ifindex uint32
	var record lisptcLispInterface
	interfaces := d.store.maps[lisptcMapInterfaces].Iterate()
	for interfaces.Next(&ifindex, &record) {
		d.put(lisptcMapInterfaces, ifindex, "lisp_interface", octetsAt(&record))
	}
	var rloc lisptcLispRlocKey
	var flags uint32
	rlocs := d.store.maps[lisptcMapLocalRlocs].Iterate()
	for rlocs.Next(&rloc, &flags) {
		must(d.t, d.coll.Maps[lisptcMapLocalRlocs].Put(rloc, flags))
	}
	must(d.t, errors.Join(interfaces.Err(), rlocs.Err()))
}

// compile makes a table for each root, as version 4 had them.
func (d *downgrade) compile() {
	byRoot := map[rootKey][]uint32{}
	for i := range d.store.records {
		if inForce(&d.store.records[i]) {
			key := keyOfRecord(&d.store.records[i])
			byRoot[key.root()] = append(byRoot[key.root()], uint32(i))
		}
	}
	table := uint32(0)
	for key, indexes := range byRoot {
		nodes := [][oldNodeSlots]uint32{{}}
		for length := range 129 {
			for _, index := range indexes {
				if entry := keyOfRecord(&d.store.records[index]); int(entry.bits) == length {
					nodes = addOldPrefix(nodes, entry.octets(), length, slotLeaf|index)
				}
			}
		}
		d.putOldTable(table, nodes)
		place := d.store.instances.places[key.instance]
		must(d.t, d.coll.Maps[lisptcMapInstances].Put(key.instance, lisptcLispInstance{Iid: key.instance, Roots: place}))
		var roots lisptcLispRoots
		must(d.t, d.coll.Maps[lisptcMapRoots].Lookup(place, &roots))
		roots.Roots[key.position()] = rootInUse | uint64(table)<<32
		must(d.t, d.coll.Maps[lisptcMapRoots].Put(place, roots))
		table++
	}
}

func (d *downgrade) putOldTable(index uint32, nodes [][oldNodeSlots]uint32) {
	d.t.Helper()
	spec := oldestSpec(d.t).Maps[lisptcMapFib].InnerMap.Copy()
	spec.MaxEntries = uint32(len(nodes))
	m, err := ebpf.NewMap(spec)
	must(d.t, err)
	defer m.Close()
	for i := range nodes {
		must(d.t, m.Put(uint32(i), nodes[i][:]))
	}
	must(d.t, d.coll.Maps[lisptcMapFib].Put(index, m))
}

// addOldPrefix takes prefixes in the order of their lengths.
func addOldPrefix(nodes [][oldNodeSlots]uint32, octets []byte, length int, leaf uint32) [][oldNodeSlots]uint32 {
	at := uint32(0)
	for ; length > 8; length -= 8 {
		slot := nodes[at][octets[0]]
		if slot&slotTagMask != slotNode {
			var child [oldNodeSlots]uint32
			for i := range child {
				child[i] = slot
			}
			nodes = append(nodes, child)
			slot = slotNode | uint32(len(nodes)-1)
			nodes[at][octets[0]] = slot
		}
		at, octets = slot&slotIndex, octets[1:]
	}
	for i := range 1 << (8 - length) {
		nodes[at][int(octets[0])+i] = leaf
	}
	return nodes
}

// pin pins the older maps, and those of user space, which are the same, aside.
func (d *downgrade) pin(directory string) {
	older := filepath.Join(directory, "older")
	must(d.t, os.Mkdir(older, 0o700))
	for name, m := range d.coll.Maps {
		if name[0] != '.' {
			must(d.t, m.Pin(filepath.Join(older, name)))
		}
	}
	for name := range userMapSpecs() {
		clone, err := d.store.maps[name].Clone()
		must(d.t, err)
		must(d.t, clone.Unpin())
		must(d.t, clone.Pin(filepath.Join(older, name)))
		must(d.t, clone.Close())
	}
}

// TestUpgradeUnderPings opens the tables of version 4 under 1000 pings a second.
func TestUpgradeUnderPings(t *testing.T) {
	n := newNetwork(t)
	a := n.routers[0]
	n.mapBoth(t, rloc4)
	many, err := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(rloc4(1)), Priority: 1, Weight: 3, Reachable: true},
		lisp.Locator{RLOC: lisp.RLOCFromAddr(rloc6(1)), Priority: 1, Weight: 1, Probed: true},
		lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.77")), Priority: 9, Weight: 1, MulticastPriority: 255},
	)
	must(t, err)
	created := time.Now().Add(-time.Hour)
	a.apply(t,
		dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: created, ExpiresAt: created.Add(24 * time.Hour), Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("[70000]10.9.0.0/17"), Locators: many, TTLMinutes: 1440, Authoritative: true, Version: 77}}},
		dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Static: true, Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("0.0.0.0/0"), Action: lisp.ActionNativelyForward, TTLMinutes: lisp.TTLUnlimited}}},
		dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(rloc6(1)), State: dataplane.LocatorDown},
	)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	before, drops := describe(a.Engine), a.Counters().Drops
	a.putOldInForce(t)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10)) // by the older programs
	const count = 1500
	pings := make(chan testnet.PingResult, 1)
	go func() {
		result, err := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress4(1, 10), Count: count, Interval: time.Millisecond, Timeout: patience}.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		pings <- result
	}()
	time.Sleep(300 * time.Millisecond)
	a.open(t, Options{})
	result := <-pings
	if result.Sent != count || result.Lost() != 0 || result.Refused != 0 {
		t.Errorf("of %d pings %d were lost and %d refused", result.Sent, result.Lost(), result.Refused)
	}
	after := describe(a.Engine)
	if withoutUse(after) != withoutUse(before) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	entry, ok := a.Mapping(sitePrefixes(1)[0])
	if !ok || entry.Usage.Packets != 10+count || entry.Usage.LastUsedAt.IsZero() {
		t.Errorf("use of a mapping: %v %+v", ok, entry.Usage)
	}
	for reason, packets := range drops {
		if a.Counters().Drops[reason] < packets {
			t.Errorf("drops %s: %d before, %d after", reason, packets, a.Counters().Drops[reason])
		}
	}
	must(t, a.Detach(context.Background()))
	a.expectNothing(t)
}

// withoutUse leaves out what packets change.
func withoutUse(description string) string {
	var lines []string
	for line := range strings.Lines(description) {
		if at := strings.LastIndex(line, " {"); at >= 0 && strings.HasPrefix(line, "true ") {
			line = line[:at]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestUpgradeInterrupted opens after a process was killed between the two renames that
// put the converted maps in their place.
func TestUpgradeInterrupted(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	n.mapBoth(t, rloc4)
	a.putOldInForce(t)
	directory := filepath.Join(DefaultPinDirectory, a.instance)
	must(t, os.Rename(filepath.Join(directory, "maps"), filepath.Join(directory, "previous")))
	a.open(t, Options{})
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	if left, err := os.ReadDir(directory); err != nil || len(left) > 3 {
		t.Errorf("pins %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(directory, "previous")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the previous maps are still pinned: %v", err)
	}
}

// TestUpgradeFromFewerMaps opens what the first of version 31 left, which had not all maps of the later ones.
func TestUpgradeFromFewerMaps(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	n.mapBoth(t, rloc4)
	settings := a.store.maps[lisptcMapSettings]
	value, err := settings.LookupBytes(uint32(0))
	must(t, err)
	binary.NativeEndian.PutUint32(value, 31)
	must(t, settings.Put(uint32(0), value))
	for _, name := range []string{lisptcMapMappingPages, lisptcMapPendingCounts, lisptcMapSources} {
		must(t, os.Remove(filepath.Join(DefaultPinDirectory, a.instance, "maps", name)))
	}
	must(t, a.Close())
	a.open(t, Options{})
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}

func TestTranslateByName(t *testing.T) {
	x := translator{
		from: map[string]field{"a": {0, 2}, "gone": {2, 2}, "wider": {4, 2}, "list": {8, 4}},
		to:   map[string]field{"list": {0, 8}, "wider": {8, 4}, "new": {12, 1}, "a": {14, 2}},
	}
	from := []byte{1, 2, 9, 9, 3, 4, 9, 9, 5, 6, 7, 8}
	to := make([]byte, 16)
	x.translate(to, from)
	if want := []byte{5, 6, 7, 8, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 1, 2}; !bytes.Equal(to, want) {
		t.Errorf("%v, want %v", to, want)
	}
	if order := placeOf(&lisptcLispLocatorSet{Count: 3}).order; 1<<order < 3 {
		t.Errorf("order %d for three locators", order)
	}
}
