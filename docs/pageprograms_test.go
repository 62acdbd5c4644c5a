// SPDX-License-Identifier: Apache-2.0

package docs

// What the pages of recipes have for programs that are not Loci's: commands that read or set what a network namespace
// has run in one; others are listed with the reason why they do not. NetworkManager's files are checked by their keys.

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loci/internal/testnet"
)

// runHere are the programs whose commands run in a network namespace.
var runHere = []string{"ip", "nft", "sysctl"}

// notRun are the programs, or their commands, that are only parsed by the shell, and why.
var notRun = map[string]string{
	"apt": "changes the host", "docker": "no daemon on a build machine", "kubectl": "no cluster on a build machine",
	"nmcli": "NetworkManager is not on a build machine", "ufw": "changes the filter of the host",
	"uci": "OpenWrt's; cmd/loci holds these to what the package makes", "service": "OpenWrt's or the host's",
	"systemctl": "a build machine is not run by systemd", "journalctl": "a build machine has no journal",
	"ethtool":  "not on a build machine; sets interfaces of the reader",
	"ip netns": "a command in a namespace of the reader",
}

// whyNotRun is the reason why a command does not run; empty if it has none.
func whyNotRun(command string) string {
	words := append(strings.Fields(command), "")
	if why := notRun[words[0]+" "+words[1]]; why != "" {
		return why
	}
	return notRun[words[0]]
}

// foreignCommands are the commands for programs that are not Loci's, each behind its page: of blocks and of the text.
func foreignCommands(t *testing.T) (list [][2]string) {
	for _, b := range blocksOf(t, "sh") {
		for _, command := range commandsOf(b.text) {
			if !strings.HasPrefix(command, "loci ") {
				list = append(list, [2]string{b.page, command})
			}
		}
	}
	known := slices.Concat(otherPrograms, runHere)
	for _, page := range recipePages {
		for _, span := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			command := strings.Join(strings.Fields(span[1]), " ")
			program, arguments, _ := strings.Cut(command, " ")
			if arguments != "" && (slices.Contains(known, program) || notRun[program] != "") {
				list = append(list, [2]string{page, command})
			}
		}
	}
	return list
}

// TestRecipePrograms: each command for another program runs in a namespace, or a reason says why not.
func TestRecipePrograms(t *testing.T) {
	testnet.RequireRoot(t)
	for _, program := range runHere {
		testnet.RequireProgram(t, program)
	}
	ns, err := testnet.ForTest(t).Namespace("reader")
	if err != nil {
		t.Fatal(err)
	}
	used, ran := map[string]bool{}, map[string]bool{}
	for _, c := range foreignCommands(t) {
		page, command := c[0], c[1]
		program, _, _ := strings.Cut(command, " ")
		if why := whyNotRun(command); why != "" {
			used[why] = true
			continue
		}
		if !slices.Contains(runHere, program) {
			t.Errorf("%s: %s: run it in a test, or say in notRun why not", page, command)
			continue
		}
		ran[program] = true
		if output, err := runIn(ns, exec.Command("sh", "-c", command)); err != nil {
			t.Errorf("%s: %s: %v\n%s", page, command, err, output)
		}
	}
	for program, why := range notRun {
		if !used[why] {
			t.Errorf("no page has a command of %s", program)
		}
	}
	if len(ran) != len(runHere) {
		t.Errorf("commands ran of %v, want some of each of %q", ran, runHere)
	}
}

// runIn runs a command in a namespace.
func runIn(ns *testnet.Namespace, cmd *exec.Cmd) (string, error) {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return output.String(), err
}

// setBySysctl has the kernel take a file of /etc/sysctl.d, in a namespace.
func setBySysctl(t *testing.T, b pageBlock) {
	t.Helper()
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "sysctl")
	ns, err := testnet.ForTest(t).Namespace("reader")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), filepath.Base(b.file()))
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := runIn(ns, exec.Command("sysctl", "-p", file)); err != nil {
		t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, output)
	}
}

// networkManagerKeys are the keys that the pages use, by their sections, from NetworkManager.conf(5).
var networkManagerKeys = map[string][]string{"keyfile": {"unmanaged-devices"}}

// knownToNetworkManager checks the form of a file of NetworkManager, and its keys.
func knownToNetworkManager(t *testing.T, b pageBlock) {
	t.Helper()
	section := ""
	for _, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		key, value, isKey := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		case !isKey || value == "" || !slices.Contains(networkManagerKeys[section], key):
			t.Errorf("%s:%d: NetworkManager does not know %q in [%s]", b.page, b.line, line, section)
		case key == "unmanaged-devices" && !strings.HasPrefix(value, "interface-name:"):
			t.Errorf("%s:%d: no list of devices: %q", b.page, b.line, value)
		}
	}
}
