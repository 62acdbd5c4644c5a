// SPDX-License-Identifier: Apache-2.0

package conformance

// The tables as the control plane sees them: operations and what reads back.

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

func applyReportsEachOperation(b *bench) {
	results := b.plane.Apply(
		b.to("10.2.0.0/24", "192.0.2.2"),
		remove("10.99.0.0/24"),
		dataplane.DeleteDatabase{Prefix: lisp.MustParsePrefix("10.99.0.0/24")},
		b.to("10.3.0.0/24", "192.0.2.2"),
		remove("10.2.0.0/25"),
	)
	want := []error{nil, dataplane.ErrNotFound, dataplane.ErrNotFound, nil, dataplane.ErrNotFound}
	if len(results) != len(want) {
		b.Fatalf("%d results for %d operations", len(results), len(want))
	}
	for i := range want {
		if !errors.Is(results[i], want[i]) {
			b.Errorf("operation %d: %v, want %v", i, results[i], want[i])
		}
	}
	for _, prefix := range []string{"10.2.0.0/24", "10.3.0.0/24"} {
		if _, ok := b.plane.Mapping(lisp.MustParsePrefix(prefix)); !ok {
			b.Errorf("%s is not there: an operation that failed stopped another", prefix)
		}
	}
	if results := b.plane.Apply(remove("10.2.0.0/24")); results != nil {
		b.Errorf("success gives %v, want nil", results)
	}
	if results := b.plane.Apply(); results != nil {
		b.Errorf("no operation gives %v, want nil", results)
	}
}

// variedMappings are mappings with everything that a mapping can have.
func variedMappings(b *bench) []dataplane.PutMapping {
	full := lisp.Locator{
		RLOC: lisp.RLOCFromAddr(PeerRLOCs[0]), Priority: 1, Weight: 50, MulticastPriority: 255, MulticastWeight: 3, Local: true, Probed: true, Reachable: true,
	}
	unreachable := locator("2001:db8:ff00::2", 2, 0)
	unreachable.Reachable = false
	static := b.to("2001:db8:2::/64", "2001:db8:ff00::2")
	static.Entry.Static, static.Entry.ExpiresAt = true, time.Time{}
	varied := b.mapping("10.2.0.0/16", full, unreachable)
	varied.Entry.Mapping.Authoritative, varied.Entry.Mapping.Version = true, 0xABC
	gleaned := b.to("10.4.0.9/32", "192.0.2.3")
	gleaned.Entry.Gleaned = true
	stale := b.to("10.5.0.0/24", "192.0.2.3")
	stale.Entry.Stale, stale.Entry.ExpiresAt = true, stale.Entry.CreatedAt
	byNAT, registered := b.to("10.6.0.0/24", "192.0.2.3"), b.to("10.7.0.0/24", "192.0.2.3")
	byNAT.Entry.ByNAT, registered.Entry.ByNAT, registered.Entry.Registered = true, true, true
	return []dataplane.PutMapping{
		varied, static, gleaned, stale, byNAT, registered, negative("10.3.0.0/32", lisp.ActionDropPolicyDenied), negative("0.0.0.0/0", lisp.ActionNativelyForward),
		b.to("::/0", "192.0.2.2"), b.to("[7]10.2.0.0/16", "192.0.2.3"), b.to("[16777214]2001:db8::1/128", "192.0.2.3"),
	}
}

func mappingsReadBack(b *bench) {
	want := map[lisp.Prefix]dataplane.MapCacheEntry{}
	for _, p := range variedMappings(b) {
		b.apply(p)
		want[p.Entry.Mapping.Prefix] = p.Entry
		got, ok := b.plane.Mapping(p.Entry.Mapping.Prefix)
		if !ok {
			b.Fatalf("%s does not read back", p.Entry.Mapping.Prefix)
		}
		b.sameEntry(got, p.Entry)
	}
	for got := range b.plane.Mappings() {
		b.sameEntry(got, want[got.Mapping.Prefix])
		delete(want, got.Mapping.Prefix)
	}
	for prefix := range want {
		b.Errorf("%s is not among the mappings", prefix)
	}
	if _, ok := b.plane.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); ok {
		b.Error("a prefix that only a shorter one covers has an entry")
	}
	if _, ok := b.plane.Mapping(lisp.MustParsePrefix("[8]10.2.0.0/16")); ok {
		b.Error("an entry of one Instance-ID reads in another")
	}
}

// clockTolerance is for engines that keep times of another clock.
const clockTolerance = time.Second

func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < clockTolerance
}

func (b *bench) sameEntry(got, want dataplane.MapCacheEntry) {
	b.Helper()
	if !got.Mapping.Equal(want.Mapping) || got.Static != want.Static || got.ByNAT != want.ByNAT || got.Registered != want.Registered {
		b.Errorf("reads back as %+v, want %+v", got, want)
	}
	if !sameTime(got.CreatedAt, want.CreatedAt) || !sameTime(got.ExpiresAt, want.ExpiresAt) {
		b.Errorf("%s: from %s to %s, want %s to %s", want.Mapping.Prefix, got.CreatedAt, got.ExpiresAt, want.CreatedAt, want.ExpiresAt)
	}
	if got.Usage != (dataplane.Usage{}) {
		b.Errorf("%s is new and has use %+v", want.Mapping.Prefix, got.Usage)
	}
}

func replacementKeepsUse(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	p := from4("10.2.0.1")
	b.expectTo("192.0.2.2", p)
	b.apply(b.to("10.2.0.0/24", "192.0.2.3"))
	b.expectTo("192.0.2.3", p)
	b.eventually("two packets counted", func() bool { return b.usage("10.2.0.0/24").Packets == 2 })
	u := b.usage("10.2.0.0/24")
	if u.Octets != 2*uint64(len(p.bytes())) || u.LastUsedAt.IsZero() {
		b.Errorf("use is %+v after two packets of %d octets", u, len(p.bytes()))
	}
	b.apply(remove("10.2.0.0/24"), b.to("10.2.0.0/24", "192.0.2.2"))
	if u := b.usage("10.2.0.0/24"); u.Packets != 0 || u.Octets != 0 || !u.LastUsedAt.IsZero() {
		b.Errorf("use is %+v for an entry that was removed and added again", u)
	}
}

// useOfNegativeMappings: packets that a negative entry decides about use it, whether they leave natively or are
// dropped. One that says that the mapping system is to be asked decides nothing.
func useOfNegativeMappings(b *bench) {
	b.apply(negative("10.3.0.0/24", lisp.ActionNativelyForward), negative("2001:db8:3::/64", lisp.ActionNativelyForward),
		negative("10.4.0.0/24", lisp.ActionDrop), negative("2001:db8:4::/64", lisp.ActionNoAction), negative("10.6.0.0/24", lisp.ActionSendMapRequest))
	for i := range 3 {
		b.expectNative(from4("10.3.0.1").numbered(i))
		b.expectNative(from6("2001:db8:3::1").numbered(i))
		b.send(from4("10.4.0.1").numbered(i), from6("2001:db8:4::1").numbered(i), from4("10.6.0.1").numbered(i))
	}
	b.eventuallyDropped("action-drop", 3)
	b.eventuallyDropped("no-action", 3)
	b.send(from4("10.5.0.1"), from4("10.7.0.1"))
	b.eventuallyWaiting(5)
	b.apply(negative("10.5.0.0/24", lisp.ActionNativelyForward), negative("10.7.0.0/24", lisp.ActionDrop))
	if s := b.receive(); s.destination().String() != "10.5.0.1" {
		b.Errorf("%s, want the one that waited", s)
	}
	length := map[bool]int{true: len(from4("10.3.0.1").bytes()), false: len(from6("2001:db8:3::1").bytes())}
	for prefix, want := range map[string]int{
		"10.3.0.0/24": 3, "2001:db8:3::/64": 3, "10.4.0.0/24": 3, "2001:db8:4::/64": 3, "10.5.0.0/24": 1, "10.7.0.0/24": 1,
	} {
		b.eventually(prefix+" is used", func() bool { return b.usage(prefix).Packets == uint64(want) })
		octets := want * length[lisp.MustParsePrefix(prefix).EID().Addr().Is4()]
		if u := b.usage(prefix); u.Octets != uint64(octets) || u.LastUsedAt.IsZero() {
			b.Errorf("%s: use is %+v after %d packets of %d octets", prefix, u, want, octets)
		}
	}
	if u := b.usage("10.6.0.0/24"); u != (dataplane.Usage{}) {
		b.Errorf("use is %+v of an entry that decides nothing", u)
	}
}

func (b *bench) usage(prefix string) dataplane.Usage {
	b.Helper()
	entry, ok := b.plane.Mapping(lisp.MustParsePrefix(prefix))
	if !ok {
		b.Fatalf("%s has no entry", prefix)
	}
	return entry.Usage
}

func databaseReadsBackInOrder(b *bench) {
	versioned := b.database("10.1.4.0/22")
	versioned.Entry.Version = 0x123
	b.apply(b.database("[7]10.1.0.0/24"), b.database("10.1.128.0/17"), versioned, b.database("2001:db8:1:8000::/50"))
	want := []string{"10.1.0.0/24", "10.1.4.0/22", "10.1.128.0/17", "2001:db8:1::/64", "2001:db8:1:8000::/50", "[7]10.1.0.0/24"}
	var got []string
	for entry := range b.plane.Database() {
		got = append(got, entry.Prefix.String())
		if entry.Prefix == versioned.Entry.Prefix && (entry.Version != 0x123 || !entry.Locators.Equal(versioned.Entry.Locators)) {
			b.Errorf("reads back as %+v, want %+v", entry, versioned.Entry)
		}
	}
	if !slices.Equal(got, want) {
		b.Errorf("database %v, want %v", got, want)
	}
	b.apply(dataplane.DeleteDatabase{Prefix: versioned.Entry.Prefix})
	for entry := range b.plane.Database() {
		if entry.Prefix == versioned.Entry.Prefix {
			b.Errorf("%s was deleted and is there", entry.Prefix)
		}
	}
}

func databaseNeedsALocalLocator(b *bench) {
	foreign := b.database("10.50.0.0/24")
	foreign.Entry.Locators = b.locators(locator("192.0.2.2", 1, 100))
	empty := b.database("10.51.0.0/24")
	empty.Entry.Locators = nil
	mixed := b.database("10.52.0.0/24")
	mixed.Entry.Locators = b.locators(locator("192.0.2.2", 1, 100), locator(OwnRLOC6.String(), 1, 100))
	results := b.plane.Apply(foreign, empty, mixed)
	if len(results) != 3 || !errors.Is(results[0], dataplane.ErrNoLocalLocator) || !errors.Is(results[1], dataplane.ErrNoLocalLocator) || results[2] != nil {
		b.Errorf("results %v, want the first two refused", results)
	}
}

func otherEIDsAreUnsupported(b *bench) {
	for _, text := range []string{"02:00:00:00:00:01/48", `"printer"`} {
		prefix := lisp.MustParsePrefix(text)
		m := b.to("10.2.0.0/24", "192.0.2.2")
		m.Entry.Mapping.Prefix = prefix
		d := b.database("10.60.0.0/24")
		d.Entry.Prefix = prefix
		for i, err := range b.plane.Apply(m, d) {
			if !errors.Is(err, dataplane.ErrUnsupported) {
				b.Errorf("%s, operation %d: %v, want %v", text, i, err, dataplane.ErrUnsupported)
			}
		}
		if _, ok := b.plane.Mapping(prefix); ok {
			b.Errorf("%s was refused and is there", text)
		}
	}
	beyond, err := lisp.PrefixFrom(lisp.MaxInstanceID+2, lisp.EIDFromAddr(SiteHosts[0]), 24)
	if err != nil {
		b.Fatal(err)
	}
	m := b.to("10.2.0.0/24", "192.0.2.2")
	m.Entry.Mapping.Prefix = beyond
	if results := b.plane.Apply(m); len(results) != 1 || results[0] == nil {
		b.Error("an Instance-ID that does not fit the data header was accepted")
	}
}

func locatorStatesReadBack(b *bench) {
	first, second := lisp.RLOCFromAddr(PeerRLOCs[0]), lisp.RLOCFromAddr(PeerRLOCs[2])
	for _, s := range []dataplane.LocatorState{dataplane.LocatorUnconfirmed, dataplane.LocatorHeard} {
		b.apply(dataplane.PutLocatorState{RLOC: second, State: s})
		if told := maps.Collect(b.plane.LocatorStates()); told[lisp.PathTo(second)] != s {
			b.Errorf("%s is %s, want %s", second, told[lisp.PathTo(second)], s)
		}
	}
	unknown := dataplane.PutLocatorState{RLOC: second, State: dataplane.LocatorHeard + 1}
	if results := b.plane.Apply(unknown); len(results) != 1 || !errors.Is(results[0], dataplane.ErrInvalid) {
		b.Errorf("a state that there is not is taken: %v", results)
	}
	b.apply(
		dataplane.PutLocatorState{RLOC: first, State: dataplane.LocatorDown},
		dataplane.PutLocatorState{RLOC: second, State: dataplane.LocatorDown},
		dataplane.PutLocatorState{RLOC: second, State: dataplane.LocatorUp},
	)
	states := maps.Collect(b.plane.LocatorStates())
	if state, ok := states[lisp.PathTo(first)]; !ok || state != dataplane.LocatorDown {
		b.Errorf("%s is %s", first, state)
	}
	if state := states[lisp.PathTo(second)]; state != dataplane.LocatorUp {
		b.Errorf("%s is %s", second, state)
	}
}

func settingsReadBack(b *bench) {
	want := b.Settings()
	want.MissPolicy = dataplane.MissDrop
	want.Wait = dataplane.WaitBounds{PacketsPerDestination: 3, PacketsTotal: 5, OctetsTotal: 7000, Time: 9 * time.Second}
	want.MissForm = dataplane.MissFormHeader
	want.MissPolicies = map[lisp.InstanceID]dataplane.MissPolicy{7: dataplane.MissQueue, 9: dataplane.MissHandOver}
	want.Header = dataplane.HeaderSettings{
		StatusBits: true, MapVersions: true, EchoNonce: true, EchoWait: time.Second, EchoInterval: time.Hour, SourceCheck: dataplane.SourceLoose,
	}
	want.Encapsulations = []dataplane.EncapsulationRule{
		{RLOCs: netip.MustParsePrefix("203.0.113.0/24"), Encapsulation: dataplane.EncapsulationLISPGPE},
		{RLOCs: netip.MustParsePrefix("2001:db8:ff::/48"), Encapsulation: dataplane.EncapsulationLISPGPE},
		{Encapsulation: dataplane.EncapsulationLISP},
	}
	want.Lists = []dataplane.AccessList{
		{Instance: 7, Allow: prefixes("10.0.0.0/8", "2001:db8::/32"), Deny: prefixes("10.9.0.0/16")},
		{Packets: dataplane.ListDecapsulated, Address: dataplane.ListOuterSource, Deny: prefixes("2001:db8:bad::/48")},
	}
	want.Roles = []dataplane.RolePolicy{
		{Role: dataplane.RoleRTR, EIDs: prefixes("10.0.0.0/8", "2001:db8::/32")},
		{Role: dataplane.RolePITR, Instance: 7, EIDs: prefixes("10.2.0.0/16"), Sources: prefixes("198.51.100.0/24", "2001:db8:ee::/48")},
		{Role: dataplane.RolePETR, Instance: 7, EIDs: prefixes("2001:db8:3::/48")},
	}
	want.RecursionDepth = dataplane.MaxRecursionDepth
	want.Sibling = netip.MustParseAddr("10.1.0.2")
	want.RTRs = rlocs(PeerRLOCs[0], PeerRLOCs[2])
	want.MarkNative, want.Subflows, want.PathIdentification = true, true, dataplane.PathsBySource
	b.requireAll(want)
	b.apply(dataplane.SetSettings{Settings: want})
	if got := b.plane.Settings(); !reflect.DeepEqual(got, want) {
		b.Errorf("settings %+v, want %+v", got, want)
	}
	b.settingsThatAreRefused(want)
}

// settingsThatAreRefused change nothing.
func (b *bench) settingsThatAreRefused(base dataplane.Settings) {
	b.Helper()
	for what, change := range map[string]func(*dataplane.Settings){
		"a role twice":                           func(s *dataplane.Settings) { s.Roles = append(s.Roles, s.Roles[0]) },
		"a role of no EIDs":                      func(s *dataplane.Settings) { s.Roles[0].EIDs = nil },
		"sources of an RTR":                      func(s *dataplane.Settings) { s.Roles[0].Sources = prefixes("10.0.0.0/8") },
		"a role that is not":                     func(s *dataplane.Settings) { s.Roles[0].Role = 9 },
		"an RTR twice":                           func(s *dataplane.Settings) { s.RTRs = append(s.RTRs, s.RTRs[0]) },
		"no RTR's address":                       func(s *dataplane.Settings) { s.RTRs = append(s.RTRs, lisp.RLOC{}) },
		"too many RTRs":                          func(s *dataplane.Settings) { s.RTRs = manyRLOCs(dataplane.MaxRTRs + 1) },
		"a way to tell paths that is not":        func(s *dataplane.Settings) { s.PathIdentification = dataplane.PathsBySource + 1 },
		"numbers of paths beside an Instance-ID": func(s *dataplane.Settings) { s.PathIdentification = dataplane.PathsByNumber },
		"three layers":                           func(s *dataplane.Settings) { s.RecursionDepth = dataplane.MaxRecursionDepth + 1 },
	} {
		s := base.Clone()
		change(&s)
		if results := b.plane.Apply(dataplane.SetSettings{Settings: s}); len(results) != 1 || !errors.Is(results[0], dataplane.ErrInvalid) {
			b.Errorf("%s: %v, want %v", what, results, dataplane.ErrInvalid)
		}
		if got := b.plane.Settings(); !reflect.DeepEqual(got, base) {
			b.Errorf("%s: refused, and settings are %+v", what, got)
		}
	}
}

// requireAll fails where a setting is left at zero: one that was added since would go
// unnoticed where it is not carried.
func (b *bench) requireAll(s dataplane.Settings) {
	b.Helper()
	for field, value := range reflect.ValueOf(s).Fields() {
		if value.IsZero() {
			b.Errorf("no value for Settings.%s: add one", field.Name)
		}
	}
}

func flushEmptiesTables(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"), b.to("2001:db8:2::/64", "192.0.2.2"), b.to("[7]10.2.0.0/24", "192.0.2.2"))
	b.expectTo("192.0.2.2", from4("10.2.0.1"))
	b.apply(dataplane.Flush{MapCache: true})
	if entries := slices.Collect(b.plane.Mappings()); len(entries) > 0 {
		b.Errorf("%d mappings after Flush", len(entries))
	}
	if n := len(slices.Collect(b.plane.Database())); n != 2 {
		b.Errorf("%d Database entries after a Flush of the map-cache alone, want 2", n)
	}
	b.apply(b.to("10.2.0.0/24", "192.0.2.3"))
	b.expectTo("192.0.2.3", from4("10.2.0.1"))
	b.apply(dataplane.Flush{Database: true})
	if n := len(slices.Collect(b.plane.Database())); n != 0 {
		b.Errorf("%d Database entries after Flush", n)
	}
	b.expectNative(from4("10.2.0.1"))
}

func theTableIsLimited(b *bench) {
	limited, ok := b.Harness.(Limited)
	if !ok {
		b.Skip("this engine's limit is too high to reach")
	}
	limit := limited.MappingLimit()
	prefix := func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", 100+i/256, i%256) }
	for i := range limit {
		b.apply(b.to(prefix(i), "192.0.2.2"))
	}
	if results := b.plane.Apply(b.to(prefix(limit), "192.0.2.2"), b.to(prefix(0), "192.0.2.3")); len(results) != 2 ||
		!errors.Is(results[0], dataplane.ErrFull) || results[1] != nil {
		b.Errorf("results %v, want the table full for a new entry, not for a replacement", results)
	}
	b.apply(remove(prefix(1)), b.to(prefix(limit), "192.0.2.2"))
	if n := len(slices.Collect(b.plane.Mappings())); n != limit {
		b.Errorf("%d mappings, want %d", n, limit)
	}
}

func editingWhileReading(b *bench) {
	prefix := func(i int) string { return fmt.Sprintf("10.200.%d.0/24", i) }
	const entries = 100
	for i := range entries {
		b.apply(b.to(prefix(i), "192.0.2.2"))
	}
	times := map[lisp.Prefix]int{}
	i := 0
	for entry := range b.plane.Mappings() {
		times[entry.Mapping.Prefix]++
		b.apply(remove(prefix(i)), b.to(prefix(i), "192.0.2.3"), b.to(fmt.Sprintf("10.201.%d.0/24", i), "192.0.2.2"))
		if i++; i == entries {
			break
		}
	}
	for p, n := range times {
		if n > 1 {
			b.Errorf("%s was seen %d times", p, n)
		}
	}
	if n := len(slices.Collect(b.plane.Mappings())); n != entries+i {
		b.Errorf("%d mappings, want %d", n, entries+i)
	}
	for range b.plane.Database() {
		b.apply(b.database("10.1.64.0/24"), dataplane.DeleteDatabase{Prefix: lisp.MustParsePrefix("10.1.64.0/24")})
	}
}

func useFromManyGoroutines(b *bench) {
	const rounds = 50
	var wg sync.WaitGroup
	run := func(f func(i int)) {
		wg.Go(func() {
			for i := range rounds {
				f(i)
			}
		})
	}
	for worker := range 3 {
		prefix := func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", 210+worker, i) }
		run(func(i int) { b.plane.Apply(b.to(prefix(i), "192.0.2.2"), negative("10.220.0.0/16", lisp.ActionDrop)) })
		run(func(i int) { b.plane.Apply(remove(prefix(i)), remove("10.220.0.0/16")) })
	}
	run(func(int) {
		for range b.plane.Mappings() {
		}
	})
	run(func(i int) {
		state := dataplane.LocatorState(i % 2)
		b.plane.Apply(dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(PeerRLOCs[0]), State: state}, dataplane.SetSettings{Settings: b.plane.Settings()})
	})
	run(func(int) { b.plane.Counters(); b.plane.Mapping(lisp.MustParsePrefix("10.220.0.0/16")) })
	run(func(int) { b.SendFromSite(b, from4("10.210.0.1").bytes()) })
	wg.Wait()
}

func closeTwice(b *bench) {
	b.apply(b.to("10.2.0.0/24", "192.0.2.2"))
	b.askAll()
	for range 2 {
		if err := b.plane.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	}
	for range b.plane.Events() {
	} // ends because the channel is closed
	results := b.plane.Apply(b.to("10.3.0.0/24", "192.0.2.2"), dataplane.Flush{MapCache: true})
	if len(results) != 2 || !errors.Is(results[0], dataplane.ErrClosed) || !errors.Is(results[1], dataplane.ErrClosed) {
		b.Errorf("after Close: %v, want %v twice", results, dataplane.ErrClosed)
	}
	b.askAll()
}

// askAll asks an engine for all that it can tell: what it says is free, that it says something and goes on is not.
func (b *bench) askAll() {
	prefix, rloc := lisp.MustParsePrefix("10.2.0.0/24"), lisp.RLOCFromAddr(PeerRLOCs[0])
	b.plane.Mapping(prefix)
	b.plane.Settings()
	b.plane.Counters()
	for range b.plane.Mappings() {
	}
	for range b.plane.Database() {
	}
	for range b.plane.LocatorStates() {
	}
	for range b.plane.Flows() {
	}
	if p, ok := b.plane.(dataplane.InterfaceReporter); ok {
		p.InterfaceStates()
	}
	if p, ok := b.plane.(dataplane.DatapathReporter); ok {
		_, _ = p.Datapath() // an error is an answer, too
	}
	if p, ok := b.plane.(dataplane.PathReporter); ok {
		p.PathMTU(rloc)
	}
	if p, ok := b.plane.(dataplane.EchoReporter); ok {
		p.EchoNonce(rloc)
	}
	if p, ok := b.plane.(dataplane.SourceReporter); ok {
		for range p.Sources() {
		}
	}
}
