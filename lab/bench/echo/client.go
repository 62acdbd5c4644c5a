// SPDX-License-Identifier: Apache-2.0

// The clients: one that times round trips, and one that asks as much as the server answers. The calling thread must be in the
// namespace that they ask from.

package echo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	// messageOctets is the length of a Map-Request for one EID in an Encapsulated Control Message.
	messageOctets = 100
	// window is how many messages may be without an answer.
	window = 256
	// patience is how long an answer is waited for: it covers a machine that does much else.
	patience = 3 * time.Second
	// mostLost is how many messages may be lost while round trips are timed: the kernel drops datagrams where
	// others fill its queues.
	mostLost = 3
)

// Question is what a client asks.
type Question struct {
	From  netip.Addr // the zero value lets the kernel choose
	To    netip.AddrPort
	Trips int // round trips that follow each other and are timed together
}

// Trips times round trips, at each interval as many as the question has: a message and its answer. It returns nanoseconds, in their
// order. One that was lost is not among them.
func Trips(ctx context.Context, q Question, interval, length time.Duration) (times []float64, err error) {
	socket, err := q.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	message := make([]byte, messageOctets)
	began, lost, number := time.Now(), 0, uint64(0)
	for due := time.Duration(0); due < length; due += interval {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		testnet.SleepHere(due - time.Since(began))
		sent := time.Now()
		for range q.Trips {
			number++
			if err = roundTrip(socket, message, number); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			times = append(times, float64(time.Since(sent)))
		case !errors.Is(err, unix.EAGAIN):
			return nil, err
		case lost == mostLost:
			return nil, fmt.Errorf("%d messages to the echo server were lost", lost+1)
		default:
			lost++
			due = time.Since(began).Truncate(interval) // what was due meanwhile is left out
		}
	}
	return times, nil
}

// open makes a socket that gives up waiting.
func (q Question) open() (socket int, err error) {
	family, to := testnet.SocketAddress(q.To)
	if socket, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	if err == nil && q.From.IsValid() {
		_, from := testnet.SocketAddress(netip.AddrPortFrom(q.From, 0))
		err = unix.Bind(socket, from)
	}
	if err == nil {
		err = unix.Connect(socket, to)
	}
	if err != nil {
		_ = unix.Close(socket)
	}
	return socket, err
}

// roundTrip sends a message with a number and waits for its answer. Late answers to others do not count.
func roundTrip(socket int, message []byte, number uint64) error {
	binary.BigEndian.PutUint64(message, number)
	if _, err := unix.Write(socket, message); err != nil {
		return fmt.Errorf("ask the echo server: %w", err)
	}
	for {
		_, err := unix.Read(socket, message)
		if errors.Is(err, unix.EINTR) || err == nil && binary.BigEndian.Uint64(message) != number {
			continue
		}
		return err
	}
}

// Rate is how many messages a second the server answers when many are under way.
func Rate(ctx context.Context, server netip.AddrPort, length time.Duration) (perSecond float64, err error) {
	conn, err := (&net.ListenConfig{Control: widenBuffers}).ListenPacket(ctx, "udp4", ":0")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	socket := ipv4.NewPacketConn(conn)
	questions, answers := make([]ipv4.Message, batch), make([]ipv4.Message, batch)
	for i := range questions {
		questions[i] = ipv4.Message{Buffers: [][]byte{make([]byte, messageOctets)}, Addr: net.UDPAddrFromAddrPort(server)}
		answers[i].Buffers = [][]byte{make([]byte, datagramOctets)}
	}
	began := time.Now()
	answered, waiting := 0, 0
	for time.Since(began) < length && ctx.Err() == nil {
		for waiting+batch <= window {
			if err := writeAll(socket, questions); err != nil {
				return 0, err
			}
			waiting += batch
		}
		n, err := readSome(conn, socket, answers)
		if err != nil {
			return 0, err
		}
		answered += n
		waiting -= n
	}
	return float64(answered) / time.Since(began).Seconds(), ctx.Err()
}

// readSome waits for answers. It is an error when none comes, as what is lost is not asked for again.
func readSome(conn net.PacketConn, socket *ipv4.PacketConn, answers []ipv4.Message) (int, error) {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := socket.ReadBatch(answers, 0)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, errors.New("the echo server answers no more")
	}
	return n, err
}
