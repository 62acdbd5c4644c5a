// SPDX-License-Identifier: Apache-2.0

package main_test

// The engine changed by a reload, while packets flow.

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// withEngine is a configuration with another engine.
func withEngine(configuration, engine string) string {
	lines := strings.Split(configuration, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  engine: ") {
			lines[i] = "  engine: " + engine
		}
	}
	return strings.Join(lines, "\n")
}

// reloadWith writes a configuration and has the daemon read it.
func (n *lispNetwork) reloadWith(name, configuration string) (output string, status int) {
	n.t.Helper()
	n.must(os.WriteFile(n.file(name), []byte(configuration), 0o600))
	return n.loci(name, "reload", "--socket", n.socket(name))
}

// expectEngine fails the test unless a router has that engine in force.
func (n *lispNetwork) expectEngine(name, engine string) {
	n.t.Helper()
	var status api.Status
	n.show(name, &status, "status")
	if status.Engine != engine {
		n.t.Errorf("%s: status tells of engine %q because of %q, want %s", name, status.Engine, status.EngineReason, engine)
	}
}

// TestReloadChangesTheEngine changes it there and back under pings and TCP of both families: connections go on, map-cache and
// registrations stay, and no packet of an EID leaves without encapsulation.
func TestReloadChangesTheEngine(t *testing.T) {
	n := newLISPNetwork(t)
	n.engine = "kernel"
	n.runAll()
	n.pingAll(3)
	one, two := testSite{1}, testSite{2}
	var before, after []api.MapCacheEntry
	n.show("xtr1", &before, "map-cache")
	registered, err := n.client("ms").Registrations(t.Context())
	n.must(err)
	leaks := n.watchLeaks("xtr1")
	pinging := []*pings{n.startPinging(), n.startPingingBetween(one.host6(), two.host6())}
	transfers := make(chan error, 2)
	n.bothFamilies(func(from, to netip.Addr) {
		go func() {
			_, err := testnet.TCP{Client: n.at["host1"], Server: n.at["host2"], Source: from, Destination: to, Duration: 8 * time.Second, Verify: true, Timeout: time.Minute}.Run(t.Context())
			transfers <- err
		}()
	})
	for _, engine := range []string{"user", "kernel", "user", "auto"} {
		if out, status := n.reloadWith("xtr1", withEngine(n.xtr(1), engine)); status != 0 {
			t.Errorf("reload with engine %s: status %d, %s", engine, status, out)
		}
		n.expectEngine("xtr1", strings.Replace(engine, "auto", "kernel", 1))
		n.pingAll(3)
		n.show("xtr1", &after, "map-cache")
		n.expectSameEntries(before, after)
	}
	for range 2 {
		n.must(<-transfers)
	}
	lost := 0
	for _, p := range pinging {
		close(p.stop)
		sum := <-p.sums
		lost += sum[0] - sum[1]
	}
	t.Logf("%d pings were lost in 4 changes", lost)
	if leaks.Load() > 0 {
		t.Errorf("%d packets of EIDs left without encapsulation", leaks.Load())
	}
	list, err := n.client("ms").Registrations(t.Context())
	n.must(err)
	if len(list) != len(registered) {
		t.Errorf("registrations were %+v, are %+v", registered, list)
	}
	n.stop("xtr1", n.daemons["xtr1"])
	if left := n.leftAt("xtr1"); len(left) > 0 {
		t.Errorf("left after detach: %q", left)
	}
}

// expectSameEntries fails the test unless two map-caches have the same entries, ages and TTLs included.
func (n *lispNetwork) expectSameEntries(before, after []api.MapCacheEntry) {
	n.t.Helper()
	if len(after) != len(before) {
		n.t.Errorf("map-cache was %+v, is %+v", before, after)
		return
	}
	for i, e := range after {
		if b := before[i]; e.EIDPrefix != b.EIDPrefix || e.CreatedAt.Sub(b.CreatedAt).Abs() > time.Second || e.ExpiresAt.Sub(*b.ExpiresAt).Abs() > time.Second {
			n.t.Errorf("the entry was %+v, is %+v: age and TTL must survive", b, e)
		}
	}
}

// TestReloadRefusesTheEngine: what cannot be is refused with the reason, and the engine from before forwards.
func TestReloadRefusesTheEngine(t *testing.T) {
	n := newLISPNetwork(t)
	n.engine = "kernel"
	n.runAll()
	n.pingAll(1)
	pinging := n.startPinging()
	refuse := func(name, configuration, why string) {
		t.Helper()
		kept, err := os.ReadFile(n.file(name))
		n.must(err)
		out, status := n.reloadWith(name, configuration)
		if status == 0 || !strings.Contains(out, why) {
			t.Errorf("reload: status %d, %s, want %q", status, out, why)
		}
		n.must(os.WriteFile(n.file(name), kept, 0o600))
		n.pingAll(1)
	}
	refuse("xtr1", strings.Replace(withEngine(n.xtr(1), "user"), "{interface: site0}", "{interface: site0, vlan: 7}", 1), "VLAN")
	n.expectEngine("xtr1", "kernel")
	pinging.end("a refusal that needs no attempt")

	var taken net.PacketConn // what keeps others from the TUN, which the new engine finds out when it opens
	n.must(n.at["xtr1"].Do(func() (err error) {
		taken, err = net.ListenPacket("unixgram", "@loci-tun-loci0")
		return err
	}))
	refuse("xtr1", withEngine(n.xtr(1), "user"), "another process has this TUN interface open")
	n.expectEngine("xtr1", "kernel")
	n.must(taken.Close())

	n.must(n.at["xtr1"].Do(func() (err error) { // the data port, which the new engine opens after the TUN, at all addresses
		taken, err = net.ListenPacket("udp4", "127.0.0.1:4341")
		return err
	}))
	refuse("xtr1", withEngine(n.xtr(1), "user"), "data port")
	n.expectEngine("xtr1", "kernel")
	n.must(taken.Close())

	n.stop("xtr2", n.daemons["xtr2"])
	n.must(os.WriteFile(n.file("xtr2"), []byte(withEngine(n.xtr(2), "user")), 0o600))
	n.runWithoutBPF("xtr2")
	n.pingAll(1)
	refuse("xtr2", withEngine(n.xtr(2), "kernel"), "refuses to this process")
	n.expectEngine("xtr2", "user")
	if out, status := n.reloadWith("xtr2", withEngine(n.xtr(2), "auto")); status != 0 {
		t.Errorf("auto, which is user space here: status %d, %s", status, out)
	}
	n.expectEngine("xtr2", "user")
	n.pingAll(1)
}
