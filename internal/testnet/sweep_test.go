// SPDX-License-Identifier: Apache-2.0

// Tests of leftovers: this test program runs itself as other runs, and kills them.

package testnet

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// runAsOther makes this program another run: it makes a network, tells its name, and waits to be killed.
const runAsOther = "TESTNET_RUN_AS_OTHER"

func TestMain(m *testing.M) {
	if prefix := os.Getenv(runAsOther); prefix != "" {
		other(prefix)
	}
	os.Exit(m.Run())
}

func other(prefix string) {
	network, err := New(prefix)
	if err == nil {
		var ns *Namespace
		if ns, err = network.Namespace("left"); err == nil {
			sleeper := exec.Command("/bin/sleep", "600")
			err = ns.Start(sleeper)
			fmt.Println(ns.Name(), sleeper.Process.Pid)
		}
	}
	if err == nil && os.Getenv("TESTNET_KEEP") != "" {
		err = network.Keep()
	}
	fmt.Println(err)
	select {}
}

type otherRun struct {
	cmd       *exec.Cmd
	namespace string
	sleeper   int
}

func startOther(t *testing.T, prefix string, environment ...string) *otherRun {
	t.Helper()
	run := &otherRun{cmd: exec.Command("/proc/self/exe")}
	run.cmd.Env = append(append(os.Environ(), runAsOther+"="+prefix), environment...)
	out, err := run.cmd.StdoutPipe()
	must(t, err)
	must(t, run.cmd.Start())
	t.Cleanup(func() {
		run.kill()
		SweepKept(prefix)
	})
	lines := bufio.NewScanner(out)
	var told []string
	for len(told) < 2 && lines.Scan() {
		told = append(told, lines.Text())
	}
	if len(told) != 2 || told[1] != "<nil>" {
		t.Fatalf("the other run says %q", told)
	}
	if _, err := fmt.Sscan(told[0], &run.namespace, &run.sleeper); err != nil {
		t.Fatalf("the other run says %q: %v", told, err)
	}
	return run
}

func (r *otherRun) kill() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

func ownPrefix(t *testing.T) string {
	RequireRoot(t)
	return "loci-sweep" + strconv.Itoa(os.Getpid()) + strings.ToLower(t.Name())
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(namespaceDirectory, name))
	return err == nil
}

func running(pid int) bool {
	_, err := startTicks(pid)
	return err == nil
}

func TestSweepRemovesWhatKilledRunsLeft(t *testing.T) {
	prefix := ownPrefix(t)
	killed, alive := startOther(t, prefix), startOther(t, prefix)
	if killed.namespace == alive.namespace {
		t.Fatalf("two runs have the same namespace %s", killed.namespace)
	}
	removed, err := Sweep(prefix)
	must(t, err)
	if len(removed) != 0 {
		t.Fatalf("Sweep removed %v of living runs", removed)
	}
	killed.kill()
	removed, err = Sweep(prefix)
	must(t, err)
	if !slices.Equal(removed, []string{killed.namespace}) {
		t.Errorf("Sweep removed %v, want %s", removed, killed.namespace)
	}
	if exists(killed.namespace) || running(killed.sleeper) {
		t.Errorf("namespace there: %v, its process runs: %v", exists(killed.namespace), running(killed.sleeper))
	}
	if !exists(alive.namespace) || !running(alive.sleeper) {
		t.Error("Sweep harmed the living run")
	}
	if _, err := os.Stat(recordPath(killed.namespace)); err == nil {
		t.Error("the record is still there")
	}
}

func TestSweepLeavesWhatWasKept(t *testing.T) {
	prefix := ownPrefix(t)
	kept := startOther(t, prefix, "TESTNET_KEEP=1")
	kept.kill()
	if removed, err := Sweep(prefix); err != nil || len(removed) != 0 {
		t.Fatalf("Sweep: %v, %v", removed, err)
	}
	if !exists(kept.namespace) || !running(kept.sleeper) {
		t.Fatal("Sweep harmed a kept network")
	}
	removed, err := SweepKept(prefix)
	must(t, err)
	if !slices.Equal(removed, []string{kept.namespace}) || exists(kept.namespace) || running(kept.sleeper) {
		t.Errorf("SweepKept removed %v, want %s", removed, kept.namespace)
	}
}

func TestSweepOfNothing(t *testing.T) {
	RequireRoot(t)
	if removed, err := Sweep("loci-there-is-no-such-prefix"); err != nil || len(removed) != 0 {
		t.Errorf("got %v, %v", removed, err)
	}
}

func TestOfPrefix(t *testing.T) {
	for name, want := range map[string]bool{
		"loci-12-1-a": true, "loci-demo-12-1-a": false, "loci-12": false, "lociX-12-1-a": false, "loci--1-a": false,
	} {
		if got := ofPrefix(name, "loci"); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	RequireRoot(t)
	network, err := New("loci-test")
	must(t, err)
	ns, err := network.Namespace("gone")
	must(t, err)
	sleeper := exec.Command("/bin/sleep", "600")
	must(t, ns.Start(sleeper))
	must(t, network.Close())
	if exists(ns.Name()) {
		t.Error("the namespace is still there")
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if err := ns.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := ns.Start(exec.Command("/bin/true")); err == nil {
		t.Error("a process started in a closed namespace")
	}
}

func TestCreatorKnowsItsProcess(t *testing.T) {
	self, err := Self()
	must(t, err)
	if !self.Alive() {
		t.Error("this process counts as gone")
	}
	for name, other := range map[string]Creator{
		"another start": {self.Pid, self.StartTicks + 1, self.BootID},
		"another boot":  {self.Pid, self.StartTicks, "0"},
		"no process":    {1 << 30, self.StartTicks, self.BootID},
	} {
		if other.Alive() {
			t.Errorf("%s counts as this process", name)
		}
	}
}

func TestZombieCountsAsGone(t *testing.T) {
	RequireRoot(t)
	cmd := exec.Command("/bin/true")
	must(t, cmd.Start())
	defer cmd.Wait()
	for deadline := time.Now().Add(time.Minute); running(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a process that ended counts as running")
		}
	}
}
