// SPDX-License-Identifier: Apache-2.0

// Datagrams, many with one system call: recvmmsg(2) and sendmmsg(2) told not to wait (MSG_DONTWAIT). Addresses and lengths are in
// memory that is used again for each batch.

package atonce

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// header is struct mmsghdr.
type header struct {
	message unix.Msghdr
	octets  uint32
}

// name has room for the address of a socket of either family.
type name = unix.RawSockaddrInet6

// addressIn is the address in a name, without its zone.
func addressIn(n *name) netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&n.Port))[:])
	switch n.Family {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(n)).Addr), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(n.Addr), port)
	}
	return netip.AddrPort{}
}

// setAddress writes an address into a name and returns its length.
func setAddress(n *name, to netip.AddrPort) (octets uint32) {
	*n = name{Family: unix.AF_INET6}
	octets = uint32(unsafe.Sizeof(*n))
	if a := to.Addr(); a.Is4() {
		n4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		*n4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.As4()}
		octets = uint32(unsafe.Sizeof(*n4))
	} else {
		n.Addr = a.As16()
	}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&n.Port))[:], to.Port()) // in the same place in both
	return octets
}

// Inbox has room for a batch of datagrams that are received.
type Inbox struct {
	headers         []header
	names           []name
	vectors         []unix.Iovec
	octets, control [][]byte
	used            int // headers that the kernel may have written to
}

// NewInbox makes room for so many datagrams, of up to so many octets and octets of control messages each.
func NewInbox(datagrams, octets, control int) *Inbox {
	b := &Inbox{
		headers: make([]header, datagrams), names: make([]name, datagrams), vectors: make([]unix.Iovec, datagrams),
		octets: make([][]byte, datagrams), control: make([][]byte, datagrams), used: datagrams,
	}
	for i := range datagrams {
		b.octets[i], b.control[i] = make([]byte, octets), make([]byte, control)
		b.vectors[i].Base = &b.octets[i][0]
		b.vectors[i].SetLen(octets)
		m := &b.headers[i].message
		m.Iov, m.Control, m.Name = &b.vectors[i], &b.control[i][0], (*byte)(unsafe.Pointer(&b.names[i]))
		m.SetIovlen(1)
	}
	return b
}

// Receive takes what has come to a socket, and returns how many datagrams that are; unix.EAGAIN when none has.
func (b *Inbox) Receive(fd uintptr) (n int, err error) {
	for i := range b.used {
		m := &b.headers[i].message
		m.Namelen = uint32(unsafe.Sizeof(name{}))
		m.SetControllen(len(b.control[i]))
	}
	n, err = result(unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b.headers))), uintptr(len(b.headers)),
		unix.MSG_DONTWAIT, 0, 0))
	// A datagram that fails may have changed its header before that. The kernel wrote to no other header: resetting those would only load
	// them into the processor's cache.
	b.used = min(max(n, 0)+1, len(b.headers))
	return n, err
}

// Datagram returns one of those that Receive took, in memory that the next one overwrites.
func (b *Inbox) Datagram(i int) (octets, control []byte, from netip.AddrPort) {
	h := &b.headers[i]
	return b.octets[i][:h.octets], b.control[i][:h.message.Controllen], addressIn(&b.names[i])
}

// Outbox has room for a batch of datagrams to be sent.
type Outbox struct {
	headers []header
	names   []name
	vectors []unix.Iovec // all that one datagram is put together of follow each other
}

// NewOutbox makes room for so many datagrams.
func NewOutbox(datagrams int) *Outbox {
	return &Outbox{headers: make([]header, 0, datagrams), names: make([]name, datagrams)}
}

// Add puts a datagram behind those that were added before, where there is room for it. Its octets and its control messages must
// not change until Forget. The address is of the family of the socket that it will leave by, and has no zone.
func (b *Outbox) Add(to netip.AddrPort, control []byte, pieces ...[]byte) {
	at := len(b.headers)
	b.headers = append(b.headers, header{})
	m := &b.headers[at].message
	m.Name, m.Namelen = (*byte)(unsafe.Pointer(&b.names[at])), setAddress(&b.names[at], to)
	if len(control) > 0 {
		m.Control = &control[0]
		m.SetControllen(len(control))
	}
	b.addPieces(pieces)
	m.SetIovlen(len(pieces))
}

func (b *Outbox) addPieces(pieces [][]byte) {
	for _, piece := range pieces {
		v := unix.Iovec{Base: unsafe.SliceData(piece)}
		v.SetLen(len(piece))
		b.vectors = append(b.vectors, v)
	}
}

// Send sends from one of those that were added on, and returns how many it sent; unix.EAGAIN when there is no room in the socket's
// buffer for the first one.
func (b *Outbox) Send(fd uintptr, first int) (int, error) {
	b.pointAtPieces()
	batch := b.headers[first:]
	if len(batch) > fewSent {
		return result(unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(batch))), uintptr(len(batch)),
			unix.MSG_DONTWAIT, 0, 0))
	}
	return result(unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(batch))), uintptr(len(batch)),
		unix.MSG_DONTWAIT, 0, 0))
}

// fewSent datagrams leave without the runtime's knowing. Between virtual links the kernel takes a datagram all its way within the call: many
// would hold up the garbage collector when it stops the world.
const fewSent = 4

// pointAtPieces is for when all are added, because vectors may have moved meanwhile.
func (b *Outbox) pointAtPieces() {
	next := 0
	for i := range b.headers {
		m := &b.headers[i].message
		if m.Iovlen > 0 {
			m.Iov = &b.vectors[next]
		}
		next += int(m.Iovlen)
	}
}

// Octets returns a copy of one of those that were added.
func (b *Outbox) Octets(datagram int) (octets []byte) {
	first := 0
	for i := range datagram {
		first += int(b.headers[i].message.Iovlen)
	}
	for _, v := range b.vectors[first:][:b.headers[datagram].message.Iovlen] {
		octets = append(octets, unsafe.Slice(v.Base, v.Len)...)
	}
	return octets
}

// Forget empties it.
func (b *Outbox) Forget() {
	clear(b.headers)
	clear(b.vectors)
	b.headers, b.vectors = b.headers[:0], b.vectors[:0]
}

// result is what a call that is told not to wait returned.
func result(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
