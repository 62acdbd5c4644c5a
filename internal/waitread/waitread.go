// SPDX-License-Identifier: Apache-2.0

// Package waitread waits until a file can be read, and for nothing else. Go's network poller waits for room to write as well:
// each datagram that left a socket, and each frame that left a TAP, woke a thread of the runtime, which found nothing to do, on
// the core where the answer was about to be read. Here the poller waits for an epoll(7) instance of the file's own, whose one
// wish is to read. A goroutine waits as it does at any file of Go's: no thread and no processor of the runtime is kept.
package waitread

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// roomPoll bounds one wait for room to write: so late a writer learns that the file was closed.
const roomPoll = 100 // ms

// File is a file in non-blocking mode; it implements syscall.RawConn.
type File struct {
	fd     uintptr
	epoll  *os.File
	waits  waiter
	closed atomic.Bool
}

// waiter is the syscall.RawConn of the epoll instance.
type waiter interface {
	Control(f func(fd uintptr)) error
	Read(f func(fd uintptr) (done bool)) error
}

// New takes over a file, also when it fails.
func New(fd int) (*File, error) {
	f, err := open(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("waiting for a file: %w", err)
	}
	return f, nil
}

func open(fd int) (f *File, err error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	// What is in non-blocking mode when it comes to Go is the poller's.
	err = errors.Join(unix.SetNonblock(epoll, true),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
	f = &File{fd: uintptr(fd), epoll: os.NewFile(uintptr(epoll), "epoll")}
	if err == nil {
		f.waits, err = f.epoll.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, f.epoll.Close())
	}
	return f, nil
}

// Control implements syscall.RawConn.
func (f *File) Control(use func(fd uintptr)) error {
	return f.named(f.waits.Control(func(uintptr) { use(f.fd) }))
}

// Read implements syscall.RawConn: it calls read at once, and again whenever there may be something to read, until that is
// done.
func (f *File) Read(read func(fd uintptr) (done bool)) error {
	return f.named(f.waits.Read(func(uintptr) bool { return read(f.fd) }))
}

// Write implements syscall.RawConn: it calls write at once, and again whenever there is room. To wait takes a system call.
func (f *File) Write(write func(fd uintptr) (done bool)) error { return NewUse(write).Write(f) }

// SetReadDeadline has Read fail with os.ErrDeadlineExceeded from a time on; the zero time is never.
func (f *File) SetReadDeadline(when time.Time) error { return f.epoll.SetReadDeadline(when) }

// Close ends all waiting, with net.ErrClosed, and closes the file.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return net.ErrClosed
	}
	return errors.Join(f.epoll.Close(), unix.Close(int(f.fd))) // no reader uses the file when the first has returned
}

func (f *File) named(err error) error {
	if err != nil && f.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Use is a function that uses files, again and again: unlike calls of a File's methods, those of a Use allocate nothing. One
// goroutine uses it at a time.
type Use struct {
	fd    uintptr
	done  bool
	once  func(fd uintptr)
	read  func(fd uintptr) (done bool)
	await func(fd uintptr)
	room  [1]unix.PollFd
}

// NewUse makes one of a function that says whether it is done.
func NewUse(function func(fd uintptr) (done bool)) *Use {
	u := &Use{}
	u.once = func(uintptr) { u.done = function(u.fd) }
	u.read = func(uintptr) bool { return function(u.fd) }
	u.await = func(uintptr) {
		u.room[0] = unix.PollFd{Fd: int32(u.fd), Events: unix.POLLOUT}
		_, _ = unix.Poll(u.room[:], roomPoll) // the function tells what is wrong
	}
	return u
}

// Control calls the function once.
func (u *Use) Control(f *File) error {
	u.fd = f.fd
	return f.named(f.waits.Control(u.once))
}

// Read is File.Read with the function.
func (u *Use) Read(f *File) error {
	u.fd = f.fd
	return f.named(f.waits.Read(u.read))
}

// Write is File.Write with the function.
func (u *Use) Write(f *File) error {
	for {
		if err := u.Control(f); err != nil || u.done {
			return err
		}
		if err := f.named(f.waits.Control(u.await)); err != nil {
			return err
		}
	}
}
