// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/internal/golden"
	"loci/lisp"
)

// goldenTables are the golden router's tables, searched one by one.
type goldenTables struct {
	router  golden.Router
	entries map[lisp.Prefix]*Entry
	bound   map[lisp.Flow]lisp.Path
}

func newGoldenTables(t testing.TB, r golden.Router) *goldenTables {
	tables := &goldenTables{router: r, entries: map[lisp.Prefix]*Entry{}}
	for _, m := range r.MapCache {
		set, err := m.LocatorSet()
		if err != nil {
			t.Fatalf("%s: %v", m.Prefix, err)
		}
		tables.entries[m.Prefix] = &Entry{Locators: set, Buckets: Buckets(set, nil),
			Usable: UsableLocators(set, nil), Action: m.Action, Hold: m.Hold,
			Prefix: m.Prefix.Netip(), Version: r.Versions[m.Prefix], EchoNonce: slices.Contains(r.EchoNonce, m.Prefix)}
	}
	var err error
	if tables.bound, err = r.Bound(); err != nil {
		t.Fatal(err)
	}
	return tables
}

func covers(p lisp.Prefix, instance lisp.InstanceID, a netip.Addr) bool {
	return p.Instance() == instance && p.Netip().Contains(a)
}

func (g *goldenTables) InDatabase(instance lisp.InstanceID, eid netip.Addr) bool {
	return slices.ContainsFunc(g.router.Database, func(p lisp.Prefix) bool { return covers(p, instance, eid) })
}

func (g *goldenTables) Site(instance lisp.InstanceID, eid netip.Addr) (site Site) {
	for _, p := range g.router.Database {
		if covers(p, instance, eid) {
			set, _ := g.router.DatabaseLocators(p)
			site = Site{Known: true, Version: g.router.Versions[p], StatusBits: golden.StatusBits(set)}
		}
	}
	return site
}

func (g *goldenTables) MapCache(instance lisp.InstanceID, eid netip.Addr) (found *Entry) {
	longest := -1
	for p, e := range g.entries {
		if covers(p, instance, eid) && p.Bits() > longest {
			found, longest = e, p.Bits()
		}
	}
	return found
}

func (g *goldenTables) BoundPath(flow lisp.Flow) (path lisp.Path, ok bool) {
	path, ok = g.bound[flow]
	return path, ok
}

func (g *goldenTables) denies(kind ListKind, instance lisp.InstanceID, a netip.Addr) bool {
	return slices.ContainsFunc(g.router.Lists, func(l golden.List) bool {
		return l.Kind() == uint8(kind) && l.Instance == instance && l.Denies(a)
	})
}

// roles are those that a case switches on.
func (g *goldenTables) roles(c *golden.Case) func(lisp.InstanceID) Roles {
	return func(instance lisp.InstanceID) (r Roles) {
		if p := g.router.Policy(c, "rtr", instance); p != nil {
			r.RTR = p.Covers
		}
		if p := g.router.Policy(c, "petr", instance); p != nil {
			r.PETR = p.Covers
		}
		if p := g.router.Policy(c, "pitr", instance); p != nil {
			r.PITR = p.Proxies
		}
		return r
	}
}

func (g *goldenTables) IsLocalRLOC(a netip.Addr) bool { return slices.Contains(g.router.LocalRLOCs, a) }

func (g *goldenTables) Path(to lisp.RLOC) (lisp.RLOC, int) {
	if slices.Contains(g.router.Unreachable, to.Addr()) {
		return lisp.RLOC{}, 0
	}
	for _, a := range g.router.LocalRLOCs {
		if a.Is4() == to.Is4() {
			return lisp.RLOCFromAddr(a), g.router.PathMTU
		}
	}
	return lisp.RLOC{}, 0
}

// goldenXTR is the golden router with the settings of a case.
func goldenXTR(tables Tables, c *golden.Case) *XTR {
	miss := map[string]MissPolicy{"drop": MissDrop, "natively-forward": MissNative}[c.MissPolicy]
	marking := Marking{OuterNotECT: c.Has("outer-not-ect"), OuterDSCPZero: c.Has("outer-dscp-zero"), InnerDSCPKept: c.Has("inner-dscp-kept")}
	missPolicy := func(lisp.InstanceID) MissPolicy { return miss }
	x := &XTR{Tables: tables, Miss: missPolicy, Marking: marking, Memory: goldenMemory(c), Trusted: Trusted{
		PublicInternet: c.Has("public-internet"), StatusBits: c.Has("status-bits"), MapVersions: c.Has("map-versions"), EchoNonce: c.Has("echo-nonce"),
		Echo: EchoTimes{Wait: goldenWait, Interval: time.Minute}, HintInterval: time.Second,
	}}
	x.VXLANGPE, x.Subflows = c.Has("vxlan-gpe"), c.Has("subflows")
	x.Encapsulation = func(lisp.RLOC) Encapsulation {
		return map[bool]Encapsulation{c.Has("lisp-gpe"): EncapsulationLISPGPE, c.Has("vxlan-gpe"): EncapsulationVXLANGPE}[true]
	}
	x.Roles = tables.(*goldenTables).roles(c)
	if c.Has("lists") {
		x.Denies = tables.(*goldenTables).denies
	}
	if c.Has("check-source") {
		x.Trusted.Source = SourceLoose
	}
	if c.Has("check-source-strict") {
		x.Trusted.Source = SourceStrict
	}
	return x
}

const goldenWait = 10 * time.Second

var goldenNow = time.Unix(1_800_000_000, 0)

// goldenMemory is what the router remembers before the case.
func goldenMemory(c *golden.Case) *Memory {
	m := &Memory{}
	if p := c.Peer; p != nil {
		at := goldenNow.Add(-time.Duration(p.Age) * time.Second)
		peer := m.Peer(p.RLOC, true)
		if p.Owed != 0 {
			peer.Owed, peer.OwedAt = p.Owed, at
		}
		if p.Requested != 0 {
			peer.Requested, peer.RequestedAt = p.Requested, at
		}
	}
	if c.StaleEvents > 0 {
		h, _ := readHeader(c.Input)
		key := watchKey{kind: HintDestinationVersion, about: netip.PrefixFrom(h.Source, h.Source.BitLen())}
		m.note(key, watched{raised: goldenNow.Add(-2 * time.Second), count: c.StaleEvents})
	}
	return m
}

// runGolden does what an engine does at the hook of the case, and words it as the
// table does.
func runGolden(x *XTR, c *golden.Case) (Outcome, string) {
	packet := slices.Clone([]byte(c.Input))
	if c.Hook != "core" {
		o := x.Outbound(nil, packet, Ingress{
			Instance: c.Instance, Own: c.Hook == "local" || c.Hook == "tap", Routed: c.Hook == "tap",
			Released: c.Hook == "released", Relayed: c.Relayed, Core: c.Proxied, Segment: c.Segment, Nonce: 0xFEDCBA, Now: goldenNow,
		})
		return o, o.What.String()
	}
	o := x.Inbound(nil, packet, Ingress{Instance: c.Instance, Segment: c.Segment, Nonce: 0xFEDCBA, Now: goldenNow})
	return o, o.What.String()
}

func noteNames(n Notes) (names []string) {
	for note, name := range map[Notes]string{NoteECNAlarm: "ecn-alarm", NoteECNCurious: "ecn-curious", NoteNonceAndVersion: "nonce-and-version",
		NoteStaleDestination: "version-stale-destination", NoteStaleSource: "version-stale-source",
		NoteEchoReceived: "echo-received", NoteEchoMissing: "echo-missing"} {
		if n&note != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Shows RFC 9300 s.4.1 (1), (2), RFC 9300 s.5.3 (7), (10), (12), RFC 9300 s.10 (2), RFC 9300 s.10.1 (2), RFC 9302
// s.6.1 (1), (2), (3), RFC 9302 s.7.1 (1), (2), (5), RFC 9302 s.7.2 (1), (3), (4), RFC 9302 s.8 (1), RFC 9300 s.4
// (2), RFC 9300 s.5 (1), RFC 9300 s.5.3 (1), (2), (3), (6), (8), (9), (13), (14), (15), (16), (17), RFC 9300 s.7.1
// (3), RFC 9300 s.9 (1).
func TestGoldenPackets(t *testing.T) {
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	tables := newGoldenTables(t, table.Router)
	reasons, verdicts := map[string]int{}, map[string]int{}
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			x := goldenXTR(tables, &c)
			o, verdict := runGolden(x, &c)
			compareHints(t, &c, o)
			compareOwed(t, &c, x.Memory)
			reasons[o.Reason.String()]++
			verdicts[verdict]++
			if err := compareGolden(&c, o, verdict); err != nil {
				t.Errorf("%v\nwhy: %s\nin:   %x", err, c.Why, []byte(c.Input))
			}
		})
	}
	t.Logf("%d cases, verdicts %v, drop reasons %v", len(table.Cases), verdicts, reasons)
}

var hintNames = map[HintKind]string{
	HintStatusBits: "status-bits", HintDestinationVersion: "destination-version", HintSourceVersion: "source-version", HintEchoMissing: "echo-missing",
}

func compareHints(t *testing.T, c *golden.Case, o Outcome) {
	t.Helper()
	var hints []golden.Hint
	for _, h := range o.Hints {
		hints = append(hints, golden.Hint{Kind: hintNames[h.Kind], Value: h.Value, Other: h.Other})
		if outer, _ := readHeader(c.Input); h.RLOC != outer.Source {
			t.Errorf("hint about %s, want %s", h.RLOC, outer.Source)
		}
	}
	if !slices.Equal(hints, c.Hints) {
		t.Errorf("hints %v, want %v\nwhy: %s", hints, c.Hints, c.Why)
	}
}

func compareOwed(t *testing.T, c *golden.Case, m *Memory) {
	t.Helper()
	if c.Owes == nil {
		return
	}
	owed := uint32(0)
	for _, p := range m.peers {
		owed = p.Owed
	}
	if owed != *c.Owes {
		t.Errorf("owes 0x%x, want 0x%x", owed, *c.Owes)
	}
}

func compareGolden(c *golden.Case, o Outcome, verdict string) error {
	reason := ""
	if o.Reason != DropNone {
		reason = o.Reason.String()
	}
	output, want := o.Packet, []byte(c.Output)
	switch verdict {
	case "encapsulate", "relay":
		output = c.Masked(output)
	case "wait", "too-big":
		want = c.Inner
	}
	switch {
	case verdict != c.Verdict || reason != c.Reason:
		return fmt.Errorf("%s %s, want %s %s", verdict, reason, c.Verdict, c.Reason)
	case !bytes.Equal(output, want):
		return fmt.Errorf("sent\n%x, want\n%x", output, want)
	case o.Proxied != c.Proxied && (verdict == "encapsulate" || verdict == "wait"):
		return fmt.Errorf("a PITR's: %t, want %t", o.Proxied, c.Proxied)
	case o.Miss != c.Miss:
		return fmt.Errorf("miss is %t, want %t", o.Miss, c.Miss)
	case verdict == "too-big" && o.LargestInner != c.LargestInner:
		return fmt.Errorf("largest inner packet %d, want %d", o.LargestInner, c.LargestInner)
	case c.Has("subflows") && !bytes.Equal(o.Subflow, c.Subflow):
		return fmt.Errorf("subflow %x, want %x", o.Subflow, []byte(c.Subflow))
	case strings.Join(noteNames(o.Notes), " ") != strings.Join(c.Notes, " "):
		return fmt.Errorf("notes %v, want %v", noteNames(o.Notes), c.Notes)
	case (verdict == "decapsulate" || verdict == "relay") && o.Instance != c.Instance:
		return fmt.Errorf("Instance-ID %d, want %d", o.Instance, c.Instance)
	}
	return nil
}

// TestGoldenReasons demands a golden packet for every reason that package forward
// itself gives.
func TestGoldenReasons(t *testing.T) {
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range table.Cases {
		seen[c.Reason] = true
	}
	const layers = "two layers: the conformance suite"
	elsewhere := map[DropReason]string{
		DropNoTAP: "the kernel engine", DropEncapsulationFailed: "lengths no frame has", DropTAPOriginUnknown: "the kernel engine",
		DropNoNativeRoute: "the kernel engine", DropOtherInstance: "the kernel engine", DropDecapsulationFailed: "the kernel engine", DropWaitingPacketsLimit: "WaitQueue",
		DropWaitingSourceLimit: "WaitQueue", DropBacklogSourceLimit: "the engines", DropWaitingOctetsLimit: "WaitQueue", DropWaitingTimeLimit: "WaitQueue", DropTooBig: "Fragment", DropHandOverLimit: "the engines", DropControlLimit: "the engines",
		DropRecursionDepth: layers, DropMappingLoop: layers,
	}
	for _, r := range DropReasons() {
		if elsewhere[r] == "" && !seen[r.String()] {
			t.Errorf("no golden packet is dropped for %s", r)
		}
	}
}
