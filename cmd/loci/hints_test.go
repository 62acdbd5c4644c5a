// SPDX-License-Identifier: Apache-2.0

package main_test

// What data packets tell of locators, end to end: gleaning (RFC 9300 s.9) and Echo-Nonce (RFC 9300 s.10.1).

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// hintingXTR is an xTR that gleans and asks for echoes, and does not probe: what is known of a locator, packets told.
func (n *lispNetwork) hintingXTR(number int, resolver, itr string) string {
	text := n.preferringXTR(number, resolver, "  gleaning: true\n  rloc-probing: {enabled: false}\n"+itr)
	return strings.Replace(text, "datapath:\n", "datapath:\n  data-header: {echo-nonce: true, echo-nonce-wait: 1s, echo-nonce-interval: 1s}\n", 1)
}

// preferringXTR is an xTR whose EIDs of a family prefer the RLOC of that family.
func (n *lispNetwork) preferringXTR(number int, resolver, itr string) string {
	s := testSite{number}
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\n"+
		"locator-sets:\n  four: [{interface: core0, address-family: ipv4}, {interface: core0, address-family: ipv6, priority: 2}]\n"+
		"  six: [{interface: core0, address-family: ipv6}, {interface: core0, address-family: ipv4, priority: 2}]\n"+
		"itr:\n  map-resolvers: [%s]\n%s"+
		"etr:\n  map-servers:\n    - ms-address: 172.16.9.2\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"  local-eids: [{eid: %s, rlocs: four}, {eid: '%s', rlocs: six}]\n",
		resolver, itr, siteKey(number), s.eid4(), s.eid6()) + n.common(s.name())
}

// locator is what a router knows of one.
func (n *lispNetwork) locator(ctx context.Context, name, rloc string) api.LocatorState {
	list, err := n.client(name).Locators(ctx)
	for _, l := range list {
		if err == nil && l.RLOC.String() == rloc {
			return l
		}
	}
	return api.LocatorState{}
}

func TestPacketsTellOfLocators(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	const resolver, absent = "172.16.9.2", "172.16.9.99"
	known := "  map-cache: {mappings: [{eid: 10.2.0.0/24, rlocs: [{address: 172.16.2.2}]}, {eid: 'fd00:2::/64', rlocs: [{address: '2001:db8:2::2'}]}]}\n"
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.hintingXTR(1, resolver, known))
	n.run("xtr2", n.hintingXTR(2, absent, ""))
	n.awaitRegistrations(4)
	n.expectGleaned()
	for i := 1; i <= 2; i++ {
		name := testSite{i}.name()
		n.must(os.WriteFile(n.file(name), []byte(n.hintingXTR(i, resolver, "")), 0o600))
		if out, status := n.loci(name, "reload", "--socket", n.socket(name)); status != 0 {
			t.Fatal(out)
		}
	}
	n.expectEchoes()
}

// expectGleaned demands answers to pings though no Map-Resolver knows their sources. An EID is gleaned once and for three
// seconds, which may be too short to look at it here: then another one has its turn.
func (n *lispNetwork) expectGleaned() {
	n.t.Helper()
	for _, family := range []struct {
		source string // of the attempt
		bits   int
		to     netip.Addr
		rloc   string
	}{
		{"10.1.0.%d", 24, testSite{2}.host4(), "172.16.1.2"}, {"fd00:1::%d", 64, testSite{2}.host6(), "2001:db8:1::2"},
	} {
		attempt := 100
		n.await("a gleaned mapping is shown", func(ctx context.Context) bool {
			attempt++
			if attempt > 250 {
				return false
			}
			source := netip.MustParseAddr(fmt.Sprintf(family.source, attempt))
			n.must(n.at["host1"].AddAddress("eth0", netip.PrefixFrom(source, family.bits)))
			result, err := testnet.Ping{Namespace: n.at["host1"], Source: source, Destination: family.to}.Run(ctx)
			return err == nil && result.Received == 1 && n.showsGleaned(ctx, source, family.rloc)
		})
	}
}

// showsGleaned reports whether xtr2 shows an EID as gleaned, in all its ways.
func (n *lispNetwork) showsGleaned(ctx context.Context, eid netip.Addr, rloc string) bool {
	n.t.Helper()
	list, err := n.client("xtr2").MapCache(ctx)
	at := slices.IndexFunc(list, func(e api.MapCacheEntry) bool { return e.EIDPrefix.Netip().Addr() == eid })
	if err != nil || at < 0 {
		return false
	}
	if e := list[at]; !e.Gleaned || len(e.Locators) != 1 || e.Locators[0].RLOC.String() != rloc {
		n.t.Fatalf("map-cache %+v, want %s gleaned from %s", e, eid, rloc)
	}
	text, _ := n.loci("xtr2", "show", "map-cache", "--socket", n.socket("xtr2"))
	explained, err := n.client("xtr2").Explain(ctx, explainQuery(n.t, eid.String()))
	return err == nil && strings.Contains(text, "(gleaned)") && explained.Mapping != nil && explained.Mapping.State == "gleaned"
}

// expectEchoes demands that echoes come in both families, then lets each family's path die in one direction.
func (n *lispNetwork) expectEchoes() {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	ways := []struct {
		observer, rloc, from string
		source, destination  netip.Addr
	}{
		{"xtr1", "172.16.2.2", "host2", two.host4(), one.host4()},
		{"xtr2", "2001:db8:1::2", "host1", one.host6(), two.host6()},
	}
	for _, c := range ways { // all are resolved before any path dies
		n.await("an echo came from "+c.rloc, func(ctx context.Context) bool {
			n.awaitPing(c.from, c.source, c.destination)
			e := n.locator(ctx, c.observer, c.rloc).EchoNonce
			return e != nil && e.EchoedAt != nil && !e.Fails
		})
	}
	for _, c := range ways {
		to := net.ParseIP(c.rloc)
		n.must(n.at["core"].Netlink().RouteAdd(&netlink.Route{
			Type: unix.RTN_BLACKHOLE, Dst: &net.IPNet{IP: to, Mask: net.CIDRMask(netip.MustParseAddr(c.rloc).BitLen(), netip.MustParseAddr(c.rloc).BitLen())},
		}))
		n.awaitPing(c.from, c.source, c.destination) // by the RLOC of the other family
		n.await(c.rloc+" was left", func(ctx context.Context) bool {
			l := n.locator(ctx, c.observer, c.rloc)
			return l.State == "down" && l.Reason == "nonce-not-echoed" && l.EchoNonce != nil && l.EchoNonce.Fails && l.EchoNonce.MissingAt != nil
		})
		if text, _ := n.loci(c.observer, "show", "locators", "--socket", n.socket(c.observer)); !strings.Contains(text, "missing since") {
			n.t.Errorf("loci show locators:\n%s", text)
		}
	}
}

// TestSilenceIsAskedAbout: a path dies in one direction, and the next regular RLOC-probe is an hour away.
func TestSilenceIsAskedAbout(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.preferringXTR(1, "172.16.9.2", "  rloc-probing: {interval: 1h, retries: 1, retries-interval: 500ms}\n"))
	n.run("xtr2", n.preferringXTR(2, "172.16.9.2", ""))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	const rloc, back = "172.16.2.2", "172.16.1.2"
	n.await(rloc+" answers, and packets come from it", func(ctx context.Context) bool {
		n.awaitPing("host1", one.host4(), two.host4())
		l := n.locator(ctx, "xtr1", rloc)
		return l.State == "up" && l.LastHeardAt != nil && l.LastHeardAt.After(*l.ChangedAt) && !l.Silent
	})
	n.must(n.at["core"].Netlink().RouteAdd(&netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: &net.IPNet{IP: net.ParseIP(back), Mask: net.CIDRMask(32, 32)}}))
	n.await(rloc+" was left", func(ctx context.Context) bool {
		_, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host4(), Destination: two.host4(), Timeout: 100 * time.Millisecond}.Run(ctx)
		n.must(err)
		l := n.locator(ctx, "xtr1", rloc)
		return l.State == "unconfirmed" && l.Reason == "probes-unanswered" && l.Silent
	})
	if silences := n.counter("xtr1", "locator_went_silent_total"); silences != 1 {
		t.Errorf("%d silences, want 1", silences)
	}
	if text, _ := n.loci("xtr1", "show", "locators", "--socket", n.socket("xtr1")); !strings.Contains(text, "silent for") {
		t.Errorf("loci show locators:\n%s", text)
	}
}
