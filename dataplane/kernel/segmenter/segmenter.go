// SPDX-License-Identifier: Apache-2.0

// Package segmenter makes the two interfaces by which the kernel cuts GSO packets into segments: of packets that it
// cannot cut later, because they get two layers, or an outer UDP checksum. Programs send a GSO packet out by one end
// of a pair of veths, which takes none whole, and its segments come in by the other end, where a program encapsulates
// them (bpf/punt.h). It looks at no packet.
package segmenter

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
)

const (
	// suffixes of the TAP's name.
	inSuffix, outSuffix = "-gso", "-seg"

	// maxName is how long the name of an interface may be.
	maxName = unix.IFNAMSIZ - 1
	// mtu lets every segment through: what the way out carries was looked at before.
	mtu = 65535
	// wholeSegments is how many segments a packet has that is not cut.
	wholeSegments = 1
)

// Segmenter is the pair.
type Segmenter struct {
	In  uint32 // ifindex of the end that GSO packets leave by
	Out uint32 // of the one where their segments come in
}

// Open makes the pair of a TAP of that name, or finds the one that an earlier process left.
func Open(s *netspace.Space, tap string) (Segmenter, error) {
	in, out := tap+inSuffix, tap+outSuffix
	if len(in) > maxName {
		return Segmenter{}, fmt.Errorf("interface %s: a name of %d octets leaves no room for %s and %s", tap,
			len(tap), inSuffix, outSuffix)
	}
	if err := add(s, in, out); err != nil {
		return Segmenter{}, err
	}
	var pair Segmenter
	for name, index := range map[string]*uint32{in: &pair.In, out: &pair.Out} {
		link, err := s.Netlink.LinkByName(name)
		if err == nil {
			err = setUp(s, link)
		}
		if err != nil {
			return Segmenter{}, fmt.Errorf("interface %s: %w", name, err)
		}
		*index = uint32(link.Attrs().Index)
	}
	return pair, nil
}

// add makes the pair unless it is there.
func add(s *netspace.Space, in, out string) error {
	link, err := s.Netlink.LinkByName(in)
	switch {
	case err == nil && link.Type() != "veth":
		return fmt.Errorf("interface %s is there and no veth", in)
	case err == nil:
		return nil
	case !errors.As(err, &netlink.LinkNotFoundError{}):
		return fmt.Errorf("interface %s: %w", in, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = in, mtu
	if err := s.Netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: out, PeerMTU: mtu}); err != nil {
		return fmt.Errorf("making the interfaces %s and %s: %w", in, out, err)
	}
	return nil
}

// isSetUp reports whether an end has what setUp gives it. What is set again would be news of an interface each time.
func isSetUp(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_NOARP != 0 && a.GSOMaxSegs == wholeSegments
}

// setUp gives an end what it needs to be used. No host and no daemon sends by it.
func setUp(s *netspace.Space, link netlink.Link) error {
	if isSetUp(link.Attrs()) {
		return nil
	}
	const addrGenNone = 1
	// Its first octet must be none of the marks that a frame may carry there, as that of the TAP.
	mac := slices.Clone(link.Attrs().HardwareAddr)
	mac[0] = 0x02
	_ = s.Netlink.LinkSetIP6AddrGenMode(link, addrGenNone) // a kernel without IPv6 refuses
	return errors.Join(
		s.Netlink.LinkSetHardwareAddr(link, mac),
		s.Netlink.LinkSetARPOff(link),
		s.Netlink.LinkSetGSOMaxSegs(link, wholeSegments),
		s.Do(func() error { return takeNoChecksums(link.Attrs().Name) }),
		s.Netlink.LinkSetUp(link),
	)
}

// takeNoChecksums has the kernel finish checksums before an interface, and so cut there as well what claims to be a
// GSO packet of unknown length: one that was decapsulated.
func takeNoChecksums(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	off := struct{ command, value uint32 }{command: unix.ETHTOOL_STXCSUM}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		rest [16]byte
	}{data: unsafe.Pointer(&off)}
	copy(request.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("switching its checksum offload off: %w", errno)
	}
	return nil
}

// Remove removes the pair of a TAP of that name, if there is one.
func Remove(s *netspace.Space, tap string) error {
	link, err := s.Netlink.LinkByName(tap + inSuffix)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil && link.Type() == "veth" {
		err = s.Netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing the interface %s: %w", tap+inSuffix, err)
	}
	return nil
}
