// SPDX-License-Identifier: Apache-2.0

// This file makes the TAP that is both the waiting room and the interface of the
// host's own EIDs, and reads and writes its frames, each with its virtio header: the
// checksum and segmentation state that a packet must keep. It never looks behind the
// Ethernet header.

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/atonce"
	"loci/forward"
)

const (
	// DefaultTAP names the TAP of a system that runs one instance.
	DefaultTAP = "loci0"

	// tapQueuePackets is how many packets the kernel keeps until they are read: one
	// source's half is as many as wait by default, so that a burst finds room.
	tapQueuePackets = 16384

	vnetOctets     = 10 // struct virtio_net_hdr
	ethernetOctets = 14
	// frameOctets holds the largest super-packet with its headers.
	frameOctets = vnetOctets + ethernetOctets + 1<<16
)

// A tap is the open TAP of an instance.
type tap struct {
	name  string
	file  *os.File
	raw   syscall.RawConn
	index uint32
	mac   [6]byte
	made  bool // it was not there before
}

// openTAP makes the TAP, or takes over the one that an earlier process left.
func openTAP(s *space, name string) (*tap, error) {
	_, notThere := s.netlink.LinkByName(name)
	t := &tap{name: name, made: errors.As(notThere, &netlink.LinkNotFoundError{})}
	if err := s.do(func() (err error) {
		t.file, err = openTUNFile(name, vnetOctets)
		return err
	}); err != nil {
		return nil, err
	}
	var err error
	if t.raw, err = t.file.SyscallConn(); err == nil {
		err = t.setUp(s, name)
	}
	if err != nil {
		if t.made {
			_ = t.remove()
		}
		_ = t.file.Close()
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	return t, nil
}

// openTUNFile opens the TAP, whose frames have a virtio header of so many octets. After an error nothing is there that was not before.
func openTUNFile(name string, header int) (*os.File, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("TAP %q: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EBUSY) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	if err := configureTUN(fd, header); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// configureTUN makes the TAP take packets as they are, with unfinished checksums and whole super-packets, and, when nothing is left
// that may fail, outlive the process.
func configureTUN(fd, header int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, header); err != nil {
		return fmt.Errorf("virtio header of %d octets: %w", header, err)
	}
	if err := takeOffloads(fd); err != nil {
		return fmt.Errorf("offloads: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("making it persistent: %w", err)
	}
	return nil
}

func takeOffloads(fd int) error {
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil {
		return nil
	}
	// Linux before 6.2 cuts super-packets of UDP itself.
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp)
}

// setUp gives the interface what it needs to be used.
func (t *tap) setUp(s *space, name string) error {
	link, err := s.netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking it up: %w", err)
	}
	t.index = uint32(link.Attrs().Index)
	copy(t.mac[:], link.Attrs().HardwareAddr)
	// Its first octet must be none of the marks that a frame may carry there.
	if t.mac[0] != 0x02 {
		t.mac[0] = 0x02
		if err := s.netlink.LinkSetHardwareAddr(link, t.mac[:]); err != nil {
			return fmt.Errorf("setting its address: %w", err)
		}
	}
	if err := s.netlink.LinkSetTxQLen(link, tapQueuePackets); err != nil {
		return fmt.Errorf("setting its queue: %w", err)
	}
	if err := s.netlink.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("switching ARP off: %w", err)
	}
	// The host has no business on this link but EIDs: no address of its own making,
	// hence no router solicitations. A kernel without IPv6 refuses.
	const addrGenNone = 1
	_ = s.netlink.LinkSetIP6AddrGenMode(link, addrGenNone)
	if err := s.netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting it up: %w", err)
	}
	return giveDummyAddress(s, link)
}

// giveDummyAddress gives the interface the dummy address of IPv4 (RFC 7600 s.4.8), which nothing
// is ever sent from: where an interface has no address at all, a loose reverse path filter
// drops what it passes elsewhere, namely packets to the site that the stack forwards
// while the main table has a default route.
func giveDummyAddress(s *space, link netlink.Link) error {
	dummy := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 0, 8).To4(), Mask: net.CIDRMask(32, 32)}, Scope: unix.RT_SCOPE_HOST}
	if err := s.netlink.AddrReplace(link, dummy); err != nil {
		return fmt.Errorf("giving it the address %s: %w", dummy.IPNet, err)
	}
	return nil
}

// setMTU sets the MTU, which counts for what this host itself sends.
func (t *tap) setMTU(s *space, octets int) error {
	link, err := s.netlink.LinkByIndex(int(t.index))
	if err != nil {
		return fmt.Errorf("TAP: %w", err)
	}
	if link.Attrs().MTU == octets {
		return nil
	}
	if err := s.netlink.LinkSetMTU(link, octets); err != nil {
		return fmt.Errorf("TAP: setting its MTU to %d: %w", octets, err)
	}
	return nil
}

// remove makes the TAP vanish when it is closed.
func (t *tap) remove() error {
	var failed error
	err := t.raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("removing the TAP: %w", err)
	}
	return nil
}

// tryRead reads a frame if there is one; 0 if not.
func (t *tap) tryRead(frame []byte) (octets int, err error) {
	controlErr := t.raw.Control(func(fd uintptr) {
		octets, err = atonce.Read(fd, frame)
	})
	return readResult(octets, errors.Join(controlErr, err))
}

// read waits for a frame, at most until the time set by wakeAt; 0 if none came. It lets
// go of a lock of the caller's while there is none.
func (t *tap) read(frame []byte, working sync.Locker) (octets int, err error) {
	working.Unlock()
	locked := false
	waitErr := t.raw.Read(func(fd uintptr) bool {
		working.Lock()
		octets, err = atonce.Read(fd, frame)
		if locked = !errors.Is(err, unix.EAGAIN); !locked {
			working.Unlock()
		}
		return locked
	})
	if !locked {
		working.Lock()
	}
	return readResult(octets, errors.Join(waitErr, err))
}

// isEmpty reports whether no frame is there to be read.
func (t *tap) isEmpty() bool {
	ready := true
	err := t.raw.Control(func(fd uintptr) { ready = atonce.IsReadable(fd) })
	return err == nil && !ready
}

func readResult(octets int, err error) (int, error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	return max(octets, 0), err
}

// wakeAt makes read return at a time; the zero time is never.
func (t *tap) wakeAt(when time.Time) error { return t.file.SetReadDeadline(when) }

// write gives a frame to the interface.
func (t *tap) write(frame []byte) error {
	var failed error
	err := t.raw.Control(func(fd uintptr) {
		failed = atonce.Write(fd, frame)
	})
	return errors.Join(err, failed)
}

// A frame is what is read from and written to the TAP: virtio header, Ethernet
// header with the metadata of bpf/abi.h, packet.
type frame []byte

const (
	reasonHold   = byte(abi.TAPReasonHold)
	reasonTooBig = byte(abi.TAPReasonTooBig)

	reasonUnreachable = byte(abi.TAPReasonUnreachable)
)

// Flags and types of struct virtio_net_hdr.
const (
	vnetNeedsChecksum = 1
	vnetNoSegments    = 0
)

func (f frame) packet() []byte   { return f[vnetOctets+ethernetOctets:] }
func (f frame) ethernet() []byte { return f[vnetOctets : vnetOctets+ethernetOctets] }
func (f frame) magic() byte      { return f.ethernet()[6] }
func (f frame) reason() byte     { return f.ethernet()[7] }
func (f frame) origin() uint32   { return binary.BigEndian.Uint32(f.ethernet()[8:]) }

func (f frame) setMagic(magic byte) { f.ethernet()[6] = magic }

// largestInner is the largest packet that would have fitted.
func (f frame) largestInner() int { return int(binary.BigEndian.Uint16(f.ethernet())) }

// dropped is why programs dropped it, with reasonUnreachable.
func (f frame) dropped() forward.DropReason {
	return forward.DropReason(binary.BigEndian.Uint16(f.ethernet()))
}

// segmentOctets is the payload of a super-packet's segments, 0 for a plain packet.
func (f frame) segmentOctets() int {
	if f[1] == vnetNoSegments {
		return 0
	}
	return int(binary.NativeEndian.Uint16(f[4:]))
}

func (f frame) setSegmentOctets(octets int) { binary.NativeEndian.PutUint16(f[4:], uint16(octets)) }

// unfinishedChecksum returns where in the frame the octets to sum begin and where the
// sum goes, when the sender left that to its interface.
func (f frame) unfinishedChecksum() (start, at int, ok bool) {
	if f[0]&vnetNeedsChecksum == 0 {
		return 0, 0, false
	}
	start = vnetOctets + int(binary.NativeEndian.Uint16(f[6:]))
	at = start + int(binary.NativeEndian.Uint16(f[8:]))
	return start, at, start < len(f) && at+2 <= len(f)
}
