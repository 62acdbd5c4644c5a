// SPDX-License-Identifier: Apache-2.0

package plan

// What the ITR's and ETR's keys of the file become: proxy ETRs, sites, Map-Versions, keys
// beside the one that signs, the R bit.

import (
	"net/netip"
	"strings"
	"testing"

	"loci/lisp"
)

func TestPlanOfSitesAndProxyETRs(t *testing.T) {
	p, err := planOf(t, strings.Replace(planHead, "itr: {", "itr: {proxy-etrs: [{address: 203.0.113.9, priority: 3}], ", 1)+`
etr:
  piggybacked-mappings: verify
  map-servers:
    - {ms-address: 192.0.2.9, site: north, authentication-keys: [{auth-key-value: some-secret}, {auth-key-id: 2, auth-key-value: next-secret}]}
    - {ms-address: 192.0.2.9, site: south, authentication-keys: [{auth-key-value: south-secret}]}
  local-eids:
    - {instance-id: 7, eid: 10.1.0.0/24, site: north, map-version: 9}
    - {instance-id: 7, eid: 10.2.0.0/24, site: south, rlocs: [{interface: core0}, {address: 203.0.113.8, reachable: false}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if set := p.Control.ITR.ProxyETRs; len(set) != 1 || set[0].RLOC.String() != "203.0.113.9" || set[0].Priority != 3 || !set[0].Usable() {
		t.Errorf("proxy ETRs: %v", set)
	}
	etr := p.Control.ETR
	if !etr.VerifyPiggybacked || etr.MapServers[0].Site != "north" || len(etr.MapServers[0].OtherKeys) != 1 || etr.MapServers[0].OtherKeys[0].ID != 2 || etr.MapServers[1].Site != "south" {
		t.Errorf("ETR: %+v", etr)
	}
	if d := etr.Database; d[0].Version != 9 || d[0].Site != "north" || d[1].Site != "south" {
		t.Errorf("Database: %+v", d)
	}
	if l, ok := etr.Database[1].Locators.Find(lisp.RLOCFromAddr(netip.MustParseAddr("203.0.113.8"))); !ok || l.Reachable {
		t.Errorf("locators %v: want one with R=0", etr.Database[1].Locators)
	}
}
