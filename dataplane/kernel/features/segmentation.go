// SPDX-License-Identifier: Apache-2.0

// This file asks whether an interface takes GSO packets whole. It changes nothing.

package features

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of SIOCETHTOOL.
const (
	ethtoolGetTSO = 0x1E
	ethtoolGetGSO = 0x23
)

// CutsSegments reports whether GSO packets of TCP are segmented before they leave by an
// interface. The calling thread is in its namespace.
func CutsSegments(name string) (bool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	for _, command := range []uint32{ethtoolGetTSO, ethtoolGetGSO} {
		value := struct{ command, data uint32 }{command: command}
		var request struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte // the kernel's ifreq is as long as its largest member
		}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		request.data = unsafe.Pointer(&value)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno == unix.EOPNOTSUPP {
			return true, nil
		}
		if errno != 0 {
			return false, fmt.Errorf("offloads of %s: %w", name, errno)
		}
		if value.data == 0 {
			return true, nil
		}
	}
	return false, nil
}
