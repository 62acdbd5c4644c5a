// SPDX-License-Identifier: Apache-2.0

package underlay

// ICMP errors about datagrams that left, as the kernel tells them to the sockets that sent them (ip(7), IP_RECVERR).

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// PathError is an ICMP error about a datagram.
type PathError struct {
	To         netip.AddrPort // where the datagram went
	Type, Code uint8          // of ICMPv4 or ICMPv6, after the family of To
	MTU        int            // of Packet Too Big
	Ported     bool           // the datagram left from a source port that all flows leave from
}

const (
	icmpv4Unreachable         = 3
	icmpv4FragmentationNeeded = 4
	icmpv6Unreachable         = 1
)

// Unreachable reports whether the error says that the destination is not reached.
func (p *PathError) Unreachable() bool {
	if p.To.Addr().Is4() {
		return p.Type == icmpv4Unreachable && p.Code != icmpv4FragmentationNeeded
	}
	return p.Type == icmpv6Unreachable
}

// Errors tells of ICMP errors until the pool is closed, from goroutines that it adds to running.
func (p *Pool) Errors(running *sync.WaitGroup, tell func(PathError)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.tell = running, tell
	p.listen(p.sockets)
	for _, s := range p.bound.Load().sockets {
		p.listen(s)
	}
}

// listen begins to tell of errors at sockets. The caller holds mu.
func (p *Pool) listen(to sockets) {
	if p.tell == nil {
		return // until Errors
	}
	tell := p.tell
	for _, s := range slices.Concat(to.four, to.six) {
		p.running.Go(func() { s.errors(tell) })
	}
}

func (s *socket) errors(tell func(PathError)) {
	control, datagram := make([]byte, controlOctets), make([]byte, 1)
	for {
		var e PathError
		told := false
		err := s.file.Read(func(fd uintptr) bool {
			var err error
			if e, told, err = takeError(int(fd), datagram, control); err != nil {
				// What is sent to this port is not LISP's.
				_, _, _, _, err = unix.Recvmsg(int(fd), datagram, nil, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
				return !errors.Is(err, unix.EAGAIN)
			}
			return true
		})
		if told { // now: who is told may close the file, which waits for that use of it
			tell(e)
		}
		if IsClosed(err) {
			return
		}
	}
}

// takeError takes an error from a socket's queue; EAGAIN where it is empty. told says that ICMP caused it.
func takeError(fd int, datagram, control []byte) (e PathError, told bool, err error) {
	_, n, _, to, err := unix.Recvmsg(fd, datagram, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return e, false, err
	}
	e, told = readError(control[:n])
	e.To = addressOf(to)
	return e, told, nil
}

// readError reads a struct sock_extended_err that ICMP caused.
func readError(control []byte) (e PathError, ok bool) {
	for {
		level, kind, data, rest, more := nextControl(control)
		if !more {
			return e, ok
		}
		control = rest
		isError := level == unix.IPPROTO_IP && kind == unix.IP_RECVERR || level == unix.IPPROTO_IPV6 && kind == unix.IPV6_RECVERR
		if !isError || len(data) < 16 || data[4] != unix.SO_EE_ORIGIN_ICMP && data[4] != unix.SO_EE_ORIGIN_ICMP6 {
			continue
		}
		e.Type, e.Code, e.MTU, ok = data[5], data[6], int(binary.NativeEndian.Uint32(data[8:])), true
	}
}

func addressOf(to unix.Sockaddr) netip.AddrPort {
	switch a := to.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}
