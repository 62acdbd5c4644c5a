// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Map-Requests to Map-Resolvers (RFC 6835), and RLOC-probes to locators (RFC 9301 s.7.1), each from a socket of its own; control.Lig is
// the protocol. It needs no running daemon.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
)

// maxDatagramOctets is the largest UDP payload there is.
const maxDatagramOctets = 65535

// ErrNoAnswer says that no try was answered.
var ErrNoAnswer = errors.New("no Map-Reply")

// Try tells of each request that is sent.
type Try func(number int, to netip.AddrPort)

// Ask sends up to count Map-Requests for q to its Map-Resolver, timeout apart, until one is answered. q.Local is filled in: the
// address from which the Map-Resolver is reached.
func Ask(ctx context.Context, q control.LigQuery, count int, timeout time.Duration, try Try) (control.LigAnswer, error) {
	return exchange(ctx, q, tries{count, timeout, try}, (*control.Lig).Request)
}

// Probe sends up to count RLOC-probes to a locator instead, which is q.Resolver. Where q.Local has an address, they come from there.
func Probe(ctx context.Context, q control.LigQuery, count int, timeout time.Duration) (control.LigAnswer, error) {
	return exchange(ctx, q, tries{count, timeout, func(int, netip.AddrPort) {}}, (*control.Lig).Probe)
}

// tries say how often something is asked, timeout apart.
type tries struct {
	count   int
	timeout time.Duration
	tell    Try
}

func exchange(ctx context.Context, q control.LigQuery, t tries, next func(*control.Lig, time.Time) ([]byte, error)) (control.LigAnswer, error) {
	conn, err := controlSocket(q.Local.Addr(), q.Resolver)
	if err != nil {
		return control.LigAnswer{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	q.Local = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	lig, err := control.NewLig(q, func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		return control.LigAnswer{}, err
	}
	last := ErrNoAnswer
	for number := 1; number <= t.count && ctx.Err() == nil; number++ {
		t.tell(number, q.Resolver)
		now := time.Now()
		request, err := next(lig, now)
		if err != nil {
			return control.LigAnswer{}, err
		}
		answer, err := once(conn, lig, request, q.Resolver, now.Add(t.timeout))
		if err == nil {
			return answer, nil
		}
		last = err
	}
	if ctx.Err() != nil {
		return control.LigAnswer{}, ctx.Err()
	}
	return control.LigAnswer{}, fmt.Errorf("%s asked %d times: %w", q.Resolver, t.count, last)
}

// controlSocket is bound to an address, or to the one that routing picks towards the peer, without a fixed peer: the answer comes
// from an ETR as well. ICMP errors about what it sends are its errors.
func controlSocket(from netip.Addr, to netip.AddrPort) (*net.UDPConn, error) {
	local := &net.UDPAddr{IP: from.AsSlice(), Zone: from.Zone()}
	if !from.IsValid() {
		route, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return nil, fmt.Errorf("no way to %s: %w", to, err)
		}
		local = &net.UDPAddr{IP: route.LocalAddr().(*net.UDPAddr).IP, Zone: route.LocalAddr().(*net.UDPAddr).Zone}
		route.Close()
	}
	conn, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { hearErrors(int(fd), to.Addr().Is4()) })
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// hearErrors has ICMP errors reported; without it the wait for an answer just takes longer.
func hearErrors(fd int, is4 bool) {
	if is4 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		return
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
}

// once sends a request and waits for its answer. An ICMP error is remembered, and not believed: an answer may come all the same.
func once(conn *net.UDPConn, lig *control.Lig, request []byte, to netip.AddrPort, until time.Time) (control.LigAnswer, error) {
	if _, err := conn.WriteToUDPAddrPort(request, to); err != nil {
		return control.LigAnswer{}, fmt.Errorf("%w (%w)", ErrNoAnswer, err)
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return control.LigAnswer{}, err
	}
	last := ErrNoAnswer
	buffer := make([]byte, maxDatagramOctets)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		var icmp syscall.Errno
		switch {
		case errors.As(err, &icmp):
			last = fmt.Errorf("%w (%w)", ErrNoAnswer, icmp)
			continue
		case err != nil:
			return control.LigAnswer{}, last
		}
		answer, ours, err := lig.Handle(time.Now(), netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port()), buffer[:n])
		if ours && err == nil {
			return answer, nil
		}
		last = fmt.Errorf("%w (%v)", ErrNoAnswer, err)
	}
}
