// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/flows"
	"loci/dataplane/model/packets"
	"loci/forward"
	"loci/internal/golden"
	"loci/lisp"
)

const testMappings = 300

// harness is an engine whose emissions are kept by side, and whose clock is moved
// by hand.
type harness struct {
	engine *Engine

	mu         sync.Mutex
	now        time.Time
	core, site [][]byte
}

func newHarness(testing.TB) conformance.Harness {
	h := &harness{now: time.Now()}
	h.engine = New(Options{Now: h.clock, Emit: h.emit, Mappings: testMappings})
	return h
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) emit(e packets.Emission) {
	h.mu.Lock()
	defer h.mu.Unlock()
	toSite := e.Way == packets.ToSite || e.Way == packets.ToStack || e.Way == packets.Natively && conformance.IsOfSite(e.Packet)
	if toSite {
		h.site = append(h.site, e.Packet)
		return
	}
	h.core = append(h.core, e.Packet)
}

func (h *harness) Plane() dataplane.Plane { return h.engine }
func (h *harness) MappingLimit() int      { return testMappings }

func (h *harness) Settings() dataplane.Settings {
	s := h.engine.Settings()
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

func (h *harness) Raise(event dataplane.Event) { h.engine.Raise(event) }

func (h *harness) SendFromSite(_ testing.TB, packet []byte) { h.engine.Send("site0", packet) }
func (h *harness) SendFromCore(_ testing.TB, packet []byte) { h.engine.Send("core0", packet) }

func (h *harness) ReceiveAtCore(testing.TB) ([]byte, bool) { return h.take(&h.core) }
func (h *harness) ReceiveAtSite(testing.TB) ([]byte, bool) { return h.take(&h.site) }

func (h *harness) take(queue *[][]byte) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*queue) == 0 {
		return nil, false
	}
	packet := (*queue)[0]
	*queue = (*queue)[1:]
	return packet, true
}

func (h *harness) Pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// Shows RFC 6832 s.5 (2), RFC 6832 s.5.2 (2), RFC 6832 s.6 (1), RFC 6832 s.6.1 (4), (5), RFC 8060 s.4.6 (2).
func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }

func TestFlows(t *testing.T) { flows.Run(t, newHarness) }

// TestGoldenPackets runs the golden packets through the engine and its tables; what
// package forward makes of them is tested there.
func TestGoldenPackets(t *testing.T) {
	table, err := golden.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Hook == "tap" || c.Hook == "released" || c.Segment > 0 || c.Peer != nil || c.StaleEvents > 0 {
				t.Skip("this engine has no such way in")
			}
			e, sent := goldenEngine(t, table.Router, &c)
			if got := wordOf(&c, e, sent); got != c.Verdict+" "+c.Reason {
				t.Fatalf("%q, want %q", got, c.Verdict+" "+c.Reason)
			}
			output := []byte(c.Output)
			if c.Verdict == "pass" || c.Verdict == "native" && c.Inner == nil {
				output = c.Input
			}
			if len(output) > 0 && !bytes.Equal(c.Masked((*sent)[0].Packet), c.Masked(output)) {
				t.Errorf("sent\n%x, want\n%x", (*sent)[0].Packet, output)
			}
		})
	}
}

// goldenEngine is the golden router, which has been given the packet of the case.
func goldenEngine(t *testing.T, r golden.Router, c *golden.Case) (*Engine, *[]packets.Emission) {
	t.Helper()
	sent := new([]packets.Emission)
	e := New(Options{
		Emit:    func(m packets.Emission) { *sent = append(*sent, m) },
		Marking: forward.Marking{OuterNotECT: c.Has("outer-not-ect"), OuterDSCPZero: c.Has("outer-dscp-zero"), InnerDSCPKept: c.Has("inner-dscp-kept")},
		PathMTU: func(to lisp.RLOC) int {
			if slices.Contains(r.Unreachable, to.Addr()) {
				return 0
			}
			return r.PathMTU
		},
	})
	for i, err := range e.Apply(goldenOperations(t, r, c)...) {
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	switch c.Hook {
	case "site", "core":
		e.Send(c.Hook, c.Input)
	default:
		e.SendOwn(c.Instance, c.Input)
	}
	return e, sent
}

func goldenOperations(t *testing.T, r golden.Router, c *golden.Case) []dataplane.Operation {
	t.Helper()
	settings := dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site", Instance: c.Instance}, {Name: "core", Side: dataplane.SideCore, Instance: coreInstance(c)}},
		Header: dataplane.HeaderSettings{
			PublicInternet: c.Has("public-internet"), StatusBits: c.Has("status-bits"), MapVersions: c.Has("map-versions"), EchoNonce: c.Has("echo-nonce"),
		},
		MissPolicy: map[string]dataplane.MissPolicy{"drop": dataplane.MissDrop, "natively-forward": dataplane.MissForwardNatively}[c.MissPolicy],
		Wait:       dataplane.DefaultWaitBounds,
	}
	for word, encapsulation := range map[string]dataplane.Encapsulation{
		"lisp-gpe": dataplane.EncapsulationLISPGPE, "vxlan-gpe": dataplane.EncapsulationVXLANGPE,
	} {
		if c.Has(word) {
			settings.Encapsulations = []dataplane.EncapsulationRule{{Encapsulation: encapsulation}}
		}
	}
	if c.Has("lists") {
		for _, l := range r.Lists {
			settings.Lists = append(settings.Lists, listOf(l))
		}
	}
	for _, p := range r.Policies {
		if role := slices.Index([]string{"rtr", "pitr", "petr"}, p.Role); slices.Contains(c.Roles, p.Role) {
			settings.Roles = append(settings.Roles, dataplane.RolePolicy{Role: dataplane.Role(role), Instance: p.Instance, EIDs: p.EIDs, Sources: p.Sources})
		}
	}
	if c.Has("check-source") {
		settings.Header.SourceCheck = dataplane.SourceLoose
	}
	if c.Has("check-source-strict") {
		settings.Header.SourceCheck = dataplane.SourceStrict
	}
	for _, a := range r.LocalRLOCs {
		settings.LocalRLOCs = append(settings.LocalRLOCs, lisp.RLOCFromAddr(a))
	}
	operations := []dataplane.Operation{dataplane.SetSettings{Settings: settings}}
	for _, p := range r.Database {
		own, err := r.DatabaseLocators(p)
		if err != nil {
			t.Fatal(err)
		}
		operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: p, Locators: own, Version: r.Versions[p]}})
	}
	for _, m := range r.MapCache {
		set, err := m.LocatorSet()
		if err != nil {
			t.Fatal(err)
		}
		if !m.Hold { // the model releases at once: it has no mapping on hold
			operations = append(operations, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
				Mapping: lisp.Mapping{
					Prefix: m.Prefix, Locators: set, Action: m.Action, Version: r.Versions[m.Prefix], EchoNonce: slices.Contains(r.EchoNonce, m.Prefix),
				},
			}})
		}
	}
	bound, err := r.Bound()
	if err != nil {
		t.Fatal(err)
	}
	for flow, path := range bound {
		operations = append(operations, dataplane.PutFlow{Flow: flow, Path: path})
	}
	return operations
}

// coreInstance is that of the core interface, which counts for packets without LISP.
func coreInstance(c *golden.Case) lisp.InstanceID {
	if c.Hook == "core" {
		return c.Instance
	}
	return 0
}

// wordOf tells by counters and emissions what became of the packet, as the table does.
func wordOf(c *golden.Case, e *Engine, sent *[]packets.Emission) string {
	counters := e.Counters()
	for reason := range counters.Drops {
		if reason == forward.DropTooBig.String() {
			return "too-big "
		}
		return "drop " + reason
	}
	switch {
	case counters.WaitingPackets > 0:
		return "wait "
	case counters.NativePackets > 0:
		return "native "
	case len(*sent) == 2 && c.Verdict == "too-big": // IPv4 without DF goes in parts
		return "too-big "
	case len(*sent) != 1:
		return fmt.Sprintf("%d packets sent", len(*sent))
	}
	if counters.RelayedPackets > 0 {
		return "relay "
	}
	return map[packets.Way]string{packets.ToCore: "encapsulate ", packets.ToSite: "decapsulate ", packets.ToStack: "stack ", packets.Natively: "pass "}[(*sent)[0].Way]
}

func TestExpiryDetachAndEvents(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := New(Options{Now: func() time.Time { return now }})
	if _, ok := e.NextExpiry(); ok {
		t.Error("an empty queue expires")
	}
	e.Apply(dataplane.SetSettings{Settings: dataplane.Settings{
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4)}, Wait: dataplane.DefaultWaitBounds,
	}}, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: lisp.MustParsePrefix("10.1.0.0/24"), Locators: lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(conformance.OwnRLOC4)}},
	}})
	packet := []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 1, 0, 10, 10, 2, 0, 0}
	for i := range eventsWaiting + 10 {
		packet[18], packet[19] = byte(i>>8), byte(i)
		e.SendOwn(0, packet)
	}
	if at, ok := e.NextExpiry(); !ok || !at.Equal(now.Add(dataplane.DefaultWaitBounds.Time)) {
		t.Errorf("next expiry %s, %t", at, ok)
	}
	if c := e.Counters(); c.EventsLost != 10 || c.MissPackets != eventsWaiting+10 {
		t.Errorf("%d events lost of %d misses, want 10", c.EventsLost, c.MissPackets)
	}
	now = now.Add(dataplane.DefaultWaitBounds.Time)
	if c := e.Counters(); c.WaitingPackets != 0 || c.Drops["waiting-time-limit"] != eventsWaiting+10 {
		t.Errorf("%d packets wait, dropped %v", c.WaitingPackets, c.Drops)
	}
	if err := e.Detach(t.Context()); err != nil {
		t.Error(err)
	}
	for entry := range e.Database() {
		t.Errorf("%s is left after Detach", entry.Prefix)
	}
}

// listOf says in Allow and Deny what a list of the golden router has entry by entry:
// there, what no entry covers is permitted.
func listOf(l golden.List) dataplane.AccessList {
	list := dataplane.AccessList{Address: dataplane.ListAddress(l.Kind() & 3), Instance: l.Instance}
	if l.Packets == "decapsulated" {
		list.Packets = dataplane.ListDecapsulated
	}
	for _, all := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		if l.Entries[all] == "" {
			list.Allow = append(list.Allow, all)
		}
	}
	for prefix, verdict := range l.Entries {
		if verdict == "permit" {
			list.Allow = append(list.Allow, prefix)
		} else {
			list.Deny = append(list.Deny, prefix)
		}
	}
	return list
}

// TestControlPacketsBeyondTheRate are counted, one by one.
func TestControlPacketsBeyondTheRate(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	e := New(Options{Now: func() time.Time { return now }})
	own, rtr := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	s := dataplane.Settings{Interfaces: []dataplane.Interface{{Name: "core0", Side: dataplane.SideCore}}}
	s.LocalRLOCs, s.RTRs = []lisp.RLOC{lisp.RLOCFromAddr(own)}, []lisp.RLOC{lisp.RLOCFromAddr(rtr)}
	if err := errors.Join(e.Apply(dataplane.SetSettings{Settings: s})...); err != nil {
		t.Fatal(err)
	}
	control := func(octets int) []byte {
		outer := forward.Reassembled{Source: netip.AddrPortFrom(rtr, 4342), Destination: netip.AddrPortFrom(own, 4341), TTL: 64}
		return forward.AppendReassembled(nil, outer, append([]byte{8, 0, 0, 0, 255, 255, 255, 0}, make([]byte, octets)...))
	}
	for range dataplane.MaxControlPacketsFrom + 7 {
		e.Send("core0", control(60))
	}
	if c := e.Counters(); c.Other["control_packets"] != dataplane.MaxControlPacketsFrom || c.Drops["control-limit"] != 7 {
		t.Errorf("%d events, %d dropped", c.Other["control_packets"], c.Drops["control-limit"])
	}
	now = now.Add(time.Second)
	e.Send("core0", control(dataplane.MaxControlOctets+1))
	e.Send("core0", control(dataplane.MaxControlOctets))
	if c := e.Counters(); c.Other["control_packets"] != dataplane.MaxControlPacketsFrom+1 || c.Drops["control-limit"] != 8 {
		t.Errorf("%d events, %d dropped after long ones", c.Other["control_packets"], c.Drops["control-limit"])
	}
}
