// SPDX-License-Identifier: Apache-2.0

package user

// A sender that hands the kernel trains of datagrams (UDP_SEGMENT), as QUIC servers do, and a receiver that takes them joined
// (UDP_GRO). A TUN with offloads carries such a train whole.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/lab/bench/testbed"
)

const (
	trainDatagrams = 32
	trainPort      = 5001
	// trainPacket is the length of each IP packet.
	trainPacket   = 1388
	trainInterval = time.Millisecond
	// trainPatience is how long the receiver waits for the next datagram after the last one was sent.
	trainPatience = 300 * time.Millisecond
	queueOctets   = 32 << 20
)

type trains struct {
	line *testbed.Line
	pair testbed.Pair
}

// payload is what a datagram carries.
func (t trains) payload() int {
	if t.pair.Inner4() {
		return trainPacket - testbed.IPv4Octets - udpOctets
	}
	return trainPacket - testbed.IPv6Octets - udpOctets
}

func (t trains) offer(ctx context.Context, rate float64, length time.Duration) (o testbed.Outcome, err error) {
	to := netip.AddrPortFrom(t.pair.Destination(), trainPort)
	in, err := t.line.Dst.ListenUDP(to)
	if err != nil {
		return o, err
	}
	defer in.Close()
	if err := setUDP(in, unix.SO_RCVBUFFORCE, queueOctets, unix.UDP_GRO, 1); err != nil {
		return o, err
	}
	out, err := t.line.Src.DialUDP(netip.AddrPortFrom(t.pair.Source(), 0), to)
	if err != nil {
		return o, err
	}
	defer out.Close()
	if err := setUDP(out, unix.SO_SNDBUFFORCE, queueOctets, unix.UDP_SEGMENT, t.payload()); err != nil {
		return o, err
	}
	received := make(chan uint64, 1)
	go func() { received <- countDatagrams(in, t.payload()) }()
	began := time.Now()
	sent, err := t.send(ctx, out, rate, length)
	elapsed := time.Since(began)
	_ = in.SetReadDeadline(time.Now().Add(trainPatience))
	return testbed.OutcomeOf(sent, min(<-received, sent), elapsed), err
}

// send sends what is due at each interval, in whole trains.
func (t trains) send(ctx context.Context, out *net.UDPConn, rate float64, length time.Duration) (sent uint64, err error) {
	memory := make([]byte, trainDatagrams*t.payload())
	began := time.Now()
	for elapsed := time.Duration(0); elapsed < length; elapsed = time.Since(began) {
		for due := rate * (elapsed + trainInterval).Seconds(); float64(sent+trainDatagrams) <= due; sent += trainDatagrams {
			if _, err := out.Write(memory); err != nil && !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ECONNREFUSED) {
				return sent, err
			}
			if time.Since(began) >= length {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		time.Sleep(time.Until(began.Add(elapsed.Truncate(trainInterval) + trainInterval)))
	}
	return sent, nil
}

// countDatagrams counts until a deadline has passed.
func countDatagrams(in *net.UDPConn, payload int) (count uint64) {
	memory := make([]byte, 1<<16)
	for {
		n, err := in.Read(memory)
		count += uint64(n / payload)
		if err != nil {
			return count // the deadline, for the most part: what is missing is lost
		}
	}
}

func setUDP(conn syscall.Conn, buffer, octets, name, value int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, buffer, octets), unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, name, value))
	})
	return errors.Join(err, set)
}
