// SPDX-License-Identifier: Apache-2.0

package underlay

// Control messages of datagrams (cmsg(3)): what the outer header shall say, and what it said. They are written into and
// read from memory that is used again.

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// controlOctets has room for all that is sent or received with one datagram.
const controlOctets = 256

var headerOctets = unix.CmsgLen(0)

// appendControl appends a control message.
func appendControl(dst []byte, level, kind int, data []byte) []byte {
	start := len(dst)
	dst = dst[:start+unix.CmsgSpace(len(data))]
	message := dst[start:]
	clear(message)
	putSize(message, unix.CmsgLen(len(data)))
	binary.NativeEndian.PutUint32(message[headerOctets-8:], uint32(level))
	binary.NativeEndian.PutUint32(message[headerOctets-4:], uint32(kind))
	copy(message[headerOctets:], data)
	return dst
}

// putSize writes a size_t.
func putSize(to []byte, n int) {
	if headerOctets-8 == 8 {
		binary.NativeEndian.PutUint64(to, uint64(n))
		return
	}
	binary.NativeEndian.PutUint32(to, uint32(n))
}

func size(from []byte) int {
	if headerOctets-8 == 8 {
		return int(binary.NativeEndian.Uint64(from))
	}
	return int(binary.NativeEndian.Uint32(from))
}

// nextControl takes a message from the front.
func nextControl(control []byte) (level, kind int, data, rest []byte, ok bool) {
	if len(control) < headerOctets {
		return 0, 0, nil, nil, false
	}
	octets := size(control)
	if octets < headerOctets || octets > len(control) {
		return 0, 0, nil, nil, false
	}
	level = int(int32(binary.NativeEndian.Uint32(control[headerOctets-8:])))
	kind = int(int32(binary.NativeEndian.Uint32(control[headerOctets-4:])))
	next := min(unix.CmsgSpace(octets-headerOctets), len(control))
	return level, kind, control[headerOctets:octets], control[next:], true
}

// Marks are what the outer header says beside addresses and ports.
type Marks struct{ TTL, Class uint8 }

// appendMarks appends the messages that give a datagram its source address, TTL, traffic class, and the length of its segments.
func appendMarks(dst []byte, o *Outer) []byte {
	var number [4]byte
	put := func(level, kind int, n uint32) {
		binary.NativeEndian.PutUint32(number[:], n)
		dst = appendControl(dst, level, kind, number[:])
	}
	if o.Source.Is4() {
		var info [12]byte // struct in_pktinfo: ifindex, source, destination
		address := o.Source.As4()
		copy(info[4:], address[:])
		dst = appendControl(dst, unix.IPPROTO_IP, unix.IP_PKTINFO, info[:])
		put(unix.IPPROTO_IP, unix.IP_TTL, uint32(o.TTL))
		put(unix.IPPROTO_IP, unix.IP_TOS, uint32(o.Class))
	} else {
		var info [20]byte // struct in6_pktinfo: source, ifindex
		address := o.Source.As16()
		copy(info[:], address[:])
		dst = appendControl(dst, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info[:])
		put(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, uint32(o.TTL))
		put(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, uint32(o.Class))
	}
	if o.Segment > 0 {
		binary.NativeEndian.PutUint16(number[:], uint16(o.Segment))
		dst = appendControl(dst, unix.IPPROTO_UDP, unix.UDP_SEGMENT, number[:2])
	}
	return dst
}

// readMarks reads what the kernel says of a datagram that came.
func readMarks(d *Train, control []byte) {
	for {
		level, kind, data, rest, ok := nextControl(control)
		if !ok {
			return
		}
		control = rest
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(data) >= 12:
			d.To = netip.AddrFrom4([4]byte(data[8:12]))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= 16:
			d.To = netip.AddrFrom16([16]byte(data[:16]))
		case level == unix.IPPROTO_UDP && kind == unix.UDP_GRO && len(data) >= 4: // an int, unlike UDP_SEGMENT
			d.Segment = int(uint16(binary.NativeEndian.Uint32(data))) // of a datagram of 64 KiB at most
		case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
			d.Class = data[0]
		case level == unix.IPPROTO_IP && kind == unix.IP_TTL && len(data) >= 4:
			d.TTL = uint8(binary.NativeEndian.Uint32(data))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT && len(data) >= 4:
			d.TTL = uint8(binary.NativeEndian.Uint32(data))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
			d.Class = uint8(binary.NativeEndian.Uint32(data))
		}
	}
}
