// SPDX-License-Identifier: Apache-2.0

// The data plane of `loci bench mapsock`, which has no control plane but the bench.

package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"loci/lab/bench/testbed"
	"loci/mapsock"
)

const (
	// dumpedMappings fill the map-cache for the dump.
	dumpedMappings = 1_000_000
	// clientThreads are what writer, listeners and the client that dumps need, and one more.
	clientThreads = 4
)

// mapsockPlane is the data plane and what was done to it.
type mapsockPlane struct {
	socket string
	daemon int          // its process
	packet *net.UDPConn // in src
	next   uint32       // destination of the next miss
	filled bool
}

func (p *mapsockPlane) build(ctx context.Context, b *testbed.Run, l *testbed.Line) (err error) {
	// Each client waits in a system call of its own. While others are left, Go's runtime does not take their processors
	// away from clients that wait, which would cost them more than the message.
	before := runtime.GOMAXPROCS(max(clientThreads, runtime.NumCPU()))
	l.Closers = append(l.Closers, func() error { runtime.GOMAXPROCS(before); return nil })
	p.socket = b.Instance.Path("map.sock")
	if err := p.start(ctx, b, l); err != nil {
		return err
	}
	err = l.Src.Do(func() (err error) {
		p.packet, err = net.ListenUDP("udp4", &net.UDPAddr{IP: testbed.Pairs[0].Source().AsSlice()})
		return err
	})
	if err != nil {
		return err
	}
	l.Closers = append(l.Closers, p.packet.Close)
	c, err := dialMapsock(p.socket)
	if err != nil {
		return err
	}
	defer c.close()
	own := addOf(testbed.Pairs[0].Sources, testbed.Core4Enc.Addr())
	own.Flags |= mapsock.FlagDatabase
	return c.ask(&own)
}

// start starts a data plane alone, which has no control socket to be asked by.
func (p *mapsockPlane) start(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
	configuration := fmt.Sprintf("interfaces: {site: [%s], core: [%s]}\nitr: {map-resolvers: [%s], map-cache: {limit: %d}}\n"+
		"datapath:\n  pin-directory: %s/%s\n  mapping-socket: {path: %s}\nlogging: {level: warn}\n",
		testbed.SiteLink, testbed.CoreLink, testbed.Core4Dec.Addr(), dumpedMappings*5/4, b.Instance.Pins(), l.Enc.Role(), p.socket)
	d, err := b.Launch(ctx, l.Enc, configuration, p.answers, "--planes", "data")
	if err != nil {
		return err
	}
	p.daemon = d.PID()
	return nil
}

// answers reports whether the mapping socket is open.
func (p *mapsockPlane) answers() bool {
	c, err := dialMapsock(p.socket)
	if err != nil {
		return false
	}
	defer c.close()
	return c.ask(&mapsock.Message{Type: mapsock.TypeGetSettings}) == nil
}

// missedPacket is a packet to an EID without mapping.
type missedPacket struct {
	to netip.Addr
	at time.Time
}

func (p *mapsockPlane) miss() (missedPacket, error) {
	sent := missedPacket{to: host(mapsockMissed, p.next), at: time.Now()}
	p.next++
	_, err := p.packet.WriteToUDPAddrPort([]byte("miss"), netip.AddrPortFrom(sent.to, 9))
	return sent, err
}
