// SPDX-License-Identifier: Apache-2.0

// Package tun has the TUN interface by which packets come to the user engine and go back to the host's stack, and reads
// and writes their frames: each is a virtio header, which tells of checksum and segmentation, and an IP packet. It has
// several queues, one for each reader; the kernel keeps a flow to one of them. The package makes the interface, or takes
// one that somebody else made: by its name, or by its descriptors. It never looks at a packet.
package tun

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/atonce"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/user/offload"
	"loci/internal/waitread"
)

// FrameOctets holds the largest GSO packet.
const FrameOctets = offload.VnetOctets + 1<<16

// ErrBusy says that another process reads the interface.
var ErrBusy = errors.New("another process has this TUN interface open")

// Interface is a TUN.
type Interface struct {
	Name   string
	Queues []*Queue

	space   *netspace.Space
	source  Source
	index   atomic.Int64
	foreign bool // somebody else made it, and keeps it
	lock    int  // a descriptor, or below 0
}

// Queue is one of the files of an interface: one goroutine reads it at a time.
type Queue struct {
	file  atomic.Pointer[waitread.File]
	plain bool // its frames have no virtio header: nothing is left to others of checksum and segmentation

	wait   *waitread.Use // until a frame is there
	read   *waitread.Use // of a frame into the memory
	into   []byte
	octets int   // of the frame that was read
	err    error // why none was
}

// Writer writes to an interface by one of its files. One goroutine uses it at a time.
type Writer struct {
	queue   *Queue
	vectors atonce.Vectors

	write  *waitread.Use // of the pieces of a frame
	pieces [][]byte
	err    error
}

func newQueue(f file) *Queue {
	q := &Queue{plain: f.plain, wait: waitread.NewUse(atonce.IsReadable)}
	q.read = waitread.NewUse(func(fd uintptr) bool {
		q.octets, q.err = atonce.Read(fd, q.into)
		return true
	})
	q.file.Store(f.File)
	return q
}

// Writer makes a writer by the file.
func (q *Queue) Writer() *Writer {
	w := &Writer{queue: q}
	w.write = waitread.NewUse(func(fd uintptr) bool {
		w.err = w.vectors.Write(fd, w.pieces)
		return true
	})
	return w
}

// Open opens the interface of a source with at most so many queues, and gives it what it needs, in the network namespace.
// Where it is to be made by its name, it has as many. An error that is Unprepared says what somebody else has to do.
func Open(s *netspace.Space, source Source, queues int) (*Interface, error) {
	i := &Interface{Name: source.Name, space: s, source: source, lock: -1}
	err := s.Do(func() (err error) {
		if i.lock, err = lock(source.Name); err != nil {
			return err
		}
		files, err := i.open(queues, handoverTime)
		for _, f := range files {
			i.Queues = append(i.Queues, newQueue(f))
		}
		return err
	})
	if err == nil {
		err = i.setUp()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("TUN %s: %w", source.Name, err), i.Close())
	}
	return i, nil
}

// Index is the interface's index.
func (i *Interface) Index() int { return int(i.index.Load()) }

// Keep makes the interface again what it has to be: there, by its name, and up. It reports whether it was not; its queues go on
// with one that was made anew.
func (i *Interface) Keep() (amiss bool, err error) {
	link, err := i.space.Netlink.LinkByIndex(i.Index())
	if err == nil && link.Attrs().Name == i.Name {
		if link.Attrs().Flags&net.FlagUp != 0 {
			return false, nil
		}
		return true, i.setUp()
	}
	if err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, err
	}
	if err := i.space.Do(i.renew); err != nil {
		return true, fmt.Errorf("TUN %s: %w", i.Name, err)
	}
	return true, nil
}

func (i *Interface) renew() error {
	files, err := i.open(len(i.Queues), renewTime)
	if err == nil && (len(files) != len(i.Queues) || slices.ContainsFunc(files, func(f file) bool { return f.plain != i.Queues[0].plain })) {
		err = errors.New("it has other queues than before")
	}
	if err != nil {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	_ = i.Remove() // it may be there by another name
	for n, q := range i.Queues {
		_ = q.file.Swap(files[n].File).Close()
	}
	return i.setUp()
}

// Remove makes the interface vanish when it is closed, with its routes, unless somebody else made it.
func (i *Interface) Remove() (err error) {
	if i.foreign {
		return nil
	}
	controlErr := i.Queues[0].file.Load().Control(func(fd uintptr) { err = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0) })
	return errors.Join(controlErr, err)
}

// Close stops reading. The interface stays, and drops what is sent to it.
func (i *Interface) Close() error {
	var errs []error
	for _, q := range i.Queues {
		errs = append(errs, q.file.Load().Close())
	}
	if i.lock >= 0 {
		errs = append(errs, unix.Close(i.lock))
	}
	return errors.Join(errs...)
}

// Remove removes the interface of that name, if there is a TUN that has no owner, in the network namespace. ErrBusy: a
// process uses it.
func Remove(s *netspace.Space, name string) error {
	link, err := s.Netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	tun, is := link.(*netlink.Tuntap)
	if err != nil || !is || tun.Mode != netlink.TUNTAP_MODE_TUN {
		return err
	}
	return s.Do(func() error {
		fd, err := lock(name)
		if err != nil {
			return fmt.Errorf("TUN %s: %w", name, err)
		}
		if !isOwned(tun) {
			err = s.Netlink.LinkDel(link)
		}
		return errors.Join(err, unix.Close(fd))
	})
}

// lock keeps other processes of the network namespace from an interface until the descriptor is closed: each has the abstract
// Unix socket of its name.
func lock(name string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@loci-tun-" + name})
	if errors.Is(err, unix.EADDRINUSE) {
		err = ErrBusy
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Await waits until a frame is there; net.ErrClosed after Close.
func (q *Queue) Await() error { return q.with(q.wait.Read) }

// with uses the queue's file, and that of an interface that was made anew if the other was closed for it meanwhile.
func (q *Queue) with(use func(f *waitread.File) error) error {
	for {
		file := q.file.Load()
		if err := use(file); !IsClosed(err) || q.file.Load() == file {
			return err
		}
	}
}

// Read reads a frame; 0 octets when there is none. Where the interface gives packets alone, the header is of one that is
// whole.
func (q *Queue) Read(into []byte) (octets int, err error) {
	at := 0
	if q.plain {
		at = offload.VnetOctets
		clear(into[:at])
	}
	q.into, q.octets, q.err = into[at:], 0, nil
	err = q.with(q.read.Control)
	if q.into = nil; err != nil {
		return 0, err
	}
	if q.octets > 0 && q.err == nil {
		return at + q.octets, nil
	}
	if errors.Is(q.err, unix.EAGAIN) || errors.Is(q.err, unix.EINTR) {
		return 0, nil
	}
	return 0, q.err
}

// Joins reports whether frames may be of packets that are not whole: GSO packets, and those with open checksums.
func (w *Writer) Joins() bool { return !w.queue.plain }

// Write writes a frame that is put together of pieces, the first of which is the virtio header alone unless Joins. The kernel
// refuses what contradicts itself, and has no room for anything while the interface is down.
func (w *Writer) Write(pieces ...[]byte) (err error) {
	if w.queue.plain {
		pieces = pieces[1:]
	}
	w.pieces, w.err = pieces, nil
	err = w.write.Control(w.queue.file.Load())
	if w.pieces = nil; err != nil {
		return err
	}
	return w.err
}

// IsClosed reports whether an error says that the interface was closed.
func IsClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
