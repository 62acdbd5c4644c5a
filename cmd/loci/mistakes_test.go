// SPDX-License-Identifier: Apache-2.0

package main_test

// Configurations that are allowed and hardly meant, at a running daemon: it says so at
// start, after a reload and in its status.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loci/daemon/api"
)

// warns reports whether a daemon's status has a warning with these words.
func (n *lispNetwork) warns(name, words string) bool {
	n.t.Helper()
	var s api.Status
	n.show(name, &s, "status")
	return slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, words) })
}

func TestWarningsOfARunningDaemon(t *testing.T) {
	n := newLISPNetwork(t)
	const known, rare = "this key stands in Loci's examples", "registration-interval: 10m, but"
	first := strings.Replace(n.xtr(1), siteKey(1), "replace-by-32-random-characters", 1)
	n.run("xtr1", first)
	if !n.warns("xtr1", "xtr1.yaml:6:46: "+known) || !strings.Contains(n.logs["xtr1"].String(), known) {
		t.Errorf("a known key: %s", n.logs["xtr1"])
	}
	n.must(os.WriteFile(n.file("xtr1"), []byte(strings.Replace(n.xtr(1), "    - ms-address", "    - registration-interval: 10m\n      ms-address", 1)), 0o600))
	if out, status := n.loci("xtr1", "reload", "--socket", n.socket("xtr1")); status != 0 {
		t.Fatalf("reload: %s", out)
	}
	if !n.warns("xtr1", rare) || n.warns("xtr1", known) || !strings.Contains(n.logs["xtr1"].String(), rare) {
		t.Errorf("after the reload: %s", n.logs["xtr1"])
	}
}

// TestMapResolverThatAsksItsOwnHost: only the host knows whose address it is.
func TestMapResolverThatAsksItsOwnHost(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", "map-resolver: {ms-address: [172.16.9.2, '2001:db8:9::2', 172.16.9.1]}\n"+n.common("ms"))
	for _, own := range []string{"172.16.9.2", "2001:db8:9::2"} {
		if !n.warns("ms", "ms-address: "+own+" is this daemon itself, which would ask itself again and again") {
			t.Errorf("%s: %s", own, n.logs["ms"])
		}
	}
	if n.warns("ms", "172.16.9.1 is this") {
		t.Error("another system's address is taken for an own one")
	}
}

func TestPinDirectoryThatIsOnNoBPFFileSystem(t *testing.T) {
	n := newLISPNetwork(t)
	pins := filepath.Join(n.dir, "pins")
	configuration := strings.Replace(n.xtr(1), filepath.Join(n.pins(), "xtr1"), pins, 1)
	n.must(os.MkdirAll(pins, 0o700))
	n.must(os.WriteFile(n.file("xtr1"), []byte(configuration), 0o600))
	note := filepath.Join(pins, "note")

	const hidden = "holds files, and is not on a BPF file system"
	n.must(os.WriteFile(note, []byte("kept"), 0o600))
	for _, command := range [][]string{{"check", n.file("xtr1")}, {"run", "--config", n.file("xtr1")}} {
		if out, status := n.loci("xtr1", command...); status != 1 || !strings.Contains(out, "xtr1.yaml:11:18: pin-directory: "+pins+" "+hidden) {
			t.Errorf("%s beside files: status %d: %s", command[0], status, out)
		}
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "kept" {
		t.Errorf("the file in the directory: %q, %v", text, err)
	}
	n.must(os.Remove(note))

	const mounted = "is not on a BPF file system, so that the daemon mounts one there"
	if out, status := n.loci("xtr1", "check", n.file("xtr1")); status != 0 || !strings.Contains(out, "warning: "+n.file("xtr1")+":11:18: pin-directory: "+pins+" "+mounted) {
		t.Errorf("check: status %d: %s", status, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(pins, 0) })
	n.start("xtr1")
	if !n.warns("xtr1", mounted) || !strings.Contains(n.logs["xtr1"].String(), mounted) {
		t.Errorf("at the start: %s", n.logs["xtr1"])
	}
	n.kill("xtr1")
	n.start("xtr1")
	if n.warns("xtr1", mounted) {
		t.Error("the second daemon warns of what the first mounted")
	}
	if out, status := n.loci("xtr1", "check", n.file("xtr1")); status != 0 || strings.Contains(out, mounted) {
		t.Errorf("check beside the daemon: status %d: %s", status, out)
	}
}
