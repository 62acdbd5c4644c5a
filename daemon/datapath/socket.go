// SPDX-License-Identifier: Apache-2.0

package datapath

// A socket that sends echo requests (RFC 792, RFC 4443 s.4) from one own EID, and hears what comes back: echo
// replies, and by the socket's error queue the ICMP errors that quote one of them. It is a raw socket (CAP_NET_RAW),
// or one of those for ping that net.ipv4.ping_group_range allows.

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	icmpHeader   = 8
	icmpPayload  = 56 // of a small check
	solRaw       = 255
	icmpFilter   = 1
	extendedErr  = 16 // octets of struct sock_extended_err
	readAtOnce   = 64
	packetOctets = 2048 // of an answer, as far as it is read

	typeEchoRequest, typeEchoReply   = 8, 0
	typeEchoRequest6, typeEchoReply6 = 128, 129
	typeUnreachable, codeTooBig      = 3, 4
	typeTooBig6                      = 2
)

func headerOctets(to netip.Addr) int {
	if to.Is4() {
		return 20 + icmpHeader
	}
	return 40 + icmpHeader
}

// smallOctets is the length of a small check.
func smallOctets(to netip.Addr) int { return headerOctets(to) + icmpPayload }

// socket sends from one address.
type socket struct {
	file   *os.File
	conn   syscall.RawConn
	source netip.Addr
	raw    bool
	id     uint16
}

// openSocket opens one for an own EID.
func openSocket(source netip.Addr) (*socket, error) {
	s, err := openSocketOf(source, unix.SOCK_RAW)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return openSocketOf(source, unix.SOCK_DGRAM)
	}
	return s, err
}

// openSocketOf opens a raw socket, or one for ping.
func openSocketOf(source netip.Addr, kind int) (*socket, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if source.Is6() {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	s := &socket{source: source, raw: kind == unix.SOCK_RAW}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("echo requests need CAP_NET_RAW, or net.ipv4.ping_group_range: %w", err)
	}
	if err := s.prepare(fd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("echo requests from %s: %w", source, err)
	}
	s.file = os.NewFile(uintptr(fd), "echo")
	if s.conn, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// prepare sets DF, without regard to what this host's kernel knows of the path's MTU, and has ICMP errors kept for us.
func (s *socket) prepare(fd int) error {
	var random [2]byte
	_, _ = rand.Read(random[:])
	s.id = binary.BigEndian.Uint16(random[:])
	if s.source.Is4() {
		if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)); err != nil {
			return err
		}
		if s.raw {
			if err := unix.SetsockoptInt(fd, solRaw, icmpFilter, ^(1 << typeEchoReply)); err != nil {
				return err
			}
		}
		return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: s.source.As4()}), s.takeID(fd))
	}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)); err != nil {
		return err
	}
	if s.raw {
		only := &unix.ICMPv6Filter{}
		for i := range only.Data {
			only.Data[i] = ^uint32(0)
		}
		only.Data[typeEchoReply6>>5] &^= 1 << (typeEchoReply6 & 31)
		if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, only); err != nil {
			return err
		}
	}
	return errors.Join(unix.Bind(fd, &unix.SockaddrInet6{Addr: s.source.As16()}), s.takeID(fd))
}

// takeID takes the identifier that the kernel gave a socket for ping.
func (s *socket) takeID(fd int) error {
	if s.raw {
		return nil
	}
	name, err := unix.Getsockname(fd)
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		s.id = uint16(name.Port)
	case *unix.SockaddrInet6:
		s.id = uint16(name.Port)
	}
	return err
}

// address is the one that it sends from; zero for no socket.
func (s *socket) address() netip.Addr {
	if s == nil {
		return netip.Addr{}
	}
	return s.source
}

func (s *socket) close() { _ = s.file.Close() }

// send sends one echo request.
func (s *socket) send(to netip.Addr, sequence uint16, octets, ttl int) error {
	message := make([]byte, max(octets-headerOctets(to)+icmpHeader, icmpHeader))
	message[0] = typeEchoRequest
	if to.Is6() {
		message[0] = typeEchoRequest6
	}
	binary.BigEndian.PutUint16(message[4:], s.id)
	binary.BigEndian.PutUint16(message[6:], sequence)
	if to.Is4() { // of ICMPv6 the kernel makes it
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	var failed error
	err := s.conn.Control(func(fd uintptr) {
		for range 2 { // the first attempt may find the error of an earlier one
			if failed = sendTo(int(fd), message, to, ttl); failed == nil {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

func sendTo(fd int, message []byte, to netip.Addr, ttl int) error {
	if to.Is4() {
		return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, ttl),
			unix.Sendto(fd, message, 0, &unix.SockaddrInet4{Addr: to.As4()}))
	}
	return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl),
		unix.Sendto(fd, message, 0, &unix.SockaddrInet6{Addr: to.As16()}))
}

// checksum is that of RFC 1071.
func checksum(octets []byte) uint16 {
	var sum uint32
	for i, o := range octets {
		sum += uint32(o) << (8 * (1 - i&1))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// heard is what came back for an echo request.
type heard struct {
	sequence uint16
	kind     Kind
	from     netip.Addr
	octets   int
}

// listen hands over what comes back until the socket is closed.
func (s *socket) listen(take func(heard)) {
	packet, control := make([]byte, packetOctets), make([]byte, 512)
	_ = s.conn.Read(func(fd uintptr) bool {
		for range readAtOnce {
			reply, more := s.readReply(int(fd), packet, take)
			errored := s.readError(int(fd), packet, control, take)
			if !more && !errored {
				return !reply
			}
		}
		return false
	})
}

// readReply reads one packet of the socket.
func (s *socket) readReply(fd int, packet []byte, take func(heard)) (open, more bool) {
	n, from, err := unix.Recvfrom(fd, packet, 0)
	if err != nil { // an error may be that of an echo request, which the queue has as well
		return !errors.Is(err, unix.EBADF), !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBADF)
	}
	message := packet[:n]
	if s.raw && s.source.Is4() && n > 0 {
		message = message[min(int(message[0]&0xf)*4, n):]
	}
	if len(message) >= icmpHeader && message[0] == s.replyType() && binary.BigEndian.Uint16(message[4:]) == s.id {
		take(heard{sequence: binary.BigEndian.Uint16(message[6:]), from: addressOf(from)})
	}
	return true, true
}

func (s *socket) replyType() byte {
	if s.source.Is4() {
		return typeEchoReply
	}
	return typeEchoReply6
}

func addressOf(a unix.Sockaddr) netip.Addr {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.Addr{}
}

// readError reads one ICMP error; false where there is none.
func (s *socket) readError(fd int, packet, control []byte, take func(heard)) bool {
	n, size, _, _, err := unix.Recvmsg(fd, packet, control, unix.MSG_ERRQUEUE)
	if err != nil {
		return false
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil || n < icmpHeader || binary.BigEndian.Uint16(packet[4:]) != s.id {
		return true
	}
	for _, m := range messages {
		isError := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if h, ok := parseError(m.Data); isError && ok {
			h.sequence = binary.BigEndian.Uint16(packet[6:])
			take(h)
		}
	}
	return true
}

// parseError reads a struct sock_extended_err, and the address behind it.
func parseError(data []byte) (h heard, ok bool) {
	if len(data) < extendedErr+8 {
		return h, false
	}
	origin, kind, code := data[4], data[5], data[6]
	address := data[extendedErr:]
	switch {
	case origin == unix.SO_EE_ORIGIN_ICMP:
		h.from = netip.AddrFrom4([4]byte(address[4:8]))
		if kind == typeUnreachable && code == codeTooBig {
			h.kind = TooBig
		}
	case origin == unix.SO_EE_ORIGIN_ICMP6 && len(address) >= 24:
		h.from = netip.AddrFrom16([16]byte(address[8:24])).Unmap()
		if kind == typeTooBig6 {
			h.kind = TooBig
		}
	default:
		return h, false
	}
	if h.kind == TooBig {
		h.octets = int(binary.NativeEndian.Uint32(data[8:]))
	}
	return h, true
}
