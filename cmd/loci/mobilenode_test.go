// SPDX-License-Identifier: Apache-2.0

package main_test

// A mobile node: a host whose EIDs stand on its LISP interface, with two links to the core. Real daemons, real
// packets.

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

var (
	mobile4 = netip.MustParseAddr("10.1.0.7")
	mobile6 = netip.MustParseAddr("fd00:1::7")
)

// mobileNetwork has a site, a Map-Server, and a mobile node "mn" with the link wlan0 to 172.16.1.1 and the link wwan0
// to 172.16.5.1, which has neither an address nor a route yet.
func mobileNetwork(t *testing.T, engine string) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "mn", "xtr2", "host2")
	n.engine = engine
	n.must(n.at["core"].Forward())
	n.plugRouter("ms")
	n.buildSite(2)
	n.plugMobile("wlan0", 1)
	n.plugMobile("wwan0", 5)
	n.connectMobile("wlan0", 1)
	return n
}

// plugMobile joins the mobile node to the core by a link.
func (n *lispNetwork) plugMobile(link string, number int) {
	n.t.Helper()
	n.must(testnet.Connect(
		testnet.End{Namespace: n.at["core"], Name: "to-" + link, Addresses: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("172.16.%d.1/30", number)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::1/64", number)),
		}},
		testnet.End{Namespace: n.at["mn"], Name: link}))
}

// connectMobile gives a link of the mobile node addresses and default routes, as DHCP and router advertisements do.
func (n *lispNetwork) connectMobile(link string, number int) {
	n.t.Helper()
	n.ip("mn", "link set %s up", link)
	n.ip("mn", "addr add 172.16.%d.2/30 dev %s", number, link)
	n.ip("mn", "addr add 2001:db8:%d::2/64 dev %s nodad", number, link)
	n.ip("mn", "route add default via 172.16.%d.1 dev %s metric %d", number, link, 100*number)
	n.ip("mn", "-6 route add default via 2001:db8:%d::1 dev %s metric %d", number, link, 100*number)
}

// disconnectMobile loses the link, and then what it had: its addresses and routes.
func (n *lispNetwork) disconnectMobile(link string) {
	n.t.Helper()
	n.ip("mn", "link set %s down", link)
	n.ip("mn", "-4 addr flush dev %s", link)
}

// ip runs ip(8) in a namespace and returns what it printed.
func (n *lispNetwork) ip(role, format string, arguments ...any) string {
	n.t.Helper()
	cmd := exec.Command("ip", strings.Fields(fmt.Sprintf(format, arguments...))...)
	var out, warnings bytes.Buffer // ip warns of a namespace that another test is just making or removing
	cmd.Stdout, cmd.Stderr = &out, &warnings
	n.must(n.at[role].Start(cmd))
	if err := cmd.Wait(); err != nil {
		n.t.Fatalf("%v: %v: %s%s", cmd.Args, err, &out, &warnings)
	}
	return out.String()
}

// mobileMappingSystem lets the node register its single addresses.
func (n *lispNetwork) mobileMappingSystem() string {
	return strings.NewReplacer(
		"{eid: 10.1.0.0/24}", "{eid: 10.1.0.0/24, more-specifics-accepted: true}",
		"{eid: 'fd00:1::/64'}", "{eid: 'fd00:1::/64', more-specifics-accepted: true}").Replace(n.mappingSystem())
}

// mobileNode is the node's configuration.
func (n *lispNetwork) mobileNode(section string) string {
	return fmt.Sprintf("mobile-node: {%s}\ninterfaces: {core: [wlan0, wwan0]}\nitr: {map-resolvers: [172.16.9.2]}\n"+
		"etr:\n  map-servers:\n    - ms-address: 172.16.9.2\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"  local-eids: [{eid: %s/32}, {eid: '%s/128'}]\n", section, siteKey(1), mobile4, mobile6) +
		"limits: {solicit-map-requests: {rate: 1/s, burst: 20}, map-replies: {rate: 1/s, burst: 20}}\n" + n.common("mn")
}

// runMobile starts the mapping system, the site and the node.
func (n *lispNetwork) runMobile(section string) {
	n.t.Helper()
	n.run("ms", n.mobileMappingSystem())
	n.run("xtr2", n.xtr(2)+"limits: {smr-invoked-map-requests: {rate: 1/s, burst: 20}}\n")
	n.run("mn", n.mobileNode(section))
	n.awaitRegistrations(4)
}

// hostState is what a mobile node could have left in its host.
func (n *lispNetwork) hostState() string {
	n.t.Helper()
	return n.ip("mn", "-4 addr") + n.ip("mn", "-4 rule") + n.ip("mn", "-6 rule") + n.ip("mn", "-4 route show table all") +
		n.ip("mn", "-br link")
}

// TestMobileNode: programs that choose no source reach a site from the node's EIDs, and are reached there; LISP's own
// packets, DHCP and neighbours are left out; a stop leaves the host as it was, also after a crash.
func TestMobileNode(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n := mobileNetwork(t, engine)
		before := n.hostState()
		n.runMobile("default-route: true")
		two := testSite{2}
		n.awaitPing("host2", two.host4(), mobile4)
		n.ping("host2", two.host6(), mobile6, 3)
		if kinds := n.problemKinds("mn"); slices.Contains(kinds, "waiting-for-host") || slices.Contains(kinds, "own-rloc-down") {
			t.Errorf("problems: %v", kinds)
		}
		for _, to := range []netip.Addr{two.host4(), two.host6()} {
			result, err := testnet.TCP{Client: n.at["mn"], Server: n.at["host2"], Destination: to, Octets: 1 << 20, Verify: true}.Run(t.Context())
			if err != nil || result.Octets != 1<<20 {
				t.Errorf("TCP to %s: %+v, %v", to, result, err)
				n.tellDrops()
			}
		}
		for destination, want := range map[string]string{
			"10.2.0.10":                           "dev loci0",
			"fd00:2::10":                          "dev loci0",
			"198.51.100.1":                        "dev loci0",
			"172.16.1.1":                          "dev wlan0",
			"2001:db8:1::1":                       "dev wlan0",
			"198.51.100.1 ipproto udp dport 4342": "dev wlan0",
			"198.51.100.1 ipproto udp dport 67 sport 68": "dev wlan0",
			"2001:db8:ff::1 ipproto udp dport 547":       "dev wlan0",
			"2001:db8:ff::1 ipproto udp dport 53":        "dev loci0",
			"198.51.100.1 from 172.16.1.2":               "dev wlan0",
			"224.0.0.251":                                "dev wlan0",
		} {
			if got := n.ip("mn", "route get %s", destination); !strings.Contains(got, want) {
				t.Errorf("the route to %s is %s, want %s", destination, got, want)
			}
		}
		if out, _ := n.loci("mn", "check", n.file("mn")); strings.Contains(out, "no interface leads to the site") {
			t.Errorf("loci check: %s", out)
		}
		n.kill("mn")
		n.start("mn")
		n.awaitPing("host2", two.host4(), mobile4)
		n.end("mn")
		n.expectHost(before)
	})
}

// expectHost fails the test unless the host is what it was.
func (n *lispNetwork) expectHost(before string) {
	n.t.Helper()
	was, is := strings.Split(before, "\n"), strings.Split(n.hostState(), "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			n.t.Errorf("after the stop the host has %s", line)
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			n.t.Errorf("after the stop the host lacks %s", line)
		}
	}
}

// end stops a daemon by SIGTERM and waits for it.
func (n *lispNetwork) end(name string) {
	n.t.Helper()
	n.stop(name, n.daemons[name])
	delete(n.daemons, name)
}

// TestMobileNodeEIDsOnly: without default-route only packets to the EID-Prefixes go by LISP.
func TestMobileNodeEIDsOnly(t *testing.T) {
	t.Parallel() // it mostly waits
	n := mobileNetwork(t, "kernel")
	n.runMobile("default-route: false, eid-prefixes: [10.2.0.0/16, 'fd00::/16']")
	two := testSite{2}
	n.awaitPing("host2", two.host4(), mobile4)
	for destination, want := range map[string]string{
		"10.2.0.10": "dev loci0", "fd00:2::10": "dev loci0", "198.51.100.1": "dev wlan0", "2001:db8:ff::1": "dev wlan0",
	} {
		if got := n.ip("mn", "route get %s", destination); !strings.Contains(got, want) {
			t.Errorf("the route to %s is %s, want %s", destination, got, want)
		}
	}
	result, err := testnet.TCP{Client: n.at["mn"], Server: n.at["host2"], Destination: two.host6(), Octets: 1 << 16, Verify: true}.Run(t.Context())
	if err != nil {
		t.Errorf("TCP: %+v, %v", result, err)
	}
	n.reconfigure("mn", strings.Replace(n.mobileNode(""), "mobile-node: {}\n", "", 1))
	n.await("the EIDs leave the interface", func(context.Context) bool { return !strings.Contains(n.ip("mn", "addr show dev loci0"), "10.1.0.7") })
	if rules := n.ip("mn", "rule"); strings.Contains(rules, "dport") {
		t.Errorf("rules are left: %s", rules)
	}
}

// TestMobileNodeMoves: TCP goes on while the node moves from link to link and back.
func TestMobileNodeMoves(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n := mobileNetwork(t, engine)
		n.runMobile("default-route: true")
		two := testSite{2}
		n.awaitPing("host2", two.host4(), mobile4)
		done := make(chan error, 1)
		go func() {
			_, err := testnet.TCP{Client: n.at["mn"], Server: n.at["host2"], Destination: two.host4(), Duration: 5 * time.Second, Verify: true, Timeout: 12 * time.Second}.Run(t.Context())
			done <- err
		}()
		for i := range 3 {
			time.Sleep(time.Second)
			from, to, number := "wlan0", "wwan0", 5
			if i%2 == 1 {
				from, to, number = to, from, 1
			}
			n.disconnectMobile(from)
			n.connectMobile(to, number)
			began := time.Now()
			n.awaitPing("host2", two.host4(), mobile4)
			t.Logf("move %d: reached after %v", i+1, time.Since(began))
		}
		if err := <-done; err != nil {
			t.Errorf("TCP: %v", err)
			n.tellDrops()
		}
	})
}
