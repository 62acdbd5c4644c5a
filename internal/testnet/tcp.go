// SPDX-License-Identifier: Apache-2.0

// TCP transfers between two namespaces, in bytes or in time, measured where they arrive (RFC 9293).
// They never use MPTCP, which Go offers by default, and never the kernel's default congestion control, which differs
// between machines.

package testnet

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tcpChunkOctets   = 256 << 10
	tcpSetupTimeout  = 10 * time.Second
	defaultTransport = "cubic"
)

// TCP says what to transfer between which addresses.
type TCP struct {
	Client, Server      *Namespace
	Source, Destination netip.Addr // the client's and the server's; a zero Source lets the kernel choose
	Port                uint16     // of the server; 0 lets the kernel choose

	Duration time.Duration // how long to send; used when Octets is 0
	Octets   int64         // how much to send
	Verify   bool          // compare checksums of what was sent and what arrived

	CongestionControl string        // empty means cubic
	Timeout           time.Duration // of the whole transfer; 0 means 10 s more than Duration
}

// TCPResult is a finished transfer.
type TCPResult struct {
	Octets        int64         // that arrived
	Elapsed       time.Duration // from the accepted connection to the last octet
	Connect       time.Duration // how long the client's connect took
	BitsPerSecond float64       // at the receiver
}

// Run transfers and returns what arrived. Less than what was sent, or something else, is an error.
func (t TCP) Run(ctx context.Context) (TCPResult, error) {
	if t.CongestionControl == "" {
		t.CongestionControl = defaultTransport
	}
	if t.Timeout == 0 {
		t.Timeout = t.Duration + tcpSetupTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	result, err := t.run(ctx)
	if err != nil {
		return result, fmt.Errorf("testnet: TCP from %s (%s) to %s (%s): %w",
			t.Source, t.Client.name, t.Destination, t.Server.name, err)
	}
	return result, nil
}

// tcpHalf is what one side saw.
type tcpHalf struct {
	octets   int64
	checksum uint32
	elapsed  time.Duration
	err      error
}

func (t TCP) run(ctx context.Context) (TCPResult, error) {
	listener, err := t.listen(ctx)
	if err != nil {
		return TCPResult{}, err
	}
	defer listener.Close()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	receiving := make(chan tcpHalf, 1)
	go func() { receiving <- t.receive(ctx, listener) }()

	began := time.Now()
	conn, err := t.dial(ctx, listener.Addr().(*net.TCPAddr).Port)
	if err != nil {
		listener.Close()
		<-receiving
		return TCPResult{}, err
	}
	connect := time.Since(began)
	sent := t.send(ctx, conn)
	if sent.err != nil {
		listener.Close() // the receiver may still wait for a connection that was reset
	}
	received := <-receiving
	if err := errors.Join(sent.err, received.err, t.compare(sent, received)); err != nil {
		return TCPResult{}, err
	}
	return TCPResult{
		Octets: received.octets, Elapsed: received.elapsed, Connect: connect,
		BitsPerSecond: float64(received.octets) * 8 / max(received.elapsed.Seconds(), 1e-9),
	}, nil
}

func (t TCP) compare(sent, received tcpHalf) error {
	if sent.err != nil || received.err != nil {
		return nil // already told
	}
	if sent.octets != received.octets {
		return fmt.Errorf("%d octets sent, %d arrived", sent.octets, received.octets)
	}
	if t.Verify && sent.checksum != received.checksum {
		return fmt.Errorf("what arrived differs from what was sent, in %d octets", sent.octets)
	}
	return nil
}

func (t TCP) listen(ctx context.Context) (listener net.Listener, err error) {
	config := net.ListenConfig{Control: t.control}
	config.SetMultipathTCP(false)
	address := net.JoinHostPort(t.Destination.String(), strconv.Itoa(int(t.Port)))
	err = t.Server.Do(func() (err error) {
		listener, err = config.Listen(ctx, "tcp", address)
		return err
	})
	return listener, err
}

func (t TCP) dial(ctx context.Context, port int) (conn net.Conn, err error) {
	dialer := net.Dialer{Control: t.control}
	dialer.SetMultipathTCP(false)
	if t.Source.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: t.Source.AsSlice(), Zone: t.Source.Zone()}
	}
	address := net.JoinHostPort(t.Destination.String(), strconv.Itoa(port))
	err = t.Client.Do(func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// control sets the congestion control before the connection begins; what a listener has, its connections inherit.
func (t TCP) control(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, t.CongestionControl)
	})
	if set != nil {
		set = fmt.Errorf("congestion control %q: %w", t.CongestionControl, set)
	}
	return errors.Join(err, set)
}

func (t TCP) send(ctx context.Context, conn net.Conn) (half tcpHalf) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	chunk := pattern(tcpChunkOctets)
	sum := t.newSum()
	deadline := time.Now().Add(t.Duration)
	for t.more(half.octets, deadline) {
		next := chunk
		if left := t.Octets - half.octets; t.Octets > 0 && left < int64(len(chunk)) {
			next = chunk[:left]
		}
		n, err := conn.Write(next)
		half.octets += int64(n)
		if t.Verify {
			sum.Write(next[:n])
			chunk[half.octets%tcpChunkOctets]++ // no two chunks are equal: a repeated one is noticed
		}
		if err != nil {
			half.err = fmt.Errorf("send after %d octets: %w", half.octets, err)
			return half
		}
	}
	half.checksum = sum.Sum32()
	half.err = conn.(*net.TCPConn).CloseWrite()
	// The end of the other side's stream says that it has read everything.
	if _, err := io.Copy(io.Discard, conn); err != nil && half.err == nil {
		half.err = fmt.Errorf("wait for the receiver: %w", err)
	}
	return half
}

func (t TCP) more(octets int64, deadline time.Time) bool {
	if t.Octets > 0 {
		return octets < t.Octets
	}
	return time.Now().Before(deadline)
}

func (t TCP) receive(ctx context.Context, listener net.Listener) (half tcpHalf) {
	conn, err := listener.Accept()
	if err != nil {
		return tcpHalf{err: fmt.Errorf("no connection arrived: %w", err)}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	began := time.Now()
	buffer := make([]byte, tcpChunkOctets)
	sum := t.newSum()
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			half.octets += int64(n)
			half.elapsed = time.Since(began)
		}
		if t.Verify {
			sum.Write(buffer[:n])
		}
		if errors.Is(err, io.EOF) {
			half.checksum = sum.Sum32()
			return half
		}
		if err != nil {
			half.err = fmt.Errorf("receive after %d octets: %w", half.octets, err)
			return half
		}
	}
}

func (TCP) newSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// pattern is content without a short period: data put together in the wrong order has another checksum.
func pattern(octets int) []byte {
	content := make([]byte, octets)
	state := uint32(0x9e3779b9)
	for i := range content {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		content[i] = byte(state)
	}
	return content
}
