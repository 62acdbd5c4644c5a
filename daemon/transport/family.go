// SPDX-License-Identifier: Apache-2.0

package transport

// A control socket of one address family, whose control messages differ: which address a datagram came
// to, and from which one it leaves.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// socketBufferOctets absorbs bursts of control messages.
const socketBufferOctets = 4 << 20

// familySocket hides the two families' different control messages.
type familySocket struct {
	socket *datagramSocket
	is4    bool
	port   uint16

	source       netip.Addr // the last one chosen, with its control message; the sender's
	sourceOctets []byte
}

// sourceControl is the control message that chooses a source address, kept for the next
// time; nothing where the kernel is to choose.
func (f *familySocket) sourceControl(local netip.Addr) []byte {
	if !local.IsValid() || local.IsUnspecified() {
		return nil
	}
	if local != f.source {
		f.source = local
		if f.is4 {
			f.sourceOctets = (&ipv4.ControlMessage{Src: local.AsSlice()}).Marshal()
		} else {
			f.sourceOctets = (&ipv6.ControlMessage{Src: local.AsSlice()}).Marshal()
		}
	}
	return f.sourceOctets[:len(f.sourceOctets):len(f.sourceOctets)]
}

// askForDestinations has each datagram say which address it came to.
func (f *familySocket) askForDestinations() error {
	level, option := unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	if f.is4 {
		level, option = unix.IPPROTO_IP, unix.IP_PKTINFO
	}
	var failed error
	err := f.socket.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, failed)
}

func listenFamily(address netip.AddrPort, options func(network, address string, raw syscall.RawConn) error) (*familySocket, error) {
	network := "udp6"
	if address.Addr().Is4() {
		network = "udp4"
	}
	config := net.ListenConfig{Control: options}
	conn, err := config.ListenPacket(context.Background(), network, address.String())
	if err != nil {
		return nil, err
	}
	socket, err := newDatagramSocket(conn.(*net.UDPConn))
	if err != nil {
		return nil, err
	}
	f := &familySocket{socket: socket, is4: address.Addr().Is4(), port: socket.local.Port()}
	return f, errors.Join(f.askForDestinations(), f.sharePort())
}

// sharePort lets an engine in this process, or in another one of its user, send data packets from the port: an RTR's
// to nodes behind NATs leave from it. It is set when the socket is bound: another one that receives is refused as
// before.
func (f *familySocket) sharePort() error {
	var failed error
	err := f.socket.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, failed)
}

func setSocketOptions(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// Best effort: FORCE needs privileges, the plain call is capped by a sysctl.
		for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, socketBufferOctets)
		}
	})
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
