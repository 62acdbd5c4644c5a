// SPDX-License-Identifier: Apache-2.0

// The whole demo, with the command built from this tree: every pair of families works, its capture is well-formed to
// tshark, a kept network can be used and removed, and nothing is left.

package demo

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"loci/internal/commandtest"
	"loci/internal/testnet"
)

// directoryOfCommands has both commands once a test needed them; TestMain removes it.
var directoryOfCommands string

var buildCommands = sync.OnceValue(func() (err error) {
	if directoryOfCommands, err = os.MkdirTemp("", "loci-demo-test-"); err != nil {
		return err
	}
	return commandtest.Build(directoryOfCommands, "loci", "loci-lab")
})

// buildCommand returns loci-lab, with loci beside it, built once for all tests.
func buildCommand(t *testing.T) string {
	t.Helper()
	testnet.RequireRoot(t)
	must(t, buildCommands())
	return filepath.Join(directoryOfCommands, "loci-lab")
}

// router is the command loci beside loci-lab.
func router(lab string) string { return filepath.Join(filepath.Dir(lab), "loci") }

// runCommand returns standard output and the process id; standard error goes to the test's log when it fails.
func runCommand(t *testing.T, executable string, arguments ...string) (output []byte, pid string) {
	t.Helper()
	cmd := exec.Command(executable, arguments...)
	var progress strings.Builder
	cmd.Stderr = &progress
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, progress.String())
	}
	return output, itoa(cmd.Process.Pid)
}

func TestWholeDemo(t *testing.T) {
	executable := buildCommand(t)
	captures := t.TempDir()
	output, pid := runCommand(t, executable, "demo", "--json", "--pcap", captures)
	var report Report
	must(t, json.Unmarshal(output, &report))
	if !report.Worked || len(report.Pairs) != len(pairNames) {
		t.Fatalf("report: %s", output)
	}
	for i, p := range report.Pairs {
		complete := p.Name == pairNames[i] && p.PingsSent == pingCount && p.PingsReceived == pingCount && p.FirstPacket > 0 &&
			p.TCPBitsPerSecond > 0 && p.TCPRatio > 0
		if !complete {
			t.Errorf("pair: %+v", p)
		}
	}
	if left := leftovers(t, pid); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	t.Run("capture", func(t *testing.T) { checkCapture(t, report.Capture) })
}

// TestSplitDemo has two processes for each xTR, whose control planes have no rights: not even to enter the directory of the
// command, or to run that file.
func TestSplitDemo(t *testing.T) {
	executable := buildCommand(t)
	must(t, os.Chmod(filepath.Dir(executable), 0o700))
	must(t, os.Chmod(router(executable), 0o700))
	t.Cleanup(func() { runs.RemoveLeftovers(true) })
	output, pid := runCommand(t, executable, "demo", "--json", "--planes", "split", "--keep")
	var report Report
	must(t, json.Unmarshal(output, &report))
	if !report.Worked || len(report.Pairs) != len(pairNames) {
		t.Fatalf("report: %s", output)
	}
	for _, p := range report.Pairs {
		if p.PingsReceived != pingCount || p.TCPBitsPerSecond <= 0 {
			t.Errorf("pair: %+v", p)
		}
	}
	checkRights(t, report.Network)
	runCommand(t, executable, "demo", "--remove")
	if left := leftovers(t, pid); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// checkRights looks at the processes of a demo whose planes are split: the control planes
// have a user of their own, without any capability.
func checkRights(t *testing.T, network string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	control, data := 0, 0
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		words := strings.ReplaceAll(string(text), "\x00", " ")
		switch {
		case !strings.Contains(words, network):
		case strings.Contains(words, "--planes data"):
			data++
		case strings.Contains(words, "--planes control"):
			control++
			status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
			must(t, err)
			uid := itoa(nobodysUID)
			for _, want := range []string{
				"Uid:\t" + strings.Join([]string{uid, uid, uid, uid}, "\t") + "\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
			} {
				if !strings.Contains(string(status), want) {
					t.Errorf("%s: no %q in its status:\n%s", words, want, status)
				}
			}
		}
	}
	if control != 2 || data != 2 {
		t.Errorf("%d control planes and %d data planes, want two of each", control, data)
	}
}

// checkCapture asks tshark for errors, and for what must be there. Unless told otherwise, tshark takes every UDP checksum
// of zero over IPv6 for an error; tunnels may send it (RFC 6935, RFC 6936), and RFC 9300 s.5.3 wants it.
func checkCapture(t *testing.T, path string) {
	testnet.RequireProgram(t, "tshark")
	tshark := func(filter string) string {
		out, err := exec.Command("tshark", "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-r", path, "-Y", filter).Output()
		must(t, err)
		return string(out)
	}
	if wrong := tshark("_ws.malformed || _ws.expert.severity==error"); wrong != "" {
		t.Errorf("tshark finds errors:\n%s", wrong)
	}
	for _, filter := range []string{"lisp.type == 3", "lisp.type == 4", "lisp.type == 8", "lisp.type == 2", "lisp-data && ip.dst == 10.2.4.2"} {
		if tshark(filter) == "" {
			t.Errorf("the capture has no packet with %s", filter)
		}
	}
}

func TestKeptDemoCanBeUsedAndRemoved(t *testing.T) {
	executable := buildCommand(t)
	t.Cleanup(func() { runs.RemoveLeftovers(true) })
	output, pid := runCommand(t, executable, "demo", "--json", "--keep")
	var report Report
	must(t, json.Unmarshal(output, &report))
	sockets, err := filepath.Glob(filepath.Join(runs.Parent, report.Network, "*", "control.sock"))
	if err != nil || len(sockets) != 3 {
		t.Fatalf("control sockets: %v, %v", sockets, err)
	}
	if status, _ := runCommand(t, router(executable), "show", "status", "--json", "--socket", sockets[0]); !json.Valid(status) {
		t.Errorf("show status: %s", status)
	}
	if removed, err := runs.RemoveLeftovers(false); err != nil || contains(removed, report.Network) {
		t.Errorf("another demo would remove the kept one: %v, %v", removed, err)
	}
	runCommand(t, executable, "demo", "--remove")
	if left := leftovers(t, pid); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if strings.Contains(string(mounts), report.Network) {
		t.Error("a mount is left")
	}
}
