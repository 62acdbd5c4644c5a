// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

func TestPinMount(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	file := filepath.Join(full, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ directory, target, problem string }{
		{empty, empty, ""},
		{empty + "/", empty, ""},
		{filepath.Join(empty, "a", "b"), filepath.Join(empty, "a", "b"), ""},
		{filepath.Join(full, "a"), filepath.Join(full, "a"), ""},
		{full, "", full + " holds files"},
		{file, "", file + " is not a directory"},
		{filepath.Join(file, "a"), "", file + " is not a directory"},
	} {
		target, err := Mount(c.directory)
		if target != c.target || (err == nil) != (c.problem == "") || err != nil && !strings.HasPrefix(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v, want %q, %q", c.directory, target, err, c.target, c.problem)
		}
	}
	if target, err := Mount(DefaultDirectory); err != nil || target != "" && target != UsualFileSystem {
		t.Errorf("%s: %q, %v", DefaultDirectory, target, err)
	}
}

func TestOursAmongMounts(t *testing.T) {
	const mounts = `24 1 0:22 / /sys rw - sysfs sysfs rw
31 24 0:28 / /sys/fs/bpf rw,nosuid - bpf bpf rw,mode=700
58 27 0:40 / /run/loci/bpf rw,relatime shared:7 - bpf loci rw,mode=700
59 27 0:41 / /run/with\040space rw,relatime - bpf loci rw,mode=700
60 27 0:42 / /run/covered rw,relatime - bpf loci rw,mode=700
61 27 0:43 / /run/covered rw,relatime - tmpfs loci rw
`
	for directory, want := range map[string]bool{
		"/sys/fs/bpf/loci": false, "/run/loci/bpf": true, "/run/loci/bpf/": true, "/run/with space": true, "/run/covered": false, "/run/loci": false, "/": false,
	} {
		if got := isOurs(mounts, placeOf(directory)); got != want {
			t.Errorf("%s: %v", directory, got)
		}
	}
}

// TestUnmount unmounts a file system that was mounted for pins, and no other, and none that is in use.
func TestUnmount(t *testing.T) {
	testnet.RequireRoot(t)
	directory := filepath.Join(t.TempDir(), "bpf")
	isMounted := func() bool {
		var s unix.Statfs_t
		return unix.Statfs(directory, &s) == nil && int64(s.Type) == unix.BPF_FS_MAGIC
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
	opened, err := Open(directory, "one")
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, mounted bool) {
		t.Helper()
		if err := Unmount(directory); err != nil || isMounted() != mounted {
			t.Errorf("%s: mounted %v, %v", when, isMounted(), err)
		}
	}
	expect("with a pin directory of a process", true)
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	expect("with a pin directory", true)
	if err := os.RemoveAll(opened.Path); err != nil {
		t.Fatal(err)
	}
	expect("with nothing", false)
	expect("without a mount", false)
	if err := errors.Join(os.MkdirAll(directory, 0o700), unix.Mount("bpf", directory, "bpf", 0, "")); err != nil {
		t.Fatal(err)
	}
	expect("mounted by another", true)
}
