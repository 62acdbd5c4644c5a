// SPDX-License-Identifier: Apache-2.0

// A TAP without an interface.

package kerneltest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/tap"
)

// PairedTAP is what looks like a TAP, and its other end.
func PairedTAP(t testing.TB) (*tap.TAP, *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(ends[0]), "tap"), os.NewFile(uintptr(ends[1]), "wire")
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return &tap.TAP{File: near, Raw: raw}, far
}
