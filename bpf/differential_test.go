// SPDX-License-Identifier: Apache-2.0

// Random packets through package forward and through the programs, at tc and with XDP in front of it, with equal results: golden
// packets check chosen cases, this file checks packets that a seeded generator made (mutate_test.go). A packet whose results
// differ belongs in the table of golden packets.
//
// For longer, or for one seed that failed: go test ./bpf -run TestDifferential -rounds 5000, -rounds 1 -seed 77.

package bpf_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/vishvananda/netlink"

	"loci/forward"
	"loci/internal/golden"
	"loci/lisp"
)

var (
	differentialRounds = flag.Int("rounds", 100, "how many seeds TestDifferential has")
	differentialSeed   = flag.Uint64("seed", 1, "the first seed of TestDifferential")
)

const (
	// packetsOfRound meet the same settings, one after the other: what is kept about one decides about others.
	packetsOfRound = 150
	// siteMTU is what the site's interface carries.
	siteMTU = 1500
	// differencesMax ends a run.
	differencesMax = 10
)

// differential is the golden router with its twin in Go.
type differential struct {
	*goldenBench
	*rand.Rand
	cases    map[string][]golden.Case // by hook
	tables   *goldenTables
	twin     *forward.XTR
	drops    counterMap
	counters counterMap
	seen     map[string]int // verdicts
}

// TestDifferential compares verdict, reason, notes, events, octets and counters.
func TestDifferential(t *testing.T) {
	d := newDifferential(t)
	for round := range *differentialRounds {
		seed := *differentialSeed + uint64(round)
		if err := d.round(t, seed); err != nil {
			t.Errorf("-seed %d: %v", seed, err)
		}
		if round >= differencesMax && t.Failed() {
			break
		}
	}
	for _, verdict := range []string{"relay", "pass", "drop", "native", "wait", "too-big", "encapsulate", "decapsulate", "stack", "subflow", "bound"} {
		if d.seen[verdict] == 0 && *differentialRounds > 20 {
			t.Errorf("no packet has the verdict %s", verdict)
		}
	}
	t.Logf("verdicts %v", d.seen)
}

func newDifferential(t *testing.T) *differential {
	t.Helper()
	table, err := golden.Load("..")
	must(t, err)
	d := &differential{
		goldenBench: newGoldenBench(t, table.Router), tables: newGoldenTables(t, table.Router),
		cases: map[string][]golden.Case{}, seen: map[string]int{},
	}
	d.interval = time.Hour // no hint twice in a round, however long that takes
	for _, c := range table.Cases {
		if c.Segment == 0 { // nothing is cut in Go
			d.cases[c.Hook] = append(d.cases[c.Hook], c)
		}
	}
	d.drops = d.counterMap(t, "drops", "lisp_drop", "LISP_DROP_")
	d.counters = d.counterMap(t, "counters", "lisp_counter_index", "LISP_COUNTER_")
	d.routeDatabase(t)
	return d
}

// routeDatabase gives all EIDs of the site one way, but for the router's own, and says so to the programs.
func (d *differential) routeDatabase(t *testing.T) {
	t.Helper()
	for prefix, gateway := range map[string]string{
		"10.1.0.0/25": "10.1.0.10", "10.1.0.128/25": "10.1.0.10", "10.1.128.0/17": "10.1.0.10", "10.7.0.0/24": "10.1.0.10",
		"2001:db8:1::/65": "2001:db8:1::10", "2001:db8:1:0:8000::/65": "2001:db8:1::10", "2001:db8:7::/64": "2001:db8:1::10",
	} {
		must(t, d.ns.Netlink().RouteAdd(&netlink.Route{
			LinkIndex: d.site.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(prefix)), Gw: netip.MustParseAddr(gateway).AsSlice(),
		}))
	}
	first := d.next - uint32(len(d.tables.Router.MapCache)+len(d.tables.Database))
	for i := range d.tables.Database {
		d.setMappingFlags(first+uint32(i), "LISP_MAPPING_VALID", "LISP_MAPPING_DATABASE", "LISP_MAPPING_SINGLE_NEXT_HOP")
	}
}

// isOwn reports whether an EID of the site is an address of the router itself, or a broadcast address of its link.
func isOwn(a netip.Addr) bool {
	return slices.Contains([]string{"10.1.0.1", "10.1.0.0", "10.1.0.255", "2001:db8:1::1", "2001:db8:1::"}, a.String())
}

// The settings, hooks and interfaces that rounds have.
var (
	differentialSettings = [][]string{
		nil, nil, nil, nil, nil, nil, nil, nil, {"outer-not-ect"}, {"outer-dscp-zero"}, {"inner-dscp-kept"}, {"lisp-gpe"}, {"vxlan-gpe"}, {"vxlan-gpe", "lists"}, {"lists"},
		{"check-source"}, {"check-source", "check-source-strict"}, {"check-source", "lists"}, {"status-bits"}, {"map-versions"}, {"echo-nonce"},
		{"status-bits", "map-versions", "echo-nonce"}, {"public-internet", "status-bits"}, {"status-bits", "map-versions", "check-source", "lists"},
	}
	differentialHooks = []string{"site", "site", "site", "core", "core", "core", "local", "tap", "released"}
	differentialRoles = [][]string{nil, nil, {"rtr"}, {"rtr"}, {"petr"}, {"pitr"}, {"rtr", "petr"}, {"pitr", "petr"}, {"rtr", "pitr"}, {"rtr", "pitr", "petr"}}
	differentialFlags = [][]string{nil, {"LISP_INTERFACE_TAKES_FRAMES"}, {"LISP_INTERFACE_TAKES_FRAMES"}, {"LISP_INTERFACE_TAKES_FRAMES", "LISP_INTERFACE_CHECKSUM_PARTIAL"}}
)

// round sends the packets of a seed, and returns the first difference.
func (d *differential) round(t *testing.T, seed uint64) error {
	d.Rand = rand.New(rand.NewPCG(seed, 0))
	c := golden.Case{
		Hook: pick(d.Rand, differentialHooks), Settings: pick(d.Rand, differentialSettings), ExactNonce: true,
		Roles:    pick(d.Rand, differentialRoles),
		Instance: pick(d.Rand, []lisp.InstanceID{0, 0, 0, 7, 16777214}), MissPolicy: pick(d.Rand, []string{"", "", "", "drop", "natively-forward"}),
	}
	if d.IntN(2) == 0 {
		c.Settings = append(slices.Clone(c.Settings), "subflows")
	}
	if c.Has("echo-nonce") {
		c.Peer = pick(d.Rand, d.cases["core"]).Peer
	}
	d.xdp, d.among, d.flags = d.IntN(2) == 1, d.IntN(2) == 0, pick(d.Rand, differentialFlags)
	d.prepare(t, &c)
	d.watchRoutes(t, 1<<62)
	d.missMostly(d.among)
	d.bindSome(t, &c)
	d.twin = newTwin(d.tables, &c)
	m := &mutator{Rand: d.Rand}
	for i := range packetsOfRound {
		c.Input = m.next(d.cases[c.Hook])
		if len(c.Input) < 20 || c.Input[0]>>4 == 6 && len(c.Input) < 40 {
			continue // BPF_PROG_TEST_RUN refuses to make an skb of half an IP header
		}
		if c.Hook == "released" && !d.waits(&c) {
			continue // only what waited is released
		}
		if err := d.compareWithTwin(t, c); err != nil {
			return fmt.Errorf("packet %d at %s, settings %v, roles %v, relayed %t, Instance-ID %d, misses %q, XDP %t %v, most miss %t: %w\nin: %x",
				i, c.Hook, c.Settings, c.Roles, c.Relayed, c.Instance, c.MissPolicy, d.xdp, d.flags, d.among, err, []byte(c.Input))
		}
	}
	return nil
}

// bindSome binds flows of some packets of a hook, mostly to a path of the mapping that covers their destination.
func (d *differential) bindSome(t *testing.T, c *golden.Case) {
	t.Helper()
	bound := map[lisp.Flow]lisp.Path{}
	var paths []lisp.Path
	for path := range d.paths {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, lisp.Path.Compare)
	for range d.IntN(9) {
		packet := []byte(pick(d.Rand, d.cases[c.Hook]).Input)
		h, err := forward.ParseHeader(packet[innerOf(packet):])
		flow, ok := h.Flow(pick(d.Rand, []lisp.InstanceID{c.Instance, c.Instance, 0, 7}))
		if err != nil || !ok || flow.Valid() != nil {
			continue
		}
		if d.IntN(8) == 0 {
			flow = flow.Reverse()
		}
		path := pick(d.Rand, paths)
		if entry := longest(d.tables.entries, flow.Instance, flow.Destination.Addr()); entry != nil &&
			len(entry.Locators) > 0 && d.IntN(4) > 0 {
			l := pick(d.Rand, entry.Locators)
			path = l.Path()
		}
		bound[flow] = path
	}
	d.tables.bound = bound
	d.bindAll(t, bound)
}

// waits makes a case of a packet that is released one of a packet that has waited; false where it would not have.
func (d *differential) waits(c *golden.Case) bool {
	c.Relayed, c.Proxied = slices.Contains(c.Roles, "rtr") && d.IntN(2) == 0, false
	before := *c
	before.Hook = "site"
	o := d.ask(&before, 0)
	c.Proxied = o.Proxied
	return o.What == forward.DoWait || o.What == forward.DoTooBig
}

// compareWithTwin puts a packet through, and makes a golden case of what its twin says.
func (d *differential) compareWithTwin(t *testing.T, c golden.Case) error {
	t.Helper()
	d.drops.grown(t)
	d.counters.grown(t)
	if c.Has("subflows") {
		d.empty(t, "subflow_limits")
		must(t, d.coll.Maps["subflow_rate"].Put(uint32(0), make([]byte, 16)))
	}
	answer, sent, got := d.pass(t, &c)
	drops, _ := d.drops.grown(t)
	counters, octets := d.counters.grown(t)
	r := judge(&c, answer, drops, counters)
	o := d.ask(&c, nonceOf(got, r.verdict))
	describe(&c, &o)
	if c.Has("subflows") && o.Subflow != nil {
		c.Subflow = o.Subflow
		d.seen["subflow"]++
	}
	if o.Binding == forward.BindingChose {
		d.seen["bound"]++
	}
	d.describeInner(&c, &o)
	d.seen[c.Verdict]++
	raised, hints := d.eventsRaised(t)
	if isHostsAffair(&c, &o, r) {
		return nil
	}
	if r.verdict != c.Verdict || r.reason != c.Reason || !slices.Equal(r.notes, c.Notes) {
		return fmt.Errorf("programs: %s %s %v, forward: %s %s %v", r.verdict, r.reason, r.notes, c.Verdict, c.Reason, c.Notes)
	}
	if raised != c.Miss || !slices.Equal(hints, c.Hints) {
		return fmt.Errorf("programs: miss %t, hints %v, forward: %t, %v", raised, hints, c.Miss, c.Hints)
	}
	if c.Verdict == "encapsulate" && r.proxied != o.Proxied {
		return fmt.Errorf("programs: a PITR's: %t, forward: %t", r.proxied, o.Proxied)
	}
	if err := d.compareSubflow(t, &c); err != nil {
		return err
	}
	if want := octetsOf(&c, &o); want > 0 && octets != uint64(want) {
		return fmt.Errorf("programs: %d octets, forward: %d", octets, want)
	}
	if _, told := toldReason(&c); told && answer == actShot {
		return nil // its source was told a moment ago
	}
	if n := etherLength + len(c.Inner); c.Inner != nil && n < len(got) {
		got = got[:n] // what follows the inner packet goes when that is sent
	}
	if n := o.Header.Length; c.Inner == nil && (c.Verdict == "too-big" || c.Verdict == "drop" && answer != actShot) && n < len(c.Input) {
		c.Input, got = c.Input[:n], got[:etherLength+n] // the padding may have gone before that was found out
	}
	return d.compare(&c, answer, sent, got)
}

// isHostsAffair makes allowance for the host's routes and addresses, of which package forward knows nothing: what is routed by the
// main table may have no route; what is decapsulated may be for the router itself, or too big for the site, and is the stack's then.
func isHostsAffair(c *golden.Case, o *forward.Outcome, r goldenResult) bool {
	switch {
	case c.Verdict == "native" && (c.Hook == "tap" || c.Hook == "released") && !c.Relayed:
		return r.verdict == "native" || r.reason == forward.DropNoNativeRoute.String()
	case c.Verdict == "decapsulate" && r.verdict == "stack":
		return isOwn(o.Header.Destination) || len(o.Packet) > siteMTU
	}
	return false
}

// octetsOf is what an encapsulated or decapsulated packet counts for.
func octetsOf(c *golden.Case, o *forward.Outcome) int {
	if c.Verdict == "encapsulate" || c.Verdict == "decapsulate" || c.Verdict == "relay" {
		return o.Header.Length
	}
	return 0
}

// nonceOf reads the nonce of a frame that was encapsulated, which is random.
func nonceOf(frame []byte, verdict string) uint32 {
	at := etherLength + 20 + 8
	if len(frame) > etherLength && frame[etherLength]>>4 == 6 {
		at += 20
	}
	if verdict != "encapsulate" && verdict != "relay" || len(frame) < at+4 {
		return 0
	}
	return binary.BigEndian.Uint32(frame[at:]) & 0xFFFFFF
}

// counterMap is a map of counters as it was seen last.
type counterMap struct {
	*ebpf.Map
	names  []string
	values []counterValue
}

type counterValue struct{ Packets, Octets uint64 }

func (d *differential) counterMap(t *testing.T, name, enumeration, prefix string) counterMap {
	t.Helper()
	var enum *btf.Enum
	must(t, d.spec.Types.TypeByName(enumeration, &enum))
	m := d.coll.Maps[name]
	c := counterMap{Map: m, names: make([]string, m.MaxEntries()), values: make([]counterValue, m.MaxEntries())}
	for _, v := range enum.Values {
		if !strings.HasSuffix(v.Name, "_MAX") {
			c.names[v.Value] = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(v.Name, prefix)), "_", "-")
		}
	}
	return c
}

// grown returns the names of those that have grown, each as often as it has, and the octets of encapsulated and decapsulated packets.
func (c *counterMap) grown(t *testing.T) (names []string, octets uint64) {
	t.Helper()
	var cursor ebpf.MapBatchCursor
	processors := ebpf.MustPossibleCPU()
	keys, values := make([]uint32, len(c.values)), make([]counterValue, len(c.values)*processors)
	n, err := c.BatchLookup(&cursor, keys, values, nil)
	if n < len(keys) {
		t.Fatalf("%d of %d counters: %v", n, len(keys), err)
	}
	for i, key := range keys {
		var sum counterValue
		for _, v := range values[i*processors:][:processors] {
			sum.Packets += v.Packets
			sum.Octets += v.Octets
		}
		names = append(names, slices.Repeat([]string{c.names[key]}, int(sum.Packets-c.values[key].Packets))...)
		if strings.Contains(c.names[key], "capsulated-") || strings.HasPrefix(c.names[key], "relayed-") {
			octets += sum.Octets - c.values[key].Octets
		}
		c.values[key] = sum
	}
	slices.Sort(names)
	return names, octets
}

// ---- the twin ----

// twinNow is the twin's time. The hints' interval and the times of Echo-Nonce are longer than a round takes.
var twinNow = time.Unix(1_800_000_000, 0)

// goldenTables are the golden router's, searched one by one.
type goldenTables struct {
	golden.Router
	entries map[lisp.Prefix]*forward.Entry
	sites   map[lisp.Prefix]forward.Site
	bound   map[lisp.Flow]lisp.Path
}

func newGoldenTables(t *testing.T, r golden.Router) *goldenTables {
	t.Helper()
	g := &goldenTables{Router: r, entries: map[lisp.Prefix]*forward.Entry{}, sites: map[lisp.Prefix]forward.Site{}}
	for _, m := range r.MapCache {
		set, err := m.LocatorSet()
		must(t, err)
		g.entries[m.Prefix] = &forward.Entry{
			Locators: set, Buckets: forward.Buckets(set, nil), Usable: forward.UsableLocators(set, nil),
			Action: m.Action, Hold: m.Hold, Prefix: m.Prefix.Netip(),
			Version: r.Versions[m.Prefix], EchoNonce: slices.Contains(r.EchoNonce, m.Prefix),
		}
	}
	for _, p := range r.Database {
		set, err := r.DatabaseLocators(p)
		must(t, err)
		g.sites[p] = forward.Site{Known: true, Version: r.Versions[p], StatusBits: golden.StatusBits(set)}
	}
	var err error
	g.bound, err = r.Bound()
	must(t, err)
	return g
}

// longest returns what the longest prefix that covers an address has, the zero value for none.
func longest[V any](of map[lisp.Prefix]V, instance lisp.InstanceID, a netip.Addr) (found V) {
	bits := -1
	for p, v := range of {
		if p.Instance() == instance && p.Bits() > bits && p.Netip().Contains(a) {
			found, bits = v, p.Bits()
		}
	}
	return found
}

func (g *goldenTables) InDatabase(instance lisp.InstanceID, a netip.Addr) bool {
	return longest(g.sites, instance, a).Known
}

func (g *goldenTables) Site(instance lisp.InstanceID, a netip.Addr) forward.Site {
	return longest(g.sites, instance, a)
}

func (g *goldenTables) MapCache(instance lisp.InstanceID, a netip.Addr) *forward.Entry {
	return longest(g.entries, instance, a)
}

func (g *goldenTables) IsLocalRLOC(a netip.Addr) bool { return slices.Contains(g.LocalRLOCs, a) }

func (g *goldenTables) Path(to lisp.RLOC) (lisp.RLOC, int) {
	if slices.Contains(g.Unreachable, to.Addr()) {
		return lisp.RLOC{}, 0
	}
	own := g.LocalRLOCs[slices.IndexFunc(g.LocalRLOCs, func(a netip.Addr) bool { return a.Is4() == to.Is4() })]
	return lisp.RLOCFromAddr(own), g.PathMTU
}

func (g *goldenTables) BoundPath(flow lisp.Flow) (path lisp.Path, ok bool) {
	path, ok = g.bound[flow]
	return path, ok
}

func (g *goldenTables) denies(kind forward.ListKind, instance lisp.InstanceID, a netip.Addr) bool {
	return slices.ContainsFunc(g.Lists, func(l golden.List) bool { return l.Kind() == uint8(kind) && l.Instance == instance && l.Denies(a) })
}

var missPolicies = map[string]forward.MissPolicy{"drop": forward.MissDrop, "natively-forward": forward.MissNative}

// newTwin is the golden router with the settings of a case, and what it remembers before.
func newTwin(tables *goldenTables, c *golden.Case) *forward.XTR {
	x := &forward.XTR{
		Tables: tables, Memory: &forward.Memory{}, VXLANGPE: c.Has("vxlan-gpe"), Subflows: c.Has("subflows"),
		Miss:    func(lisp.InstanceID) forward.MissPolicy { return missPolicies[c.MissPolicy] },
		Marking: forward.Marking{OuterNotECT: c.Has("outer-not-ect"), OuterDSCPZero: c.Has("outer-dscp-zero"), InnerDSCPKept: c.Has("inner-dscp-kept")},
		Trusted: forward.Trusted{
			PublicInternet: c.Has("public-internet"), StatusBits: c.Has("status-bits"), MapVersions: c.Has("map-versions"), EchoNonce: c.Has("echo-nonce"),
			Echo: forward.EchoTimes{Wait: goldenEchoWait, Interval: time.Minute}, HintInterval: time.Hour,
		},
		Encapsulation: func(lisp.RLOC) forward.Encapsulation {
			return map[bool]forward.Encapsulation{c.Has("lisp-gpe"): forward.EncapsulationLISPGPE, c.Has("vxlan-gpe"): forward.EncapsulationVXLANGPE}[true]
		},
	}
	x.Roles = func(instance lisp.InstanceID) forward.Roles { return rolesOf(&tables.Router, c.Roles, instance) }
	if c.Has("lists") {
		x.Denies = tables.denies
	}
	if c.Has("check-source") {
		x.Trusted.Source = forward.SourceLoose
	}
	if c.Has("check-source-strict") {
		x.Trusted.Source = forward.SourceStrict
	}
	if p := c.Peer; p != nil {
		rememberPeer(x.Memory.Peer(p.RLOC, true), p)
	}
	return x
}

func rolesOf(r *golden.Router, roles []string, instance lisp.InstanceID) (of forward.Roles) {
	c := golden.Case{Roles: roles}
	if p := r.Policy(&c, "rtr", instance); p != nil {
		of.RTR = p.Covers
	}
	if p := r.Policy(&c, "petr", instance); p != nil {
		of.PETR = p.Covers
	}
	if p := r.Policy(&c, "pitr", instance); p != nil {
		of.PITR = p.Proxies
	}
	return of
}

// emptyMapCache are tables of a router that has to ask for everything.
type emptyMapCache struct{ *goldenTables }

func (emptyMapCache) MapCache(lisp.InstanceID, netip.Addr) *forward.Entry { return nil }

// describeInner says what waits, is answered, or is left to the stack to send of a packet from the core: what an RTR for everything
// would let wait.
func (d *differential) describeInner(c *golden.Case, o *forward.Outcome) {
	switch {
	case c.Hook == "released" && c.Relayed && o.What == forward.DoNatively:
		c.Inner = c.Input
	case c.Hook != "core" || !slices.Contains([]string{"native", "wait", "too-big", "drop"}, c.Verdict):
	default:
		all := func(netip.Addr) bool { return true }
		x := &forward.XTR{Tables: emptyMapCache{d.tables}, Marking: d.twin.Marking, VXLANGPE: d.twin.VXLANGPE,
			Roles: func(lisp.InstanceID) forward.Roles { return forward.Roles{RTR: all} }}
		if waits := x.Inbound(nil, slices.Clone([]byte(c.Input)), forward.Ingress{Now: twinNow}); waits.Relayed {
			c.Inner, c.Instance = waits.Packet, waits.Instance
		}
	}
}

func rememberPeer(e *forward.Echo, p *golden.Peer) {
	at := twinNow.Add(-time.Duration(p.Age) * time.Second)
	if p.Owed != 0 {
		e.Owed, e.OwedAt = p.Owed, at
	}
	if p.Requested != 0 {
		e.Requested, e.RequestedAt = p.Requested, at
	}
}

// ask returns what the twin makes of a case's packet.
func (d *differential) ask(c *golden.Case, nonce uint32) forward.Outcome {
	packet := slices.Clone([]byte(c.Input))
	if c.Hook == "core" {
		return d.twin.Inbound(nil, packet, forward.Ingress{Instance: c.Instance, Nonce: nonce, Now: twinNow})
	}
	return d.twin.Outbound(nil, packet, forward.Ingress{
		Instance: c.Instance, Own: c.Hook == "local" || c.Hook == "tap", Routed: c.Hook == "tap", Released: c.Hook == "released",
		Relayed: c.Relayed, Core: c.Hook == "released" && c.Proxied, Nonce: nonce, Now: twinNow,
	})
}

var noteNames = map[forward.Notes]string{
	forward.NoteECNAlarm: "ecn-alarm", forward.NoteECNCurious: "ecn-curious", forward.NoteNonceAndVersion: "nonce-and-version",
	forward.NoteStaleDestination: "version-stale-destination", forward.NoteStaleSource: "version-stale-source",
	forward.NoteEchoReceived: "echo-received", forward.NoteEchoMissing: "echo-missing",
}

var hintNames = map[forward.HintKind]string{
	forward.HintStatusBits: "status-bits", forward.HintDestinationVersion: "destination-version", forward.HintSourceVersion: "source-version",
	forward.HintEchoMissing: "echo-missing",
}

// describe words an outcome as the table does.
func describe(c *golden.Case, o *forward.Outcome) {
	c.Verdict, c.Miss, c.LargestInner, c.Output = o.What.String(), o.Miss, o.LargestInner, o.Packet
	c.Proxied = o.Proxied
	if o.What == forward.DoDrop {
		c.Reason = o.Reason.String()
	}
	for _, note := range slices.Sorted(maps.Keys(noteNames)) {
		if o.Notes&note != 0 {
			c.Notes = append(c.Notes, noteNames[note])
		}
	}
	slices.Sort(c.Notes)
	for _, h := range o.Hints {
		c.Hints = append(c.Hints, golden.Hint{Kind: hintNames[h.Kind], Value: h.Value, Other: h.Other})
	}
}
