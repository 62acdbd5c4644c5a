// SPDX-License-Identifier: Apache-2.0

package daemon

// The sockets and the clock of lig (RFC 6835); control.Lig is the protocol. It
// needs no running daemon.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"loci/control"
)

// LigTry tells the caller of Lig about each request sent.
type LigTry func(number int, resolver netip.AddrPort)

// ErrNoAnswer says that no try was answered.
var ErrNoAnswer = errors.New("no Map-Reply")

// Lig sends up to count Map-Requests for q, timeout apart, until one is answered.
// q.Local is filled in: the address from which the Map-Resolver is reached.
func Lig(ctx context.Context, q control.LigQuery, count int, timeout time.Duration, try LigTry) (control.LigAnswer, error) {
	conn, err := ligSocket(q.Resolver)
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
	for number := 1; number <= count && ctx.Err() == nil; number++ {
		try(number, q.Resolver)
		answer, err := ligOnce(conn, lig, q.Resolver, timeout)
		if err == nil {
			return answer, nil
		}
		last = err
	}
	if ctx.Err() != nil {
		return control.LigAnswer{}, ctx.Err()
	}
	return control.LigAnswer{}, fmt.Errorf("%s asked %d times: %w", q.Resolver, count, last)
}

// ligSocket is bound to the address that routing picks towards the resolver,
// without a fixed peer: the answer comes from an ETR as well.
func ligSocket(resolver netip.AddrPort) (*net.UDPConn, error) {
	probe, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(resolver))
	if err != nil {
		return nil, fmt.Errorf("Map-Resolver %s: %w", resolver, err)
	}
	local := probe.LocalAddr().(*net.UDPAddr)
	probe.Close()
	return net.ListenUDP("udp", &net.UDPAddr{IP: local.IP, Zone: local.Zone})
}

func ligOnce(conn *net.UDPConn, lig *control.Lig, resolver netip.AddrPort, timeout time.Duration) (control.LigAnswer, error) {
	now := time.Now()
	request, err := lig.Request(now)
	if err != nil {
		return control.LigAnswer{}, err
	}
	if _, err := conn.WriteToUDPAddrPort(request, resolver); err != nil {
		return control.LigAnswer{}, err
	}
	if err := conn.SetReadDeadline(now.Add(timeout)); err != nil {
		return control.LigAnswer{}, err
	}
	last := ErrNoAnswer
	buffer := make([]byte, maxDatagramOctets)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return control.LigAnswer{}, last
		}
		answer, ours, err := lig.Handle(time.Now(), unmap(from), buffer[:n])
		if ours && err == nil {
			return answer, nil
		}
		last = fmt.Errorf("%w (%v)", ErrNoAnswer, err)
	}
}
