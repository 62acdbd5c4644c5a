// SPDX-License-Identifier: Apache-2.0

// Package tunnel is the floor of `loci bench user`: a packet from a TUN goes out by UDP behind as many octets as a LISP header has, and
// a datagram that comes goes into the TUN without them. Nothing is looked up, nothing is counted, and each packet is one system call to
// read and one to write, without offloads. It is a process of its own, as routers in user space are.
package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	// HeaderOctets stand before each packet, all zero.
	HeaderOctets = 8
	packetOctets = 1 << 16
)

// Run makes the TUN of that name and carries packets between it and the other end. It returns when a file fails.
func Run(name string, local, remote netip.AddrPort) error {
	tun, err := openTUN(name)
	if err != nil {
		return fmt.Errorf("TUN %s: %w", name, err)
	}
	socket, err := openSocket(local, remote)
	if err != nil {
		return fmt.Errorf("UDP from %v to %v: %w", local, remote, err)
	}
	failed := make(chan error, 2)
	go func() { failed <- carry(tun, 0, socket, HeaderOctets) }()
	go func() { failed <- carry(socket, HeaderOctets, tun, 0) }()
	return <-failed
}

// carry reads packets behind so many octets and writes them behind so many.
func carry(from, fromOctets, to, toOctets int) error {
	runtime.LockOSThread() // it waits in system calls
	memory := make([]byte, HeaderOctets+packetOctets)
	for {
		n, err := unix.Read(from, memory[HeaderOctets-fromOctets:])
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNREFUSED): // the other end is not there yet
			continue
		case err != nil:
			return err
		}
		if n > fromOctets {
			_, _ = unix.Write(to, memory[HeaderOctets-toOctets:HeaderOctets-fromOctets+n]) // what is refused is lost
		}
		clear(memory[:HeaderOctets])
	}
}

func openTUN(name string) (fd int, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func openSocket(local, remote netip.AddrPort) (fd int, err error) {
	_, from := testnet.SocketAddress(local)
	family, to := testnet.SocketAddress(remote)
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err := errors.Join(unix.Bind(fd, from), unix.Connect(fd, to)); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
