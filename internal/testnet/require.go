// SPDX-License-Identifier: Apache-2.0

// What a test needs of the machine. A missing need skips the test on a developer's machine and fails it in CI (CI=true),
// where a skipped test would look like a passed one.

package testnet

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// TB is the part of testing.TB that is needed here; a program that is no test uses this package too.
type TB interface {
	Helper()
	Name() string
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Cleanup(func())
}

// RequireRoot lets a test go on only with the rights to make namespaces, links and BPF programs.
func RequireRoot(t TB) {
	t.Helper()
	if missing := MissingRights(); len(missing) > 0 {
		lacking(t, "needs root (missing: %s)", strings.Join(missing, ", "))
	}
}

// RequireProgram lets a test go on only when the program is installed.
func RequireProgram(t TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		lacking(t, "needs the program %s", name)
	}
}

func lacking(t TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
		return
	}
	t.Skipf(format, args...)
}

// ForTest makes a network that is removed at the end of the test. It implies RequireRoot.
func ForTest(t TB) *Network {
	t.Helper()
	RequireRoot(t)
	network, err := New("loci-test")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Errorf("remove the network of %s: %v", t.Name(), err)
		}
	})
	return network
}

// MissingRights names the capabilities that the process does not have.
func MissingRights() []string {
	needed := []struct {
		bit  uint
		name string
	}{
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{unix.CAP_NET_RAW, "CAP_NET_RAW"},
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
		{unix.CAP_BPF, "CAP_BPF"},
	}
	effective, err := effectiveCapabilities()
	if err != nil {
		return []string{err.Error()}
	}
	var missing []string
	for _, capability := range needed {
		if effective&(1<<capability.bit) == 0 {
			missing = append(missing, capability.name)
		}
	}
	return missing
}

func effectiveCapabilities() (uint64, error) {
	runtime.LockOSThread() // the thread whose file is open must not end before it is read
	defer runtime.UnlockOSThread()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return 0, fmt.Errorf("capabilities: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var bits uint64
		if n, _ := fmt.Sscanf(line, "CapEff: %x", &bits); n == 1 {
			return bits, nil
		}
	}
	return 0, fmt.Errorf("capabilities: no CapEff in /proc/thread-self/status")
}
