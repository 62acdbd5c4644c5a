// SPDX-License-Identifier: Apache-2.0

package main

// The sockets and the clock of loci lig (RFC 6835); control.Lig is the protocol. It
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

// ligTry tells the caller of lig about each request sent.
type ligTry func(number int, resolver netip.AddrPort)

// maxDatagramOctets is the largest UDP payload there is.
const maxDatagramOctets = 65535

// errNoAnswer says that no try was answered.
var errNoAnswer = errors.New("no Map-Reply")

// lig sends up to count Map-Requests for q, timeout apart, until one is answered.
// q.Local is filled in: the address from which the Map-Resolver is reached.
func lig(ctx context.Context, q control.LigQuery, count int, timeout time.Duration, try ligTry) (control.LigAnswer, error) {
	conn, err := ligSocket(q.Resolver)
	if err != nil {
		return control.LigAnswer{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	q.Local = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	exchange, err := control.NewLig(q, func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		return control.LigAnswer{}, err
	}
	last := errNoAnswer
	for number := 1; number <= count && ctx.Err() == nil; number++ {
		try(number, q.Resolver)
		answer, err := ligOnce(conn, exchange, q.Resolver, timeout)
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

func ligOnce(conn *net.UDPConn, exchange *control.Lig, resolver netip.AddrPort, timeout time.Duration) (control.LigAnswer, error) {
	now := time.Now()
	request, err := exchange.Request(now)
	if err != nil {
		return control.LigAnswer{}, err
	}
	if _, err := conn.WriteToUDPAddrPort(request, resolver); err != nil {
		return control.LigAnswer{}, err
	}
	if err := conn.SetReadDeadline(now.Add(timeout)); err != nil {
		return control.LigAnswer{}, err
	}
	last := errNoAnswer
	buffer := make([]byte, maxDatagramOctets)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return control.LigAnswer{}, last
		}
		answer, ours, err := exchange.Handle(time.Now(), netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port()), buffer[:n])
		if ours && err == nil {
			return answer, nil
		}
		last = fmt.Errorf("%w (%v)", errNoAnswer, err)
	}
}
