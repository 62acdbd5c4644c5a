// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Echo requests (RFC 792, RFC 4443 s.4) from a given address, and what comes back: replies, and ICMP errors about them. It needs the
// right to open raw sockets.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// echoSocket sends echo requests to one address.
type echoSocket struct {
	conn   *icmp.PacketConn
	source netip.Addr
	to     netip.Addr
	id     uint16
	all    []*echo // that were sent: the sequence number is the place
}

// echo is one echo request and what became of it.
type echo struct {
	octets   int // of the IP packet
	ttl      int // 0 for the usual one
	sentAt   time.Time
	answerAt time.Time  // zero without a reply
	error    *echoError // the last one
	unsent   error      // it could not be sent
}

func (e *echo) answered() bool { return !e.answerAt.IsZero() }

// echoError is an ICMP error about an echo request.
type echoError struct {
	from netip.Addr
	what string // as "host unreachable"
	kind errorKind
	mtu  int // of Packet Too Big
}

type errorKind int

const (
	errorUnreachable errorKind = iota
	errorTooBig
	errorExceeded
)

// echoIDs gives each socket of this process an identifier of its own.
var echoIDs atomic.Uint32

func openEcho(source, to netip.Addr) (*echoSocket, error) {
	network := "ip4:icmp"
	if to.Is6() {
		network = "ip6:ipv6-icmp"
	}
	conn, err := icmp.ListenPacket(network, source.String())
	if err != nil {
		return nil, fmt.Errorf("echo requests from %s: %w", source, err)
	}
	s := &echoSocket{conn: conn, source: source, to: to, id: uint16(os.Getpid())<<4 ^ uint16(echoIDs.Add(1))}
	if err := s.doNotFragment(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// doNotFragment sets DF, and has this host's kernel forget what it knows of the path's MTU: packets of any size leave.
func (s *echoSocket) doNotFragment() error {
	var raw interface {
		Control(func(uintptr)) error
	}
	var err error
	if s.to.Is4() {
		raw, err = s.conn.IPv4PacketConn().PacketConn.(*net.IPConn).SyscallConn()
	} else {
		raw, err = s.conn.IPv6PacketConn().PacketConn.(*net.IPConn).SyscallConn()
	}
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		if s.to.Is4() {
			refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
			return
		}
		refused = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	})
	return errors.Join(err, refused)
}

func (s *echoSocket) close() { s.conn.Close() }

// headerOctets are those of IP and ICMP.
func (s *echoSocket) headerOctets() int {
	if s.to.Is4() {
		return ipv4.HeaderLen + 8
	}
	return ipv6.HeaderLen + 8
}

// usualOctets is the length of a usual echo request.
func (s *echoSocket) usualOctets() int { return s.headerOctets() + 56 }

// run sends the echo requests, an interval apart, and waits for the last one. done ends the wait early; nil waits for all. The socket
// ends with the context.
func (s *echoSocket) run(ctx context.Context, list []*echo, interval, timeout time.Duration, done func() bool) error {
	defer context.AfterFunc(ctx, s.close)()
	next := 0
	var until time.Time
	for ctx.Err() == nil {
		now := time.Now()
		if next < len(list) && (next == 0 || !now.Before(list[next-1].sentAt.Add(interval))) {
			s.send(list[next])
			next++
			until = time.Now().Add(timeout)
			continue
		}
		wait := until
		if next < len(list) {
			wait = list[next-1].sentAt.Add(interval)
		} else if !now.Before(until) || s.complete(list) || done != nil && done() {
			return nil
		}
		if err := s.conn.SetReadDeadline(wait); err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		s.hear()
	}
	return ctx.Err()
}

func (s *echoSocket) complete(list []*echo) bool {
	for _, e := range list {
		if !e.answered() && e.unsent == nil {
			return false
		}
	}
	return true
}

func (s *echoSocket) send(e *echo) {
	kind := icmp.Type(ipv4.ICMPTypeEcho)
	if s.to.Is6() {
		kind = ipv6.ICMPTypeEchoRequest
	}
	sequence := len(s.all)
	s.all = append(s.all, e)
	e.sentAt = time.Now()
	message, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: int(s.id), Seq: sequence, Data: make([]byte, max(e.octets-s.headerOctets(), 0))}}).Marshal(nil)
	if err == nil && s.to.Is4() {
		err = s.conn.IPv4PacketConn().SetTTL(ttlOf(e))
	} else if err == nil {
		err = s.conn.IPv6PacketConn().SetHopLimit(ttlOf(e))
	}
	if err == nil {
		_, err = s.conn.WriteTo(message, &net.IPAddr{IP: s.to.AsSlice()})
	}
	e.unsent = err
}

func ttlOf(e *echo) int {
	if e.ttl == 0 {
		return 64
	}
	return e.ttl
}

// hear takes one packet, or none until the deadline.
func (s *echoSocket) hear() {
	packet := make([]byte, 65535)
	n, peer, err := s.conn.ReadFrom(packet)
	if err != nil {
		return
	}
	at := time.Now()
	from, _ := netip.AddrFromSlice(peer.(*net.IPAddr).IP)
	protocol := unix.IPPROTO_ICMP
	if s.to.Is6() {
		protocol = unix.IPPROTO_ICMPV6
	}
	m, err := icmp.ParseMessage(protocol, packet[:n])
	if err != nil {
		return
	}
	switch body := m.Body.(type) {
	case *icmp.Echo:
		isReply := m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply
		if isReply && body.ID == int(s.id) && body.Seq < len(s.all) && from.Unmap() == s.to && !s.all[body.Seq].answered() {
			s.all[body.Seq].answerAt = at
		}
	default:
		s.takeError(from.Unmap(), packet[:n], m)
	}
}

// takeError takes an ICMP error that quotes an echo request of ours.
func (s *echoSocket) takeError(from netip.Addr, packet []byte, m *icmp.Message) {
	const icmpHeader = 8
	if len(packet) < icmpHeader {
		return
	}
	sequence, ok := s.quoted(packet[icmpHeader:])
	if !ok || sequence >= len(s.all) {
		return
	}
	e := &echoError{from: from, what: errorText(m), kind: errorUnreachable}
	switch m.Type {
	case ipv4.ICMPTypeTimeExceeded, ipv6.ICMPTypeTimeExceeded:
		e.kind = errorExceeded
	case ipv6.ICMPTypePacketTooBig:
		e.kind, e.mtu = errorTooBig, int(binary.BigEndian.Uint32(packet[4:]))
	case ipv4.ICMPTypeDestinationUnreachable:
		if m.Code == 4 {
			e.kind, e.mtu = errorTooBig, int(binary.BigEndian.Uint16(packet[6:]))
		}
	}
	s.all[sequence].error = e
}

// quoted finds the sequence number of our echo request in what an error quotes.
func (s *echoSocket) quoted(packet []byte) (sequence int, ok bool) {
	at := ipv6.HeaderLen
	if s.to.Is4() {
		if len(packet) == 0 {
			return 0, false
		}
		at = int(packet[0]&0xf) * 4
	}
	if len(packet) < at+8 {
		return 0, false
	}
	var to netip.Addr
	if s.to.Is4() {
		to = netip.AddrFrom4([4]byte(packet[16:20]))
	} else {
		to = netip.AddrFrom16([16]byte(packet[24:40]))
	}
	return int(binary.BigEndian.Uint16(packet[at+6:])), to == s.to && binary.BigEndian.Uint16(packet[at+4:]) == s.id
}

// unreachable4 and unreachable6 are the codes of Destination Unreachable that are met.
var (
	unreachable4 = map[int]string{0: "network unreachable", 1: "host unreachable", 3: "port unreachable", 4: "packet too big", 9: "filtered", 10: "filtered", 13: "filtered"}
	unreachable6 = map[int]string{0: "no route", 1: "filtered", 3: "address unreachable", 4: "port unreachable", 5: "filtered", 6: "rejected by a route"}
)

func errorText(m *icmp.Message) string {
	switch m.Type {
	case ipv4.ICMPTypeDestinationUnreachable:
		if text, ok := unreachable4[m.Code]; ok {
			return text
		}
	case ipv6.ICMPTypeDestinationUnreachable:
		if text, ok := unreachable6[m.Code]; ok {
			return text
		}
	case ipv6.ICMPTypePacketTooBig:
		return "packet too big"
	case ipv4.ICMPTypeTimeExceeded, ipv6.ICMPTypeTimeExceeded:
		return "time exceeded"
	}
	return fmt.Sprintf("ICMP %v code %d", m.Type, m.Code)
}
