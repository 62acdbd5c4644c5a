// SPDX-License-Identifier: Apache-2.0

package main_test

// What a supervisor such as systemd gets to know: when a start is complete, what is awaited, that a reload was
// refused, and that another start does not help.

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/command"
	"loci/internal/testnet"
)

// supervised has daemons tell a socket what they tell systemd, and returns what is told by its kind.
func (n *lispNetwork) supervised() (next func(kind string) string) {
	n.t.Helper()
	path := filepath.Join(n.dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	n.must(err)
	n.t.Cleanup(func() { socket.Close() })
	n.confine = append(n.confine, "env", "NOTIFY_SOCKET="+path)
	n.t.Cleanup(func() { n.confine = nil })
	var told []string
	return func(kind string) string {
		n.t.Helper()
		for {
			if i := slices.IndexFunc(told, func(line string) bool { return strings.HasPrefix(line, kind+"=") }); i >= 0 {
				line := told[i]
				told = told[i+1:]
				return strings.TrimPrefix(line, kind+"=")
			}
			n.must(socket.SetReadDeadline(time.Now().Add(readyFor)))
			datagram := make([]byte, 4096)
			length, err := socket.Read(datagram)
			if err != nil {
				n.t.Fatalf("no %s: %v", kind, err)
			}
			told = append(told, strings.Split(string(datagram[:length]), "\n")...)
		}
	}
}

// TestStartIsCompleteWithoutAnUplink: the start ends with what is awaited, while the API says that this router is not
// ready; it is when the uplink comes, and that is told as well.
func TestStartIsCompleteWithoutAnUplink(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n := newEmptyNetwork(t, "xtr1", "core")
			n.engine = engine
			next := n.supervised()
			n.must(os.WriteFile(n.file("xtr1"), []byte(n.xtr(1)), 0o600))
			n.launch("xtr1", "xtr1", "--detach")
			if ready := next("READY"); ready != "1" {
				t.Errorf("READY=%s", ready)
			}
			if status := next("STATUS"); !strings.HasPrefix(status, "waiting for an address that can be an RLOC") || !strings.Contains(status, "interface core0 does not exist") {
				t.Errorf("STATUS=%s", status)
			}
			status, err := n.client("xtr1").Status(t.Context())
			if err != nil || status.Ready {
				t.Errorf("ready %v without an RLOC, %v", status.Ready, err)
			}
			n.expectMissingOnce("site0", "core0")
			n.link("core", "to-xtr1", "xtr1", "core0", "172.16.1.1/30", "172.16.1.2/30", "2001:db8:1::1/64", "2001:db8:1::2/64")
			for text := next("STATUS"); !strings.HasPrefix(text, "ready"); text = next("STATUS") {
				if !strings.HasPrefix(text, "waiting") {
					t.Fatalf("STATUS=%s", text)
				}
			}
			n.awaitReady("xtr1")
			n.expectMissingOnce("site0")
		})
	}
}

// expectMissingOnce fails the test unless loci status of xtr1 names each of these interfaces in one problem and one
// line.
func (n *lispNetwork) expectMissingOnce(interfaces ...string) {
	n.t.Helper()
	h, text := n.status("xtr1")
	for _, name := range interfaces {
		problems := 0
		for _, p := range h.Problems {
			if p.Subject == name || strings.Contains(p.What, name) {
				problems++
			}
		}
		if lines := strings.Count(text, name+" does not exist on this host"); problems != 1 || lines != 1 {
			n.t.Errorf("%s is missing: %d problems and %d lines say so:\n%s", name, problems, lines, text)
		}
	}
}

// TestReloadByItsFile: the command finds the daemon by the file that it was started with, also when that has
// mistakes: then it fails, and the daemon goes on.
func TestReloadByItsFile(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newEmptyNetwork(t, "ms")
	n.run("ms", n.mappingSystem())
	right := n.mappingSystem()
	for _, c := range []struct {
		text   string
		status int
		says   string
	}{
		{right, 0, "nothing changed"},
		{strings.Replace(right, "eid-prefixes", "eid-prefix", 1), command.StatusRefused, `unknown key "eid-prefix"`},
		{strings.Replace(right, "sites:", "sites: [[[", 1), command.StatusRefused, "ms.yaml:"},
		{strings.Replace(right, "level: debug", "level: info", 1), 0, "logging.level"},
	} {
		n.must(os.WriteFile(n.file("ms"), []byte(c.text), 0o600))
		if out, status := n.loci("ms", "reload", "--config", n.file("ms")); status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("status %d, want %d: %s, want %q", status, c.status, out, c.says)
		}
	}
}

// TestDetachAnyway: what a daemon left is removed although its file has mistakes by now, and the BPF file system that
// it mounted.
func TestDetachAnyway(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireRoot(t)
	for name, broken := range map[string]func(string) string{
		"a mistake":        func(text string) string { return strings.Replace(text, "map-servers", "map-server", 1) },
		"no YAML any more": func(text string) string { return "itr: [[[\n" + text },
	} {
		t.Run(name, func(t *testing.T) {
			n := newEmptyNetwork(t, "xtr1", "core")
			n.link("core", "to-xtr1", "xtr1", "core0", "172.16.1.1/30", "172.16.1.2/30", "2001:db8:1::1/64", "2001:db8:1::2/64")
			pins := filepath.Join(n.dir, "bpf")
			t.Cleanup(func() { _ = unix.Unmount(pins, unix.MNT_DETACH) })
			text := strings.Replace(n.xtr(1), filepath.Join(n.pins(), "xtr1"), pins, 1)
			n.run("xtr1", text)
			if exec.Command("mountpoint", "-q", pins).Run() != nil {
				t.Fatal("the daemon mounts no BPF file system: the test proves nothing")
			}
			n.kill("xtr1")
			left := len(n.leftAt("xtr1"))
			n.must(os.WriteFile(n.file("xtr1"), []byte(broken(text)), 0o600))
			if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status == 0 || left == 0 || len(n.leftAt("xtr1")) != left {
				t.Errorf("a detach with a wrong file removes something of %d: status %d, %s", left, status, out)
			}
			if out, status := n.loci("xtr1", "datapath", "detach", "--anyway", "--config", n.file("xtr1")); status != 0 || out != "" {
				t.Errorf("detach: status %d, %s", status, out)
			}
			if left := n.leftAt("xtr1"); len(left) > 0 {
				t.Errorf("left after detach: %q", left)
			}
			if _, err := os.Stat(pins); exec.Command("mountpoint", "-q", pins).Run() == nil || err == nil {
				t.Errorf("the BPF file system that the daemon mounted stays: %v", err)
			}
		})
	}
}

// TestDataPlaneAlone needs no Map-Resolver, and says that it has no control socket; with the control plane the file
// is refused.
func TestDataPlaneAlone(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newEmptyNetwork(t, "xtr1", "core")
	n.link("core", "to-xtr1", "xtr1", "core0", "172.16.1.1/30", "172.16.1.2/30", "2001:db8:1::1/64", "2001:db8:1::2/64")
	text := strings.Replace(n.withSocket(n.xtr(1)), "itr: {map-resolvers: [172.16.9.2]}", "itr: {}", 1)
	n.must(os.WriteFile(n.file("xtr1"), []byte(text), 0o600))
	if out, status := n.loci("xtr1", "check", n.file("xtr1")); status != 0 || !strings.Contains(out, "--planes data") {
		t.Errorf("loci check: status %d, %s", status, out)
	}
	for _, planes := range []string{"both", "control"} {
		if out, status := n.loci("xtr1", "run", "--planes", planes, n.file("xtr1")); status != command.StatusConfiguration || !strings.Contains(out, "no Map-Resolver to ask") {
			t.Errorf("--planes %s: status %d, %s", planes, status, out)
		}
	}
	n.launch("xtr1", "xtr1", "--planes", "data", "--detach")
	n.await("the data plane is ready", func(context.Context) bool { return strings.Contains(n.logs["xtr1"].String(), "msg=ready") })
	if !strings.Contains(n.logs["xtr1"].String(), "no control socket") {
		t.Errorf("it does not say that it has no control socket: %s", n.logs["xtr1"])
	}
	if out, status := n.loci("xtr1", "status", "--socket", n.socket("xtr1")); status != command.StatusAbsent {
		t.Errorf("loci status: %d, %s", status, out)
	}
}
