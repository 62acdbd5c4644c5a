// SPDX-License-Identifier: Apache-2.0

package main_test

// What a running daemon tells of its configuration and its log, and how its log is steered.

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/command"
)

func TestRunningConfigAndLogLevel(t *testing.T) {
	n := newLISPNetwork(t)
	good := strings.ReplaceAll(n.mappingSystem(), "level: debug", "level: info")
	n.run("ms", good)
	ask := func(words ...string) string {
		t.Helper()
		out, status := n.loci("ms", append(words, "--socket", n.socket("ms"))...)
		if status != 0 {
			t.Fatalf("%v: status %d, %s", words, status, out)
		}
		return out
	}
	// The file changes, and the daemon does not.
	n.must(os.WriteFile(n.file("ms"), []byte(strings.ReplaceAll(good, "site1", "other1")), 0o600))
	running := ask("show", "running-config")
	if !strings.Contains(running, "name: site1") || strings.Contains(running, "other1") || strings.Contains(running, "solicit-map-requests") {
		t.Errorf("in force is\n%s", running)
	}
	if strings.Contains(running, "password") || !strings.Contains(running, "auth-key-value:") {
		t.Errorf("a key is shown, or its place is not:\n%s", running)
	}
	if all := ask("show", "running-config", "--defaults"); !strings.Contains(all, "solicit-map-requests:") || !strings.Contains(all, "name: site1") {
		t.Errorf("with defaults\n%s", all)
	}
	var document api.RunningConfig
	n.must(json.Unmarshal([]byte(ask("show", "running-config", "--json")), &document))
	if document.Config["map_server"] == nil || document.File != n.file("ms") || document.Defaults {
		t.Errorf("as JSON %+v", document)
	}

	if out := ask("log-level"); out != "info\n" {
		t.Errorf("the level is %q", out)
	}
	if out := ask("log-level", "debug"); out != "debug (configured: info)\n" {
		t.Errorf("the level is %q", out)
	}
	if out, status := n.loci("ms", "log-level", "debgu", "--socket", n.socket("ms")); status != command.StatusUsage || !strings.Contains(out, "did you mean debug?") {
		t.Errorf("a mistyped level: status %d, %s", status, out)
	}
	ask("reload")
	if out := ask("log-level"); out != "debug (configured: info)\n" {
		t.Errorf("after a reload of something else the level is %q", out)
	}
	n.must(os.WriteFile(n.file("ms"), []byte(strings.ReplaceAll(good, "level: info", "level: error")), 0o600))
	ask("reload")
	if out := ask("log-level"); out != "error\n" {
		t.Errorf("after a reload of the level it is %q", out)
	}
	log := n.logs["ms"].String()
	if !strings.Contains(log, `msg="log level changed" from=info to=debug`) {
		t.Errorf("the log does not say so:\n%s", log)
	}
}
