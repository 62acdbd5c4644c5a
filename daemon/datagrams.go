// SPDX-License-Identifier: Apache-2.0

package daemon

// A datagram socket whose reader is woken by what there is to read alone (internal/waitread).

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"loci/internal/waitread"
)

// datagramSocket is a bound UDP socket as golang.org/x/net takes one: of *net.UDPConn it has the
// methods, none of which is called, but for those here.
type datagramSocket struct {
	*net.UDPConn // nil
	file         *waitread.File
	local        netip.AddrPort
}

// newDatagramSocket takes a socket away from Go's network poller.
func newDatagramSocket(from *net.UDPConn) (*datagramSocket, error) {
	defer from.Close()
	raw, err := from.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(original uintptr) { fd, failed = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	file, err := waitread.New(fd)
	return &datagramSocket{file: file, local: from.LocalAddr().(*net.UDPAddr).AddrPort()}, err
}

// SyscallConn returns the socket.
func (s *datagramSocket) SyscallConn() (syscall.RawConn, error) { return s.file, nil }

// LocalAddr is what errors name.
func (s *datagramSocket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.local) }

// Close ends all waiting.
func (s *datagramSocket) Close() error { return s.file.Close() }

// Control is that of syscall.RawConn.
func (s *datagramSocket) Control(f func(fd uintptr)) error { return s.file.Control(f) }
