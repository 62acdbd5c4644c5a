// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/config"
	"loci/daemon/hostnet"
	"loci/dataplane"
)

// fakeHost has a site interface and two core interfaces.
var fakeHost = hostnet.Host{View: hostnet.View{Links: []hostnet.Link{
	{Name: "lo", Up: true, Loopback: true},
	{Name: "site0", Up: true, Addresses: addresses("10.1.0.1")},
	{Name: "core0", Up: true, Addresses: addresses("192.0.2.1", "2001:db8:ffff::1")},
	{Name: "core1", Up: true, Addresses: addresses("198.51.100.1")},
	{Name: "bare0", Up: true},
}}}

func addresses(list ...string) (parsed []netip.Addr) {
	for _, a := range list {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

func planOf(t *testing.T, text string) (Plan, error) {
	t.Helper()
	return Make(mustConfig(t, text), fakeHost)
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
	if !slices.Equal(p.Settings.Interfaces, wantInterfaces) {
		t.Errorf("interfaces %+v", p.Settings.Interfaces)
	}
	var rlocs []string
	for _, r := range p.Settings.LocalRLOCs {
		rlocs = append(rlocs, r.String())
	}
	if want := "192.0.2.1 198.51.100.1 2001:db8:ffff::1"; strings.Join(rlocs, " ") != want {
		t.Errorf("local RLOCs %v, want %s", rlocs, want)
	}
	database := p.Control.ETR.Database
	if len(database) != 2 || len(database[0].Locators) != 3 || len(database[1].Locators) != 2 {
		t.Fatalf("database %+v", database)
	}
	sibling, own := database[1].Locators[0], database[1].Locators[1]
	if sibling.RLOC.String() != "203.0.113.5" || sibling.Local || sibling.Priority != 2 || !own.Local || !own.RLOC.Is6() {
		t.Errorf("locators of the second prefix: %+v", database[1].Locators)
	}
}

const planETR = "etr:\n  map-servers: [{ms-address: 192.0.2.9, authentication-keys: [{auth-key-value: some-secret}]}]\n  local-eids:\n    - {eid: 10.1.0.0/24, rlocs: ["

func TestPlanWaitsForWhatTheHostLacks(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"interfaces: {site: [{interface: eth9}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "loci.yaml:1:33: interface eth9 does not exist on this host: waiting for it"},
		{"interfaces: {site: [{interface: site0}], core: [eth9]}\nitr: {map-resolvers: [192.0.2.9]}\n", "loci.yaml:1:49: interface eth9 does not exist"},
		{"interfaces: {site: [{interface: 10.9.9.9}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "no interface of this host has the address 10.9.9.9"},
		{"interfaces: {site: [{interface: site0}], core: [bare0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "interface bare0 has no usable address"},
		{planHead + planETR + "{interface: core1, address-family: ipv6}]}\n", "loci.yaml:6:"},
		{planHead + planETR + "{address: 203.0.113.5}]}\n", "no locator of this EID-Prefix is an address of this host"},
	} {
		p, err := planOf(t, c.text)
		if err != nil || !slices.ContainsFunc(p.waits, func(w hostWait) bool { return strings.Contains(w.problem.Error(), c.want) }) {
			t.Errorf("%s\ngot  %v, %v\nwant %s", c.text, p.waits, err, c.want)
		}
		if p.Control.ETR != nil && len(p.Control.ETR.Database) != 0 {
			t.Errorf("%s\nregisters without an own RLOC: %+v", c.text, p.Control.ETR.Database)
		}
		if err := p.Control.Validate(); err != nil {
			t.Errorf("%s\nthe control plane refuses to wait: %v", c.text, err)
		}
	}
}

// TestMissingLinksAreNamedOnce, however often the configuration names them.
func TestMissingLinksAreNamedOnce(t *testing.T) {
	const rlocs = "[{interface: core0}, {interface: wan8}, {interface: lan8}]"
	p, err := planOf(t, "interfaces: {site: [{interface: lan8}], core: [core0, wan8]}\n"+
		"etr: {local-eids: [{eid: 10.1.0.0/24, rlocs: "+rlocs+"}, {eid: '2001:db8:1::/48', rlocs: "+rlocs+"}]}\n")
	if err != nil || len(p.waits) != 6 {
		t.Fatalf("%v; waits for %+v", err, p.waits)
	}
	site, others := p.MissingLinks()
	if len(site) != 1 || site[0].Name != "lan8" || len(others) != 1 || others[0].Name != "wan8" {
		t.Errorf("missing are %+v of the site, and %+v", site, others)
	}
	if words := p.WaitingBesides(); len(words) > 0 {
		t.Errorf("they are named among other things too: %q", words)
	}
}

func TestPlanRefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"interfaces: {site: [{interface: 192.0.2.1}], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n", "core0 is named twice, as site and as core"},
		{planHead + planETR + "{interface: core0}, {address: 192.0.2.1}]}\n", "stands twice in one locator-set"},
	} {
		if _, err := planOf(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestPlanSendsFromTheFirstRLOC: the first of the configuration, whatever its address, while mappings have theirs in
// ascending order.
func TestPlanSendsFromTheFirstRLOC(t *testing.T) {
	const head, itr = "interfaces: {site: [site0], core: [%s]}\n", "itr: {map-resolvers: [192.0.2.9]%s}\n"
	const site = head + itr + "etr: {local-eids: [{eid: 10.1.0.0/24}]}\n"
	const petr = "petr: {serve: [{eid-prefixes: [10.9.0.0/16]}]}\n"
	const first, second = "192.0.2.1 198.51.100.1 2001:db8:ffff::1", "198.51.100.1 192.0.2.1 2001:db8:ffff::1"
	for text, want := range map[string]string{
		fmt.Sprintf(site, "core0, core1", ""):                                  first,
		fmt.Sprintf(site, "core1, core0", ""):                                  second,
		fmt.Sprintf(site, "core0, core1", ", itr-rlocs: [{interface: core1}]"): second,
		fmt.Sprintf(head+petr, "core1, core0"):                                 second,
	} {
		p, err := planOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, r := range p.Settings.LocalRLOCs {
			order = append(order, r.String())
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("%sown RLOCs %s, want %s", text, got, want)
		}
		if p.Control.ETR != nil && p.Control.ETR.Database[0].Locators[0].RLOC.String() != "192.0.2.1" {
			t.Errorf("%slocators %v", text, p.Control.ETR.Database[0].Locators)
		}
	}
}

// TestPlanPutsWhatIsDownLast: its R bit is clear, and nothing is sent from it.
func TestPlanPutsWhatIsDownLast(t *testing.T) {
	c := mustConfig(t, planHead+"etr: {local-eids: [{eid: 10.1.0.0/24}]}\n")
	host := fakeHost
	host.Down = map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true}
	p, err := Make(c, host)
	if err != nil {
		t.Fatal(err)
	}
	var order, reachable []string
	for _, r := range p.Settings.LocalRLOCs {
		order = append(order, r.String())
	}
	for _, l := range p.Control.ETR.Database[0].Locators {
		if l.Reachable {
			reachable = append(reachable, l.RLOC.String())
		}
	}
	if want := "198.51.100.1 2001:db8:ffff::1 192.0.2.1"; strings.Join(order, " ") != want {
		t.Errorf("own RLOCs %v, want %s", order, want)
	}
	if want := "198.51.100.1 2001:db8:ffff::1"; strings.Join(reachable, " ") != want {
		t.Errorf("reachable %v, want %s", reachable, want)
	}
}

func TestReloadRefusesNewNamesThatAreNotThere(t *testing.T) {
	current, err := planOf(t, planHead)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text    string
		refused bool
	}{
		{planHead, false},
		{strings.Replace(planHead, "core0", "eth9", 1), true},
		{strings.Replace(planHead, "core: [core0, 198.51.100.1]", "core: [bare0]", 1), true}, // no RLOC any more
		{strings.Replace(planHead, "site0", "bare0", 1), false},
	} {
		fresh, err := planOf(t, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckNewWaits(current, fresh); (err != nil) != c.refused {
			t.Errorf("%s: %v, refused should be %v", c.text, err, c.refused)
		}
	}
	if err := CheckNewWaits(Plan{Config: mustConfig(t, strings.Replace(planHead, "core0", "eth9", 1))}, mustPlan(t, strings.Replace(planHead, "core0", "eth9", 1))); err != nil {
		t.Errorf("an interface that was waited for already: %v", err)
	}
}

func mustConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("loci.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustPlan(t *testing.T, text string) Plan {
	t.Helper()
	p, err := planOf(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMapServerNeedsNoInterfaces(t *testing.T) {
	p, err := planOf(t, "map-resolver: {}\nmap-server:\n  sites:\n    - {name: a, authentication-keys: [{auth-key-value: some-secret}], eid-prefixes: [{eid: 10.1.0.0/16, more-specifics-accepted: true}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if p.Config.UsesDataPlane() || len(p.Control.MapServer.Sites) != 1 || !p.Control.MapServer.Sites[0].Prefixes[0].AcceptMoreSpecifics {
		t.Errorf("plan %+v", p.Control.MapServer)
	}
}

// TestChoicesOfAPlan: own RLOCs that stand in for each other, by family, whatever their states; without those that no
// other site may use.
func TestChoicesOfAPlan(t *testing.T) {
	text := strings.Replace(planHead, "itr:", `locator-sets:
  both: [{interface: core0}, {address: 198.51.100.1}, {address: 203.0.113.5}]
  spare: [{interface: core0, address-family: ipv4}, {address: 198.51.100.1, priority: 255}]
itr:`, 1) + `etr:
  map-servers: [{ms-address: 192.0.2.9, authentication-keys: [{auth-key-value: some-secret}]}]
  local-eids:
    - {eid: 10.1.0.0/24, rlocs: both}
    - {eid: 10.2.0.0/24, rlocs: both}
    - {eid: 10.3.0.0/24, rlocs: spare}
    - {eid: 10.4.0.0/24, rlocs: [{interface: core0, address-family: ipv4, reachable: false}, {address: 198.51.100.1}]}
`
	for _, down := range []bool{false, true} {
		host := fakeHost
		host.Down = map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): down}
		p, err := Make(mustConfig(t, text), host)
		if err != nil {
			t.Fatal(err)
		}
		want := "[[192.0.2.1 198.51.100.1] [2001:db8:ffff::1] [192.0.2.1] [198.51.100.1] [192.0.2.1 198.51.100.1] [2001:db8:ffff::1]]"
		if got := fmt.Sprint(p.choices); got != want {
			t.Errorf("down %v: %s, want %s", down, got, want)
		}
	}
}

// TestMobileNodePrefersTheBetterLink: by the metrics of the default routes, unless the configuration says otherwise.
func TestMobileNodePrefersTheBetterLink(t *testing.T) {
	const head = "mobile-node: {default-route: true}\ninterfaces: {core: [core0, core1]}\n" +
		"itr: {map-resolvers: [192.0.2.9], proxy-etrs: [{address: 192.0.2.9}]}\n"
	const equal, chosen = "etr: {local-eids: [10.1.0.7/32]}\n", "etr: {local-eids: [{eid: 10.1.0.7/32, rlocs: [{interface: core0, priority: 1}, {interface: core1, priority: 2}]}]}\n"
	shared := strings.Replace(chosen, "priority: 1", "priority: 2", 1)
	unsaid := strings.NewReplacer(", priority: 1", "", ", priority: 2", "").Replace(chosen)
	for _, c := range []struct {
		name, text   string
		core0, core1 uint64 // their metrics, and one
		want         string
	}{
		{"core0 is better", head + equal, 101, 601, "192.0.2.1/1 198.51.100.1/2"},
		{"core1 is better", head + equal, 601, 101, "198.51.100.1/1 192.0.2.1/2"},
		{"one has no route", head + equal, 0, 601, "198.51.100.1/1 192.0.2.1/2"},
		{"equal", head + equal, 101, 101, "192.0.2.1/1 198.51.100.1/1"},
		{"the configuration prefers core0", head + chosen, 601, 101, "192.0.2.1/1 198.51.100.1/2"},
		{"the configuration shares the load", head + shared, 601, 101, "192.0.2.1/2 198.51.100.1/2"},
		{"the configuration has no priorities", head + unsaid, 601, 101, "198.51.100.1/1 192.0.2.1/2"},
		{"no mobile node", strings.Replace(head+equal, "mobile-node: {default-route: true}\n", "", 1), 601, 101, "192.0.2.1/1 198.51.100.1/1"},
	} {
		host := hostnet.Host{View: hostnet.View{Links: slices.Clone(fakeHost.Links)}}
		for i := range host.Links {
			switch host.Links[i].Name {
			case "core0":
				host.Links[i].Defaults.IPv4 = c.core0
			case "core1":
				host.Links[i].Defaults.IPv4 = c.core1
			}
		}
		p, err := Make(mustConfig(t, c.text), host)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		best := map[string]uint8{}
		for _, l := range p.Control.ETR.Database[0].Locators {
			best[l.RLOC.String()] = l.Priority
		}
		for _, want := range strings.Fields(c.want) {
			rloc, priority, _ := strings.Cut(want, "/")
			if fmt.Sprint(best[rloc]) != priority {
				t.Errorf("%s: priorities %v, want %s", c.name, best, c.want)
			}
		}
		if first := p.Settings.LocalRLOCs[0].String(); !strings.HasPrefix(c.name, "the configuration ") && c.name != "no mobile node" && !strings.HasPrefix(c.want, first) {
			t.Errorf("%s: packets leave from %s, want %s", c.name, first, c.want)
		}
	}
}

// TestLostFamilyStaysOwn: a link that goes down loses its IPv6 addresses first and its IPv4 addresses later. What it
// had stays its own: a locator that is taken for another router's is announced as reachable.
func TestLostFamilyStaysOwn(t *testing.T) {
	c := mustConfig(t, "mobile-node: {default-route: true}\ninterfaces: {core: [core0]}\n"+
		"itr: {map-resolvers: [192.0.2.9], proxy-etrs: [{address: 192.0.2.9}]}\netr: {local-eids: [10.1.0.7/32]}\n")
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	memory := hostnet.NewMemory()
	for _, has := range [][]netip.Addr{{v4, v6}, {v4}, nil} {
		view := hostnet.View{Links: []hostnet.Link{{Name: "core0", Up: true, Addresses: has}}}
		p, err := Make(c, memory.Recall(time.Now(), view, InterfaceNames(c)))
		if err != nil {
			t.Fatal(err)
		}
		memory.Owned = p.RLOCs
		for _, l := range p.Control.ETR.Database[0].Locators {
			if !l.Local || !slices.Contains(p.RLOCs, l.RLOC.Addr()) {
				t.Errorf("with the addresses %v, %s is not own", has, l.RLOC)
			}
		}
	}
}
