// SPDX-License-Identifier: Apache-2.0

//go:build interop

package main_test

// A second implementation as judge: OpenOverlayRouter (Debian's package
// openoverlayrouter) as xTR, as Map-Server and as Map-Resolver beside ours.
// docs/interoperability.md tells its habits.

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/internal/testnet"
)

// oorKey is the key of OpenOverlayRouter's site: HMAC-SHA-1, Key ID 0 in today's
// reading of its 16-bit field.
const oorKey = "auth-algorithm-id: hmac-sha-1-96, auth-key-value: the-key-of-site-2"

// runOOR starts OpenOverlayRouter in a namespace. It runs until the test ends, or stop is called.
func (n *lispNetwork) runOOR(at, configuration string) (stop func()) {
	n.t.Helper()
	file := filepath.Join(n.dir, at+".oor")
	n.must(os.WriteFile(file, []byte(configuration), 0o600))
	n.logs[at] = &logBuffer{}
	// A veth never cuts a train of datagrams (UDP_SEGMENT), as a network card does, and OpenOverlayRouter takes it for one packet.
	nextHop, link := "core", "to-"+at
	if nat, is := strings.CutPrefix(at, "xtr"); is && n.at["nat"+nat] != nil {
		nextHop, link = "nat"+nat, "inside"
	}
	n.must(n.at[nextHop].SetOffload(link, testnet.UDPSegmentation, false))
	cmd := exec.Command("oor", "-d", "1", "-f", file)
	cmd.Stdout, cmd.Stderr = n.logs[at], n.logs[at]
	n.must(n.at[at].Start(cmd))
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	n.t.Cleanup(stop)
	return stop
}

// oorMappings are site 2's EID-Prefixes at its RLOC of that family.
func oorMappings(over coreFamily) (text string) {
	for _, prefix := range []string{testSite{2}.eid4(), testSite{2}.eid6()} {
		text += fmt.Sprintf("database-mapping {\n eid-prefix = %s\n iid = 0\n ttl = 10\n rloc-iface {\n  interface = core0\n  ip_version = %s\n  priority = 1\n  weight = 100\n }\n}\n", prefix, strings.TrimPrefix(over.name, "ipv"))
	}
	return text
}

func (n *lispNetwork) runOORAsSite2(over coreFamily) {
	n.t.Helper()
	n.runOOR("xtr2", "operating-mode = xTR\nmap-resolver = {\n "+over.mapServer+"\n}\nmap-server {\n address = "+over.mapServer+"\n key-type = 1\n key = the-key-of-site-2\n proxy-reply = off\n}\n"+
		"rloc-probing {\n rloc-probe-interval = 10\n rloc-probe-retries = 2\n rloc-probe-retries-interval = 2\n}\n"+oorMappings(over))
}

// site1 is site 1 with its RLOC of that family alone: OpenOverlayRouter has no other here.
func (n *lispNetwork) site1(key string, over coreFamily) string {
	rloc := "', rlocs: [{address: '" + over.xtr1 + "'}]}"
	return strings.NewReplacer(
		"authentication-keys: [{auth-key-value: "+siteKey(1)+"}]", "authentication-keys: [{"+key+"}]", "172.16.9.2", "'"+over.mapServer+"'",
		"}, {eid", strings.TrimPrefix(rloc, "'")+", {eid", "'}]", rloc+"]",
	).Replace(n.xtr(1))
}

// bothReach pings and transfers in both directions and families.
func (n *lispNetwork) bothReach(over coreFamily) {
	n.t.Helper()
	// A veth never finishes the checksum that host1 leaves to its interface, and
	// OpenOverlayRouter, in user space, cannot know that it is unfinished.
	n.must(n.at["host1"].SetOffload("eth0", testnet.TxChecksum, false))
	one, two := testSite{1}, testSite{2}
	for _, c := range []struct {
		from, to            string
		source, destination netip.Addr
	}{
		{"host1", "host2", one.host4(), two.host4()}, {"host2", "host1", two.host4(), one.host4()},
		{"host1", "host2", one.host6(), two.host6()}, {"host2", "host1", two.host6(), one.host6()},
	} {
		n.exchange(c.from, c.to, c.source, c.destination)
	}
	n.siteTwoIsAt(over.remote)
}

// exchange pings and transfers from one host to another. The first pings are not judged: OpenOverlayRouter drops the packets that miss.
func (n *lispNetwork) exchange(from, to string, source, destination netip.Addr) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s reaches %s", source, destination), func(ctx context.Context) bool {
		result, err := testnet.Ping{Namespace: n.at[from], Source: source, Destination: destination, Timeout: 300 * time.Millisecond}.Run(ctx)
		return err == nil && result.Received == 1
	})
	n.ping(from, source, destination, 10)
	transfer, err := testnet.TCP{
		Client: n.at[from], Source: source, Server: n.at[to], Destination: destination, Octets: 4 << 20, Verify: true,
	}.Run(n.t.Context())
	n.must(err)
	if transfer.Octets != 4<<20 {
		n.t.Errorf("TCP %s -> %s: %d octets arrived", source, destination, transfer.Octets)
	}
}

// siteTwoIsAt fails the test when xtr1 has other locators for site 2.
func (n *lispNetwork) siteTwoIsAt(rloc string) {
	n.t.Helper()
	for _, eid := range []netip.Addr{testSite{2}.host4(), testSite{2}.host6()} {
		if got := n.usable(n.t.Context(), "xtr1", eid); !slices.Equal(got, []string{rloc}) {
			n.t.Errorf("%s is reached by %v, want %s", eid, got, rloc)
		}
	}
}

func TestInteropOpenOverlayRouterAsXTR(t *testing.T) { overEachInTurn(t, openOverlayRouterAsXTR) }

// overEachInTurn runs a test with our data plane in the kernel and in user space, with RLOCs of either family.
func overEachInTurn(t *testing.T, test func(*testing.T, coreFamily)) {
	testnet.RequireProgram(t, "oor")
	for _, engine := range []string{"kernel", "user"} {
		for _, over := range coreFamilies {
			t.Run(engine+"/"+over.name, func(t *testing.T) {
				t.Setenv(testEngine, engine)
				test(t, over)
			})
		}
	}
}

func openOverlayRouterAsXTR(t *testing.T, over coreFamily) {
	n := newLISPNetwork(t)
	n.run("ms", strings.Replace(n.mappingSystem(), "authentication-keys: [{auth-key-value: "+siteKey(2)+"}]",
		"accept-any-nonce: true\n      authentication-keys: [{"+oorKey+"}]", 1))
	n.run("xtr1", n.site1("auth-key-value: "+siteKey(1), over))
	n.runOORAsSite2(over)
	n.awaitRegistrations(4)
	n.bothReach(over)
	if os.Getenv(longTests) == "1" {
		n.startStreams(stream{1, 2}, stream{2, 1})
		n.expectNoProblems(0, "xtr1")
		n.t.Logf("the data path to OpenOverlayRouter: %+v", n.locator(n.t.Context(), "xtr1", over.remote).DataPath)
	}
	n.bothMove(over)
}

func TestInteropOpenOverlayRouterAsMappingSystem(t *testing.T) {
	overEachInTurn(t, openOverlayRouterAsMappingSystem)
}

func openOverlayRouterAsMappingSystem(t *testing.T, over coreFamily) {
	n := newLISPNetwork(t)
	text := "operating-mode = MS\ncontrol-iface = core0\n"
	for number := 1; number <= 2; number++ {
		for _, prefix := range []string{testSite{number}.eid4(), testSite{number}.eid6()} {
			text += fmt.Sprintf("lisp-site {\n eid-prefix = %s\n iid = 0\n key-type = 1\n key = the-key-of-site-%d\n accept-more-specifics = true\n proxy-reply = false\n}\n", prefix, number)
		}
	}
	n.runOOR("ms", text)
	site1 := n.site1("auth-algorithm-id: hmac-sha-1-96, auth-key-value: the-key-of-site-1", over)
	// Without an RTR that it offers, its Map-Server crashes on any Info-Request.
	n.run("xtr1", strings.Replace(site1, "etr:\n", "etr:\n  nat-traversal: {protocol: off}\n", 1))
	n.runOORAsSite2(over)
	n.await("xtr1 is registered", func(ctx context.Context) bool {
		s, err := n.client("xtr1").Status(ctx)
		return err == nil && len(s.MapServers) == 1 && s.MapServers[0].State == "registered"
	})
	// lig asks a Map-Resolver that is not ours. Earlier packets would cache that the
	// site is not registered yet, for a minute.
	for eid, prefix := range map[string]string{"10.2.0.10": testSite{2}.eid4(), "fd00:2::10": testSite{2}.eid6()} {
		n.await("lig finds "+eid, func(context.Context) bool {
			out, status := n.loci("xtr1", "lig", eid, "to", over.mapServer, "count", "1")
			return status == 0 && strings.Contains(out, prefix)
		})
	}
	n.bothReach(over)
	n.bothMove(over)
}

// moved is the address that renumber puts in the place of another one.
func moved(rloc string) string {
	return strings.NewReplacer("172.16.", "172.16.10", "2001:db8:", "2001:db8:10").Replace(rloc)
}

// bothMove gives first our xTR another RLOC, then the other one, while packets go both ways. Each tells the other by an SMR: there
// is no other way for it to know before the TTL ends.
func (n *lispNetwork) bothMove(over coreFamily) {
	n.t.Helper()
	n.renumber(1)
	text, err := os.ReadFile(n.file("xtr1"))
	n.must(err)
	n.reconfigure("xtr1", strings.ReplaceAll(string(text), over.xtr1, moved(over.xtr1)))
	n.reachAgain("site 1 has moved")
	n.renumber(2)
	n.reachAgain("site 2 has moved")
	n.siteTwoIsAt(moved(over.remote))
}

// reachAgain waits until packets pass in both directions and families.
func (n *lispNetwork) reachAgain(after string) {
	n.t.Helper()
	began := time.Now()
	one, two := testSite{1}, testSite{2}
	n.awaitPing("host1", one.host4(), two.host4())
	n.awaitPing("host1", one.host6(), two.host6())
	n.awaitPing("host2", two.host4(), one.host4())
	n.awaitPing("host2", two.host6(), one.host6())
	n.t.Logf("%s: all pairs reach each other after %s", after, time.Since(began).Round(time.Millisecond))
}

func TestInteropOpenOverlayRouterAsRTR(t *testing.T) { overEachInTurn(t, openOverlayRouterAsRTR) }

// openOverlayRouterAsRTR answers RLOC-probes with the A bit clear and no locators. That counts as an answer only where the
// configuration says so, and changes no mapping.
func openOverlayRouterAsRTR(t *testing.T, over coreFamily) {
	n := newLISPNetwork(t)
	n.runOOR("xtr2", oorRTR(over.mapServer, over.name))
	const option = ", accept-non-authoritative: true"
	known := "itr: {rloc-probing: {interval: 1s, retries-interval: 200ms" + option + "}, map-cache: {mappings: [{eid: " + testSite{2}.eid4() +
		", rlocs: [{address: '" + over.remote + "'}]}]}, "
	text := strings.Replace(n.xtr(1), "itr: {", known, 1)
	n.run("xtr1", strings.Replace(text, option, "", 1))
	n.await("an answer is refused", func(context.Context) bool { return n.counter("xtr1", "refused_probe_not_authoritative_total") > 0 })
	if got := n.locator(t.Context(), "xtr1", over.remote); got.State == "up" {
		t.Errorf("without the option: %+v", got)
	}
	n.reconfigure("xtr1", text)
	n.await("the RTR is up", func(ctx context.Context) bool { return n.locator(ctx, "xtr1", over.remote).State == "up" })
	if got := n.usable(t.Context(), "xtr1", testSite{2}.host4()); !slices.Equal(got, []string{over.remote}) {
		t.Errorf("the mapping has %v", got)
	}
}
