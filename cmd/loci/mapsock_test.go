// SPDX-License-Identifier: Apache-2.0

package main_test

// What mapping sockets promise, at running xTRs: other programs as the only control
// plane, a control plane that is killed in the middle of a transfer, and a listener
// that has stopped listening.

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/mapsock"
)

// runDataPlanes starts both sites without a control plane; map gives them what is
// theirs, and nothing of the other's.
func (n *lispNetwork) runDataPlanes() {
	n.t.Helper()
	for number := 1; number <= 2; number++ {
		here := testSite{number}
		n.must(os.WriteFile(n.file(here.name()), []byte(n.withMapSocket(number)), 0o600))
		n.launch(here.name(), here.name(), "--planes", "data", "--detach")
		n.setUp(here)
		n.mapCommand(here.name(), "add -database -inet "+here.eid4()+" -inet "+here.rloc4()+" 1 100 1")
		n.mapCommand(here.name(), "add -database -inet6 "+here.eid6()+" -inet "+here.rloc4()+" 1 100 1")
	}
}

// runProgram runs a program at a router until the test ends.
func (n *lispNetwork) runProgram(name string, arguments ...string) *exec.Cmd {
	n.t.Helper()
	log := &logBuffer{}
	n.logs["program at "+name] = log
	cmd := exec.Command(arguments[0], arguments[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	n.must(n.at[name].Start(cmd))
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestExamplesAreControlPlanes(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireRoot(t)
	directory := t.TempDir()
	inC := filepath.Join(directory, "answer")
	for name, c := range map[string]struct {
		needs string
		run   func(n *lispNetwork, here, there testSite)
	}{
		"C": {"gcc", func(n *lispNetwork, here, there testSite) {
			n.runProgram(here.name(), inC, n.mapSocket(here.name()), there.eid4(), there.rloc4(), there.eid6(), there.rloc4())
		}},
		"Python": {"python3", func(n *lispNetwork, here, there testSite) {
			file := filepath.Join(n.dir, here.name()+".mappings")
			n.must(os.WriteFile(file, []byte(there.eid4()+" "+there.rloc4()+"\n"+there.eid6()+" "+there.rloc4()+"\n"), 0o600))
			n.runProgram(here.name(), "python3", "-B", "../../mapsock/python/controlplane.py", n.mapSocket(here.name()), file)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.RequireProgram(t, c.needs)
			if name == "C" {
				if out, err := exec.Command("gcc", "-std=c11", "-O2", "-o", inC, "../../mapsock/c/answer.c").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			n := newLISPNetwork(t)
			n.runDataPlanes()
			one, two := testSite{1}, testSite{2}
			c.run(n, one, two)
			c.run(n, two, one)
			for _, s := range []testSite{one, two} {
				n.awaitClients(s.name(), 2)
			}
			// Every packet arrives, the first ones too: they waited for the answer.
			n.ping("host1", one.host4(), two.host4(), 3)
			n.ping("host2", two.host6(), one.host6(), 3)
			if got := n.mapCommand("xtr1", "get -inet "+two.host4().String()); !containsAll(got, []string{"EID mask: 255.255.255.0", "RLOC Addr: inet " + two.rloc4()}) {
				t.Errorf("map get: %s", got)
			}
			// What no mapping covers is dropped by the example's word.
			_, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host4(), Destination: netip.MustParseAddr("10.200.0.1"), Timeout: 100 * time.Millisecond}.Run(t.Context())
			n.must(err)
			n.await("a negative mapping", func(context.Context) bool {
				out, _ := n.loci("xtr1", "map", "--json", "--socket", n.mapSocket("xtr1"), "get", "-inet", "10.200.0.1")
				return strings.Contains(out, `"drop"`)
			})
		})
	}
}

// awaitClients waits until so many clients are at a mapping socket, this one counted in.
func (n *lispNetwork) awaitClients(name string, clients uint64) {
	n.t.Helper()
	client, err := mapsock.Dial(n.mapSocket(name))
	n.must(err)
	defer client.Close()
	n.await("programs at the socket of "+name, func(context.Context) bool {
		return client.Counters().Other["mapsock_clients"] >= clients
	})
}

// tables are both tables of a data plane, in order, each entry as often as it is there.
func (n *lispNetwork) tables(name string) (cache, database []string) {
	n.t.Helper()
	client, err := mapsock.Dial(n.mapSocket(name))
	n.must(err)
	defer client.Close()
	for entry, err := range client.DumpMappings() {
		n.must(err)
		cache = append(cache, entry.Mapping.Prefix.String()+" "+entry.CreatedAt.Truncate(100*time.Millisecond).String())
	}
	for entry, err := range client.DumpDatabase() {
		n.must(err)
		database = append(database, entry.Prefix.String())
	}
	slices.Sort(cache)
	return cache, database
}

func (n *lispNetwork) dropsAt(name string) map[string]uint64 {
	n.t.Helper()
	client, err := mapsock.Dial(n.mapSocket(name))
	n.must(err)
	defer client.Close()
	return client.Counters().Drops
}

// TestControlPlaneKilledMidTransfer: the control plane dies while TCP and pings are
// under way, and another takes its place. The hosts notice nothing, and both tables
// are what they were.
func TestControlPlaneKilledMidTransfer(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.runSplit(n.splitXTR())
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	n.ping("host1", one.host6(), two.host6(), 1)
	cache, database := n.tables("xtr1")
	drops := n.dropsAt("xtr1")

	pinging := n.startPinging()
	transfer := make(chan error, 1)
	go func() {
		_, err := testnet.TCP{
			Client: n.at["host1"], Server: n.at["host2"], Source: one.host6(), Destination: two.host6(), Octets: 200 << 20, Verify: true, Timeout: readyFor * 3,
		}.Run(t.Context())
		transfer <- err
	}()
	for range 2 {
		time.Sleep(200 * time.Millisecond)
		n.kill("control")
		time.Sleep(300 * time.Millisecond)
		n.launch("control", "xtr1", "--planes", "control")
		n.awaitReady("xtr1")
	}
	if err := <-transfer; err != nil {
		t.Errorf("the transfer: %v", err)
	}
	pinging.end("two crashes of the control plane")
	cacheAfter, databaseAfter := n.tables("xtr1")
	if !slices.Equal(cache, cacheAfter) || len(cache) != 2 {
		t.Errorf("the map-cache was %v, is %v", cache, cacheAfter)
	}
	if !slices.Equal(database, databaseAfter) || len(database) != 2 {
		t.Errorf("the Database was %v, is %v", database, databaseAfter)
	}
	for reason, packets := range n.dropsAt("xtr1") {
		if packets != drops[reason] && reason != "too-big" { // those TCP is told of, and sends again in smaller ones
			t.Errorf("%d packets were dropped for %s", packets-drops[reason], reason)
		}
	}
}

// TestStoppedListenerHarmsNoOther: `loci map monitor` is stopped while thousands of
// messages are for it. Others hear everything, no packet is lost, and when it goes on it
// says how much it has missed.
func TestStoppedListenerHarmsNoOther(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.withMapSocket(1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	file := filepath.Join(n.dir, "stopped")
	output, err := os.Create(file)
	n.must(err)
	defer output.Close()
	stopped := exec.Command(binary, "map", "monitor", "--socket", n.mapSocket("xtr1"))
	stopped.Stdout = output
	n.must(n.at["xtr1"].Start(stopped))
	t.Cleanup(func() { _ = stopped.Process.Kill(); _ = stopped.Wait() })
	n.awaitClients("xtr1", 2)
	n.must(stopped.Process.Signal(syscall.SIGSTOP))

	pinging := n.startPinging()
	listener, err := mapsock.DialMonitor(n.mapSocket("xtr1"), mapsock.HearOperations)
	n.must(err)
	defer listener.Close()
	n.must(listener.SetDeadline(time.Now().Add(readyFor)))
	const messages, together = 60_000, 200
	go n.flood(messages, together)
	for heard := 0; heard < messages; {
		message, err := listener.Next()
		n.must(err)
		if message.Type == mapsock.TypeLost {
			t.Fatalf("a listener that listens has lost %d messages", message.Lost)
		}
		if message.Type == mapsock.TypeAdd {
			heard++
		}
	}
	pinging.end("a listener that has stopped")
	n.must(stopped.Process.Signal(syscall.SIGCONT))
	n.await("what was lost is told", func(context.Context) bool {
		text, err := os.ReadFile(file)
		n.must(err)
		return strings.Contains(string(text), "messages, which this monitor did not read in time")
	})
}

// flood adds mappings, each of which everybody hears of.
func (n *lispNetwork) flood(messages, together int) {
	client, err := mapsock.Dial(n.mapSocket("xtr1"))
	if err != nil {
		n.t.Error(err)
		return
	}
	defer client.Close()
	now := time.Now()
	for sent := 0; sent < messages; sent += together {
		operations := make([]dataplane.Operation, together)
		for i := range operations {
			address := netip.AddrFrom4([4]byte{198, 18, byte(i), 1})
			operations[i] = dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
				Mapping:   lisp.Mapping{Prefix: lisp.HostPrefix(0, lisp.EIDFromAddr(address)), Action: lisp.ActionDrop, TTLMinutes: 1},
				CreatedAt: now, ExpiresAt: now.Add(time.Minute),
			}}
		}
		if err := errors.Join(client.Apply(operations...)...); err != nil {
			n.t.Error(err)
			return
		}
	}
}
