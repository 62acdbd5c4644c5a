// SPDX-License-Identifier: Apache-2.0

package main_test

// A mobile node whose configuration is read again. Real daemons, real packets.

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// expectRoutes fails the test unless routes of the mobile node are as wanted.
func (n *lispNetwork) expectRoutes(when string, want map[string]string) {
	n.t.Helper()
	for destination, dev := range want {
		if got := n.ip("mn", "route get %s", destination); !strings.Contains(got, "dev "+dev+" ") {
			n.t.Errorf("%s: the route to %s is %s, want %s", when, destination, got, dev)
		}
	}
}

// expectEID fails the test unless the LISP interface of the mobile node has an IPv4 EID, empty for none.
func (n *lispNetwork) expectEID(when, eid string) {
	n.t.Helper()
	got, count := n.ip("mn", "-4 addr show dev loci0 scope global"), 1
	if eid == "" {
		count = 0
	}
	if !strings.Contains(got, eid) || strings.Count(got, "inet ") != count {
		n.t.Errorf("%s: loci0 has %s, want %q", when, got, eid)
	}
}

// TestMobileNodeReload switches a mobile node on, to other modes, EIDs and links, and off, while it runs. Where policy
// routing fails, nothing changes, and the reload says so.
func TestMobileNodeReload(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n := mobileNetwork(t, engine)
		n.ip("mn", "link set wwan0 up")
		before := n.hostState()
		n.run("ms", n.mobileMappingSystem())
		n.run("xtr2", n.xtr(2))
		off := strings.NewReplacer("mobile-node: {}\n", "", "[wlan0, wwan0]", "[wlan0]").Replace(n.mobileNode(""))
		n.run("mn", strings.Replace(off, "interfaces: {", "interfaces: {site: [wwan0], ", 1))
		n.expectEID("without a mobile node", "")
		n.ip("mn", "addr add 172.16.5.2/30 dev wwan0")
		n.ip("mn", "route add default via 172.16.5.1 dev wwan0 metric 500")

		n.reconfigure("mn", n.mobileNode("default-route: true"))
		n.expectEID("switched on", mobile4.String())
		n.expectRoutes("switched on", map[string]string{"198.51.100.1": "loci0", "10.2.0.10": "loci0", "198.51.100.1 from 172.16.5.2": "wwan0"})
		two := testSite{2}
		n.awaitPing("host2", two.host4(), mobile4)

		const eidsOnly = "default-route: false, eid-prefixes: [10.2.0.0/16]"
		n.reconfigure("mn", n.mobileNode(eidsOnly))
		n.expectRoutes("without default-route", map[string]string{"198.51.100.1": "wlan0", "10.2.0.10": "loci0"})

		other := strings.Replace(n.mobileNode("default-route: true"), "10.1.0.7/32", "10.1.0.8/32", 1)
		if engine == "kernel" { // that in user space gives its interface the name back at once
			n.refusesWithoutItsLink(n.mobileNode(eidsOnly), other)
		}
		n.expectEID("after a refused reload", mobile4.String())
		n.expectRoutes("after a refused reload", map[string]string{"198.51.100.1": "wlan0", "10.2.0.10": "loci0"})

		n.reconfigure("mn", other)
		n.expectEID("another EID", "10.1.0.8")
		n.expectRoutes("another EID", map[string]string{"198.51.100.1": "loci0"})

		n.reconfigure("mn", off)
		n.expectEID("switched off", "")
		n.expectRoutes("switched off", map[string]string{"198.51.100.1": "wlan0", "10.2.0.10": "wlan0"})
		n.end("mn")
		n.ip("mn", "route del default via 172.16.5.1 dev wwan0")
		n.ip("mn", "addr flush dev wwan0")
		n.expectHost(before)
	})
}

// refusesWithoutItsLink fails the test unless a reload fails while the LISP interface has another name, which the
// daemon soon gives it back. old is the configuration in force.
func (n *lispNetwork) refusesWithoutItsLink(old, configuration string) {
	n.t.Helper()
	links := n.at["mn"].Netlink()
	n.await("a reload fails without the LISP interface", func(ctx context.Context) bool {
		n.must(os.WriteFile(n.file("mn"), []byte(configuration), 0o600))
		link, err := links.LinkByName("loci0")
		if err == nil {
			err = errors.Join(links.LinkSetDown(link), links.LinkSetName(link, "elsewhere"))
		}
		_, failed := n.client("mn").Reload(ctx)
		if err == nil && failed != nil && strings.Contains(failed.Error(), "policy routing") {
			return true
		}
		n.must(os.WriteFile(n.file("mn"), []byte(old), 0o600))
		_, _ = n.client("mn").Reload(ctx)
		return false
	})
	n.await("the LISP interface is back", func(context.Context) bool {
		return strings.Contains(n.ip("mn", "-br link"), "loci0 ") && strings.Contains(n.ip("mn", "-4 route show table 4341"), "default")
	})
}

// TestMobileNodeOfTwoProcesses: the process with the control plane refuses what only the other one, which runs the data
// plane, could do.
func TestMobileNodeOfTwoProcesses(t *testing.T) {
	t.Parallel() // it mostly waits
	n := mobileNetwork(t, "user")
	split := func(section string) string {
		return strings.Replace(n.mobileNode(section), "datapath:\n", "datapath:\n  mapping-socket: {path: "+n.dir+"/mn.map}\n", 1)
	}
	n.must(os.WriteFile(n.file("mn"), []byte(split("default-route: true")), 0o600))
	n.launch("data", "mn", "--planes", "data")
	n.launch("control", "mn", "--planes", "control")
	n.awaitReady("mn")
	n.expectEID("with two processes", mobile4.String())
	for what, configuration := range map[string]string{
		"other mode": split("default-route: false, eid-prefixes: [10.2.0.0/16]"),
		"other EID":  strings.Replace(split("default-route: true"), "10.1.0.7/32", "10.1.0.8/32", 1),
	} {
		n.must(os.WriteFile(n.file("mn"), []byte(configuration), 0o600))
		if _, err := n.client("mn").Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "restart both") {
			t.Errorf("%s: %v", what, err)
		}
	}
	n.reconfigure("mn", strings.Replace(split("default-route: true"), "level: debug", "level: info", 1))
	n.expectEID("after a reload", mobile4.String())
}

// TestMobileNodeThatDoesNotStart leaves nothing in its host when its start fails half-way, also after a crash: packets of
// the host would end at a data plane that no process runs.
func TestMobileNodeThatDoesNotStart(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n := mobileNetwork(t, engine)
		before := n.hostState()
		n.run("mn", n.mobileNode("default-route: true"))
		n.kill("mn")
		nonces := n.dir + "/nonces"
		n.must(os.Mkdir(nonces, 0o700)) // where a file should be
		n.must(os.WriteFile(n.file("mn"), []byte(strings.Replace(n.mobileNode("default-route: true"), "etr:\n", "etr:\n  nonce-file: "+nonces+"\n", 1)), 0o600))
		if out, status := n.loci("mn", "run", "--config", n.file("mn")); status == 0 || !strings.Contains(out, "nonces") {
			t.Errorf("status %d: %s", status, out)
		}
		n.expectHost(before)
	})
}
