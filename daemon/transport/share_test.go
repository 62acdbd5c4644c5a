// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestControlPortIsShared: a socket that sends can be bound to the control port beside the control socket; a second
// control socket is refused.
func TestControlPortIsShared(t *testing.T) {
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		control, err := listenFamily(netip.AddrPortFrom(all, 0), setSocketOptions)
		if err != nil {
			t.Fatal(err)
		}
		port := int(control.port)
		if second, err := listenFamily(netip.AddrPortFrom(all, control.port), setSocketOptions); err == nil {
			t.Errorf("%s: a second control socket is bound to port %d", all, port)
			_ = second.socket.file.Close()
		}
		family, at := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		if all.Is6() {
			family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: netip.IPv6Loopback().As16()}
		}
		sender, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetsockoptInt(sender, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(sender, at); err != nil {
			t.Errorf("%s: beside the control socket: %v", all, err)
		}
		_ = unix.Close(sender)
		_ = control.socket.file.Close()
	}
}
