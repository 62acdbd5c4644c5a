// SPDX-License-Identifier: Apache-2.0

package transport

// A datagram socket whose reader is woken by what there is to read alone (internal/waitread), and whose system calls Go's runtime is not
// told of, since none of them waits (dataplane/kernel/atonce).

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/atonce"
	"loci/internal/waitread"
)

// datagramSocket is a bound UDP socket.
type datagramSocket struct {
	file  *waitread.File
	local netip.AddrPort
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

// receive waits for datagrams and returns how many it took.
func (s *datagramSocket) receive(box *atonce.Inbox) (n int, err error) {
	failed := s.file.Read(func(fd uintptr) (done bool) {
		n, err = box.Receive(fd)
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, errors.Join(failed, err)
}

// send sends from one datagram of a box on, and returns how many it sent. It fails with unix.EAGAIN when there is no room for the
// first one, unless it is to wait for that.
func (s *datagramSocket) send(box *atonce.Outbox, first int, wait bool) (n int, err error) {
	try := func(fd uintptr) (done bool) {
		n, err = box.Send(fd, first)
		return !errors.Is(err, unix.EAGAIN)
	}
	var failed error
	if wait {
		failed = s.file.Write(try)
	} else {
		failed = s.file.Control(func(fd uintptr) { try(fd) })
	}
	return n, errors.Join(failed, err)
}

// Close ends all waiting.
func (s *datagramSocket) Close() error { return s.file.Close() }

// Control is that of syscall.RawConn.
func (s *datagramSocket) Control(f func(fd uintptr)) error { return s.file.Control(f) }
