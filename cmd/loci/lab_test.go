// SPDX-License-Identifier: Apache-2.0

package main_test

// How loci runs loci-lab: where it is looked for, and what is passed through. A script stands for loci-lab, because what matters
// is the process; the last tests have the real one.

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// routerAlone is a copy of loci in a directory of its own, without loci-lab.
func routerAlone(t *testing.T) string {
	t.Helper()
	alone := filepath.Join(t.TempDir(), "loci")
	from, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(alone, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return alone
}

// writeLab makes a script of a loci-lab.
func writeLab(t *testing.T, directory, script string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(directory, "loci-lab")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// ended is what a command printed, and its exit status.
func ended(t *testing.T, cmd *exec.Cmd) (out, problems string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// TestLabCommandIsPassedThrough: arguments, standard streams and exit status are those of loci-lab.
func TestLabCommandIsPassedThrough(t *testing.T) {
	loci := routerAlone(t)
	writeLab(t, filepath.Dir(loci), "for word; do echo \"[$word]\"; done; cat; echo progress >&2; exit 7\n", 0o755)
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"demo", "--json", "a b"}, "[demo]\n[--json]\n[a b]\n"},
		{[]string{"bench", "forwarding", "--help"}, "[bench]\n[forwarding]\n[--help]\n"},
		{[]string{"sim", "--seed", "7", "--", "-x"}, "[sim]\n[--seed]\n[7]\n[--]\n[-x]\n"},
		{[]string{"te", "choose", "--k", "3"}, "[te]\n[choose]\n[--k]\n[3]\n"},
		{[]string{"lab", "version", "--json"}, "[version]\n[--json]\n"},
		{[]string{"lab"}, ""},
	} {
		cmd := exec.Command(loci, c.arguments...)
		cmd.Stdin = strings.NewReader("input\n")
		out, problems, status := ended(t, cmd)
		if want := "[--loci]\n[" + loci + "]\n" + c.want + "input\n"; out != want || problems != "progress\n" || status != 7 {
			t.Errorf("loci %v: status %d, standard error %q, standard output\n%s\nwant\n%s", c.arguments, status, problems, out, want)
		}
	}
}

// TestLabCommandGetsSignals: it is the same process.
func TestLabCommandGetsSignals(t *testing.T) {
	loci := routerAlone(t)
	writeLab(t, filepath.Dir(loci), "trap 'exit 9' INT TERM\necho ready\nwhile :; do sleep 0.05; done\n", 0o755)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGKILL} {
		cmd := exec.Command(loci, "demo")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Errorf("it does not begin: %v", err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if signal == syscall.SIGKILL {
			if !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Errorf("%v: %v", signal, cmd.ProcessState)
			}
		} else if status.ExitStatus() != 9 {
			t.Errorf("%v: %v, want status 9 of its handler", signal, cmd.ProcessState)
		}
	}
}

// TestWhereLabIsFound: beside loci, even by a symbolic link to it, before PATH.
func TestWhereLabIsFound(t *testing.T) {
	loci, inPath, links := routerAlone(t), t.TempDir(), t.TempDir()
	beside := writeLab(t, filepath.Dir(loci), "echo beside\n", 0o755)
	writeLab(t, inPath, "echo in PATH\n", 0o755)
	link := filepath.Join(links, "loci")
	if err := os.Symlink(loci, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", inPath+":"+os.Getenv("PATH"))
	expect := func(when, program, want string) {
		t.Helper()
		if out, problems, status := ended(t, exec.Command(program, "sim")); out != want || status != 0 {
			t.Errorf("%s: status %d, %q, %q; want %q", when, status, out, problems, want)
		}
	}
	expect("both are there", loci, "beside\n")
	expect("loci is a link", link, "beside\n")
	if err := os.Chmod(beside, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("the one beside cannot be run", loci, "in PATH\n")
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	expect("none is beside", loci, "in PATH\n")
}

// TestNoLab: what is missing, where it was looked for, what to do; the router's own commands need no loci-lab.
func TestNoLab(t *testing.T) {
	loci := routerAlone(t)
	directory := filepath.Dir(loci)
	t.Setenv("PATH", "/nowhere:/nothing")
	for _, arguments := range [][]string{{"demo"}, {"bench", "tcp"}, {"sim"}, {"te", "choose"}, {"lab"}, {"help", "demo"}, {"demo", "--help"}} {
		out, problems, status := ended(t, exec.Command(loci, arguments...))
		if status != 3 || out != "" {
			t.Errorf("loci %v: status %d, want 3; printed %q", arguments, status, out)
		}
		for _, want := range []string{"loci-lab is not found", directory + "/loci-lab: no such file", "PATH (/nowhere:/nothing): executable file not found", "Install loci-lab beside " + loci} {
			if !strings.Contains(problems, want) {
				t.Errorf("loci %v: no %q in\n%s", arguments, want, problems)
			}
		}
	}
	if out, problems, status := ended(t, exec.Command(loci, "version")); status != 0 || problems != "" || !strings.HasPrefix(out, "loci ") {
		t.Errorf("loci version: status %d, %q, %q", status, out, problems)
	}
	writeLab(t, directory, "", 0o644)
	if _, problems, status := ended(t, exec.Command(loci, "demo")); status != 3 || !strings.Contains(problems, "loci-lab: permission denied") {
		t.Errorf("loci-lab cannot be run: status %d, %s", status, problems)
	}
	if err := os.WriteFile(filepath.Join(directory, "loci-lab"), []byte("\x7fELF no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(directory, "loci-lab"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, problems, status := ended(t, exec.Command(loci, "demo")); status != 1 || !strings.Contains(problems, "run "+directory+"/loci-lab: exec format error") {
		t.Errorf("loci-lab is no program: status %d, %s", status, problems)
	}
}

// TestVersionsOfBothCommands: those of one build agree, and another version is told.
func TestVersionsOfBothCommands(t *testing.T) {
	lab := filepath.Join(filepath.Dir(binary), "loci-lab")
	own, problems, status := ended(t, exec.Command(binary, "version"))
	if status != 0 || problems != "" {
		t.Errorf("loci version: status %d, %s", status, problems)
	}
	labs, problems, status := ended(t, exec.Command(lab, "version"))
	if status != 0 || problems != "" || strings.TrimPrefix(labs, "loci-lab ") != strings.TrimPrefix(own, "loci ") {
		t.Errorf("loci-lab version: status %d, %s, %q beside %q", status, problems, labs, own)
	}
	loci := routerAlone(t)
	other := writeLab(t, filepath.Dir(loci), "echo '{\"version\":\"another\"}'\n", 0o755)
	_, problems, status = ended(t, exec.Command(loci, "version"))
	if status != 0 || !strings.Contains(problems, other+" is version another: install both from the same build") {
		t.Errorf("loci version beside another loci-lab: status %d, %q", status, problems)
	}
	if _, problems, _ = ended(t, exec.Command(loci, "version", "--json")); problems != "" {
		t.Errorf("loci version --json says %q", problems)
	}
	_, problems, status = ended(t, exec.Command(lab, "--loci", other, "version"))
	if status != 0 || !strings.Contains(problems, other+" is version another") {
		t.Errorf("loci-lab version beside another loci: status %d, %q", status, problems)
	}
	writeLab(t, filepath.Dir(loci), "echo nonsense\n", 0o755)
	if _, problems, status = ended(t, exec.Command(lab, "bench", "fib", "--loci", other)); status != 1 || !strings.Contains(problems, "not a version of Loci: \"nonsense") {
		t.Errorf("loci-lab bench with a loci that is none: status %d, %q", status, problems)
	}
	if _, problems, status = ended(t, exec.Command(lab, "demo", "--loci", "/nowhere/loci")); status != 3 || !strings.Contains(problems, "/nowhere/loci") {
		t.Errorf("loci-lab demo without loci: status %d, %q", status, problems)
	}
}

// TestHelpAndCompletionOfLabCommands: loci lists them as run by loci-lab, and what a shell asks about them, loci-lab answers.
func TestHelpAndCompletionOfLabCommands(t *testing.T) {
	for _, c := range []struct {
		arguments, want []string
	}{
		{[]string{"--help"}, []string{"Run by the command loci-lab:\n  bench ", "\n  demo ", "\n  sim ", "\n  lab "}},
		{[]string{"help", "demo"}, []string{"loci-lab demo [flags]", "--pcap"}},
		{[]string{"bench", "forwarding", "--help"}, []string{"loci-lab bench forwarding [flags]", "--entries"}},
		{[]string{"lab"}, []string{"loci-lab [command]"}},
		{[]string{"__complete", "benc"}, []string{"bench\t"}},
		{[]string{"__complete", "bench", ""}, []string{"forwarding\t", "all\t"}},
		{[]string{"__completeNoDesc", "bench", "contr"}, []string{"control\n"}},
		{[]string{"__complete", "bench", "forwarding", "--entr"}, []string{"--entries\t"}},
		{[]string{"__complete", "demo", "--json", "--pl"}, []string{"--planes\t"}},
		{[]string{"__complete", "lab", "ver"}, []string{"version\t"}},
	} {
		out, problems, status := ended(t, exec.Command(binary, c.arguments...))
		for _, want := range c.want {
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("loci %q: status %d, no %q in\n%s%s", c.arguments, status, want, out, problems)
			}
		}
	}
	loci := routerAlone(t)
	t.Setenv("PATH", "/nowhere")
	if out, _, status := ended(t, exec.Command(loci, "__complete", "bench", "")); status != 0 || strings.Contains(out, "forwarding") {
		t.Errorf("completion without loci-lab: status %d, %q", status, out)
	}
}
