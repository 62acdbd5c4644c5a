// SPDX-License-Identifier: Apache-2.0

// Each bench for a fraction of a second, with the command built from this tree: all cases of all arms give figures, every
// packet is right, and nothing is left. No figure is judged: this machine may be at work.

package bench

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
)

// leftovers lists the bench networks of one process.
func leftovers(t *testing.T, pid int) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/run/netns/", "/run/loci-testnet/", runs.Parent + "/"} {
		found, err := filepath.Glob(pattern + runs.Prefix + "-" + strconv.Itoa(pid) + "-*")
		must(t, err)
		all = append(all, found...)
	}
	return all
}

func TestEveryBench(t *testing.T) {
	testnet.RequireRoot(t)
	directory := t.TempDir()
	must(t, commandtest.Build(directory, "loci", "loci-lab"))
	executable := filepath.Join(directory, "loci-lab")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			args := []string{"bench", k.name, "--json", "--seconds", "0.5", "--rounds", "1"}
			switch {
			case k.name == "failover": // what dies takes its time to come back
				args = append(args, "--case", caseSplit)
			case k.whole != nil: // its largest tables take half a minute
				args = append(args, "--case", "ipv4-1k")
			}
			cmd := exec.Command(executable, args...)
			var progress strings.Builder
			cmd.Stderr = &progress
			output, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, progress.String())
			}
			var report Report
			must(t, json.Unmarshal(output, &report))
			switch {
			case k.name == "failover":
				checkFailoverReport(t, &report)
			case k.whole != nil:
				checkFIBReport(t, &report)
			default:
				checkReport(t, k, &report)
			}
			if left := leftovers(t, cmd.Process.Pid); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// checkFailoverReport wants the shares of two numbers of flows, and what they should be.
func checkFailoverReport(t *testing.T, r *Report) {
	t.Helper()
	if len(r.Results) != 2 || len(r.Targets) != 2 {
		t.Errorf("%d results and %d targets", len(r.Results), len(r.Targets))
	}
	for _, x := range r.Results {
		if x.Value <= 0 || x.Value >= 100 {
			t.Errorf("%s: %g %%", x.Metric, x.Value)
		}
	}
}

// checkFIBReport wants a lookup of every arm, of every kind of destinations, and what updates cost.
func checkFIBReport(t *testing.T, r *Report) {
	t.Helper()
	for _, arm := range []string{armFIB, armMapping, armCounted, armTrie, armHash} {
		for _, destinations := range []string{destinationsRandom, destinationsZipf, destinationsSingle} {
			if x := r.find("ipv4-1k/"+destinations, arm, "lookup"); x == nil || x.Value <= 0 {
				t.Errorf("no lookup of %s, %s", arm, destinations)
			}
		}
	}
	for _, metric := range []string{"installs", "delete when full", "kernel memory"} {
		if x := r.find("ipv4-1k/update", armFIB, metric); x == nil || x.Value <= 0 {
			t.Errorf("no %s", metric)
		}
	}
}

// checkReport wants a figure for every case of every arm.
func checkReport(t *testing.T, k kind, r *Report) {
	t.Helper()
	if r.Name != k.name || r.Error != "" || r.Rounds != 1 || r.Environment.Kernel == "" || r.Environment.Cores == 0 {
		t.Errorf("report: %+v", r)
	}
	for _, name := range k.cases {
		for _, a := range k.arms {
			found := false
			for _, result := range r.Results {
				found = found || result.Case == name && result.Arm == a.name && len(result.Samples) == 1
			}
			if !found {
				t.Errorf("no result for %s of %s", name, a.name)
			}
		}
	}
	if len(r.Targets) == 0 {
		t.Error("no target is judged")
	}
}

// testLine builds the line of an arm that needs no daemon, with its generator and its sink.
func testLine(t *testing.T, a arm) *line {
	t.Helper()
	network := testnet.ForTest(t)
	l, err := newLine(network, a)
	must(t, err)
	must(t, a.build(context.Background(), nil, l))
	must(t, l.attach())
	t.Cleanup(func() { must(t, l.close()) })
	return l
}

// Every packet arrives and is counted once, in skb and in frames, both families, one destination port or many.
func TestSinkCountsWhatTheGeneratorSends(t *testing.T) {
	for _, a := range []arm{routing, vxlan, redirect} {
		l := testLine(t, a)
		for _, p := range pairs {
			for _, flows := range []uint32{1, manyFlows} {
				must(t, l.aim(stream{pair: p, flows: flows, destinations: 1}))
				o, err := l.traffic.run(context.Background(), limits{frames: 2000, burst: 16})
				if err != nil || o.sent != 2000 || o.received == 0 || o.elapsed <= 0 {
					t.Errorf("%s, %s, %d flows: %+v, %v", a.name, p.name, flows, o, err)
				}
			}
		}
	}
}

// The sink is able to fail: packets with another TTL, another address, another port or a wrong checksum than was sent.
func TestSinkTellsWrongPackets(t *testing.T) {
	l := testLine(t, routing)
	for name, spoil := range map[string]func(*trafficBenchSettings){
		"TTL":    func(s *trafficBenchSettings) { s.Ttl++ },
		"source": func(s *trafficBenchSettings) { s.Packet[15]++ },
		"length": func(s *trafficBenchSettings) { s.Packet[3]++ },
	} {
		must(t, l.aim(stream{pair: pairs[0], flows: 1, destinations: 1}))
		spoil(&l.traffic.settings)
		if _, err := l.traffic.run(context.Background(), limits{frames: 64, burst: 16}); err == nil || !strings.Contains(err.Error(), "arrived changed") {
			t.Errorf("%s: got %v, want that packets arrived changed", name, err)
		}
	}
}

func TestLossIsCounted(t *testing.T) {
	l := testLine(t, routing)
	must(t, l.aim(stream{pair: pairs[0], flows: 1, destinations: 1}))
	must(t, l.dec.SetUp(siteLink, false))
	o, err := l.traffic.run(context.Background(), limits{frames: 64, burst: 16})
	if err != nil || o.sent != 64 || o.lost() != 64 {
		t.Errorf("%+v, %v; want 64 packets lost", o, err)
	}
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	testnet.RequireRoot(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var out, progress strings.Builder
	_, err := Run(ctx, "forwarding", Options{JSON: true, Out: &out, Err: &progress, Executable: "/bin/false"})
	if err == nil {
		t.Error("a bench without daemons worked")
	}
	if left := leftovers(t, os.Getpid()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	var report Report
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil || report.Error == "" {
		t.Errorf("the object does not tell what happened: %v, %q", err, report.Error)
	}
}
