// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"loci/internal/golden"
	"loci/lisp"
)

// goldenTables are the golden router's tables, searched one by one.
type goldenTables struct {
	router  golden.Router
	entries map[lisp.Prefix]*Entry
}

func newGoldenTables(t testing.TB, r golden.Router) *goldenTables {
	tables := &goldenTables{router: r, entries: map[lisp.Prefix]*Entry{}}
	for _, m := range r.MapCache {
		set, err := m.LocatorSet()
		if err != nil {
			t.Fatalf("%s: %v", m.Prefix, err)
		}
		tables.entries[m.Prefix] = &Entry{Locators: set, Buckets: Buckets(set, nil), Action: m.Action, Hold: m.Hold}
	}
	return tables
}

func covers(p lisp.Prefix, instance lisp.InstanceID, a netip.Addr) bool {
	return p.Instance() == instance && p.Netip().Contains(a)
}

func (g *goldenTables) InDatabase(instance lisp.InstanceID, eid netip.Addr) bool {
	return slices.ContainsFunc(g.router.Database, func(p lisp.Prefix) bool { return covers(p, instance, eid) })
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
	return &XTR{Tables: tables, Miss: miss, Marking: marking}
}

// runGolden does what an engine does at the hook of the case, and words it as the
// table does.
func runGolden(x *XTR, c *golden.Case) (Outcome, string) {
	packet := slices.Clone([]byte(c.Input))
	if c.Hook != "core" {
		o := x.Outbound(nil, packet, Ingress{
			Instance: c.Instance, Own: c.Hook == "local" || c.Hook == "tap", Routed: c.Hook == "tap",
			Released: c.Hook == "released", Segment: c.Segment, Nonce: 0xABCDEF,
		})
		return o, o.Verdict.String()
	}
	o := x.Inbound(packet)
	if o.Verdict != VerdictDecapsulate {
		return o, o.Verdict.String()
	}
	if o.Header.TTL <= 1 {
		return o, "stack"
	}
	DecrementTTL(o.Packet, &o.Header)
	return o, o.Verdict.String()
}

func noteNames(n Notes) (names []string) {
	for note, name := range map[Notes]string{NoteECNAlarm: "ecn-alarm", NoteECNCurious: "ecn-curious", NoteNonceAndVersion: "nonce-and-version"} {
		if n&note != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Shows RFC 9300 s.4 (2), RFC 9300 s.5 (1), RFC 9300 s.5.3 (1), (2), (3), (6), (8), (9), (13), (14), (15), (16),
// (17), RFC 9300 s.7.1 (3), RFC 9300 s.9 (1).
func TestGoldenPackets(t *testing.T) {
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	tables := newGoldenTables(t, table.Router)
	reasons, verdicts := map[string]int{}, map[string]int{}
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			o, verdict := runGolden(goldenXTR(tables, &c), &c)
			reasons[o.Reason.String()]++
			verdicts[verdict]++
			if err := compareGolden(&c, o, verdict); err != nil {
				t.Errorf("%v\nwhy: %s\nin:   %x", err, c.Why, []byte(c.Input))
			}
		})
	}
	t.Logf("%d cases, verdicts %v, drop reasons %v", len(table.Cases), verdicts, reasons)
}

func compareGolden(c *golden.Case, o Outcome, verdict string) error {
	reason := ""
	if o.Reason != DropNone {
		reason = o.Reason.String()
	}
	output := o.Packet
	if verdict == "encapsulate" {
		output = golden.MaskNonce(output)
	}
	if verdict == "drop" {
		output = nil
	}
	switch {
	case verdict != c.Verdict || reason != c.Reason:
		return fmt.Errorf("%s %s, want %s %s", verdict, reason, c.Verdict, c.Reason)
	case !bytes.Equal(output, c.Output):
		return fmt.Errorf("sent\n%x, want\n%x", output, []byte(c.Output))
	case o.Miss != c.Miss:
		return fmt.Errorf("miss is %t, want %t", o.Miss, c.Miss)
	case verdict == "too-big" && o.LargestInner != c.LargestInner:
		return fmt.Errorf("largest inner packet %d, want %d", o.LargestInner, c.LargestInner)
	case strings.Join(noteNames(o.Notes), " ") != strings.Join(c.Notes, " "):
		return fmt.Errorf("notes %v, want %v", noteNames(o.Notes), c.Notes)
	case verdict == "decapsulate" && o.Instance != c.Instance:
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
	elsewhere := map[DropReason]string{
		DropNoTAP: "the kernel engine", DropEncapsulationFailed: "lengths no frame has", DropTAPOriginUnknown: "the kernel engine",
		DropNoNativeRoute: "the kernel engine", DropDecapsulationFailed: "the kernel engine", DropWaitingPacketsLimit: "WaitQueue",
		DropWaitingOctetsLimit: "WaitQueue", DropWaitingTimeLimit: "WaitQueue", DropTooBig: "Fragment", DropHandOverLimit: "the engines",
	}
	for _, r := range DropReasons() {
		if elsewhere[r] == "" && !seen[r.String()] {
			t.Errorf("no golden packet is dropped for %s", r)
		}
	}
}
