// SPDX-License-Identifier: Apache-2.0

package main_test

// --json answers in JSON whatever happens, and by what is not known with null.

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// jsonCommands is each command with --json, with what it needs beside that.
var jsonCommands = []string{
	"capture", "explain 10.2.0.1", "lig self", "log-level", "monitor", "netcheck", "ping 10.2.0.1", "reload", "status", "trace between 10.1.0.10 and 10.2.0.10",
	"show status", "show map-cache", "show map-requests", "show database", "show registrations", "show locators", "show interfaces", "show siblings",
	"show nat", "show translations", "show subflows", "show answered-subflows", "show datapath",
	"show running-config", "show counters", "mapstat -X", "map get -inet 10.2.0.1",
}

// failureOfCommand runs a command and reads what it prints to standard output.
func failureOfCommand(t *testing.T, arguments ...string) (document map[string]any, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, arguments...)
	out, err := cmd.Output()
	if err == nil {
		t.Errorf("loci %v does not fail", arguments)
	}
	if err := json.Unmarshal(out, &document); err != nil {
		t.Errorf("loci %v: %v: %q", arguments, err, out)
	}
	return document, cmd.ProcessState.ExitCode()
}

// TestFailuresAreJSON of all commands: no daemon, a wrong argument.
func TestFailuresAreJSON(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none.sock")
	help, err := exec.Command(binary, "help").Output()
	if err != nil || !strings.Contains(string(help), "netcheck") {
		t.Fatal(err)
	}
	for _, name := range jsonCommands {
		words := append(strings.Fields(name), "--json", "--socket", none)
		if isOfThePins(name) {
			words[len(words)-2] = "--config"
		}
		if document, status := failureOfCommand(t, words...); document["error"] == nil || document["exit_status"] != float64(status) || status != 3 && !isOfThePins(name) {
			t.Errorf("loci %s: status %d: %v", name, status, document)
		}
		if document, status := failureOfCommand(t, append(words, "--no-such-option")...); document["error"] == nil || document["exit_status"] != 2.0 || status != 2 {
			t.Errorf("loci %s --no-such-option: status %d: %v", name, status, document)
		}
	}
	if document, status := failureOfCommand(t, "lig", "10.2.0.1", "to", "127.0.0.1", "count", "1", "--timeout", "1s", "--json"); document["error"] == nil || status != 1 {
		t.Errorf("lig without an answer: status %d: %v", status, document)
	}
}

// isOfThePins reports whether a command works at the pinned tables, and asks no daemon.
func isOfThePins(name string) bool {
	return strings.HasPrefix(name, "capture") || strings.HasPrefix(name, "trace")
}

var wordsOfHelp = regexp.MustCompile(`(?m)^  ([a-z-]+) `)

// TestJSONCommandsAreAll: each command that has --json is tried.
func TestJSONCommandsAreAll(t *testing.T) {
	t.Parallel()
	tried := strings.Join(jsonCommands, "\n") + "\n"
	for _, group := range [][]string{nil, {"show"}} {
		help, err := exec.Command(binary, append(group, "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range wordsOfHelp.FindAllStringSubmatch(string(help), -1) {
			words := append(append([]string{}, group...), word[1])
			text, err := exec.Command(binary, append(words, "--help")...).Output()
			isOther := word[1] == "check" || word[1] == "version" || word[1] == "show" || slices.Contains([]string{"bench", "demo", "lab", "sim"}, word[1]) // they ask no daemon
			name := strings.Join(words, " ")
			if err == nil && strings.Contains(string(text), "--json ") && strings.Contains(string(text), "loci "+name) && !isOther && !strings.Contains(tried, name) {
				t.Errorf("loci %s has --json and is not tried", name)
			}
		}
	}
}

// TestWhatIsNotKnownIsNull in every answer of a daemon that is there.
func TestWhatIsNotKnownIsNull(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 1)
	empty := regexp.MustCompile(`"[a-z_]+": ?""|0001-01-01|invalid `)
	for _, name := range jsonCommands {
		if isOfThePins(name) || name == "monitor" {
			continue // they last
		}
		for _, router := range []string{"xtr1", "ms"} {
			out, _ := n.loci(router, append(strings.Fields(name), "--json", "--socket", n.socket(router))...)
			if found := empty.FindString(out); found != "" {
				t.Errorf("loci %s at %s: %s in %s", name, router, found, out)
			}
		}
	}
	out, status := n.loci("xtr1", "show", "registrations", "--socket", n.socket("xtr1"))
	if status != 0 || out != "none: this system is not a Map-Server\n" {
		t.Errorf("show registrations at an xTR: status %d: %s", status, out)
	}
	if out, _ := n.loci("ms", "show", "map-cache", "--socket", n.socket("ms")); out != "none: this system is not an ITR, RTR or PITR\n" {
		t.Errorf("show map-cache at a Map-Server: %s", out)
	}
	if out, _ := n.loci("xtr1", "show", "map-requests", "--socket", n.socket("xtr1")); strings.Contains(out, "this system is not") {
		t.Errorf("show map-requests at an xTR: %s", out)
	}
}
