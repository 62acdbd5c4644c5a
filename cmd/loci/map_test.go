// SPDX-License-Identifier: Apache-2.0

package main_test

// loci map and loci mapstat at real data planes: beside a control plane, and with none.

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/mapsock"
)

func (n *lispNetwork) mapSocket(name string) string { return filepath.Join(n.dir, name+".map") }

// withMapSocket is a site's configuration with a mapping socket.
func (n *lispNetwork) withMapSocket(number int) string {
	socket := n.mapSocket(testSite{number}.name())
	return strings.Replace(n.xtr(number), "datapath:\n", "datapath:\n  mapping-socket: {path: "+socket+"}\n", 1)
}

// mapCommand runs `loci map` at a site and demands success.
func (n *lispNetwork) mapCommand(name, words string) string {
	n.t.Helper()
	out, status := n.loci(name, append([]string{"map", "--socket", n.mapSocket(name)}, strings.Fields(words)...)...)
	if status != 0 {
		n.t.Fatalf("loci map %s: %s", words, out)
	}
	return out
}

// mapMonitor runs `loci map monitor` at a site and returns what it has printed so far.
func (n *lispNetwork) mapMonitor(name string) func() string {
	n.t.Helper()
	file := filepath.Join(n.dir, name+".heard")
	output, err := os.Create(file)
	n.must(err)
	cmd := exec.Command(binary, "map", "monitor", "--socket", n.mapSocket(name))
	cmd.Stdout, cmd.Stderr = output, output
	n.must(n.at[name].Start(cmd))
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			n.t.Errorf("loci map monitor ended with %v", err)
		}
		_ = output.Close()
	})
	heard := func() string {
		text, err := os.ReadFile(file)
		n.must(err)
		return string(text)
	}
	n.await("the monitor hears", func(context.Context) bool {
		n.loci(name, "map", "delete", "-inet", "198.18.0.0/15", "--socket", n.mapSocket(name))
		return strings.Contains(heard(), "198.18.0.0/15")
	})
	return heard
}

func (n *lispNetwork) awaitHeard(heard func() string, words ...string) {
	n.t.Helper()
	n.await(strings.Join(words, " … "), func(context.Context) bool {
		for line := range strings.Lines(heard()) {
			if containsAll(line, words) {
				return true
			}
		}
		return false
	})
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

func TestMapMonitorBesideABusyXTR(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.withMapSocket(1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host6(), two.host6(), 1)
	const count = 300
	busy := make(chan testnet.PingResult, 1)
	go func() {
		result, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host6(), Destination: two.host6(), Count: count, Interval: 10 * time.Millisecond}.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		busy <- result
	}()
	heard := n.mapMonitor("xtr1")
	n.ping("host1", one.host4(), two.host4(), 1)
	n.awaitHeard(heard, "miss-eid", "EID "+two.host4().String(), "from "+one.host4().String(), "on site0")
	n.awaitHeard(heard, "add EID "+two.eid4(), "RLOC inet "+two.rloc4(), "RLOC inet6 ", "flags U", "DONE")
	if got := n.mapCommand("xtr1", "get -inet "+two.host4().String()); !containsAll(got, []string{"EID mask: 255.255.255.0", "RLOC Addr: inet " + two.rloc4(), "<UP,DONE>"}) {
		t.Errorf("map get: %s", got)
	}
	n.mapCommand("xtr1", "delete -inet "+two.eid4())
	n.awaitHeard(heard, "delete EID "+two.eid4(), "<DONE>")
	n.expire("xtr1", "10.77.0.0/16")
	n.awaitHeard(heard, "delete EID 10.77.0.0/16", "<EXPIRED,DONE>")
	if result := <-busy; result.Received != count {
		t.Errorf("%d of %d pings answered while a monitor listened", result.Received, count)
	}
	n.checkLinks(one, two)
}

// expire adds a mapping whose time has ended, and deletes it as a control plane does.
func (n *lispNetwork) expire(name, prefix string) {
	n.t.Helper()
	client, err := mapsock.Dial(n.mapSocket(name))
	n.must(err)
	defer client.Close()
	entry := dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Action: lisp.ActionDrop, TTLMinutes: 1},
		CreatedAt: time.Now().Add(-2 * time.Minute), ExpiresAt: time.Now().Add(-time.Minute),
	}
	if errs := client.Apply(dataplane.PutMapping{Entry: entry}); errs != nil {
		n.t.Fatal(errs)
	}
	n.mapCommand(name, "delete -inet "+prefix)
}

// checkLinks looks at what a busy xTR tells, through links of the commands' names.
func (n *lispNetwork) checkLinks(one, two testSite) {
	n.t.Helper()
	for _, name := range []string{"map", "mapstat"} {
		n.must(os.Symlink(binary, filepath.Join(n.dir, name)))
	}
	for words, want := range map[string][]string{
		"mapstat -X":         {"Mapping tables", "Internet:", one.eid4(), "DU", "Internet6:", two.eid6()},
		"mapstat -XW -inet6": {"Hits", "Ui", two.eid6()},
		"mapstat -s -p lisp": {"lisp:", "packets sent encapsulated"},

		"map get -database -inet " + one.host4().String(): {"EID mask: 255.255.255.0", one.rloc4()},
		"map -t delete -inet " + two.eid4():               {""},
	} {
		fields := strings.Fields(words)
		out, err := exec.Command(filepath.Join(n.dir, fields[0]), append(fields[1:], "--socket", n.mapSocket("xtr1"))...).CombinedOutput()
		if err != nil || !containsAll(string(out), want) {
			n.t.Errorf("%s: %v\n%s", words, err, out)
		}
	}
}

// Two data planes alone, filled by hand: no mapping system, no control plane.
func TestMapIsControlPlaneEnough(t *testing.T) {
	n := newLISPNetwork(t)
	for number := 1; number <= 2; number++ {
		here, there := testSite{number}, testSite{3 - number}
		n.must(os.WriteFile(n.file(here.name()), []byte(n.withMapSocket(number)), 0o600))
		n.launch(here.name(), here.name(), "--planes", "data", "--detach")
		n.setUp(here)
		n.mapCommand(here.name(), "add -database -inet "+here.eid4()+" -inet "+here.rloc4()+" 1 100 1")
		n.mapCommand(here.name(), "add -database -inet6 "+here.eid6()+" -inet "+here.rloc4()+" 1 100 1")
		n.mapCommand(here.name(), "add -inet "+there.eid4()+" -inet "+there.rloc4()+" 1 100 1")
		n.mapCommand(here.name(), "add -inet6 "+there.eid6()+" -inet "+there.rloc4()+" 1 100 1")
	}
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 3)
	n.ping("host2", two.host6(), one.host6(), 3)
	n.mapCommand("xtr1", "flush -inet")
	result, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host4(), Destination: two.host4(), Timeout: 300 * time.Millisecond}.Run(t.Context())
	n.must(err)
	if result.Received != 0 {
		t.Error("a ping was answered without a mapping")
	}
	n.ping("host1", one.host6(), two.host6(), 1)
}

// setUp gives a data plane its interfaces and RLOCs, which map has no words for.
func (n *lispNetwork) setUp(s testSite) {
	n.t.Helper()
	var client *mapsock.Client
	n.await("the data plane of "+s.name(), func(context.Context) (connected bool) {
		var err error
		client, err = mapsock.Dial(n.mapSocket(s.name()))
		return err == nil
	})
	defer client.Close()
	errs := client.Apply(dataplane.SetSettings{Settings: dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}},
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr(s.rloc4()))},
		Wait:       dataplane.DefaultWaitBounds,
	}})
	if errs != nil {
		n.t.Fatal(errs)
	}
}

// TestVerdictsOnForeignMappings: what a client of the mapping socket changes is in status, explain and show alike, and gone with it.
func TestVerdictsOnForeignMappings(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.withMapSocket(1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	n.awaitHealthy("xtr1")
	for _, foreign := range []struct{ family, prefix, host string }{{"-inet", "10.77.0.0/24", "10.77.0.1"}, {"-inet6", "2001:db8:77::/48", "2001:db8:77::1"}} {
		n.mapCommand("xtr1", "add "+foreign.family+" "+foreign.prefix+" -inet "+two.rloc4()+" 1 100 1")
		n.awaitProblem("xtr1", "data-plane-differs", foreign.prefix)
		if out, _ := n.loci("xtr1", "explain", foreign.host, "--socket", n.socket("xtr1")); !strings.Contains(out, string(api.OutcomeOutOfStep)) {
			t.Errorf("explain: %s", out)
		}
		if out, _ := n.loci("xtr1", "show", "map-cache", "--socket", n.socket("xtr1")); !strings.Contains(out, foreign.prefix) || !strings.Contains(out, two.eid4()) {
			t.Errorf("show map-cache: %s", out)
		}
		n.mapCommand("xtr1", "delete "+foreign.family+" "+foreign.prefix)
	}
	n.awaitHealthy("xtr1")
	n.mapCommand("xtr1", "delete -inet "+two.eid4())
	n.mapCommand("xtr1", "add -inet "+two.eid4()+" -inet 172.16.9.99 1 100 1")
	if p := n.awaitProblem("xtr1", "data-plane-differs", two.eid4()); !strings.Contains(p.What, "172.16.9.99") || !strings.Contains(p.What, two.rloc4()) {
		t.Errorf("%+v", p)
	}
}
