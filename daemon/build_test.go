// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"loci/config"
	"loci/dataplane"
)

// fakeHost has a site interface and two core interfaces.
var fakeHost = hostView{
	names: []string{"lo", "site0", "core0", "core1", "bare0"},
	addresses: map[string][]netip.Addr{
		"site0": {netip.MustParseAddr("10.1.0.1")},
		"core0": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:ffff::1")},
		"core1": {netip.MustParseAddr("198.51.100.1")},
	},
}

func planOf(t *testing.T, text string) (plan, error) {
	t.Helper()
	c, err := config.Parse("loci.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return makePlan(c, fakeHost)
}

const planHead = `interfaces: {site: [{interface: site0, instance-id: 7}], core: [core0, 198.51.100.1]}
itr: {map-resolvers: [192.0.2.9]}
`

func TestPlanOfAnXTR(t *testing.T) {
	p, err := planOf(t, planHead+`etr:
  map-servers: [{ms-address: 192.0.2.9, authentication-keys: [{auth-key-value: some-secret}]}]
  local-eids:
    - {instance-id: 7, eid: 10.1.0.0/24}
    - {instance-id: 7, eid: 2001:db8:1::/64, rlocs: [{interface: core0, address-family: ipv6}, {address: 203.0.113.5, priority: 2}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	wantInterfaces := []dataplane.Interface{
		{Name: "site0", Side: dataplane.SideSite, Instance: 7}, {Name: "core0", Side: dataplane.SideCore}, {Name: "core1", Side: dataplane.SideCore},
	}
	if !slices.Equal(p.settings.Interfaces, wantInterfaces) {
		t.Errorf("interfaces %+v", p.settings.Interfaces)
	}
	var rlocs []string
	for _, r := range p.settings.LocalRLOCs {
		rlocs = append(rlocs, r.String())
	}
	if want := "192.0.2.1 198.51.100.1 2001:db8:ffff::1"; strings.Join(rlocs, " ") != want {
		t.Errorf("local RLOCs %v, want %s", rlocs, want)
	}
	database := p.control.ETR.Database
	if len(database) != 2 || len(database[0].Locators) != 3 || len(database[1].Locators) != 2 {
		t.Fatalf("database %+v", database)
	}
	sibling, own := database[1].Locators[0], database[1].Locators[1]
	if sibling.RLOC.String() != "203.0.113.5" || sibling.Local || sibling.Priority != 2 || !own.Local || !own.RLOC.Is6() {
		t.Errorf("locators of the second prefix: %+v", database[1].Locators)
	}
	if p.routes.link != "loci0" || p.routes.table != 4341 {
		t.Errorf("policy routes %+v", p.routes)
	}
}

func TestPlanRefusesWhatTheHostLacks(t *testing.T) {
	etr := "etr:\n  map-servers: [{ms-address: 192.0.2.9, authentication-keys: [{auth-key-value: some-secret}]}]\n  local-eids:\n    - {eid: 10.1.0.0/24, rlocs: ["
	for _, c := range []struct{ text, want string }{
		{"interfaces: {site: [{interface: eth9}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "loci.yaml:1:33: interface eth9 does not exist on this host: `ip link` lists what there is"},
		{"interfaces: {site: [{interface: site0}], core: [eth9]}\nitr: {map-resolvers: [192.0.2.9]}\n", "loci.yaml:1:49: interface eth9 does not exist"},
		{"interfaces: {site: [{interface: 10.9.9.9}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "no interface of this host has the address 10.9.9.9"},
		{"interfaces: {site: [{interface: 192.0.2.1}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "core0 is named twice, as site and as core"},
		{"interfaces: {site: [{interface: site0}], core: [bare0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "interface bare0 has no usable address"},
		{planHead + etr + "{interface: core1, address-family: ipv6}]}\n", "loci.yaml:6:"},
		{planHead + etr + "{address: 203.0.113.5}]}\n", "no locator of this EID-Prefix is an address of this host"},
		{planHead + etr + "{interface: core0}, {address: 192.0.2.1}]}\n", "stands twice in one locator-set"},
	} {
		if _, err := planOf(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestMapServerNeedsNoInterfaces(t *testing.T) {
	p, err := planOf(t, "map-resolver: {}\nmap-server:\n  sites:\n    - {name: a, authentication-keys: [{auth-key-value: some-secret}], eid-prefixes: [{eid: 10.1.0.0/16, more-specifics-accepted: true}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if p.config.UsesDataPlane() || len(p.control.MapServer.Sites) != 1 || !p.control.MapServer.Sites[0].Prefixes[0].AcceptMoreSpecifics {
		t.Errorf("plan %+v", p.control.MapServer)
	}
}
