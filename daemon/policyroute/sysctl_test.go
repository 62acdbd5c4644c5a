// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
	"loci/internal/testnet"
)

// apart runs f on a thread with network and mounts of its own, which end with it.
func apart(t *testing.T, f func()) {
	t.Helper()
	testnet.RequireRoot(t)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no namespaces:", err)
		}
		t.Skip("no namespaces:", err)
	}
}

// TestReadOnlySysctls: what cannot be set is told, each with what it is and should be, and
// nothing is noted to be put back.
func TestReadOnlySysctls(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	apart(t, func() {
		err := setSysctl("ipv4/conf/"+hostnet.LoopbackName+"/forwarding", "0")
		if err == nil {
			err = unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, "")
		}
		if err == nil {
			err = unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}
		if err != nil {
			t.Error(err)
			return
		}
		warnings := strings.Join(Policy{link: hostnet.LoopbackName, notes: notes}.setSysctls(), "\n")
		for _, want := range []string{"net.ipv4.conf.lo.forwarding", "read-only", "it is 0 and should be 1"} {
			if !strings.Contains(warnings, want) {
				t.Errorf("%q does not tell %q", warnings, want)
			}
		}
	})
	if _, err := os.Stat(notes); err == nil {
		t.Error("a setting was noted that was not changed")
	}
}

// TestSysctlsAreSetAndPutBack on loopback, where they are not what they should be.
func TestSysctlsAreSetAndPutBack(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "instance", "notes")
	apart(t, func() {
		forwards := func() string {
			text, err := os.ReadFile(hostnet.SysctlRoot + "ipv4/conf/" + hostnet.LoopbackName + "/forwarding")
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(string(text))
		}
		if err := setSysctl("ipv4/conf/"+hostnet.LoopbackName+"/forwarding", "0"); err != nil {
			t.Error(err)
		}
		before := forwards()
		if warnings := (Policy{link: "missing0", notes: notes}).setSysctls(); len(warnings) > 0 || forwards() != "1" {
			t.Errorf("forwarding is %s, warnings %v", forwards(), warnings)
		}
		if err := restoreSysctls(notes); err != nil || forwards() != before {
			t.Errorf("forwarding is %s, was %s: %v", forwards(), before, err)
		}
	})
}
