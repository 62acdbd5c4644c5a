// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loci/control"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/lisp"
)

func prefixes(list ...string) (parsed []netip.Prefix) {
	for _, p := range list {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	return parsed
}

// TestPlanOfRelays: the policies of all roles, in every Instance-ID, reach the data plane, which accepts them.
func TestPlanOfRelays(t *testing.T) {
	p, err := planOf(t, `interfaces: {core: [core0, core1]}
itr: {map-resolvers: [192.0.2.9]}
rtr: {relay: [{eid-prefixes: [10.0.0.0/8, "2001:db8::/32"]}, {instance-id: 7, eid-prefixes: [10.2.0.0/16]}]}
pitr: {serve: [{eid-prefixes: [10.0.0.0/8], sources: [198.51.100.0/24]}]}
petr: {serve: [{eid-prefixes: ["2001:db8::/32"]}]}
datapath: {recursion-depth: 2}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []dataplane.RolePolicy{
		{Role: dataplane.RoleRTR, EIDs: prefixes("10.0.0.0/8", "2001:db8::/32")},
		{Role: dataplane.RoleRTR, Instance: 7, EIDs: prefixes("10.2.0.0/16")},
		{Role: dataplane.RolePITR, EIDs: prefixes("10.0.0.0/8"), Sources: prefixes("198.51.100.0/24")},
		{Role: dataplane.RolePETR, EIDs: prefixes("2001:db8::/32")},
	}
	if !reflect.DeepEqual(p.Settings.Roles, want) || p.Settings.RecursionDepth != 2 {
		t.Errorf("roles %+v, depth %d", p.Settings.Roles, p.Settings.RecursionDepth)
	}
	if got := p.Control.Roles; len(got) != 4 || got[0].Role != control.RoleRTR || got[2].Role != control.RolePITR || len(got[2].Sources) != 1 || got[3].Role != control.RolePETR ||
		got[1].Instance != 7 || p.Control.RecursionDepth != 2 {
		t.Errorf("roles of the Node %+v, depth %d", got, p.Control.RecursionDepth)
	}
	if err := p.Settings.CheckRoles(); err != nil {
		t.Error(err)
	}
	if err := p.Control.Validate(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(p.Roles(), " "); got != "rtr pitr petr" {
		t.Errorf("roles %s: without an EID of its own it is no ITR", got)
	}
	if p.Settings.MissPolicy != dataplane.MissQueue || len(p.Settings.LocalRLOCs) != 3 || p.WaitsForRLOC() {
		t.Errorf("miss policy %s, own RLOCs %v", p.Settings.MissPolicy, p.Settings.LocalRLOCs)
	}
}

// TestPlanOfAPETRAlone: it needs neither Map-Resolvers nor EIDs; every address towards the core is an RLOC.
func TestPlanOfAPETRAlone(t *testing.T) {
	p, err := planOf(t, "interfaces: {core: [core0]}\npetr: {serve: [{eid-prefixes: [10.0.0.0/8]}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Settings.LocalRLOCs) != 2 || p.Settings.MissPolicy != dataplane.MissForwardNatively || strings.Join(p.Roles(), " ") != "petr" {
		t.Errorf("own RLOCs %v, miss policy %s, roles %v", p.Settings.LocalRLOCs, p.Settings.MissPolicy, p.Roles())
	}
	if p.Control.ITR != nil || p.Control.ETR != nil {
		t.Error("it is an ITR or an ETR")
	}
	if err := p.Control.Validate(); err != nil {
		t.Error(err)
	}
}

// TestRelaysBesideAnXTR: the roles of a site's router are named all.
func TestRelaysBesideAnXTR(t *testing.T) {
	p, err := planOf(t, planHead+"etr: {local-eids: [{instance-id: 7, eid: 10.1.0.0/24}]}\nrtr: {relay: [{instance-id: 7, eid-prefixes: [10.0.0.0/8]}]}\n")
	if err != nil || strings.Join(p.Roles(), " ") != "itr etr rtr" {
		t.Errorf("%v, %v", p.Roles(), err)
	}
}

// TestRelaysChangeWithoutRestart: policies and the depth may change in a running daemon.
func TestRelaysChangeWithoutRestart(t *testing.T) {
	const head = "interfaces: {core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n"
	texts := []string{
		head + "rtr: {relay: [{eid-prefixes: [10.0.0.0/8]}]}\n",
		head + "rtr: {relay: [{eid-prefixes: [10.0.0.0/8, 172.16.0.0/12]}]}\ndatapath: {recursion-depth: 2}\n",
		head + "pitr: {serve: [{eid-prefixes: [10.0.0.0/8]}]}\n",
		"interfaces: {core: [core0]}\npetr: {serve: [{eid-prefixes: [10.0.0.0/8]}]}\n",
		head + "etr: {local-eids: [{eid: 10.1.0.0/24}]}\n",
	}
	for _, old := range texts {
		for _, to := range texts {
			current, err := planOf(t, old)
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := planOf(t, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := NeedsRestart(current, fresh, max(current.MappingLimit(), fresh.MappingLimit())); err != nil {
				t.Errorf("%s\nto\n%s\n%v", old, to, err)
			}
			if old != to && current.SameInForce(fresh) {
				t.Errorf("no difference between\n%s\nand\n%s", old, to)
			}
		}
	}
}

// TestPlanOfPaths: a path that ends at this router is its own locator, whatever stands before.
func TestPlanOfPaths(t *testing.T) {
	p, err := planOf(t, planHead+`etr:
  local-eids:
    - instance-id: 7
      eid: 10.1.0.0/24
      rlocs:
        - {explicit-locator-path: [{address: 203.0.113.1, lrs-bits: [rloc-probe, strict]}, "2001:db8:9::1", 192.0.2.1], priority: 2}
        - {explicit-locator-path: [203.0.113.1, 203.0.113.2, {address: 192.0.2.1, lrs-bits: [strict]}]}
        - {explicit-locator-path: [198.51.100.1]}
`)
	if err != nil {
		t.Fatal(err)
	}
	set := p.Control.ETR.Database[0].Locators
	if len(set) != 3 {
		t.Fatalf("locators %v", set)
	}
	byPath := map[string]lisp.Locator{}
	for _, l := range set {
		byPath[l.Path().String()] = l
		if !l.Local || !l.Bits.Has(0, lisp.HopExplicit) {
			t.Errorf("%s: local %t, bits %v", l.Path(), l.Local, l.Bits)
		}
	}
	long := byPath["203.0.113.1 -> 2001:db8:9::1 -> 192.0.2.1"]
	if long.Priority != 2 || !long.Bits.Has(0, lisp.HopProbe|lisp.HopStrict) || long.Bits.Has(0, lisp.HopLookup) || long.Bits.Has(1, lisp.HopStrict) {
		t.Errorf("%+v", long)
	}
	if last := byPath["203.0.113.1 -> 203.0.113.2 -> 192.0.2.1"]; !last.Bits.Has(2, lisp.HopStrict) {
		t.Errorf("%+v", last)
	}
	if rlocs := p.Settings.LocalRLOCs; slices.ContainsFunc(rlocs, func(r lisp.RLOC) bool { return r.String() == "203.0.113.1" }) {
		t.Errorf("a hop of others is among the own RLOCs %v", rlocs)
	}
}

// TestPlanOfPathsThatCannotBe: a path that comes back to this router is refused, and so is one that ends elsewhere beside one that
// ends here. Without any that ends here, the address is waited for. Another xTR of the site may be the end: that is warned of.
func TestPlanOfPathsThatCannotBe(t *testing.T) {
	const head = planHead + "etr:\n  local-eids:\n    - instance-id: 7\n      eid: 10.1.0.0/24\n      rlocs: "
	if _, err := planOf(t, head+"[{explicit-locator-path: [203.0.113.1, 198.51.100.1, 192.0.2.1]}]\n"); err == nil ||
		!strings.Contains(err.Error(), "loci.yaml:7:14: path 203.0.113.1 -> 198.51.100.1 -> 192.0.2.1: hop 2, 198.51.100.1, is this router") {
		t.Errorf("a path through this router: %v", err)
	}
	p, err := planOf(t, head+"[{explicit-locator-path: [203.0.113.1, 203.0.113.2]}]\n")
	if err != nil || !strings.Contains(strings.Join(p.Waiting(), "\n"), "no locator of this EID-Prefix is an address of this host") || len(p.Control.ETR.Database) != 0 {
		t.Errorf("a path that ends elsewhere: %v, %v", p.Waiting(), err)
	}
	const mixed = head + "[{address: 192.0.2.1}, {explicit-locator-path: [203.0.113.1, 203.0.113.2]}]\n"
	if _, err = planOf(t, mixed); err == nil || !strings.Contains(err.Error(), "loci.yaml:7:14: path 203.0.113.1 -> 203.0.113.2 ends at 203.0.113.2, which is not an address of this host: want") {
		t.Errorf("a path to another router: %v", err)
	}
	p, err = planOf(t, mixed+"  siblings: [{addresses: [10.1.0.2]}]\n")
	if err != nil || !strings.Contains(strings.Join(trouble.Lines(p.Warnings), "\n"), "path 203.0.113.1 -> 203.0.113.2 ends at 203.0.113.2, which is not an address of this host") {
		t.Errorf("a path that may be another xTR's: %v, %v", p.Warnings, err)
	}
}

// TestPlanOfStaticPaths: static mappings keep ports, and a path of others is not this router's.
func TestPlanOfStaticPaths(t *testing.T) {
	p, err := planOf(t, `interfaces: {site: [site0], core: [core0]}
itr:
  map-cache:
    mappings:
      - {eid: 10.9.0.0/16, rlocs: [{address: 203.0.113.9, port: 40001}, {address: 203.0.113.9, port: 40002}]}
      - {eid: 10.8.0.0/16, rlocs: [{explicit-locator-path: [203.0.113.1, {address: 203.0.113.9, port: 40001}]}]}
etr: {local-eids: [{eid: 10.1.0.0/24}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range p.Control.ITR.StaticMappings {
		for _, l := range m.Locators {
			texts = append(texts, l.Path().String())
			if l.Local {
				t.Errorf("%s is this router's", l.Path())
			}
		}
	}
	if want := "203.0.113.9:40001 203.0.113.9:40002 203.0.113.1 -> 203.0.113.9:40001"; strings.Join(texts, " ") != want {
		t.Errorf("locators %v", texts)
	}
}

// TestPlanOfLocatorsThatLeadBack: static mappings and proxy ETRs that are this router are warned of, each at its place.
func TestPlanOfLocatorsThatLeadBack(t *testing.T) {
	p, err := planOf(t, `interfaces: {site: [site0], core: [core0]}
itr:
  proxy-etrs: [{address: 192.0.2.1}]
  map-cache:
    mappings:
      - {eid: 10.9.0.0/16, rlocs: [{address: 203.0.113.9}, {address: 192.0.2.1}]}
      - {eid: 10.8.0.0/16, rlocs: [{explicit-locator-path: [203.0.113.1, 192.0.2.1]}]}
      - {eid: 10.7.0.0/16, rlocs: [{explicit-locator-path: [192.0.2.1, 203.0.113.1]}]}
etr: {local-eids: [{eid: 10.1.0.0/24}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(trouble.Lines(p.Warnings), "\n")
	for _, want := range []string{
		"loci.yaml:3:15: 192.0.2.1 ends at this router: want another router's address", "loci.yaml:6:35: 192.0.2.1 ends at this router",
		"loci.yaml:7:35: 203.0.113.1 -> 192.0.2.1 ends at this router",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "loci.yaml:8") {
		t.Errorf("a path through this router to another one is warned of:\n%s", text)
	}
}
