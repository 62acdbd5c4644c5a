// SPDX-License-Identifier: Apache-2.0

// The tables of an older layout are taken over while packets flow, none of which is
// lost. The older layout is a synthetic one. The tests need root.

package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/upgrade"
	"loci/internal/testnet"
	"loci/lisp"
)

// previousLayout names the maps whose structures the synthetic layout has changed.
var previousLayout = map[string]string{
	abi.MapMappings: "lisp_mapping", abi.MapMappingCounters: "lisp_mapping_counters",
	abi.MapLocatorSets: "lisp_locator_set", abi.MapLocators: "lisp_locator",
}

// putPreviousInForce closes the engine and leaves its tables in the layout before this one, which no version had: members stand in
// another order, one is unknown, maps are missing, and some have other names. The programs stay attached.
func (r *router) putPreviousInForce(t *testing.T) {
	t.Helper()
	setPreviousVersion(t, r.store)
	directory := filepath.Join(pins.DefaultDirectory, r.instance, "maps")
	for name, structure := range previousLayout {
		r.putPreviousMap(t, filepath.Join(directory, name), name, structure)
	}
	for _, name := range []string{abi.MapMappingRuns, abi.MapActions, abi.MapFlows, abi.MapSources} {
		must(t, os.Remove(filepath.Join(directory, name)))
	}
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6, abi.MapSecondLevel6, abi.MapBacklog, abi.MapPendingSamples} {
		must(t, os.Rename(filepath.Join(directory, name), filepath.Join(directory, "previous_"+name)))
	}
	must(t, r.Close())
}

func setPreviousVersion(t *testing.T, s *store.Store) {
	t.Helper()
	value, err := s.Map(abi.MapSettings).LookupBytes(uint32(0))
	must(t, err)
	binary.NativeEndian.PutUint32(value, abi.Version-1)
	must(t, s.Map(abi.MapSettings).Put(uint32(0), value))
}

// putPreviousMap pins a copy of a map, in the synthetic layout, in its place.
func (r *router) putPreviousMap(t *testing.T, pin, name, structure string) {
	t.Helper()
	var current *btf.Struct
	must(t, r.store.Spec.Types.TypeByName(structure, &current))
	previous := reversed(current)
	spec := r.store.Spec.Maps[name].Copy()
	spec.MaxEntries, spec.Value, spec.ValueSize = r.store.Map(name).MaxEntries(), previous, previous.Size
	m, err := ebpf.NewMap(spec)
	must(t, err)
	defer m.Close()
	types, err := upgrade.TypesOf(m)
	must(t, err)
	back, err := upgrade.NewTranslator(r.store.Spec.Types, types, structure)
	must(t, err)
	value, old := make([]byte, back.FromSize), make([]byte, back.ToSize)
	for index := range spec.MaxEntries {
		must(t, r.store.Map(name).Lookup(index, &value))
		if !bytes.ContainsFunc(value, func(r rune) bool { return r != 0 }) {
			continue
		}
		clear(old)
		back.Translate(old, value)
		must(t, m.Put(index, old))
	}
	must(t, os.Remove(pin))
	must(t, m.Pin(pin))
}

// reversed is a structure with its members in the reverse order, each at a multiple of eight octets, and an unknown one before them.
func reversed(s *btf.Struct) *btf.Struct {
	previous := &btf.Struct{Name: s.Name, Members: []btf.Member{{Name: "unknown", Type: &btf.Int{Name: "unsigned int", Size: 4}}}, Size: 8}
	for _, m := range slices.Backward(s.Members) {
		octets, err := btf.Sizeof(m.Type)
		if err != nil {
			panic(err)
		}
		previous.Members = append(previous.Members, btf.Member{Name: m.Name, Type: m.Type, Offset: btf.Bits(8 * previous.Size)})
		previous.Size += uint32(octets+7) &^ 7
	}
	return previous
}

// TestUpgradeUnderPings opens the tables of the previous layout under 1000 pings a second.
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
	a.apply(t, boundFlows()...)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	before, drops := describe(a.Engine), a.Counters().Drops
	a.putPreviousInForce(t)
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
	expectBoundFlows(t, a.Engine)
	entry, ok := a.Mapping(sitePrefixes(1)[0])
	if !ok || entry.Usage.Packets < 5 || entry.Usage.Packets > 10+count || entry.Usage.LastUsedAt.IsZero() {
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

// TestUpgradeOfARelay opens the tables of the previous layout with paths, ports, states of paths and policies in them. Their locators
// get other places.
func TestUpgradeOfARelay(t *testing.T) {
	t.Parallel()
	n := newRelayed(t, rloc6, second4, dataplane.HookTC)
	elsewhere := dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix("10.99.0.0/24"), TTLMinutes: 60}}}
	for i := range 5 {
		elsewhere.Entry.Mapping.Locators = append(elsewhere.Entry.Mapping.Locators, pathLocator(t, 0, netip.AddrFrom4([4]byte{198, 51, 100, byte(50 + i)}), second4(7)))
	}
	n.rtr.apply(t, elsewhere) // it has the first places, which are free in the converted tables
	n.rtr.apply(t, n.tables...)
	end := second4(1)
	own, others := pathLocator(t, 1, second4(2), end), pathLocator(t, 1, netip.MustParseAddr("198.51.100.77"), end)
	own.Bits = lisp.PathBits{lisp.HopExplicit | lisp.HopStrict, lisp.HopExplicit | lisp.HopProbe}
	port := lisp.Locator{RLOC: lisp.RLOCFromAddr(end).WithPort(40001), Priority: 3, Weight: 1, Reachable: true}
	others.Priority = 2
	for prefix, set := range map[string]lisp.LocatorSet{"10.2.0.0/24": {own, others, port}, "2001:db8:2::/64": {others}} {
		sorted, err := lisp.NewLocatorSet(set...)
		must(t, err)
		n.rtr.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
			CreatedAt: time.Now().Add(-time.Hour), Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: sorted, TTLMinutes: 1440}}})
	}
	n.rtr.apply(t, dataplane.DeleteMapping{Prefix: elsewhere.Entry.Mapping.Prefix},
		dataplane.PutLocatorState{RLOC: port.RLOC, State: dataplane.LocatorDown},
		dataplane.PutLocatorState{RLOC: others.RLOC, Behind: others.Behind, State: dataplane.LocatorUnconfirmed})
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	before, counters := describe(n.rtr.Engine), n.rtr.Counters()
	n.rtr.putPreviousInForce(t)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10)) // by the older programs
	n.rtr.open(t, Options{})
	if after := describe(n.rtr.Engine); withoutUse(after) != withoutUse(before) {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	if c := n.rtr.Counters(); c.RelayedPackets < counters.RelayedPackets+6 || c.RelayedOctets <= counters.RelayedOctets {
		t.Errorf("%d packets relayed before, %d after", counters.RelayedPackets, c.RelayedPackets)
	}
	if m, ok := n.rtr.Mapping(sitePrefixes(1)[0]); !ok || m.Usage.Packets < 6 {
		t.Errorf("use of a mapping: %t %+v", ok, m.Usage)
	}
	ping := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress6(1, 10), Count: 2, Timeout: 100 * time.Millisecond}
	if result, err := ping.Run(t.Context()); err != nil || result.Received != 0 || n.rtr.Counters().Drops["not-on-path"] != 2 {
		t.Errorf("%d pings came through by a path of others, %v;%s", result.Received, err, n.report())
	}
	if indexes, err := n.rtr.store.PathIndexes(); err != nil || len(indexes) != 3 {
		t.Errorf("paths are stored for %v, %v, want three", indexes, err)
	}
}

// pathLocator is a locator of several hops.
func pathLocator(t *testing.T, next uint8, hops ...netip.Addr) lisp.Locator {
	t.Helper()
	rlocs := make([]lisp.RLOC, len(hops))
	for i, a := range hops {
		rlocs[i] = lisp.RLOCFromAddr(a)
	}
	path, err := lisp.NewPath(rlocs...)
	must(t, err)
	return lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: next, Priority: 1, Weight: 1, Reachable: true}
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
	a.putPreviousInForce(t)
	directory := filepath.Join(pins.DefaultDirectory, a.instance)
	// as in layouts that had neither paths nor bindings
	for _, name := range []string{abi.MapPaths, store.MapPathStates, abi.MapBindings} {
		must(t, os.Remove(filepath.Join(directory, "maps", name)))
	}
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
