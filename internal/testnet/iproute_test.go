// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// freshMounts tells the test that it runs again, in mounts of its own.
const freshMounts = "LOCI_TEST_FRESH_MOUNTS"

// The first `ip netns add` of a machine makes a mount point of the directory of names. It must not bury names that are there.
func TestNamesBesideTheFirstOfIPRoute2(t *testing.T) {
	RequireRoot(t)
	RequireProgram(t, "ip")
	if os.Getenv(freshMounts) == "" {
		runInFreshMounts(t)
		return
	}
	must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "")) // no test was here before
	network, err := New("loci-test")
	must(t, err)
	_, err = network.Namespace("a")
	must(t, err)
	for _, arguments := range [][]string{{"netns", "add", "other"}, {"netns", "del", "other"}} {
		if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", arguments, err, output)
		}
	}
	must(t, network.Close())
	names, err := os.ReadDir(namespaceDirectory)
	must(t, err)
	if len(names) != 0 {
		t.Errorf("%v are left", names)
	}
}

func runInFreshMounts(t *testing.T) {
	t.Helper()
	again := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	again.Env = append(os.Environ(), freshMounts+"=yes")
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if output, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
}
