// SPDX-License-Identifier: Apache-2.0

// Tests of what the demo does without its daemons: its network, its evidence, its configurations, and that nothing is left
// however it ends. This program runs itself as a demo that hangs, and as a daemon that never gets ready.

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/config"
	"loci/internal/testnet"
	"loci/lab"
)

const runAs = "DEMO_RUN_AS"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "run": // as a daemon
		if os.Getenv(runAs) == "failing" {
			os.Stderr.WriteString("this daemon fails\n")
			os.Exit(1)
		}
		select {}
	case os.Getenv(runAs) == "demo":
		_, err := Run(context.Background(), Options{JSON: true, Out: os.Stdout, Err: os.Stderr, Executable: "/proc/self/exe"})
		os.Exit(lab.ExitStatus(err))
	}
	status := m.Run()
	if directoryOfCommands != "" {
		os.RemoveAll(directoryOfCommands)
	}
	os.Exit(status)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leftovers lists the demo networks of one process.
func leftovers(t *testing.T, pid string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/run/netns/", "/run/loci-testnet/", runs.Parent + "/"} {
		found, err := filepath.Glob(pattern + runs.Prefix + "-" + pid + "-*")
		must(t, err)
		all = append(all, found...)
	}
	return all
}

func ownLeftovers(t *testing.T) []string { return leftovers(t, itoa(os.Getpid())) }

func TestNetworkRoutesPlainAddressesAndNoEIDs(t *testing.T) {
	topology := topology{network: testnet.ForTest(t)}
	must(t, topology.build())
	for pair, name := range pairNames {
		ping := testnet.Ping{Namespace: topology.at(siteA.host)}
		ping.Source, ping.Destination = siteA.plain(pair), siteB.plain(pair)
		if result, err := ping.Run(context.Background()); err != nil || result.Received != 1 {
			t.Errorf("%s: plain ping: %+v, %v", name, result, err)
		}
		ping.Source, ping.Destination, ping.Timeout = siteA.eid(pair), siteB.eid(pair), 100*time.Millisecond
		if result, err := ping.Run(context.Background()); err != nil || result.Received != 0 {
			t.Errorf("%s: ping between EIDs without LISP: %+v, %v", name, result, err)
		}
	}
	must(t, topology.at("core").AddRoute(testnet.Route{Destination: siteB.eidPrefixes[2], Via: siteB.rloc6}))
	if err := topology.proveCoreIgnoresEIDs(); err == nil {
		t.Error("a route to an EID in the core is not noticed")
	}
}

func TestWatchFollowsPackets(t *testing.T) {
	topology := topology{network: testnet.ForTest(t)}
	must(t, topology.build())
	watch, err := topology.startWatch()
	must(t, err)
	_, err = testnet.Ping{Namespace: topology.at(siteA.host), Source: siteA.plain(2), Destination: siteB.plain(2)}.Run(context.Background())
	must(t, err)
	must(t, watch.stop())
	seen := map[string]int{}
	for _, x := range watch.sightings {
		seen[x.where]++
	}
	for _, where := range []string{siteA.host, siteB.host, siteA.name, siteB.name} {
		if seen[where] == 0 {
			t.Errorf("nothing seen at %s: %v", where, seen)
		}
	}
	if _, err := watch.path(0); err == nil || !strings.Contains(err.Error(), "echo request leaving host-a") {
		t.Errorf("a path is found where no packet was: %v", err)
	}
}

func TestRunLeavesNothingWhenADaemonFails(t *testing.T) {
	testnet.RequireRoot(t)
	t.Setenv(runAs, "failing")
	var out, progress bytes.Buffer
	report, err := Run(context.Background(), Options{JSON: true, Out: &out, Err: &progress, Executable: "/proc/self/exe"})
	if err == nil || !strings.Contains(err.Error(), "this daemon fails") || lab.ExitStatus(err) != lab.ExitFailed {
		t.Errorf("got %v, status %d; want a failure with the daemon's log", err, lab.ExitStatus(err))
	}
	if left := ownLeftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	decoder := json.NewDecoder(&out)
	var printed Report
	must(t, decoder.Decode(&printed))
	if printed.Worked || printed.Error == "" || len(printed.Pairs) != len(pairNames) || printed.Kernel != report.Kernel {
		t.Errorf("printed %+v", printed)
	}
	if err := decoder.Decode(&printed); !errors.Is(err, io.EOF) {
		t.Errorf("more than one object is printed: %v", err)
	}
}

func TestRunLeavesNothingWhenInterrupted(t *testing.T) {
	testnet.RequireRoot(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	progress := &interrupter{at: "The daemons", cancel: cancel}
	_, err := Run(ctx, Options{Out: progress, Err: io.Discard, Executable: "/proc/self/exe"})
	if !errors.Is(err, lab.ErrInterrupted) || lab.ExitStatus(err) != lab.ExitInterrupted {
		t.Errorf("got %v, status %d", err, lab.ExitStatus(err))
	}
	if left := ownLeftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRunEndsInTime(t *testing.T) {
	testnet.RequireRoot(t)
	_, err := Run(t.Context(), Options{Out: io.Discard, Err: io.Discard, Executable: "/proc/self/exe", Timeout: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "not finished after 1ms") || lab.ExitStatus(err) != lab.ExitFailed {
		t.Errorf("got %v, status %d", err, lab.ExitStatus(err))
	}
	if left := ownLeftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// interrupter ends the context when something is written.
type interrupter struct {
	at     string
	cancel context.CancelFunc
}

func (i *interrupter) Write(text []byte) (int, error) {
	if strings.Contains(string(text), i.at) {
		i.cancel()
	}
	return len(text), nil
}

func TestLeftoversOfAKilledRunAreRemoved(t *testing.T) {
	testnet.RequireRoot(t)
	killed := exec.Command("/proc/self/exe")
	killed.Env = append(os.Environ(), runAs+"=demo")
	must(t, killed.Start())
	pid := itoa(killed.Process.Pid)
	t.Cleanup(func() { runs.RemoveLeftovers(true) })
	awaitDaemon(t, pid)
	if removed, err := runs.RemoveLeftovers(false); err != nil || contains(removed, "-"+pid+"-") {
		t.Fatalf("removed %v of a living run (%v)", removed, err)
	}
	must(t, killed.Process.Kill())
	killed.Wait()
	if len(leftovers(t, pid)) == 0 {
		t.Fatal("the killed run left nothing: this test shows nothing")
	}
	removed, err := runs.RemoveLeftovers(false)
	must(t, err)
	if left := leftovers(t, pid); len(left) > 0 || !contains(removed, "-"+pid+"-") {
		t.Errorf("removed %v, left %v", removed, left)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if strings.Contains(string(mounts), runs.Prefix+"-"+pid+"-") {
		t.Error("a mount is left")
	}
}

func contains(names []string, part string) bool {
	return strings.Contains(strings.Join(names, "\n"), part)
}

func TestConfigurationsMeanWhatTheDemoShows(t *testing.T) {
	r := &run{instance: runs.Directory("x")}
	ms, err := config.Parse("ms", []byte(r.mappingSystemConfig(map[string]string{siteA.name: "key-of-site-a", siteB.name: "key-of-site-b"})))
	must(t, err)
	for i, s := range sites {
		xtr, err := config.Parse(s.name, []byte(r.siteConfig(s, "key-of-"+strings.Replace(s.name, "xtr", "site", 1))))
		must(t, err)
		if len(xtr.Warnings)+len(ms.Warnings) > 0 {
			t.Errorf("warnings: %v, %v", xtr.Warnings, ms.Warnings)
		}
		server, registered := xtr.ETR.MapServers[0], ms.MapServer.Sites[i]
		if string(server.Keys[0].Value.Reveal()) != string(registered.Keys[0].Value.Reveal()) {
			t.Errorf("%s and the Map-Server have different keys", s.name)
		}
		for pair, local := range xtr.ETR.LocalEIDs {
			locators := xtr.LocatorsOf(local.RLOCs)
			if local.Prefix().Netip() != s.eidPrefixes[pair] || local.Prefix() != registered.EIDPrefixes[pair].Prefix() ||
				len(locators) != 1 || locators[0].Address != s.rloc(pair) {
				t.Errorf("%s, %s: %+v", s.name, pairNames[pair], local)
			}
		}
	}
}

func TestWithoutRightsNothingIsMade(t *testing.T) {
	testnet.RequireRoot(t)
	nobody := exec.Command("/proc/self/exe")
	nobody.Dir = "/"
	nobody.Env = append(os.Environ(), runAs+"=demo")
	nobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := nobody.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != lab.ExitPreflight {
		t.Fatalf("got %v, want exit status %d", err, lab.ExitPreflight)
	}
	var printed Report
	must(t, json.Unmarshal(out, &printed))
	if len(printed.Problems) == 0 || !strings.Contains(printed.Error, "CAP_NET_ADMIN") {
		t.Errorf("printed %+v", printed)
	}
	if left := leftovers(t, itoa(nobody.Process.Pid)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestHangupInterrupts(t *testing.T) {
	testnet.RequireRoot(t)
	// Where the tests run under nohup, the demo would inherit that the signal is ignored. One that is caught is not inherited.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	demo := exec.Command("/proc/self/exe")
	demo.Env = append(os.Environ(), runAs+"=demo")
	must(t, demo.Start())
	pid := itoa(demo.Process.Pid)
	awaitDaemon(t, pid)
	must(t, demo.Process.Signal(syscall.SIGHUP))
	var exit *exec.ExitError
	if err := demo.Wait(); !errors.As(err, &exit) || exit.ExitCode() != lab.ExitInterrupted {
		t.Errorf("got %v, want exit status %d", err, lab.ExitInterrupted)
	}
	if left := leftovers(t, pid); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// awaitDaemon waits until the demo with a process id has started its first daemon.
func awaitDaemon(t *testing.T, pid string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if logs, _ := filepath.Glob(runs.Parent + "/" + runs.Prefix + "-" + pid + "-*/ms.log"); len(logs) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the demo does not start its daemons")
		}
	}
}

func TestPairsHaveTheirFamilies(t *testing.T) {
	for pair, name := range pairNames {
		inner, outer, _ := strings.Cut(name, "-in-")
		for _, s := range sites {
			if family(s.eid(pair)) != inner || family(s.rloc(pair)) != outer || family(s.plain(pair)) != inner {
				t.Errorf("%s at %s: EID %s, RLOC %s, plain %s", name, s.name, s.eid(pair), s.rloc(pair), s.plain(pair))
			}
			if !s.eidPrefixes[pair].Contains(s.eid(pair)) {
				t.Errorf("%s is not in %s", s.eid(pair), s.eidPrefixes[pair])
			}
		}
	}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

func TestTableAlignsItsColumns(t *testing.T) {
	var out bytes.Buffer
	newScreen(&out, time.Now()).table([][]string{{"a", "number"}, {"→→→", "1"}, {"b", "22"}}, 1)
	const want = "   a    number\n   →→→       1\n   b        22\n"
	if out.String() != want {
		t.Errorf("got\n%s want\n%s", out.String(), want)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("got %v", got)
	}
	if got := median([]time.Duration{}); got != 0 {
		t.Errorf("got %v of nothing", got)
	}
}

func TestRemoveTellsInJSON(t *testing.T) {
	testnet.RequireRoot(t)
	var out, progress bytes.Buffer
	_, err := Run(t.Context(), Options{Remove: true, JSON: true, Out: &out, Err: &progress})
	must(t, err)
	var printed struct{ Removed []string }
	must(t, json.Unmarshal(out.Bytes(), &printed))
	if printed.Removed == nil {
		t.Errorf("printed %q, want a list", out.String())
	}
}
