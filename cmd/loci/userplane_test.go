// SPDX-License-Identifier: Apache-2.0

package main_test

// The data plane in user space, from outside: stops, crashes, changes of the engine, and what makes `auto` choose it.

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// newUserPlaneNetwork is the network of two sites with an engine in user space each.
func newUserPlaneNetwork(t *testing.T) *lispNetwork {
	n := newLISPNetwork(t)
	n.engine = "user"
	return n
}

// pingAll pings from each site to the other, of both families.
func (n *lispNetwork) pingAll(count int) {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), count)
	n.ping("host2", two.host6(), one.host6(), count)
	n.ping("xtr1", one.router6(), two.host6(), count)
	n.ping("host2", two.host4(), one.router4(), count)
}

func TestUserPlaneStopsAndCrashes(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newUserPlaneNetwork(t)
	n.runAll()
	n.pingAll(3)
	one, two := testSite{1}, testSite{2}
	out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1"))
	if status == 0 || !strings.Contains(out, "stop the daemon") {
		t.Errorf("detach while the daemon runs: status %d, %s", status, out)
	}

	n.kill("xtr1")
	if received := n.tryPing("host1", one.host4(), two.host4(), 2); received != 0 {
		t.Errorf("%d pings were answered without a daemon", received)
	}
	before, err := n.at["core"].Sysctl("net.ipv4.ip_forward") // the core would forward what leaked, if it had a route
	n.must(err)
	if left := n.leftAt("xtr1"); len(left) < 4 || before != "1" {
		t.Errorf("after a crash there are only %q: packets of EIDs leave without encapsulation", left)
	}
	n.start("xtr1")
	n.pingAll(3)

	n.kill("xtr1")
	if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status != 0 || out != "" {
		t.Errorf("detach: status %d, %s", status, out)
	}
	if left := n.leftAt("xtr1"); len(left) > 0 {
		t.Errorf("left after detach: %q", left)
	}
	n.start("xtr1")
	n.pingAll(3)
}

// stopKeeping ends a daemon cleanly and leaves its data plane.
func (n *lispNetwork) stopKeeping(name string) {
	n.t.Helper()
	cmd := n.daemons[name]
	delete(n.daemons, name)
	n.must(cmd.Process.Signal(os.Interrupt))
	n.must(cmd.Wait())
}

// rerun starts a daemon with another engine, to be stopped without --detach.
func (n *lispNetwork) rerun(name, engine string) {
	n.t.Helper()
	text, err := os.ReadFile(n.file(name))
	n.must(err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  engine: ") {
			lines[i] = "  engine: " + engine
		}
	}
	n.must(os.WriteFile(n.file(name), []byte(strings.Join(lines, "\n")), 0o600))
	n.launch(name, name)
	n.awaitReady(name)
}

// TestEngineChangesKeepTheMapCache restarts an xTR with one engine after the other.
func TestEngineChangesKeepTheMapCache(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	n.stop("xtr1", n.daemons["xtr1"])
	n.rerun("xtr1", "kernel")
	n.pingAll(1)
	var before []api.MapCacheEntry
	n.show("xtr1", &before, "map-cache")
	if len(before) != 2 {
		t.Fatalf("map-cache: %+v", before)
	}
	for _, engine := range []string{"user", "user", "kernel"} {
		n.stopKeeping("xtr1")
		n.rerun("xtr1", engine)
		var status api.Status
		n.show("xtr1", &status, "status")
		if status.Engine != engine || status.EngineReason != "" {
			t.Errorf("status tells of engine %q because of %q, want %s", status.Engine, status.EngineReason, engine)
		}
		var after []api.MapCacheEntry
		n.show("xtr1", &after, "map-cache")
		if len(after) != len(before) {
			t.Fatalf("engine %s: map-cache was %+v, is %+v", engine, before, after)
		}
		for i, e := range after {
			if b := before[i]; e.EIDPrefix != b.EIDPrefix || e.CreatedAt.Sub(b.CreatedAt).Abs() > time.Second || e.ExpiresAt.Sub(*b.ExpiresAt).Abs() > time.Second {
				t.Errorf("engine %s: the entry was %+v, is %+v: age and TTL must survive", engine, b, e)
			}
		}
		n.pingAll(3)
	}
	n.stopKeeping("xtr1")
	if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status != 0 {
		t.Errorf("detach: status %d, %s", status, out)
	}
	if left := n.leftAt("xtr1"); len(left) > 0 {
		t.Errorf("left after detach: %q", left)
	}
}

// TestUserPlaneTells: what the tools tell of a data plane in user space, and that they say what it has none of.
func TestUserPlaneTells(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newUserPlaneNetwork(t)
	n.runAll()
	n.pingAll(3)
	two := testSite{2}
	var explained api.Explanation
	out, status := n.loci("xtr1", "explain", two.host4().String(), "--from", testSite{1}.host4().String(), "--json", "--socket", n.socket("xtr1"))
	n.must(json.Unmarshal([]byte(out), &explained))
	if status != 0 || explained.DataPlane == nil || explained.DataPlane.Packets == 0 {
		t.Errorf("explain: status %d, %s", status, out)
	}
	var interfaces api.Interfaces
	n.show("xtr1", &interfaces, "interfaces")
	if len(interfaces.Interfaces) != 2 || !interfaces.Interfaces[0].Up || interfaces.Interfaces[0].Hook != "" {
		t.Errorf("interfaces: %+v", interfaces)
	}
	for _, c := range []struct {
		arguments []string
		status    int
		says      string
	}{
		{[]string{"show", "interfaces", "--socket", n.socket("xtr1")}, 0, "site0"},
		{[]string{"show", "datapath", "--socket", n.socket("xtr1")}, 4, "does not tell of its programs and tables"},
		{[]string{"trace", "--config", n.file("xtr1"), "in", "site0", "src", "10.1.0.10", "dst", "10.2.0.10"}, 3, "in user space, at loci0"},
		{[]string{"capture", "--config", n.file("xtr1")}, 3, "in user space, at loci0"},
	} {
		if out, status := n.loci("xtr1", c.arguments...); status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%v: status %d, want %d with %q: %s", c.arguments, status, c.status, c.says, out)
		}
	}
}

// TestEnginesMeet: on links within one machine, what the kernel's data plane sends has open checksums, and GSO
// packets that are whole; the user plane completes and cuts them. Its trains are cut before they get to the kernel's.
func TestEnginesMeet(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.must(n.at["core"].SetOffload("to-xtr1", testnet.UDPSegmentation, false))
	n.run("ms", n.mappingSystem())
	n.engine = "kernel"
	n.run("xtr1", n.xtr(1))
	n.engine = "user"
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	n.transferBetween()
}
