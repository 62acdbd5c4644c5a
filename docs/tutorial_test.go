// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
)

const (
	tutorialFile = "tutorial.md"
	// walkLimit ends a walk that hangs, in one of its loops that wait for a daemon for example.
	walkLimit = 6 * time.Minute
)

// step is one block of commands of a walk, with the lines that it shows of their output.
type step struct {
	line     int
	commands string
	shown    []string
}

var (
	block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?")
	// differs is what is another each time: times of day, durations.
	differs = regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?|\b(\d+(\.\d+)? ?(h|m|s|ms|µs))+\b`)
)

func stepsOf(document string) []step {
	var steps []step
	for _, at := range block.FindAllStringSubmatchIndex(document, -1) {
		s := step{line: 1 + strings.Count(document[:at[0]], "\n"), commands: document[at[2]:at[3]]}
		if at[4] >= 0 {
			s.shown = strings.FieldsFunc(document[at[4]:at[5]], func(r rune) bool { return r == '\n' })
		}
		steps = append(steps, s)
	}
	return steps
}

// missing is the first line shown that the output does not have behind those before it; empty if it has all. … stands for anything.
func (s step) missing(output string) string {
	lines := strings.Split(output, "\n")
	for _, shown := range s.shown {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(plain(shown)), "…", ".*") + "$")
		i := slices.IndexFunc(lines, func(line string) bool { return pattern.MatchString(plain(line)) })
		if i < 0 {
			return shown
		}
		if shown != "…" {
			lines = lines[i+1:]
		}
	}
	return ""
}

// plain is a line without what differs each time, and without the width of columns.
func plain(line string) string {
	return strings.Join(strings.Fields(differs.ReplaceAllString(line, "T")), " ")
}

// walk is a document whose commands the tests run.
type walk struct {
	file     string
	programs []string
	runtime  string // the directory of its daemons in /run, and below the BPF file system
	// prepare makes what the reader has when he begins.
	prepare func(t *testing.T, directory string)
}

func TestTutorial(t *testing.T) {
	walk{file: tutorialFile, programs: []string{"bash", "ip", "ping", "sysctl", "nsenter"}, runtime: "tutorial"}.run(t)
}

// run runs the reader's commands, in the reader's order, in one shell that stops at the first that fails.
func (w walk) run(t *testing.T) {
	t.Helper()
	testnet.RequireRoot(t)
	for _, program := range w.programs {
		testnet.RequireProgram(t, program)
	}
	directory := t.TempDir()
	if err := commandtest.Build(directory, "loci"); err != nil {
		t.Fatal(err)
	}
	if w.prepare != nil {
		w.prepare(t, directory)
	}
	// Names of its own let two runs stand side by side.
	own := fmt.Sprintf("loci%d-", os.Getpid())
	steps := stepsOf(strings.ReplaceAll(read(t, w.file), "loci-", own))
	if len(steps) == 0 {
		t.Fatalf("%s has no commands", w.file)
	}
	t.Cleanup(func() { removeWalk(t, own, w.runtime) })
	output, err := runSteps(t.Context(), directory, steps)
	outputs := strings.Split(output, marker)
	for i, s := range steps {
		if i+1 >= len(outputs) {
			break
		}
		if line := s.missing(outputs[i+1]); line != "" {
			t.Errorf("%s:%d: the output does not have the line %q there:\n%s", w.file, s.line, line, outputs[i+1])
		}
	}
	if err != nil {
		s := steps[len(outputs)-2]
		t.Fatalf("%s:%d: %v:\n%s\n%s", w.file, s.line, err, outputs[len(outputs)-1], logs(directory))
	}
	if left := leftOfWalk(t, own, w.runtime); len(left) > 0 {
		t.Errorf("%s leaves %q", w.file, left)
	}
}

// leftOfWalk is what stands outside the reader's directory, and the processes that still run in it.
func leftOfWalk(t *testing.T, own, runtime string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"/run/netns/" + own + "*", "/run/" + own + runtime, "/sys/fs/bpf/" + own + runtime} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(string(words), own) {
			left = append(left, strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
	return left
}

// marker parts the outputs of the steps.
const marker = "\x01\n"

func runSteps(ctx context.Context, directory string, steps []step) (string, error) {
	script := "set -euo pipefail\n"
	for _, s := range steps {
		script += "printf '\\001\\n'\n" + s.commands
	}
	file := filepath.Join(directory, "walk.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, walkLimit)
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

// removeWalk removes what a walk that stopped half-way has left; after a complete one there is nothing.
func removeWalk(t *testing.T, own, runtime string) {
	t.Helper()
	script := `for path in /run/netns/OWN*; do
  if [ -e $path ]; then
    ip netns pids ${path##*/} | xargs -r kill -KILL
    ip netns delete ${path##*/}
  fi
done
rm -rf /run/OWNRUNTIME /sys/fs/bpf/OWNRUNTIME`
	script = strings.NewReplacer("OWN", own, "RUNTIME", runtime).Replace(script)
	if output, err := exec.Command("bash", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("remove the network of a walk: %v\n%s", err, output)
	}
}

func TestStepsOf(t *testing.T) {
	got := stepsOf("# A\n\n```sh\none\ntwo\n```\n\n```text\n1\n\n2\n```\n\n```\nno\n```\n```sh\nthree\n```\n")
	want := []step{{3, "one\ntwo\n", []string{"1", "2"}}, {17, "three\n", nil}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLinesThatTheOutputLacks(t *testing.T) {
	const output = "EID   AGE\n10.1  23h59m\n20:03:11.17 sent 5 of 5, after 450µs from port 77\nend\n"
	for _, c := range []struct {
		shown []string
		want  string
	}{
		{[]string{"EID AGE", "10.1 2s", "20:00:00.1 sent 5 of 5, after 1.2 ms from port …"}, ""},
		{[]string{"EID AGE", "…", "end"}, ""},
		{[]string{"10.1 2s", "EID AGE"}, "EID AGE"}, // another order
		{[]string{"20:00:00.1 sent 4 of 5, after 1.2 ms from port …"}, "20:00:00.1 sent 4 of 5, after 1.2 ms from port …"},
		{[]string{"10.1"}, "10.1"}, // a part of a line
	} {
		if got := (step{shown: c.shown}).missing(output); got != c.want {
			t.Errorf("%q: %q, want %q", c.shown, got, c.want)
		}
	}
}
