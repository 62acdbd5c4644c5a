// SPDX-License-Identifier: Apache-2.0

// The server. It knows nothing of the messages and answers to where they came from.

package echo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	// batch is how many datagrams a system call takes at most: as many as the daemon's.
	batch = 64
	// datagramOctets is the longest datagram that is echoed whole.
	datagramOctets = 2048
	// bufferOctets is the size of socket buffers, as the daemon asks for.
	bufferOctets = 4 << 20
)

// Serve echoes one datagram after the other. It returns when the socket fails.
func Serve(address netip.AddrPort) error {
	family, local := testnet.SocketAddress(address)
	socket, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if err := unix.Bind(socket, local); err != nil {
		return fmt.Errorf("echo at %v: %w", address, err)
	}
	datagram := make([]byte, datagramOctets)
	for {
		n, from, err := unix.Recvfrom(socket, datagram, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if err := unix.Sendto(socket, datagram[:n], 0, from); err != nil {
			return err
		}
	}
}

// ServeBatches echoes all datagrams that have come with two system calls.
func ServeBatches(address netip.AddrPort) error {
	conn, err := (&net.ListenConfig{Control: widenBuffers}).ListenPacket(context.Background(), "udp4", address.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	socket := ipv4.NewPacketConn(conn)
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, datagramOctets)}
	}
	answers := make([]ipv4.Message, batch)
	for {
		n, err := socket.ReadBatch(messages, 0)
		if err != nil {
			return err
		}
		for i, m := range messages[:n] {
			answers[i] = ipv4.Message{Buffers: [][]byte{m.Buffers[0][:m.N]}, Addr: m.Addr}
		}
		if err := writeAll(socket, answers[:n]); err != nil {
			return err
		}
	}
}

func writeAll(socket *ipv4.PacketConn, messages []ipv4.Message) error {
	for len(messages) > 0 {
		n, err := socket.WriteBatch(messages, 0)
		if err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

// widenBuffers makes room for bursts, beyond what the system's limit allows.
func widenBuffers(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferOctets),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bufferOctets))
	})
	return errors.Join(err, failed)
}
