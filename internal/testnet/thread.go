// SPDX-License-Identifier: Apache-2.0

// What programs that measure do with system calls in their own thread, without Go's scheduler and its sockets.

package testnet

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// SleepHere sleeps in the calling thread: Go's own sleep would wake another one at its end.
func SleepHere(length time.Duration) {
	if length > 0 {
		wanted := unix.NsecToTimespec(length.Nanoseconds())
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &wanted, nil) // a signal ends it early, which does no harm
	}
}

// SocketAddress is an address as system calls take it, and its family.
func SocketAddress(a netip.AddrPort) (family int, address unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
