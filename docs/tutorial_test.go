// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
)

const (
	tutorialFile = "tutorial.md"
	// tutorialLimit ends a tutorial that hangs, in one of its loops that wait for a daemon for example.
	tutorialLimit = 3 * time.Minute
)

// step is one block of commands of the tutorial, with what its output has to contain.
type step struct {
	line     int
	commands string
	expected []string
}

var (
	block  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n((?:<!-- expect: .*? -->\n)*)")
	expect = regexp.MustCompile("<!-- expect: (.*?) -->")
)

func stepsOf(document string) []step {
	var steps []step
	for _, at := range block.FindAllStringSubmatchIndex(document, -1) {
		s := step{line: 1 + strings.Count(document[:at[0]], "\n"), commands: document[at[2]:at[3]]}
		for _, match := range expect.FindAllStringSubmatch(document[at[4]:at[5]], -1) {
			s.expected = append(s.expected, match[1])
		}
		steps = append(steps, s)
	}
	return steps
}

// The reader's commands, in the reader's order, in one shell that stops at the first that fails.
func TestTutorial(t *testing.T) {
	testnet.RequireRoot(t)
	for _, program := range []string{"bash", "ip", "ping", "sysctl", "nsenter"} {
		testnet.RequireProgram(t, program)
	}
	directory := t.TempDir()
	if err := commandtest.Build(directory, "loci"); err != nil {
		t.Fatal(err)
	}
	// Names of its own let two runs stand side by side.
	own := fmt.Sprintf("loci%d-", os.Getpid())
	steps := stepsOf(strings.ReplaceAll(read(t, tutorialFile), "loci-", own))
	if len(steps) == 0 {
		t.Fatalf("%s has no commands", tutorialFile)
	}
	t.Cleanup(func() { removeTutorial(t, own) })
	output, err := runSteps(t.Context(), directory, steps)
	outputs := strings.Split(output, marker)
	for i, s := range steps {
		if i+1 >= len(outputs) {
			break
		}
		for _, text := range s.expected {
			if !strings.Contains(outputs[i+1], text) {
				t.Errorf("%s:%d: the output does not contain %q:\n%s", tutorialFile, s.line, text, outputs[i+1])
			}
		}
	}
	if err != nil {
		s := steps[len(outputs)-2]
		t.Fatalf("%s:%d: %v:\n%s\n%s", tutorialFile, s.line, err, outputs[len(outputs)-1], logs(directory))
	}
}

// marker parts the outputs of the steps.
const marker = "\x01\n"

func runSteps(ctx context.Context, directory string, steps []step) (string, error) {
	script := "set -euo pipefail\n"
	for _, s := range steps {
		script += "printf '\\001\\n'\n" + s.commands
	}
	file := filepath.Join(directory, "tutorial.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, tutorialLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", file)
	command.Dir = directory
	command.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "LC_ALL=C")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	return string(output), err
}

func logs(directory string) string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(directory, "*.log"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		fmt.Fprintf(&all, "--- %s (%v)\n%s", filepath.Base(file), err, content)
	}
	return all.String()
}

// removeTutorial removes what a tutorial that stopped half-way has left; after a complete one there is nothing.
func removeTutorial(t *testing.T, own string) {
	t.Helper()
	script := `for name in h1 r1 core ms r2 h2 rtr px web; do
  if [ -e /run/netns/loci-$name ]; then
    ip netns pids loci-$name | xargs -r kill -KILL
    ip netns delete loci-$name
  fi
done
rm -rf /run/loci-tutorial /sys/fs/bpf/loci-tutorial`
	if output, err := exec.Command("bash", "-c", strings.ReplaceAll(script, "loci-", own)).CombinedOutput(); err != nil {
		t.Errorf("remove the tutorial's network: %v\n%s", err, output)
	}
}

func TestStepsOf(t *testing.T) {
	got := stepsOf("# A\n\n```sh\none\ntwo\n```\n<!-- expect: 1 -->\n<!-- expect: 2 -->\n\n```\nno\n```\n```sh\nthree\n```\n")
	want := []step{{3, "one\ntwo\n", []string{"1", "2"}}, {13, "three\n", nil}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
