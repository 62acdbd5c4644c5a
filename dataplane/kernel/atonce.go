// SPDX-License-Identifier: Apache-2.0

// This file makes system calls on the TAP, none of which ever waits, without telling Go's
// runtime: the first call that it is told of after a rest wakes its monitor thread, which
// on a busy core costs more than the call. A file that is not in non-blocking mode must
// never come here.

package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readAtOnce reads what is there, or fails with EAGAIN.
func readAtOnce(fd uintptr, into []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// writeAtOnce writes all of it, or fails.
func writeAtOnce(fd uintptr, from []byte) error {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)))
	if errno != 0 {
		return errno
	}
	return nil
}

// isReadable reports whether something is there to be read; when nobody can tell, it is.
func isReadable(fd uintptr) bool {
	poll := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var never unix.Timespec
	ready, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&never)), 0, 0, 0)
	return errno != 0 || ready != 0
}
