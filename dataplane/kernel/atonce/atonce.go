// SPDX-License-Identifier: Apache-2.0

// Package atonce makes system calls, none of which ever waits, without telling Go's runtime: the first call that the runtime is told of
// after a rest wakes its monitor thread, which on a busy core costs more than the call. A call that waited would hold up everything, so a
// file that is not in non-blocking mode must never come here, except where the call itself is told not to wait.
package atonce

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what is there, or fails with EAGAIN.
func Read(fd uintptr, into []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Write writes all of it, or fails.
func Write(fd uintptr, from []byte) error {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)))
	if errno != 0 {
		return errno
	}
	return nil
}

// IsReadable reports whether something is there to be read. It is true, too, when the kernel cannot tell.
func IsReadable(fd uintptr) bool {
	poll := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var never unix.Timespec
	ready, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&never)), 0, 0, 0)
	return errno != 0 || ready != 0
}
