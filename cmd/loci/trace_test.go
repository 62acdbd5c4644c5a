// SPDX-License-Identifier: Apache-2.0

package main_test

// loci trace: what becomes of a packet, told while nothing happens to it; without a daemon as well.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/command"
)

// trace runs loci trace and reads its answers.
func (n *lispNetwork) trace(at string, arguments ...string) (traces []api.Trace) {
	n.t.Helper()
	out, status := n.loci(at, append([]string{"trace", "--json", "--config", n.file(at)}, arguments...)...)
	decoder := json.NewDecoder(strings.NewReader(out))
	for decoder.More() {
		var t api.Trace
		if err := decoder.Decode(&t); err != nil {
			n.t.Fatalf("loci trace: status %d, %s", status, out)
		}
		traces = append(traces, t)
	}
	if len(traces) == 0 {
		n.t.Fatalf("loci trace: status %d, %s", status, out)
	}
	return traces
}

func TestTraceTellsWhatBecomesOfAPacket(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	for _, pair := range [][2]string{{one.host4().String(), two.host4().String()}, {one.host6().String(), two.host6().String()}} {
		words := []string{"in", "site0", "src", pair[0], "dst", pair[1], "udp", "dport", "53"}
		if got := n.trace("xtr1", words...)[0]; got.Verdict != "wait" || got.Reason != "miss" {
			t.Errorf("before the mapping is there: %+v", got)
		}
	}
	var cached []api.MapCacheEntry
	n.show("xtr1", &cached, "map-cache")
	if len(cached) != 0 {
		t.Errorf("a trace made the router ask for %+v", cached)
	}
	n.ping("host1", one.host4(), two.host4(), 3)
	n.ping("host1", one.host6(), two.host6(), 3)
	listed := strings.Replace(n.xtr(1), "datapath:\n", "datapath:\n  access-lists: [{packets: encapsulated, address: inner-destination, deny: ["+two.eid4()+"]}]\n", 1)
	n.reconfigure("xtr1", listed)
	got := n.trace("xtr1", "in", "site0", "src", one.host4().String(), "dst", two.host4().String(), "udp", "dport", "53")[0]
	if got.Verdict != "drop" || got.Reason != "denied-destination" {
		t.Errorf("with a list: %+v", got)
	}
	if out, status := n.loci("xtr1", "show", "datapath", "--socket", n.socket("xtr1")); status != 0 || !strings.Contains(out, "Access lists: 1, with 1 prefixes") {
		t.Errorf("show datapath: status %d, %s", status, out)
	}
	n.reconfigure("xtr1", n.xtr(1))
	n.kill("xtr1") // tables are enough
	for _, pair := range [][2]string{{one.host4().String(), two.host4().String()}, {one.host6().String(), two.host6().String()}} {
		got := n.trace("xtr1", "in", "site0", "src", pair[0], "dst", pair[1], "tcp", "dport", "443")[0]
		if got.Verdict != "encapsulate" || !strings.Contains(got.Result, "LISP iid 0") {
			t.Errorf("with the mapping: %+v", got)
		}
	}
	back := n.trace("xtr1", "in", "core0", "rloc", two.rloc4(), "local", one.rloc4(), "src", two.host4().String(), "dst", one.host4().String())[0]
	if back.Verdict != "decapsulate" {
		t.Errorf("from the core: %+v", back)
	}
	for _, c := range []struct {
		words, want string
		status      int
	}{
		{"src 10.1.0.10 dst 10.2.0.10", "want `in INTERFACE`", command.StatusUsage},
		{"in nowhere0 src 10.1.0.10 dst 10.2.0.10", "nowhere0", command.StatusUsage},
		{"in lo src 10.1.0.10 dst 10.2.0.10", "none that the data plane watches", command.StatusProblems},
		{"in site0 dst 10.2.0.0/24", "has one address there", command.StatusUsage},
	} {
		out, status := n.loci("xtr1", append([]string{"trace", "--config", n.file("xtr1")}, strings.Fields(c.words)...)...)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d, %q, want status %d, %q", c.words, status, out, c.status, c.want)
		}
	}
}

func TestLiveTrace(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	var out bytes.Buffer
	cmd := exec.Command(binary, "trace", "--live", "--count", "2", "--config", n.file("xtr1"), "--json", "in", "site0", "dst", two.eid4(), "icmp")
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	n.must(n.at["xtr1"].Start(cmd))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(30 * time.Second)
	for tracing := true; tracing; {
		n.ping("host1", one.host4(), two.host4(), 1)
		select {
		case err := <-ended:
			n.must(err)
			tracing = false
		case <-deadline:
			_ = cmd.Process.Kill()
			t.Fatal("nothing was traced")
		default:
		}
	}
	decoder := json.NewDecoder(&out)
	for i := range 2 {
		var got api.Trace
		n.must(decoder.Decode(&got))
		if got.Verdict != "encapsulate" || !strings.HasPrefix(got.Packet, fmt.Sprintf("%s > %s protocol 1 ", one.host4(), two.host4())) {
			t.Errorf("trace %d: %+v", i, got)
		}
	}
}
