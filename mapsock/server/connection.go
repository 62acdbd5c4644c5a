// SPDX-License-Identifier: Apache-2.0

package server

// A client's connection as the server holds it. Go's poller listens for room to write on
// every socket that it knows, and Linux announces such room whenever a peer has read
// something: each message sent would wake the server once more. So the poller knows this
// socket only through two epoll instances, one that tells when there is something to
// read, and one that tells of room when somebody waits for it.

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connection is a socket of one client. One goroutine may read and one write at a time;
// writeAtOnce, the deadlines and Close are for any.
type connection struct {
	using sync.RWMutex // who uses the descriptor holds it for reading; an os.File costs as much as a system call
	fd    int          // in blocking mode; -1 when closed
	in    *interest
	out   *interest

	waited    bool        // the last Read did: nothing was there when it began
	attention *sync.Mutex // of the server, for one connection at a time
	pace      pace        // of who reads
}

// attentive is how long a client's next datagram is waited for in the system call that
// receives it. There a wait costs half of what it does by way of Go's poller, which puts
// the processor's place, and the thread that watches over them, to sleep in between. Linux
// counts it in its own ticks, which sets no clock for it.
const attentive = 20 * time.Millisecond

// newConnection takes over a connection that was accepted, and tells whose it is. conn is
// closed in any case.
func newConnection(conn *net.UnixConn, attention *sync.Mutex) (c *connection, peer *unix.Ucred, err error) {
	fd := -1
	raw, err := conn.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(original uintptr) { fd, failed = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(err, failed)
	}
	_ = conn.Close() // the duplicate stays
	if err != nil {
		return nil, nil, err
	}
	c = &connection{fd: fd, attention: attention}
	if peer, err = c.open(); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, peer, nil
}

func (c *connection) open() (peer *unix.Ucred, err error) {
	moment := unix.NsecToTimeval(int64(attentive))
	err = errors.Join(unix.SetNonblock(c.fd, false), unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &moment))
	if err != nil {
		return nil, err
	}
	if c.in, err = newInterest(c.fd, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
		return nil, err
	}
	if c.out, err = newInterest(c.fd, unix.EPOLLONESHOT); err != nil {
		return nil, err
	}
	return unix.GetsockoptUcred(c.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
}

// Read waits for a datagram; io.EOF when the client has closed its side.
func (c *connection) Read(buffer []byte) (octets int, err error) {
	began := time.Now()
	c.waited = false
	if octets, err = c.attend(buffer, began); errors.Is(err, unix.EAGAIN) {
		octets, err = c.readWhenThere(buffer)
	}
	if c.waited {
		c.pace.took(time.Since(began))
	}
	return octets, err
}

// readWhenThere waits by way of Go's poller.
func (c *connection) readWhenThere(buffer []byte) (octets int, err error) {
	failed := c.in.await(func() (done bool) {
		octets, err = c.readAtOnce(buffer)
		nothing := errors.Is(err, unix.EAGAIN)
		c.waited = c.waited || nothing
		return !nothing
	})
	if failed != nil {
		return 0, failed
	}
	return octets, err
}

// readAtOnce reads a datagram that is there, or fails with EAGAIN; io.EOF as Read.
func (c *connection) readAtOnce(buffer []byte) (octets int, err error) {
	return c.receive(buffer, unix.MSG_DONTWAIT)
}

// receive reads a datagram, or fails with EAGAIN when there is none for as long as the
// flags and the socket's own bound let it wait.
func (c *connection) receive(buffer []byte, flags int) (octets int, err error) {
	c.using.RLock()
	defer c.using.RUnlock()
	for {
		octets, _, err = unix.Recvfrom(c.fd, buffer, flags)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil && octets == 0 {
		err = io.EOF
	}
	return max(octets, 0), err
}

// attend reads the next datagram of a client whose last one came soon; EAGAIN when this
// one does not. It keeps one of the places that goroutines have to run, so only one
// connection may, and only where there is another place.
func (c *connection) attend(buffer []byte, began time.Time) (octets int, err error) {
	if !c.pace.lively || runtime.GOMAXPROCS(0) < 2 {
		return 0, unix.EAGAIN
	}
	if octets, err = c.readAtOnce(buffer); !errors.Is(err, unix.EAGAIN) {
		return octets, err
	}
	c.waited = true
	if !c.attention.TryLock() {
		return 0, unix.EAGAIN
	}
	defer c.attention.Unlock()
	if c.pace.worthIt() {
		for time.Since(began) < eager {
			if octets, err = c.readAtOnce(buffer); !errors.Is(err, unix.EAGAIN) {
				c.pace.came()
				return octets, err
			}
		}
		c.pace.vain()
	}
	return c.receive(buffer, 0)
}

// Write waits until the client has room for a datagram.
func (c *connection) Write(datagram []byte) (octets int, err error) {
	failed := c.out.await(func() bool {
		if err = c.writeAtOnce(datagram); !errors.Is(err, unix.EAGAIN) {
			return true
		}
		err = c.wantRoom()
		return err != nil
	})
	if err = errors.Join(failed, err); err != nil {
		return 0, err
	}
	return len(datagram), nil
}

// wantRoom has the poller told once when there is room to write.
func (c *connection) wantRoom() error {
	c.using.RLock()
	defer c.using.RUnlock()
	return c.out.change(unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT})
}

// writeAtOnce writes a datagram, or fails with EAGAIN when that has to wait.
func (c *connection) writeAtOnce(datagram []byte) error {
	c.using.RLock()
	defer c.using.RUnlock()
	for {
		err := unix.Sendto(c.fd, datagram, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// SetReadDeadline bounds how long Read waits, also one that waits already.
func (c *connection) SetReadDeadline(t time.Time) error { return c.in.epoll.SetReadDeadline(t) }

// SetWriteDeadline bounds how long Write waits, also one that waits already.
func (c *connection) SetWriteDeadline(t time.Time) error { return c.out.epoll.SetReadDeadline(t) }

// Close ends the connection, and Read and Write with it.
func (c *connection) Close() error {
	c.using.RLock()
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // who waits in a system call is told so
	c.using.RUnlock()
	if err := c.release(); err != nil {
		return err
	}
	return errors.Join(c.in.close(), c.out.close()) // they wait for who waits by way of them, who may want the descriptor
}

// release closes the descriptor when no goroutine uses it.
func (c *connection) release() error {
	c.using.Lock()
	defer c.using.Unlock()
	if c.fd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(c.fd)
	c.fd = -1 // with which every system call fails
	return err
}

// interest is an epoll instance of one descriptor.
type interest struct {
	epoll *os.File
	raw   syscall.RawConn
}

func newInterest(fd int, events uint32) (*interest, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // what makes os give it to the poller
		return nil, errors.Join(err, unix.Close(epoll))
	}
	i := &interest{epoll: os.NewFile(uintptr(epoll), "epoll")}
	if i.raw, err = i.epoll.SyscallConn(); err == nil {
		err = i.change(unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events})
	}
	if err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

func (i *interest) change(operation, fd int, event *unix.EpollEvent) error {
	var failed error
	err := i.raw.Control(func(epoll uintptr) { failed = unix.EpollCtl(int(epoll), operation, fd, event) })
	return errors.Join(err, failed)
}

// await tries something until it is done, each time when what is of interest happened.
func (i *interest) await(done func() bool) error {
	return i.raw.Read(func(uintptr) bool { return done() })
}

func (i *interest) close() error {
	if i == nil {
		return nil
	}
	return i.epoll.Close()
}
