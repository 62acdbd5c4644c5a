// SPDX-License-Identifier: Apache-2.0

package faults

// What hosts send, and what arrives where.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	port      = 7777
	sendEvery = 20 * time.Millisecond
	small     = 64   // octets of a datagram, which any MTU carries
	large     = 1350 // octets of every largeEach-th: with two headers more than the smaller MTU carries
	largeEach = 5
	marker    = 0x4c4f4349
	header    = 12 // of a datagram: marker, stream, number
	// receiveBuffer of a host, in octets, holds more than all send to it within the longest fault.
	receiveBuffer = 16 << 20
)

// A stream is what one host sends to another one by one family. Numbers count its datagrams.
type stream struct {
	from, to    int
	source      netip.Addr
	destination netip.Addr

	mu      sync.Mutex
	sent    []time.Duration // by number: when, since the beginning of the run
	arrived []time.Duration // by number: 0 for never
}

func isLarge(number int) bool { return number%largeEach == largeEach-1 }

// octetsOf is the length of a datagram.
func octetsOf(number int) int {
	if isLarge(number) {
		return large
	}
	return small
}

func streams(sites int) (list []*stream) {
	for from := range sites {
		for to := range sites {
			if from != to {
				list = append(list, &stream{from: from, to: to, source: host4(from), destination: host4(to)},
					&stream{from: from, to: to, source: host6(from), destination: host6(to)})
			}
		}
	}
	return list
}

// traffic is all streams, while they run.
type traffic struct {
	begun   time.Time
	streams []*stream
	sockets map[netip.Addr]*net.UDPConn // by the address of a host
	sending sync.WaitGroup
	reading sync.WaitGroup
	latest  atomic.Int64 // nanoseconds since the beginning, when the last datagram arrived

	mu    sync.Mutex
	wrong []Wrong
}

// Wrong is a datagram that reached a host otherwise than it was sent: another host, twice, with another length; or no
// host here sent it.
type Wrong struct {
	At     time.Duration // since the beginning
	Host   netip.Addr
	Sender netip.Addr
	What   string
}

// What is wrong with a datagram.
const (
	foreign   = "no datagram of a host here"
	unsent    = "not sent by it to this host"
	otherSize = "another length than it was sent with"
	again     = "a second copy"
)

func newTraffic(at map[string]*testnet.Namespace, sites int) (*traffic, error) {
	t := &traffic{begun: time.Now(), streams: streams(sites), sockets: map[netip.Addr]*net.UDPConn{}}
	for site := range sites {
		for _, address := range []netip.Addr{host4(site), host6(site)} {
			err := at[hostName(site)].Do(func() (err error) {
				t.sockets[address], err = listen(address)
				return err
			})
			if err != nil {
				return nil, errors.Join(err, t.close())
			}
		}
	}
	return t, nil
}

// listen opens a host's socket. What a router held while it was frozen arrives at once, and a host that lost of it
// would be taken for a router that did.
func listen(address netip.Addr) (*net.UDPConn, error) {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, port)))
	if err != nil {
		return nil, err
	}
	raw, err := socket.SyscallConn()
	if err == nil {
		controlled := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
		})
		err = errors.Join(err, controlled)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("receive buffer of %s: %w", address, err), socket.Close())
	}
	return socket, nil
}

// awaitQuiet waits until what was sent has arrived, as far as it does: a machine under load takes its time.
func (t *traffic) awaitQuiet() {
	for begun := time.Now(); time.Since(begun) < longestDrain; time.Sleep(drain / 10) {
		last := t.begun.Add(time.Duration(t.latest.Load()))
		if time.Since(begun) >= drain && time.Since(last) >= drain {
			return
		}
	}
}

// start has all hosts send until the context ends, and read until close.
func (t *traffic) start(ctx context.Context) {
	for address, socket := range t.sockets {
		t.reading.Go(func() { t.read(address, socket) })
		t.sending.Go(func() { t.send(ctx, address, socket) })
	}
}

func (t *traffic) close() error {
	var errs []error
	for _, socket := range t.sockets {
		errs = append(errs, socket.Close())
	}
	t.reading.Wait()
	return errors.Join(errs...)
}

// send sends the next datagram of each stream of an address at each tick. What the host's kernel refuses counts as
// lost.
func (t *traffic) send(ctx context.Context, address netip.Addr, socket *net.UDPConn) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	datagram := make([]byte, large)
	for {
		for i, s := range t.streams {
			if s.source != address {
				continue
			}
			number := s.sendNext(time.Since(t.begun))
			binary.BigEndian.PutUint32(datagram, marker)
			binary.BigEndian.PutUint32(datagram[4:], uint32(i))
			binary.BigEndian.PutUint32(datagram[8:], uint32(number))
			_, _ = socket.WriteToUDPAddrPort(datagram[:octetsOf(number)], netip.AddrPortFrom(s.destination, port))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (t *traffic) read(address netip.Addr, socket *net.UDPConn) {
	datagram := make([]byte, mtu)
	for {
		octets, from, err := socket.ReadFromUDPAddrPort(datagram)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about what was sent
		}
		if wrong := t.take(datagram[:octets], address, from.Addr().Unmap()); wrong != "" {
			t.note(Wrong{time.Since(t.begun), address, from.Addr().Unmap(), wrong})
		}
	}
}

func (t *traffic) note(wrong Wrong) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, wrong)
}

// allWrong is what was wrong until now.
func (t *traffic) allWrong() []Wrong {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrong
}

// take notes that a datagram arrived, or says what is wrong with it.
func (t *traffic) take(datagram []byte, at, from netip.Addr) (wrong string) {
	if len(datagram) < header || binary.BigEndian.Uint32(datagram) != marker {
		return foreign
	}
	index, number := binary.BigEndian.Uint32(datagram[4:]), int(binary.BigEndian.Uint32(datagram[8:]))
	if int(index) >= len(t.streams) {
		return foreign
	}
	now := max(time.Since(t.begun), 1)
	t.latest.Store(int64(now))
	return t.streams[index].arrive(number, len(datagram), at, from, now)
}

// sendNext notes when the next datagram is sent, and returns its number.
func (s *stream) sendNext(when time.Duration) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.arrived = append(s.sent, when), append(s.arrived, 0)
	return len(s.sent) - 1
}

// arrive notes when a datagram arrived, or says what is wrong with it.
func (s *stream) arrive(number, octets int, at, from netip.Addr, when time.Duration) (wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.destination != at || s.source != from || number >= len(s.sent):
		return unsent
	case octets != octetsOf(number):
		return otherSize
	case s.arrived[number] != 0:
		return again
	}
	s.arrived[number] = when
	return ""
}

// all reports whether each stream had a datagram arrive that was sent after a moment.
func (t *traffic) all(after time.Duration) bool {
	for _, s := range t.streams {
		if !s.hasArrivedSince(after) {
			return false
		}
	}
	return true
}

func (s *stream) hasArrivedSince(after time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := len(s.sent) - 1; number >= 0 && s.sent[number] >= after; number-- {
		if s.arrived[number] != 0 {
			return true
		}
	}
	return false
}
