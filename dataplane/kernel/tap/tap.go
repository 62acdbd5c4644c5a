// SPDX-License-Identifier: Apache-2.0

// This file makes the TAP, which is the interface of the host's own EIDs and by which pending
// packets come to user space and go back. It reads and writes its frames, each with its virtio
// header: the checksum and segmentation state that a packet must keep. It never looks behind
// the Ethernet header.

package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/atonce"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/forward"
)

const (
	// DefaultName names the TAP of a system that runs one instance.
	DefaultName = "loci0"

	// QueuePackets is how many packets the kernel keeps until they are read: one
	// source's half is as many as wait by default, so that a burst finds room.
	QueuePackets = 16384

	VnetOctets = 10 // struct virtio_net_hdr
	// EthernetOctets is an Ethernet header.
	EthernetOctets = 14
	// FrameOctets holds the largest GSO packet with its headers.
	FrameOctets = VnetOctets + EthernetOctets + 1<<16
)

// A TAP is the open TAP of an instance.
type TAP struct {
	Name  string
	File  *os.File
	Raw   syscall.RawConn
	Index uint32
	Mac   [6]byte
	Made  bool // it was not there before
}

// Open makes the TAP, or takes over the one that an earlier process left.
func Open(s *netspace.Space, name string) (*TAP, error) {
	_, notThere := s.Netlink.LinkByName(name)
	t := &TAP{Name: name, Made: errors.As(notThere, &netlink.LinkNotFoundError{})}
	if err := s.Do(func() (err error) {
		t.File, err = OpenFile(name, VnetOctets)
		return err
	}); err != nil {
		return nil, err
	}
	var err error
	if t.Raw, err = t.File.SyscallConn(); err == nil {
		err = t.setUp(s, name)
	}
	if err != nil {
		if t.Made {
			_ = t.Remove()
		}
		_ = t.File.Close()
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	return t, nil
}

// OpenFile opens the TAP, whose frames have a virtio header of so many octets. After an error nothing is there that was not before.
func OpenFile(name string, header int) (*os.File, error) {
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
			err = pins.ErrBusy
		}
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	if err := configureTUN(fd, header); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("TAP %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// configureTUN makes the TAP take packets as they are, with CHECKSUM_PARTIAL and as whole GSO packets, and, when nothing is left
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
	// Linux before 6.2 segments GSO packets of UDP itself.
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp)
}

// setUp gives the interface what it needs to be used.
func (t *TAP) setUp(s *netspace.Space, name string) error {
	link, err := s.Netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking it up: %w", err)
	}
	t.Index = uint32(link.Attrs().Index)
	copy(t.Mac[:], link.Attrs().HardwareAddr)
	// Its first octet must be none of the marks that a frame may carry there.
	if t.Mac[0] != 0x02 {
		t.Mac[0] = 0x02
		if err := s.Netlink.LinkSetHardwareAddr(link, t.Mac[:]); err != nil {
			return fmt.Errorf("setting its address: %w", err)
		}
	}
	if err := s.Netlink.LinkSetTxQLen(link, QueuePackets); err != nil {
		return fmt.Errorf("setting its queue: %w", err)
	}
	if err := s.Netlink.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("switching ARP off: %w", err)
	}
	// The host has no business on this link but EIDs: no address of its own making,
	// hence no router solicitations. A kernel without IPv6 refuses.
	const addrGenNone = 1
	_ = s.Netlink.LinkSetIP6AddrGenMode(link, addrGenNone)
	if err := s.Netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting it up: %w", err)
	}
	return giveDummyAddress(s, link)
}

// giveDummyAddress gives the interface the dummy address of IPv4 (RFC 7600 s.4.8), which nothing
// is ever sent from: where an interface has no address at all, a loose reverse path filter
// drops what it passes elsewhere, namely packets to the site that the stack forwards
// while the main table has a default route.
func giveDummyAddress(s *netspace.Space, link netlink.Link) error {
	dummy := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 0, 8).To4(), Mask: net.CIDRMask(32, 32)}, Scope: unix.RT_SCOPE_HOST}
	if err := s.Netlink.AddrReplace(link, dummy); err != nil {
		return fmt.Errorf("giving it the address %s: %w", dummy.IPNet, err)
	}
	return nil
}

// SetMTU sets the MTU, which counts for what this host itself sends.
func (t *TAP) SetMTU(s *netspace.Space, octets int) error {
	link, err := s.Netlink.LinkByIndex(int(t.Index))
	if err != nil {
		return fmt.Errorf("TAP: %w", err)
	}
	if link.Attrs().MTU == octets {
		return nil
	}
	if err := s.Netlink.LinkSetMTU(link, octets); err != nil {
		return fmt.Errorf("TAP: setting its MTU to %d: %w", octets, err)
	}
	return nil
}

// Remove makes the TAP vanish when it is closed.
func (t *TAP) Remove() error {
	var failed error
	err := t.Raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("removing the TAP: %w", err)
	}
	return nil
}

// TryRead reads a frame if there is one; 0 if not.
func (t *TAP) TryRead(frame []byte) (octets int, err error) {
	controlErr := t.Raw.Control(func(fd uintptr) {
		octets, err = atonce.Read(fd, frame)
	})
	return ReadResult(octets, errors.Join(controlErr, err))
}

// Await calls try at once, and then whenever a frame may be there, until it is done or the time set by WakeAt has come.
func (t *TAP) Await(try func(fd uintptr) (done bool)) error { return t.Raw.Read(try) }

// ReadNow reads a frame if there is one, for Await: with unix.EAGAIN there is none.
func ReadNow(fd uintptr, frame []byte) (octets int, err error) { return atonce.Read(fd, frame) }

// ReadResult is what a reader makes of its last attempt: nothing where none came.
func ReadResult(octets int, err error) (int, error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	return max(octets, 0), err
}

// IsEmpty reports whether no frame is there to be read.
func (t *TAP) IsEmpty() bool {
	ready := true
	err := t.Raw.Control(func(fd uintptr) { ready = atonce.IsReadable(fd) })
	return err == nil && !ready
}

// WakeAt makes read return at a time; the zero time is never.
func (t *TAP) WakeAt(when time.Time) error { return t.File.SetReadDeadline(when) }

// Write gives a frame to the interface.
func (t *TAP) Write(frame []byte) error {
	var failed error
	err := t.Raw.Control(func(fd uintptr) {
		failed = atonce.Write(fd, frame)
	})
	return errors.Join(err, failed)
}

// A Frame is what is read from and written to the TAP: virtio header, Ethernet
// header with the metadata of bpf/abi.h, packet.
type Frame []byte

// Why programs sent a frame to the TAP.
const (
	ReasonMiss   = byte(abi.TAPReasonMiss)
	ReasonHold   = byte(abi.TAPReasonHold)
	ReasonTooBig = byte(abi.TAPReasonTooBig)

	ReasonUnreachable = byte(abi.TAPReasonUnreachable)
	ReasonRLOC        = byte(abi.TAPReasonRLOC)
	ReasonSegment     = byte(abi.TAPReasonSegment)
	ReasonChecksum    = byte(abi.TAPReasonChecksum)
)

// Flags and types of struct virtio_net_hdr.
const (
	VnetNeedsChecksum = 1
	vnetNoSegments    = 0
)

// Packet is the IP packet.
func (f Frame) Packet() []byte { return f[VnetOctets+EthernetOctets:] }

// Ethernet is the Ethernet header.
func (f Frame) Ethernet() []byte { return f[VnetOctets : VnetOctets+EthernetOctets] }

// Magic says what the frame is: abi.TAPWaiting and its like.
func (f Frame) Magic() byte { return f.Ethernet()[6] }

// Reason is why programs sent it here.
func (f Frame) Reason() byte { return f.Ethernet()[7] }

// Origin is the ifindex of the interface that it came in by.
func (f Frame) Origin() uint32 { return binary.BigEndian.Uint32(f.Ethernet()[8:]) }

// Instance is the Instance-ID of the packet's addresses.
func (f Frame) Instance() uint32 {
	return binary.BigEndian.Uint32(f.Ethernet()[1:]) & 0xFFFFFF
}

// Is reports whether the packet waits for an action, such as abi.DoRelay.
func (f Frame) Is(what abi.What) bool { return abi.What(f.Ethernet()[5]) == what }

// SetMagic says what the frame is.
func (f Frame) SetMagic(magic byte) { f.Ethernet()[6] = magic }

// LargestInner is the largest packet that would have fitted.
func (f Frame) LargestInner() int { return int(binary.BigEndian.Uint16(f.Ethernet())) }

// Dropped is why programs dropped it, with reasonUnreachable.
func (f Frame) Dropped() forward.DropReason {
	return forward.DropReason(binary.BigEndian.Uint16(f.Ethernet()))
}

// SegmentOctets is the payload of a GSO packet's segments, 0 for a plain packet.
func (f Frame) SegmentOctets() int {
	if f[1] == vnetNoSegments {
		return 0
	}
	return int(binary.NativeEndian.Uint16(f[4:]))
}

// SetSegmentOctets changes the payload of each segment.
func (f Frame) SetSegmentOctets(octets int) { binary.NativeEndian.PutUint16(f[4:], uint16(octets)) }

// UnfinishedChecksum returns where in the frame the octets to sum begin and where the
// sum goes, when the sender left that to its interface.
func (f Frame) UnfinishedChecksum() (start, at int, ok bool) {
	if f[0]&VnetNeedsChecksum == 0 {
		return 0, 0, false
	}
	start = VnetOctets + int(binary.NativeEndian.Uint16(f[6:]))
	at = start + int(binary.NativeEndian.Uint16(f[8:]))
	return start, at, start < len(f) && at+2 <= len(f)
}
