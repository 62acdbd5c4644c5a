// SPDX-License-Identifier: Apache-2.0

package main_test

// The planes of an xTR as two processes, joined by the mapping socket alone.

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
	"loci/internal/command"
	"loci/internal/testnet"
	"loci/mapsock"
)

// withSocket is a configuration of xtr1 with a mapping socket.
func (n *lispNetwork) withSocket(configuration string) string {
	return strings.Replace(configuration, "datapath:\n", "datapath:\n  mapping-socket: {path: "+filepath.Join(n.dir, "xtr1.map")+"}\n", 1)
}

// splitXTR is site 1 with a mapping socket, and settings of each kind that goes over it.
func (n *lispNetwork) splitXTR() string {
	return strings.Replace(n.withSocket(n.xtr(1)), "datapath:\n", "datapath:\n"+
		"  data-header: {locator-status-bits: true, map-versions: true, echo-nonce: true}\n  source-check: loose\n"+
		"  encapsulations: [{rloc-prefix: 203.0.113.0/24, encapsulation: lisp-gpe}]\n", 1)
}

// expectSettings demands that the data plane behind site 1's mapping socket has the settings of splitXTR.
func (n *lispNetwork) expectSettings() {
	n.t.Helper()
	client, err := mapsock.Dial(filepath.Join(n.dir, "xtr1.map"))
	n.must(err)
	defer client.Close()
	s := client.Settings()
	if h := s.Header; !h.StatusBits || !h.MapVersions || !h.EchoNonce || h.SourceCheck != dataplane.SourceLoose || len(s.Encapsulations) != 1 {
		n.t.Errorf("settings %+v", s)
	}
}

// runSplit starts the two processes of xtr1.
func (n *lispNetwork) runSplit(configuration string) {
	n.t.Helper()
	if !strings.Contains(configuration, "mapping-socket") {
		configuration = n.withSocket(configuration)
	}
	n.must(os.WriteFile(n.file("xtr1"), []byte(configuration), 0o600))
	n.launch("data", "xtr1", "--planes", "data", "--detach")
	n.launch("control", "xtr1", "--planes", "control")
	n.awaitReady("xtr1")
}

func TestEitherPlaneMayCrash(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.runSplit(n.splitXTR())
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	n.ping("xtr1", one.router6(), two.host6(), 1) // policy routing is the data plane's process's

	pinging := n.startPinging()
	time.Sleep(300 * time.Millisecond)
	n.kill("control")
	time.Sleep(300 * time.Millisecond)
	n.launch("control", "xtr1", "--planes", "control")
	n.awaitReady("xtr1")
	n.kill("data")
	time.Sleep(300 * time.Millisecond)
	n.launch("data", "xtr1", "--planes", "data", "--detach")
	n.await("the control plane has found it again", func(context.Context) bool { return strings.Contains(n.logs["control"].String(), "is back") })
	pinging.end("a crash of each plane")
	n.ping("host1", one.host6(), two.host6(), 3)
	n.expectSettings()
	var cache []api.MapCacheEntry
	n.show("xtr1", &cache, "map-cache")
	if len(cache) != 2 {
		t.Errorf("map-cache: %+v, want one entry a family", cache)
	}
	if out, status := n.loci("xtr1", "reload", "--socket", n.socket("xtr1")); status != 0 || out != "nothing changed\n" {
		t.Errorf("reload of the same file: status %d, %s", status, out)
	}
	// A miss proves that events and changes pass again: a negative mapping comes.
	_, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host4(), Destination: netip.MustParseAddr("198.18.0.1"), Timeout: time.Second}.Run(t.Context())
	n.must(err)
	n.await("a negative mapping", func(ctx context.Context) bool {
		list, err := n.client("xtr1").MapCache(ctx)
		return err == nil && slices.ContainsFunc(list, func(e api.MapCacheEntry) bool { return e.Action != nil })
	})
}

// TestMappingSocketBesideOneProcess has both planes in one process and a listener.
func TestMappingSocketBesideOneProcess(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.splitXTR())
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	monitor, err := mapsock.DialMonitor(filepath.Join(n.dir, "xtr1.map"), mapsock.HearEvents)
	n.must(err)
	defer monitor.Close()
	n.must(monitor.SetDeadline(time.Now().Add(readyFor)))
	n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 3)
	for {
		message, err := monitor.Next()
		n.must(err)
		if miss, ok := message.Miss(); ok {
			if miss.Destination.Addr() != (testSite{2}).host4() {
				t.Errorf("miss of %s", miss.Destination)
			}
			return
		}
	}
}

func TestPlanesRefuseWhatDoesNotFit(t *testing.T) {
	n := newLISPNetwork(t)
	for _, c := range []struct {
		configuration string
		arguments     []string
		want          string
	}{
		{n.xtr(1), []string{"--planes", "data"}, "needs datapath.mapping-socket.path"},
		{n.mappingSystem(), []string{"--planes", "control"}, "has no data plane"},
		{n.splitXTR(), []string{"--planes", "control", "--detach"}, "cannot --detach"},
		{strings.Replace(n.xtr(1), "datapath:\n", "datapath:\n  lispers: {directory: "+n.dir+"}\n  source-check: strict\n", 1), []string{"--planes", "control"},
			"does not carry datapath.source-check"},
	} {
		n.must(os.WriteFile(n.file("xtr1"), []byte(c.configuration), 0o600))
		out, status := n.loci("xtr1", append([]string{"run", "--config", n.file("xtr1")}, c.arguments...)...)
		if status != 78 || !strings.Contains(out, c.want) { // EX_CONFIG
			t.Errorf("%v: status %d, %s", c.arguments, status, out)
		}
	}
	n.must(os.WriteFile(n.file("xtr1"), []byte(n.xtr(1)), 0o600))
	out, status := n.loci("xtr1", "run", "--config", n.file("xtr1"), "--planes", "half")
	if status != command.StatusUsage || !strings.Contains(out, "want both, data or control") {
		t.Errorf("half a plane: status %d, %s", status, out)
	}
}
