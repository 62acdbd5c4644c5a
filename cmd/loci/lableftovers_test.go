// SPDX-License-Identifier: Apache-2.0

package main_test

// What a run of loci-lab leaves whose terminal hangs up, whose reader goes away, or that is killed.

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loci/internal/testnet"
)

// startFaults starts `loci-lab run faults`, and waits until it has a network. close ends its standard output.
func startFaults(t *testing.T, duration string) (cmd *exec.Cmd, closeOutput func() error) {
	t.Helper()
	testnet.RequireRoot(t)
	// These tests may run under nohup, which a run of the lab respects.
	cmd = exec.Command("env", "--default-signal=HUP", filepath.Join(filepath.Dir(binary), "loci-lab"), "run",
		"faults", "--duration", duration)
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " sites with ") {
			return cmd, output.Close
		}
	}
	t.Fatalf("no network: %v", cmd.Wait())
	return nil, nil
}

// leftByFaults are namespaces and directories of a run.
func leftByFaults(t *testing.T, cmd *exec.Cmd) (left []string) {
	t.Helper()
	for _, pattern := range []string{"/run/netns/loci-faults-%d-*", "/run/loci-faults/loci-faults-%d-*"} {
		found, err := filepath.Glob(fmt.Sprintf(pattern, cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return left
}

func TestFaultsWhoseTerminalHangsUp(t *testing.T) {
	t.Parallel() // it mostly waits
	cmd, _ := startFaults(t, "1m")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit status 130", err)
	}
	if left := leftByFaults(t, cmd); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestFaultsWhoseReaderGoesAway(t *testing.T) {
	t.Parallel() // it mostly waits
	cmd, closeOutput := startFaults(t, "1ms")
	if err := closeOutput(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it may be killed by its last lines, of which nothing depends
	if left := leftByFaults(t, cmd); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestKilledFaultsAreRemoved(t *testing.T) {
	t.Parallel() // it mostly waits
	cmd, _ := startFaults(t, "1m")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(leftByFaults(t, cmd)) == 0 {
		t.Fatal("the killed run left nothing: this test shows nothing")
	}
	out, problems, status := ended(t, exec.Command(filepath.Join(filepath.Dir(binary), "loci-lab"), "remove"))
	if left := leftByFaults(t, cmd); status != 0 || len(left) > 0 {
		t.Errorf("status %d: %s%s, left %q", status, out, problems, left)
	}
}
