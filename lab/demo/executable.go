// SPDX-License-Identifier: Apache-2.0

package demo

// The command as any user can run it. The control planes of a split demo run as a user without rights, who often cannot enter the
// directory of the command (/root, for example), or may not run the file. They run a copy in memory instead.

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// anybodysCopy copies an executable to a file in memory that every user may run, as /proc/self/fd/N in a process that inherits
// the descriptor. The caller closes it; processes that run it keep it.
func anybodysCopy(executable string) (*os.File, error) {
	from, err := os.Open(executable)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	descriptor, err := unix.MemfdCreate("loci", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all of them can be run
		descriptor, err = unix.MemfdCreate("loci", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("a file in memory for the control planes: %w", err)
	}
	made := os.NewFile(uintptr(descriptor), "loci")
	if _, err := io.Copy(made, from); err != nil {
		return nil, errors.Join(fmt.Errorf("copy %s into memory: %w", executable, err), made.Close())
	}
	return made, nil
}

// descriptorPath names an open file for a process that is started from this one.
func descriptorPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
