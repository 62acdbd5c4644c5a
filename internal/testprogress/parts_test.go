// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// parts runs `.ci/parts`, and returns what it printed and its exit status.
func parts(t *testing.T, arguments ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("../../.ci/parts", arguments...)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(output), cmd.ProcessState.ExitCode()
}

// TestPartsSideBySide: each part waits for a file that the other one makes.
func TestPartsSideBySide(t *testing.T) {
	directory := t.TempDir()
	meet := func(own, other string) string {
		return "cd " + directory + "; touch " + own + "; until [ -e " + other + " ]; do sleep 0.05; done; echo " + own + " met " + other
	}
	output, status := parts(t, "one", meet("a", "b"), "two", meet("b", "a"))
	if status != 0 || !strings.Contains(output, "a met b") || !strings.Contains(output, "=== two: passed after ") || !strings.Contains(output, "b met a") || !strings.Contains(output, "=== all passed after ") {
		t.Errorf("status %d:\n%s", status, output)
	}
}

// TestFailingPart: whichever part fails, the others run to their end, all that it said is printed, and the status is 1.
func TestFailingPart(t *testing.T) {
	const failing, good = "for i in $(seq 5000); do echo line $i; done; echo reason >&2; exit 3", "sleep 0.5; echo the good one ends"
	for _, arguments := range [][]string{{"bad", failing, "good", good}, {"good", good, "bad", failing}, {"bad", "echo reason; kill -KILL $$", "good", good}} {
		output, status := parts(t, arguments...)
		lines := strings.Count(output, "line ")
		if status != 1 || lines != 5000 && !strings.Contains(arguments[1], "KILL") {
			t.Errorf("%s first: status %d, %d lines", arguments[0], status, lines)
		}
		for _, want := range []string{"reason\n", "the good one ends\n", "=== bad: FAILED after ", "=== good: passed after ", "\n=== failed after "} {
			if !strings.Contains(output, want) {
				t.Errorf("%s first: no %q in:\n%.2000s", arguments[0], want, output)
			}
		}
		if !strings.HasSuffix(output, " s: [bad]\n") {
			t.Errorf("%s first: the end is %q", arguments[0], output[max(0, len(output)-80):])
		}
	}
}

// TestInterruptedParts: they are ended, with all that they started, and what they said is printed.
func TestInterruptedParts(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command("../../.ci/parts", "one", "until [ -e "+pid+" ]; do sleep 0.05; done; echo both run; sleep 600", "two", "echo so far; sleep 600 & echo $! >"+pid+"; wait")
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(output)
	for line := ""; line != "both run\n"; {
		if line, err = reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	_ = cmd.Wait()
	if err != nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(rest), "=== two: INTERRUPTED after ") || !strings.Contains(string(rest), "so far\n") {
		t.Errorf("%v, %v:\n%s", err, cmd.ProcessState, rest)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if command, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/cmdline"); err == nil && strings.HasPrefix(string(command), "sleep\x00600") {
		t.Errorf("%s runs on", strings.TrimSpace(string(text)))
	}
}
