// SPDX-License-Identifier: Apache-2.0

// UDP sockets inside namespaces, and numbered datagrams that show loss and reordering.
// A datagram never carries more than maxDatagramOctets of payload; a stream never exceeds maxDatagrams.

package testnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxDatagrams      = 1_000_000
	maxDatagramOctets = 65_507
	minDatagramOctets = 16
	receiveQueueBytes = 32 << 20
)

// ListenUDP opens a UDP socket in the namespace. Port 0 lets the kernel choose.
func (ns *Namespace) ListenUDP(local netip.AddrPort) (conn *net.UDPConn, err error) {
	err = ns.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("testnet: UDP on %s in %s: %w", local, ns.name, err)
	}
	return conn, nil
}

// DialUDP opens a connected UDP socket in the namespace. A zero local lets the kernel choose.
func (ns *Namespace) DialUDP(local, remote netip.AddrPort) (conn *net.UDPConn, err error) {
	var from *net.UDPAddr
	if local.IsValid() {
		from = net.UDPAddrFromAddrPort(local)
	}
	err = ns.Do(func() (err error) {
		conn, err = net.DialUDP("udp", from, net.UDPAddrFromAddrPort(remote))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("testnet: UDP from %s to %s in %s: %w", local, remote, ns.name, err)
	}
	return conn, nil
}

// UDP is a stream of numbered datagrams of one flow.
type UDP struct {
	Sender, Receiver    *Namespace
	Source, Destination netip.AddrPort // zero ports and a zero Source are chosen by the kernel
	Count               int
	Octets              int           // of payload, at least 16; 0 means 64
	Interval            time.Duration // between two datagrams; 0 sends as fast as it goes
	Timeout             time.Duration // to wait after the last one; 0 means 1 s
}

// UDPResult is what arrived.
type UDPResult struct {
	Sent       int
	Received   int // different ones
	Lost       int
	Reordered  int // that arrived after one with a higher number
	Duplicates int
	Order      []int // the numbers as they arrived, duplicates included
}

// Run sends the stream and collects it. Loss is in the result, not an error.
func (u UDP) Run(ctx context.Context) (UDPResult, error) {
	if u.Octets == 0 {
		u.Octets = 64
	}
	if u.Count < 1 || u.Count > maxDatagrams || u.Octets < minDatagramOctets || u.Octets > maxDatagramOctets {
		return UDPResult{}, fmt.Errorf("testnet: UDP stream of %d datagrams of %d octets is out of bounds", u.Count, u.Octets)
	}
	if u.Timeout == 0 {
		u.Timeout = defaultTimeout
	}
	in, err := u.Receiver.ListenUDP(u.Destination)
	if err != nil {
		return UDPResult{}, err
	}
	defer in.Close()
	if err := enlargeQueue(in); err != nil {
		return UDPResult{}, err
	}
	port := in.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	out, err := u.Sender.DialUDP(u.Source, netip.AddrPortFrom(u.Destination.Addr(), port))
	if err != nil {
		return UDPResult{}, err
	}
	defer out.Close()
	return u.exchange(ctx, in, out)
}

func (u UDP) exchange(ctx context.Context, in, out *net.UDPConn) (UDPResult, error) {
	token := uint64(time.Now().UnixNano())
	type sending struct {
		sent int
		err  error
	}
	stop := context.AfterFunc(ctx, func() { in.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	done := make(chan sending, 1)
	go func() {
		sent, err := u.send(ctx, out, token)
		if ctx.Err() == nil {
			in.SetReadDeadline(time.Now().Add(u.Timeout))
		}
		done <- sending{sent, err}
	}()
	result, err := u.receive(in, token)
	s := <-done
	result.Sent, result.Lost = s.sent, s.sent-result.Received
	return result, errors.Join(ctx.Err(), err, s.err)
}

func (u UDP) send(ctx context.Context, out *net.UDPConn, token uint64) (int, error) {
	payload := pattern(u.Octets)
	binary.BigEndian.PutUint64(payload, token)
	begin := time.Now()
	for i := range u.Count {
		if u.Interval > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * u.Interval)))
		}
		if err := ctx.Err(); err != nil {
			return i, err
		}
		binary.BigEndian.PutUint64(payload[8:], uint64(i))
		if _, err := out.Write(payload); err != nil {
			return i, fmt.Errorf("testnet: UDP datagram %d: %w", i, err)
		}
	}
	return u.Count, nil
}

func (u UDP) receive(in *net.UDPConn, token uint64) (UDPResult, error) {
	var result UDPResult
	seen := make([]bool, u.Count)
	highest := -1
	buffer := make([]byte, maxDatagramOctets+1)
	for result.Received < u.Count {
		n, err := in.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return result, nil
		}
		if err != nil {
			return result, fmt.Errorf("testnet: UDP: %w", err)
		}
		if n != u.Octets || binary.BigEndian.Uint64(buffer) != token {
			continue // not of this stream
		}
		number := binary.BigEndian.Uint64(buffer[8:])
		if number >= uint64(u.Count) {
			continue
		}
		result.take(int(number), seen, &highest)
	}
	return result, nil
}

func (r *UDPResult) take(number int, seen []bool, highest *int) {
	r.Order = append(r.Order, number)
	if seen[number] {
		r.Duplicates++
		return
	}
	seen[number] = true
	r.Received++
	if number < *highest {
		r.Reordered++
		return
	}
	*highest = number
}

// enlargeQueue keeps the receiver from losing what the network delivered.
func enlargeQueue(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveQueueBytes)
	})
	return errors.Join(err, set)
}
