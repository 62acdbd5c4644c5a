// SPDX-License-Identifier: Apache-2.0

package tun

// Where the files of an interface come from: they are opened by its name, inherited as descriptors, or handed over at a
// Unix socket (unix(7), SCM_RIGHTS), as Android's VpnService gives them to others.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/user/offload"
	"loci/internal/waitread"
)

const (
	// maxHanded bounds the descriptors that are taken of one message.
	maxHanded = 16
	// handoverTime is how long the process at the Unix socket may take; renewTime, where the engine waits for an interface that is gone.
	handoverTime = 10 * time.Second
	renewTime    = time.Second
)

// Source says where an interface comes from. With a name alone it is opened by that, and made if there is none.
type Source struct {
	Name        string
	Descriptors []int  // inherited ones, which stay open
	Socket      string // the path of a Unix socket where descriptors are handed over
}

// file is one of an interface.
type file struct {
	*waitread.File
	plain bool
}

// open opens the files of the interface, at most so many where it chooses. A process that hands them over may take so long. It runs in
// the network namespace.
func (i *Interface) open(queues int, limit time.Duration) (files []file, err error) {
	var descriptors []int
	switch {
	case i.source.Socket != "":
		descriptors, err = receive(i.source.Socket, limit)
	case len(i.source.Descriptors) > 0:
		descriptors, err = duplicate(i.source.Descriptors)
	default:
		return i.openByName(queues)
	}
	if err != nil {
		return nil, err
	}
	i.foreign = true
	for n, fd := range descriptors {
		f, err := take(fd, i.Name)
		if err != nil {
			closeAll(descriptors[n+1:])
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// openByName opens the interface as one with several queues, unless somebody made it with a single one.
func (i *Interface) openByName(queues int) (files []file, err error) {
	kind := uint16(unix.IFF_MULTI_QUEUE)
	if link, err := i.space.Netlink.LinkByName(i.Name); err == nil {
		tun, is := link.(*netlink.Tuntap)
		if !is || tun.Mode != netlink.TUNTAP_MODE_TUN {
			return nil, fmt.Errorf("an interface of that name is there, which is no TUN: remove it, or name another as datapath.interface")
		}
		i.foreign = isOwned(tun)
		if tun.Flags&netlink.TUNTAP_MULTI_QUEUE == 0 {
			kind, queues = 0, 1
		}
	}
	for range queues {
		fd, err := openQueue(i.Name, kind)
		if err != nil {
			return files, err
		}
		f, err := newFile(fd, false)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// isOwned reports whether an interface was made for somebody (`ip tuntap add … user NAME`): then it is not ours.
func isOwned(t *netlink.Tuntap) bool { return t.Owner != 0 || t.Group != 0 }

func openQueue(name string, kind uint16) (fd int, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return -1, fmt.Errorf("opening /dev/net/tun: %w: chmod 0666 /dev/net/tun, which does not let users make interfaces, or give the daemon a descriptor (datapath.tun)", err)
	}
	if err != nil {
		return -1, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | kind)
	switch err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request); {
	case errors.Is(err, unix.EBUSY):
		err = ErrBusy
	case errors.Is(err, unix.EPERM):
		err = unprepared(fmt.Sprintf("ip tuntap add dev %s mode tun multi_queue user %d", name, unix.Geteuid()))
	case err == nil:
		err = errors.Join(takeOffloads(fd), unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// takeOffloads has packets come as they are: with open checksums, and as whole GSO packets.
func takeOffloads(fd int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, offload.VnetOctets); err != nil {
		return fmt.Errorf("virtio header: %w", err)
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil {
		return nil
	}
	// Linux before 6.2 segments GSO packets of UDP itself.
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp); err != nil {
		return fmt.Errorf("offloads: %w", err)
	}
	return nil
}

// newFile takes over a descriptor, also when it fails.
func newFile(fd int, plain bool) (file, error) {
	f, err := waitread.New(fd)
	return file{f, plain}, err
}

// take takes over a descriptor that somebody else opened, also when it fails. It has a virtio header if that says so.
func take(fd int, name string) (file, error) {
	plain, err := inspect(fd, name)
	if err != nil {
		_ = unix.Close(fd)
		return file{}, err
	}
	return newFile(fd, plain)
}

// inspect asks what a descriptor is. Those whom the system does not let do more than that get packets alone.
func inspect(fd int, name string) (plain bool, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return false, err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, request); err != nil {
		return false, fmt.Errorf("the descriptor is of no TUN interface: %w", err)
	}
	flags := request.Uint16()
	switch {
	case flags&unix.IFF_TUN == 0:
		return false, fmt.Errorf("the descriptor is of %s, a TAP: want a TUN", request.Name())
	case request.Name() != name:
		return false, fmt.Errorf("the descriptor is of %s: set datapath.interface to %s", request.Name(), request.Name())
	case flags&unix.IFF_VNET_HDR == 0:
		_ = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, 0) // refused where nothing was on
		return true, nil
	}
	return false, takeOffloads(fd)
}

// duplicate leaves the inherited descriptors open: the next engine of this process needs them.
func duplicate(inherited []int) (descriptors []int, err error) {
	for _, fd := range inherited {
		unix.CloseOnExec(fd)
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(descriptors)
			return nil, fmt.Errorf("descriptor %d was not inherited: %w", fd, err)
		}
		descriptors = append(descriptors, own)
	}
	return descriptors, nil
}

// receive has the process at a Unix socket hand descriptors over: one message.
func receive(path string, limit time.Duration) (descriptors []int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, where the descriptor is handed over: %w", path, err)
		}
	}()
	conn, err := net.DialTimeout("unix", path, limit)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	octet, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*maxHanded))
	octets, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(octet, control)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("nothing came within %s", limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, withoutPath(err)
	}
	descriptors, err = descriptorsOf(control[:n])
	if err == nil && len(descriptors) == 0 {
		err = fmt.Errorf("%d octets came without a descriptor", octets)
	}
	return descriptors, err
}

// withoutPath is an error of a socket without its path.
func withoutPath(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

func descriptorsOf(control []byte) (descriptors []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		some, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // credentials, say
		}
		descriptors = append(descriptors, some...)
	}
	return descriptors, nil
}

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		_ = unix.Close(fd)
	}
}
