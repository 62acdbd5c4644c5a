// SPDX-License-Identifier: Apache-2.0

// Package tun makes the TUN interface by which packets come to the user engine and go back to the host's stack, and reads
// and writes their frames: each is a virtio header, which tells of checksum and segmentation, and an IP packet. It has
// several queues, one for each reader; the kernel keeps a flow to one of them. It never looks at a packet.
package tun

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/atonce"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/user/offload"
	"loci/internal/waitread"
)

const (
	// FrameOctets holds the largest GSO packet.
	FrameOctets = offload.VnetOctets + 1<<16
	// queuePackets is how many packets the kernel keeps until they are read.
	queuePackets = 4096
)

// ErrBusy says that another process reads the interface.
var ErrBusy = errors.New("another process has this TUN interface open")

// Interface is a TUN.
type Interface struct {
	Name   string
	Index  int
	Queues []*Queue
	lock   int // a descriptor, or below 0
}

// Queue is one of the files of an interface: one goroutine reads it at a time.
type Queue struct{ file *waitread.File }

// Writer writes to an interface by one of its files. One goroutine uses it at a time.
type Writer struct {
	queue   *Queue
	vectors atonce.Vectors
}

// Writer makes a writer by the file.
func (q *Queue) Writer() *Writer { return &Writer{queue: q} }

// Open makes the interface, up and with an MTU, in the network namespace.
func Open(s *netspace.Space, name string, queues, mtu int) (*Interface, error) {
	i := &Interface{Name: name, lock: -1}
	err := s.Do(func() (err error) {
		if i.lock, err = lock(name); err != nil {
			return err
		}
		for range queues {
			q, err := openQueue(name)
			if err != nil {
				return err
			}
			i.Queues = append(i.Queues, q)
		}
		return nil
	})
	if err == nil {
		err = i.setUp(s, mtu)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("TUN %s: %w", name, err), i.Close())
	}
	return i, nil
}

func openQueue(name string) (*Queue, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EBUSY) {
			return nil, ErrBusy
		}
		return nil, err
	}
	if err := errors.Join(takeOffloads(fd), unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("offloads: %w", err)
	}
	file, err := waitread.New(fd)
	if err != nil {
		return nil, err
	}
	return &Queue{file: file}, nil
}

// takeOffloads has packets come as they are: with open checksums, and as whole GSO packets.
func takeOffloads(fd int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, offload.VnetOctets); err != nil {
		return err
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil {
		return nil
	}
	// Linux before 6.2 segments GSO packets of UDP itself.
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp)
}

func (i *Interface) setUp(s *netspace.Space, mtu int) error {
	link, err := s.Netlink.LinkByName(i.Name)
	if err != nil {
		return err
	}
	i.Index = link.Attrs().Index
	// The host has no business on this link but EIDs: no address of its own making. A kernel without IPv6 refuses.
	const addrGenNone = 1
	_ = s.Netlink.LinkSetIP6AddrGenMode(link, addrGenNone)
	// Where an interface has no address at all, a loose reverse path filter drops what it passes elsewhere. Nothing is sent
	// from the dummy address of IPv4 (RFC 7600 s.4.8).
	dummy := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 0, 8).To4(), Mask: net.CIDRMask(32, 32)}, Scope: unix.RT_SCOPE_HOST}
	return errors.Join(s.Netlink.AddrReplace(link, dummy), s.Netlink.LinkSetTxQLen(link, queuePackets), s.Netlink.LinkSetMTU(link, mtu), s.Netlink.LinkSetUp(link))
}

// Remove makes the interface vanish when it is closed, with its routes.
func (i *Interface) Remove() (err error) {
	controlErr := i.Queues[0].file.Control(func(fd uintptr) { err = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0) })
	return errors.Join(controlErr, err)
}

// Close stops reading. The interface stays, and drops what is sent to it.
func (i *Interface) Close() error {
	var errs []error
	for _, q := range i.Queues {
		errs = append(errs, q.file.Close())
	}
	if i.lock >= 0 {
		errs = append(errs, unix.Close(i.lock))
	}
	return errors.Join(errs...)
}

// Remove removes the interface of that name, if there is a TUN, in the network namespace. ErrBusy: a process uses it.
func Remove(s *netspace.Space, name string) error {
	link, err := s.Netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if tun, is := link.(*netlink.Tuntap); err != nil || !is || tun.Mode != netlink.TUNTAP_MODE_TUN {
		return err
	}
	return s.Do(func() error {
		fd, err := lock(name)
		if err != nil {
			return fmt.Errorf("TUN %s: %w", name, err)
		}
		return errors.Join(s.Netlink.LinkDel(link), unix.Close(fd))
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
func (q *Queue) Await() error {
	return q.file.Read(func(fd uintptr) bool { return atonce.IsReadable(fd) })
}

// Read reads a frame; 0 octets when there is none.
func (q *Queue) Read(into []byte) (octets int, err error) {
	controlErr := q.file.Control(func(fd uintptr) { octets, err = atonce.Read(fd, into) })
	if err = errors.Join(controlErr, err); errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(octets, 0), err
}

// Write writes a frame that is put together of pieces. The kernel refuses what contradicts itself, and has no room for
// anything while the interface is down.
func (w *Writer) Write(pieces ...[]byte) (err error) {
	controlErr := w.queue.file.Control(func(fd uintptr) { err = w.vectors.Write(fd, pieces) })
	return errors.Join(controlErr, err)
}

// IsClosed reports whether an error says that the interface was closed.
func IsClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
