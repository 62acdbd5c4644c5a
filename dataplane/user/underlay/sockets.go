// SPDX-License-Identifier: Apache-2.0

package underlay

// Making the sockets. Those that send are bound to source ports of RFC 9300 s.5.3's range, a few, so that routers of
// the core spread flows over their paths. Those that receive are bound to a port of the data plane at all addresses;
// packets to addresses that are no own RLOCs are the engine's to refuse.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"loci/internal/waitread"
)

const (
	bufferOctets = 8 << 20
	// firstPort and portCount are the dynamic ports.
	firstPort, portCount = 0xC000, 0x4000
	// portAttempts bounds the search for ports that are free.
	portAttempts = 64
)

// socket is a UDP socket.
type socket struct{ file *waitread.File }

func option(fd, level, name, value int) error {
	if err := unix.SetsockoptInt(fd, level, name, value); err != nil {
		return fmt.Errorf("socket option %d of level %d: %w", name, level, err)
	}
	return nil
}

// open opens a socket of a family that has what both kinds need.
func open(six bool, bindTo netip.AddrPort, configure func(fd int) error) (*socket, error) {
	family := unix.AF_INET
	if six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("UDP socket: %w", err)
	}
	if six {
		err = option(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = configure(fd)
	}
	if err == nil {
		err = unix.Bind(fd, nameOf(six, bindTo))
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("UDP port %d: %w", bindTo.Port(), err)
	}
	file, err := waitread.New(fd)
	if err != nil {
		return nil, err
	}
	return &socket{file: file}, nil
}

// nameOf is an address and port of a family; no address is any.
func nameOf(six bool, a netip.AddrPort) unix.Sockaddr {
	switch {
	case six && a.Addr().IsValid():
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	case six:
		return &unix.SockaddrInet6{Port: int(a.Port())}
	case a.Addr().IsValid():
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port())}
}

// setBuffer asks for as much as is allowed.
func setBuffer(fd, forced, plain int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, forced, bufferOctets) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bufferOctets)
	}
}

// takesTrains sets an option that kernels before 4.18 (UDP_SEGMENT) and 5.0 (UDP_GRO) do not know. It reports whether
// this one does.
func (s *socket) takesTrains(name, value int) bool {
	var err error
	controlErr := s.file.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, name, value) })
	return controlErr == nil && err == nil
}

// configureReceiver has the kernel tell of outer headers, and of ICMP errors about what other sockets send from the
// port.
func configureReceiver(six bool) func(fd int) error {
	return func(fd int) error {
		setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF)
		err := option(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		if six {
			return errors.Join(err, option(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1), option(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1), option(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
				option(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1), option(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1))
		}
		return errors.Join(err, option(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1), option(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1), option(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1),
			option(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1))
	}
}

// configureSender has the kernel set DF, obey what it knows of paths, and tell of ICMP errors.
func configureSender(six bool) func(fd int) error {
	return func(fd int) error {
		setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF)
		err := option(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0) // nothing is received here
		if six {
			return errors.Join(err, option(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO), option(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1))
		}
		return errors.Join(err, option(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO), option(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	}
}

// openSender opens a socket at a port that is free, bound to an interface unless that is 0.
func openSender(six bool, link int) (s *socket, err error) {
	configure := configureSender(six)
	if link != 0 {
		configure = func(fd int) error {
			return errors.Join(configureSender(six)(fd), option(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, link))
		}
	}
	for range portAttempts {
		port := uint16(firstPort + rand.IntN(portCount))
		s, err = open(six, netip.AddrPortFrom(netip.Addr{}, port), configure)
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return s, err
}

// IsWithoutIPv6 reports whether an error says that this host has no IPv6.
func IsWithoutIPv6(err error) bool { return errors.Is(err, unix.EAFNOSUPPORT) }

// IsClosed reports whether an error says that sockets were closed.
func IsClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
